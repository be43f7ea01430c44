"""Which references give a model, and what is said of the others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from agent_md.agents.spec import ModelRef, RunSettings
from agent_md.errors import AgentmdError, UsageError
from agent_md.models.factory import check_model, make_chat_model
from agent_md.models.script import ScriptModel
from agent_md.models.script_file import ScriptInvalid


@pytest.mark.parametrize(
    ("ref", "problem"),
    [
        (ModelRef("openai", "x"), "provider openai is not available in this version"),
        (ModelRef("anthropic", "x"), "provider anthropic is not available in this version"),
        (ModelRef("ollama", "x"), "provider ollama is not available in this version"),
        (ModelRef("local", "x"), "provider local is not available in this version"),
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
check_model(ModelRef("script", "play"), {}, Path(sys.argv[1]))
print(sorted({name.split(".")[0] for name in sys.modules} & {"langchain_core", "langgraph", "google", "httpx"}))
"""
    command = [sys.executable, "-c", code, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], check=True)
    assert ran.stdout == "[]\n"


def test_every_mistake_is_an_error_of_ours() -> None:
    assert issubclass(ScriptInvalid, AgentmdError)
