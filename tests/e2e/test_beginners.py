"""The first mistakes that people make, and the one line that helps each of them on."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.agent_folder import AgentFolder, call
from tests.support.forked_terminal import ForkedTerminal
from tests.support.processes import Finished

AGENT = "---\nmodel: {provider: script, name: notes}\n---\nKeep notes.\n"


def line_of(ended: Finished, code: int = 2) -> str:
    """The one line that a command says when it refuses."""
    assert (ended.code, ended.out) == (code, ""), ended
    assert ended.err.startswith("agentmd: ")
    assert ended.err.count("\n") == 1
    return ended.err.removeprefix("agentmd: ").rstrip("\n")


def shown_in(folder: Path, *args: str, code: int = 2) -> str:
    with ForkedTerminal(args, cwd=folder, columns=400, env={"HOME": str(folder)}) as terminal:
        assert terminal.exit_code() == code, terminal.screen
        return terminal.screen


@pytest.fixture
def notes(folder: AgentFolder) -> AgentFolder:
    folder.agent("notes", [{"text": "Noted."}])
    return folder


def test_in_a_folder_without_agents_it_is_said_how_to_make_one(tmp_path: Path) -> None:
    for args in (["list"], ["run", "notes"], ["validate"]):
        text = shown_in(tmp_path, *args)
        assert f"no workspace found: neither {tmp_path} nor a folder above it" in text
        assert "`agentmd new NAME` makes a first agent here, or name a workspace with --workspace" in text
    assert list(tmp_path.iterdir()) == []


def test_on_a_narrow_terminal_messages_break_between_words(tmp_path: Path) -> None:
    with ForkedTerminal(["list"], cwd=tmp_path, columns=60, env={"HOME": str(tmp_path)}) as terminal:
        assert terminal.exit_code() == 2
    lines = terminal.screen.splitlines()
    assert max(map(len, lines)) <= 60
    assert "`agentmd new NAME` makes a first agent here" in " ".join(" ".join(lines).split())


def test_an_agent_file_beside_the_folder_is_found(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text(AGENT)
    (tmp_path / "README.md").write_text("# Read me\n")

    assert "(notes.md looks like one, but agents live in agents/)" in shown_in(tmp_path, "run", "notes")

    for number in range(5):
        (tmp_path / f"page{number}.md").write_text("---\ntitle: x\n---\n")
    assert "looks like" not in shown_in(tmp_path, "run", "notes")


def test_a_workspace_without_agents(folder: AgentFolder) -> None:
    assert line_of(folder.cli("run", "notes")) == (
        'there is no agent "notes"; the workspace has no agents yet: `agentmd new NAME` makes one'
    )
    for command in ("list", "validate"):
        assert folder.cli(command).out == "No agents yet: `agentmd new NAME` makes one.\n"
    assert folder.cli("list", "--json").out == '{"agents": [], "invalid": [], "notes": []}\n'


@pytest.mark.parametrize("name", ["todo", "todo.md", "./todo.md", "./todo"])
def test_a_file_in_the_wrong_place(notes: AgentFolder, name: str) -> None:
    notes.file("todo.md", AGENT)

    assert line_of(notes.cli("run", name)) == (
        f'there is no agent "{name}"; there is a file ./todo.md, but agents live in agents/: move it there'
    )


@pytest.mark.parametrize("name", ["lost", "./lost.md", "agents/_config/lost.md"])
def test_a_file_in_the_folder_of_what_agents_need(notes: AgentFolder, name: str) -> None:
    notes.file("agents/_config/lost.md", AGENT)

    assert line_of(notes.cli("run", name)) == (
        f'there is no agent "{name}"; there is a file agents/_config/lost.md, but agents live in agents/: move it there'
    )


@pytest.mark.parametrize(
    "typed", ["notes.md", "agents/notes.md", "./agents/notes.md", "agents/notes", "Agents/Notes.md"]
)
def test_a_path_in_the_place_of_a_name(notes: AgentFolder, typed: str) -> None:
    assert line_of(notes.cli("run", typed)) == f'there is no agent "{typed}"; agents/notes.md is the agent "notes"'
    absolute = str(notes.path / "agents/notes.md")
    assert line_of(notes.cli("explain", absolute)).endswith('agents/notes.md is the agent "notes"')


def test_a_file_with_mistakes_is_near_too(notes: AgentFolder) -> None:
    (notes.path / "agents/reporter.md").write_text("You write reports.\n")

    for name in ("reporter", "reporter.md", "agents/reporter.md"):
        assert line_of(notes.cli("run", name)).startswith(
            'agents/reporter.md:1:1: the first line must be exactly --- (the settings follow it, up to a second ---), read "You'
        )
    assert "did you mean reporter (agents/reporter.md has mistakes)?" in line_of(notes.cli("run", "reportr"))
    assert "did you mean notes?" in line_of(notes.cli("run", "note"))
    (notes.path / "agents/notes.md").unlink()
    assert "`agentmd validate` says why" in line_of(notes.cli("run", "helper"))


@pytest.mark.parametrize(
    ("args", "near"),
    [
        (["rnu", "notes"], "run"),
        (["repond", "1"], "respond"),
        (["run", "notes", "--mesage", "x"], "--message"),
        (["lsit"], "list"),
        (["statu"], "status or start"),
        (["respond", "1", "--yess"], "--yes"),
    ],
)
def test_a_slip_of_the_fingers(notes: AgentFolder, args: list[str], near: str) -> None:
    assert line_of(notes.cli(*args)).endswith(f"; did you mean {near}?")


def test_words_without_m_are_arguments(notes: AgentFolder) -> None:
    assert notes.cli("run", "notes", "fix", "the", "roof").code == 0
    assert "fix the roof" in notes.cli("logs", "-e", "1").out


def test_respond_with_something_else_than_a_number(notes: AgentFolder) -> None:
    assert "'notes' is not the number of an execution (`agentmd pending` and `agentmd logs` show them)" in line_of(
        notes.cli("respond", "notes", "--yes")
    )
    assert line_of(notes.cli("respond", "7", "--yes")).startswith("there is no execution 7; `agentmd logs` lists them")


def test_a_missing_key_names_the_variable_and_the_file(notes: AgentFolder) -> None:
    (notes.path / "agents/hosted.md").write_text("---\nmodel: {provider: google, name: gemini-2.5-flash}\n---\nHi.\n")

    def without_keys() -> None:
        for name in ("GOOGLE_API_KEY", "GEMINI_API_KEY"):
            os.environ.pop(name, None)

    for args in (["run", "hosted"], ["run", "hosted", "-d"]):
        text = line_of(notes.cli(*args, prepare=without_keys))
        assert "GOOGLE_API_KEY" in text
        assert ".env" in text
    (notes.path / ".env").write_text("GOOGLE_API_KEY=a-key\n")
    assert notes.cli("validate", "hosted", prepare=without_keys).code == 0


def test_a_disabled_agent_says_where_it_is_disabled(notes: AgentFolder) -> None:
    notes.agent("resting", [{"text": "."}], "enabled: false")

    assert line_of(notes.cli("run", "resting")) == (
        "resting is disabled; set `enabled: true` in agents/resting.md to run it"
    )


def test_a_tool_module_that_cannot_be_imported(notes: AgentFolder) -> None:
    notes.tools("mine", "import not_installed_anywhere\n")
    notes.agent("tooled", [{"text": "."}], "tools: [mine]")

    for command in ("run", "explain"):
        text = line_of(notes.cli(command, "tooled"))
        assert "mine.py" in text
        assert "not_installed_anywhere" in text


def test_explain_shows_what_a_run_then_does(notes: AgentFolder) -> None:
    notes.tools(
        "mine",
        "from langchain_core.tools import tool\nprint('loud')\n@tool\ndef send(to: str) -> str:\n    'Sends.'\n    return to\n",
    )
    notes.agent(
        "tooled",
        [{"calls": [call("send", to="ann"), call("send", to="bob"), call("file_write", path="a", content="a")]}],
        "tools: [mine]\nconfirm: ['send(to=a*)']\ndeny: ['send(to=bob)']\nauto_approve: [file_write]",
    )
    explained = notes.cli("explain", "tooled")
    run = notes.cli("run", "tooled")

    assert (explained.code, explained.err) == (0, "")
    assert "Refused, and nobody is asked\n  send(to=bob)  deny (agents/tooled.md)\n" in explained.out
    assert "although a rule would ask\n  file_write  auto_approve (agents/tooled.md)\n" in explained.out
    assert "  send(to=a*)   confirm (agents/tooled.md)\n" in explained.out
    assert "  send          all other calls\n" in explained.out
    assert "loud" not in explained.out
    assert run.code == 3
    assert '"ann"' in run.out
    assert [r["tool_args"] for r in json.loads(notes.cli("pending", "--json").out)] == [{"to": "ann"}]
    assert (notes.path / "a").exists()


@pytest.mark.parametrize(
    ("config", "place"), [("", "built in"), ("defaults: {confirm_tools: [file_delete, file_write]}\n", "config.yaml")]
)
def test_explain_says_where_the_defaults_come_from(notes: AgentFolder, config: str, place: str) -> None:
    (notes.path / "config.yaml").write_text(config)

    assert f"  file_write    defaults.confirm_tools ({place})\n" in notes.cli("explain", "notes").out
    calls = json.loads(notes.cli("explain", "notes", "--json").out)["calls"]
    assert {c["tool"]: c["place"] for c in calls if c["decision"] == "ask"} == {
        "file_delete": place,
        "file_write": place,
        "http_request": None,
        "run_command": None,
    }
    twice = [c["decision"] for c in calls if c["tool"] == "http_request"]  # by its method
    assert (twice, len({c["tool"] for c in calls})) == (["ask", "run"], len(calls) - 1)
    assert not (notes.path / ".agentmd").exists()
