"""Which references give a model, and what is said of the others."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from agent_md.agents import defaults
from agent_md.agents.spec import ModelRef, RunSettings
from agent_md.errors import AgentmdError, UsageError
from agent_md.models.factory import KEY_VARIABLES, PROVIDERS, check_model, key_values, make_chat_model
from agent_md.models.responses_api import needs_responses
from agent_md.models.script import ScriptModel
from agent_md.models.script_file import ScriptInvalid


@pytest.mark.parametrize(
    ("ref", "problem"),
    [
        (ModelRef("openai", "x"), "openai/x needs a key: set OPENAI_API_KEY in the environment or in"),
        (ModelRef("anthropic", "x"), "anthropic/x needs a key: set ANTHROPIC_API_KEY in the environment or in"),
        (ModelRef("local", "x"), "local/x has no base_url; give the address of the server"),
        (ModelRef("ollama", "x", "localhost:11434"), "base_url 'localhost:11434' of ollama/x is not an address"),
        (ModelRef("gogle", "x"), "there is no provider 'gogle'; did you mean 'google'?"),
        (ModelRef("", "x"), "there is no provider ''; known: google, openai"),
        (ModelRef("google", "x", "localhost:80"), "base_url 'localhost:80' of google/x is not an address"),
        (ModelRef("google", "x", "https://"), "is not an address"),
        (ModelRef("google", "x", "https://[x"), "is not an address"),
        (ModelRef("google", "x", "https://a.test/?key=1"), "is not an address"),
        (ModelRef("script", "x", "https://a.test"), "script/x is a script and has no base_url"),
        (ModelRef("script", "x"), "there is no script"),
    ],
    ids=str,
)
def test_what_cannot_be_used_is_told_alike_by_check_and_factory(tmp_path: Path, ref: ModelRef, problem: str) -> None:
    environ = {"GOOGLE_API_KEY": "key"}
    said: list[str] = []
    for use in (
        lambda: check_model(ref, environ, tmp_path),
        lambda: make_chat_model(ref, RunSettings(), environ=environ, scripts_dir=tmp_path),
    ):
        with pytest.raises(UsageError) as caught:
            use()
        said.append(str(caught.value))
    assert said[0] == said[1]
    assert problem in said[0]


def test_what_needs_no_key_is_usable_without_one() -> None:
    check_model(ModelRef("ollama", "x"), {}, Path())
    check_model(ModelRef("local", "x", "http://127.0.0.1:8000/v1"), {}, Path())


def test_keys_of_all_providers_are_masked() -> None:
    environ = {name: f"{name}-value" for name in KEY_VARIABLES}
    assert len(KEY_VARIABLES) == 6
    assert set(key_values(environ)) == set(environ.values())


@pytest.mark.parametrize(
    ("provider", "package"),
    [
        ("openai", "langchain-openai"),
        ("anthropic", "langchain-anthropic"),
        ("ollama", "langchain-ollama"),
        ("local", "langchain-openai"),
    ],
)
def test_a_package_that_is_not_installed_is_named_with_what_to_do(provider: str, package: str) -> None:
    code = f"""
import sys
from importlib.machinery import PathFinder
from pathlib import Path

class Hiding:
    def find_spec(self, name, path=None, target=None):
        return None if name.startswith("langchain_") else PathFinder.find_spec(name, path, target)

sys.meta_path = [finder for finder in sys.meta_path if finder is not PathFinder] + [Hiding()]
from agent_md.agents.spec import ModelRef
from agent_md.errors import UsageError
from agent_md.models.factory import check_model
try:
    check_model(ModelRef("{provider}", "x"), {{}}, Path())
except UsageError as error:
    print(error)
"""
    ran = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=Path(__file__).parents[2], check=True
    )
    too = ". And local/x has no base_url; give the address of the server" if provider == "local" else "\n"
    assert ran.stdout.startswith(
        f"{provider}/x cannot be used: the package {package} is not installed; "
        f"run: pip install 'agentmd[{provider}]'{too}"
    )


def test_agent_files_know_the_same_providers() -> None:
    assert set(PROVIDERS) == set(defaults.PROVIDERS)


@pytest.mark.parametrize(
    ("ref", "needed"),
    [
        ("openai/gpt-4o", False),
        ("openai/gpt-4.1-mini", False),
        ("openai/gpt-5", False),
        ("openai/gpt-5-2025-08-07", False),
        ("openai/gpt-5.3-chat-latest", False),
        ("openai/o4-mini", False),
        ("openai/my-fine-tune", False),
        ("openai/gpt-5.4", True),
        ("openai/gpt-5.10-some", True),
        ("openai/gpt-6", True),
        ("openai/gpt-6.1-sol", True),
        ("openai/gpt-5-pro", True),
        ("openai/o3-pro-2025-06-10", True),
        ("openai/gpt-5.1-codex-max", True),
        ("local/gpt-6", False),
        ("anthropic/gpt-6", False),
    ],
)
def test_which_models_are_asked_through_the_responses_api(ref: str, needed: bool) -> None:
    provider, _, name = ref.partition("/")
    assert needs_responses(ModelRef(provider, name)) is needed


def test_the_extras_are_named_like_their_providers() -> None:
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert {*PROVIDERS} - {"google", "script"} | {"all", "dev"} <= project["optional-dependencies"].keys()


def test_a_script_needs_no_key(tmp_path: Path) -> None:
    (tmp_path / "play.yaml").write_text("conversations: [{turns: [{text: Hi.}]}]")
    model = make_chat_model(ModelRef("script", "play"), RunSettings(), environ={}, scripts_dir=tmp_path)
    assert isinstance(model, ScriptModel)
    assert model.invoke("x").text == "Hi."


def test_a_broken_script_is_found_by_the_check(tmp_path: Path) -> None:
    (tmp_path / "play.yaml").write_text("conversations: [{turns: [{txt: Hi.}]}]")
    with pytest.raises(ScriptInvalid, match="did you mean 'text'"):
        check_model(ModelRef("script", "play"), {}, tmp_path)


def test_checking_imports_no_framework(tmp_path: Path) -> None:
    (tmp_path / "play.yaml").write_text("conversations: [{turns: [{text: Hi.}]}]")
    code = """
import sys
from pathlib import Path
from agent_md.agents.spec import ModelRef
from agent_md.models.factory import check_model
check_model(ModelRef("google", "g"), {"GOOGLE_API_KEY": "k"}, Path())
check_model(ModelRef("openai", "o"), {"OPENAI_API_KEY": "k"}, Path())
check_model(ModelRef("anthropic", "a"), {"ANTHROPIC_API_KEY": "k"}, Path())
check_model(ModelRef("ollama", "o"), {}, Path())
check_model(ModelRef("script", "play"), {}, Path(sys.argv[1]))
heavy = {"langchain_core", "langchain_openai", "langgraph", "google", "httpx", "openai", "anthropic", "ollama"}
print(sorted({name.split(".")[0] for name in sys.modules} & heavy))
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=True)
    assert ran.stdout == "[]\n"


def test_every_mistake_is_an_error_of_ours() -> None:
    assert issubclass(ScriptInvalid, AgentmdError)
