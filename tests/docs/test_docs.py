"""The documents say what there is: links, commands, examples, and every name that people meet."""

from __future__ import annotations

import inspect
import re
import shlex
import tomllib
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer

from agent_md import errors, sdk
from agent_md.agents.defaults import Defaults
from agent_md.agents.parse_spec import FIELDS, RESERVED, parse_agent
from agent_md.cli.main import app
from agent_md.error_codes import codes_of
from agent_md.errors import AgentmdError
from agent_md.executions.states import CallOutcome, EventType, Outcome, RequestKind, Status
from agent_md.models.pricing import load_prices
from agent_md.models.script_file import load_script
from agent_md.reloading.config_files import NEEDS_RESTART
from agent_md.settings import KEYS, load_settings
from agent_md.tools.builtin import RESERVED_NAMES
from agent_md.tools.tool_modules import ToolModule
from tests.support.builtins import given_tools
from tests.support.documents import ROOT, Block, Document, blocks, documents, reference
from tests.support.file_sandbox import sandbox_on

DOCUMENTS = documents()
COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]
NO_COMMAND = {"--version", "--help", "--install-completion", "--show-completion", "COMMAND"}
EXIT_CODES = (0, 1, 2, 3, 4, 5, 6, 129, 130, 143)


def named(items: Iterable[Any]) -> dict[str, Any]:
    return {"argvalues": list(items), "ids": str}


def error_classes() -> list[type[AgentmdError]]:
    found = [getattr(errors, name) for name in errors.__all__]
    return [kind for kind in found if isinstance(kind, type)]


# Links and lengths


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_every_link_leads_somewhere(document: Document) -> None:
    for link in document.links():
        if link.startswith(("https://", "mailto:")):
            continue
        place, _, anchor = link.partition("#")
        target = (document.path.parent / place).resolve() if place else document.path
        assert target.exists(), f"{document.name} links to {link}, which is not there"
        assert target.is_relative_to(ROOT)
        if anchor:
            known = Document(link, target.read_text(encoding="utf-8")).anchors()
            assert anchor in known, f"{document.name} links to {link}; the headings are {sorted(known)}"


def test_every_document_is_reached_from_the_readme() -> None:
    reached: set[Path] = set()
    waiting = [ROOT / "README.md"]
    while waiting:
        path = waiting.pop()
        if path in reached or path.suffix != ".md" or not path.exists():
            continue
        reached.add(path)
        links = Document(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")).links()
        waiting += [(path.parent / link.partition("#")[0]).resolve() for link in links if "://" not in link]
    assert {document.path for document in DOCUMENTS} <= reached


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_lines_are_short(document: Document) -> None:
    long = [line for line in document.text.splitlines() if len(line) > 140 and not line.startswith("|")]
    assert long == [], "rows of tables apart, a line has at most 140 characters"


def test_the_architecture_and_the_decisions_are_short() -> None:
    lengths = {document.name: document.text.count("\n") for document in DOCUMENTS}
    assert lengths["ARCHITECTURE.md"] <= 200
    decisions = {name: length for name, length in lengths.items() if name.startswith("docs/decisions/")}
    assert decisions
    assert max(decisions.values()) <= 40


# The architecture


def test_the_architecture_names_files_that_exist_and_what_is_in_them() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    files = [*(ROOT / "agent_md").rglob("*.py"), *(ROOT / "agent_md").rglob("*.sql")]
    for name, symbol in re.findall(r"`([\w/]+\.py)`(?:: `(\w+)`)?", text):
        found = [path for path in files if f"/{path.relative_to(ROOT)}".endswith(f"/{name}")]
        assert found, f"there is no {name}"
        if symbol:
            assert any(symbol in path.read_text(encoding="utf-8") for path in found), f"{name} has no {symbol}"
    for folder in re.findall(r"`([\w/]+/)`", text):
        assert (ROOT / "agent_md" / folder).is_dir() or (ROOT / folder).is_dir(), f"there is no {folder}"


def test_the_architecture_has_every_layer() -> None:
    table = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8").partition("## One execution")[0]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (layers,) = [
        c["layers"]
        for c in project["tool"]["importlinter"]["contracts"]
        if c["type"] == "layers" and c["containers"] == ["agent_md"]
    ]
    parts = [part.strip() for layer in layers for part in layer.split("|")]
    missing = [part for part in parts if f"`{part}/`" not in table and f"`{part}.py`" not in table]
    assert missing == []


# Commands


def command_lines(block: Block) -> list[str]:
    """The lines that are typed; in a block without `$ ` signs nothing is."""
    return [line.removeprefix("$ ") for line in block.text.splitlines() if line.startswith("$ ")]


@pytest.mark.parametrize("block", **named(blocks("console")))
def test_commands_can_be_typed_as_they_stand(block: Block) -> None:
    for line in command_lines(block):
        words = shlex.split(line, comments=True)
        if words[0] != "agentmd" or words[1] in NO_COMMAND:
            continue
        assert words[1] in COMMANDS, f"{block}: {line}"
        COMMANDS[words[1]].make_context(words[1], words[2:])  # raises on what the command does not take


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_commands_in_the_text_exist_with_their_options(document: Document) -> None:
    for code in document.code():
        words = code.split()
        if words[0] != "agentmd" or len(words) == 1 or words[1] in NO_COMMAND:
            continue
        assert words[1] in COMMANDS, f"{document.name}: {code}"
        known = {name for parameter in COMMANDS[words[1]].params for name in parameter.opts}
        used = {word.partition("=")[0] for word in words[2:] if word.startswith("-")}
        assert used <= known | {"--help"}, f"{document.name}: {code}"


def test_targets_of_make_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    typed = [line for block in blocks("console") for line in command_lines(block)]
    inline = [code for document in DOCUMENTS for code in document.code()]
    used = [line.split() for line in (*typed, *inline) if line.startswith("make ")]
    assert used
    for words in used:
        assert next(word for word in words[1:] if "=" not in word) in targets


def test_tests_that_are_named_exist() -> None:
    named = {
        code for document in DOCUMENTS for code in document.code() if code.startswith("tests/") and code.endswith(".py")
    }
    assert len(named) > 20
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


# Examples


@pytest.mark.parametrize("block", **named(block for block in blocks("markdown") if block.text.startswith("---\n")))
def test_agent_files_can_be_read(block: Block) -> None:
    spec = parse_agent(block.text.encode(), "agents/example.md", Defaults())
    assert spec.body.strip()


@pytest.mark.parametrize("block", **named(blocks("yaml")))
def test_yaml_is_a_whole_file_or_fields_of_an_agent_file(block: Block, tmp_path: Path) -> None:
    if block.file is None:
        parse_agent(f"---\n{block.text}---\nBody.\n".encode(), "agents/example.md", Defaults())
        return
    (tmp_path / Path(block.file).name).write_text(block.text, encoding="utf-8")
    match block.file:
        case "config.yaml":
            settings = load_settings(tmp_path, environ={}, cwd=tmp_path, home=tmp_path / "home")
            assert "config.yaml" in settings.origins.values()
        case "prices.yaml":
            assert load_prices(tmp_path / "prices.yaml").own
        case script:
            assert script.startswith("agents/_config/scripts/")
            assert load_script(tmp_path, Path(script).stem).conversations


@pytest.mark.parametrize("block", **named(blocks("python")))
def test_python_can_be_imported(block: Block, tmp_path: Path) -> None:
    (tmp_path / "example.py").write_text(block.text, encoding="utf-8")
    module = ToolModule(tmp_path, "example")
    loaded = module.load(module.read())
    assert isinstance(loaded, ModuleType)
    if "@tool" in block.text:
        from langchain_core.tools import BaseTool

        assert [value for value in vars(loaded).values() if isinstance(value, BaseTool)]


def test_the_agents_and_scripts_of_this_repository_can_be_read() -> None:
    for path in (ROOT / "agents").glob("*.md"):
        assert parse_agent(path.read_bytes(), f"agents/{path.name}", Defaults()).name
    for path in (ROOT / "agents/_config/scripts").glob("*.yaml"):
        assert load_script(path.parent, path.stem).conversations


# Names


def documented() -> str:
    return "\n".join(code for document in reference() for code in document.code())


def is_documented(name: str) -> bool:
    return re.search(rf"(?<![\w.]){re.escape(name)}(?![\w])", documented()) is not None


@pytest.mark.parametrize(
    "name",
    sorted(
        {
            *(str(item) for enum in (Status, Outcome, EventType, RequestKind, CallOutcome) for item in enum),
            *(*FIELDS, *RESERVED, *KEYS, *RESERVED_NAMES, *sdk.__all__),
            *(tool.name for tool in given_tools(sandbox_on(Path("/nowhere"), []))),
            *COMMANDS,
        }
    ),
)
def test_every_name_is_documented(name: str) -> None:
    assert is_documented(name), f"{name} stands nowhere in docs/*.md in backticks"


def test_the_keys_that_need_a_restart_are_listed() -> None:
    text = (ROOT / "docs/configuration.md").read_text(encoding="utf-8")
    listed = re.search(r"These keys count only when the server is started:(.*?)\. All others", text, re.DOTALL)
    assert listed is not None
    assert tuple(re.findall(r"`([\w.]+)`", listed[1])) == NEEDS_RESTART


@pytest.mark.parametrize("kind", error_classes(), ids=lambda kind: kind.__name__)
def test_every_error_is_in_the_table_with_its_exit_code(kind: type[AgentmdError]) -> None:
    text = (ROOT / "docs/troubleshooting.md").read_text(encoding="utf-8")
    (row,) = re.findall(rf"^\| `{kind.__name__}` \| (\d*) ?\|", text, re.MULTILINE)
    if row:
        assert int(row) == codes_of(kind.__new__(kind)).exit


def test_every_exit_code_is_in_the_table() -> None:
    text = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
    table = re.findall(r"^\| `(\d+)` \|", text, re.MULTILINE)
    assert [int(code) for code in table] == list(EXIT_CODES)
    used = {codes_of(kind.__new__(kind)).exit for kind in error_classes()}
    assert used <= set(EXIT_CODES)


def test_the_texts_for_the_model_are_documented() -> None:
    from agent_md.executions.answers import DENIED

    text = (ROOT / "docs/human-in-the-loop.md").read_text(encoding="utf-8")
    for wanted in (DENIED, f"{DENIED}: REASON", f"{DENIED} (timeout)"):
        assert f"`{wanted}`" in text


def test_every_sdk_function_is_in_the_table_of_the_sdk() -> None:
    text = (ROOT / "docs/tools.md").read_text(encoding="utf-8").partition("## agent_md.sdk")[2]
    functions = [name for name in sdk.__all__ if inspect.isfunction(getattr(sdk, name))]
    assert [name for name in functions if name != "tool_options" and f"| `{name}(" not in text] == []
