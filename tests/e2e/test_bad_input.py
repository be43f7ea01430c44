"""Whatever is wrong, one message says what happened to what and what to do; never a traceback, never a change."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.agent_folder import AgentFolder, call
from tests.support.processes import Finished


@pytest.fixture
def work(folder: AgentFolder) -> AgentFolder:
    folder.file("a.txt")
    folder.agent("cleaner", [{"calls": [call("file_delete", path="a.txt")]}, {"text": "Done."}])
    return folder


def message_of(ended: Finished, code: int = 2) -> str:
    """The message of a command that refused."""
    assert "Traceback" not in ended.err
    assert "should not have happened" not in ended.err
    assert (ended.code, ended.out) == (code, ""), ended
    assert ended.err.startswith("agentmd: ")
    assert ended.err.endswith("\n")
    assert len(ended.err) < 1000
    return ended.err


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["rnu"], "No such command 'rnu'; did you mean run?"),
        (["run"], "agentmd run: AGENT is missing (The agent's name, or the path of its file). Write for"),
        (["run", "cleaner", "--jsn"], "No such option: --jsn; did you mean --json?"),
        (["run", "cleaner", "--message"], "Option '--message' requires an argument"),
        (["run", "cleaner", "--on-ask", "maybe"], "'maybe' is not one of 'wait', 'deny', 'fail'; see `agentmd run"),
        (
            ["respond"],
            "agentmd respond: ID is missing (Its number, as `pending` shows it). Write for example: agentmd respond 42 --yes",
        ),
        (
            ["respond", "x", "--yes"],
            "'x' is not the number of an execution (`agentmd pending` and `agentmd logs` show them); see `agentmd respond --help`",
        ),
        (["respond", "-1", "--yes"], "No such option: -1"),
        (["respond", "--yes", "--", "-1"], "'-1' is not the number of an execution"),
        (["respond", str(2**70), "--yes"], "is not the number of an execution"),
        (["respond", str(10**17), "--yes"], f"there is no execution {10**17}; `agentmd logs` lists them"),
        (["respond", "0", "--yes"], "there is no execution 0"),
        (["respond", "1.0", "--yes"], "'1.0' is not the number of an execution"),
        (["respond", "٣", "--yes"], "is not the number of an execution"),
        (["respond", "1", "2", "--yes"], "unexpected extra argument"),
        (
            ["resume", "x"],
            "'x' is not the number of an execution (`agentmd pending` and `agentmd logs` show them); see `agentmd resume --help`",
        ),
        (["cancel", "x"], "'x' is not the number of an execution"),
        (["cancel", "9"], "there is no execution 9"),
        (["logs", "-e", str(2**64)], "show them); see `agentmd logs --help`"),
        (["logs", "-e", "9"], "there is no execution 9"),
        (["logs", "-f", "-e", "9"], "there is no execution 9"),
        (["logs", "-n", "0"], "Invalid value for '-n': expected 1 or more; see `agentmd logs --help`\n"),
        (["logs", "-n", "many"], "Invalid value for '-n': expected a whole number; see `agentmd logs --help`\n"),
        (["start", "--port", "99999"], "Invalid value for '--port': expected 65535 at most; see "),
        (
            ["run", "cleaner", "--on-ask", "no"],
            "Invalid value for '--on-ask': 'no' is not one of 'wait', 'deny', 'fail'",
        ),
        (
            ["respond", "1", "--edit", "x"],
            "--edit is not JSON: a value was expected at character 1; write it such as '{",
        ),
        (["logs", "nobody"], 'there is no agent "nobody"; the agents are cleaner'),
        (["run", "clener"], 'there is no agent "clener"; did you mean cleaner?'),
        (
            ["validate", "agents/cleaner.md"],
            'there is no agent "agents/cleaner.md"; agents/cleaner.md is the agent "cleaner"',
        ),
        (["run", "/etc/passwd"], "/etc/passwd is no agent of the workspace "),
        (["run", "../../no/such/file.md"], "there is no agent"),
        (["run", "\0.md"], r"there is no agent"),
        (["run", "cleaner", "--session", " x"], "is no session id: 1 to 200 visible characters"),
        (["run", "cleaner", "--session", "s", "--fresh"], "give one of them"),
        (["run", "cleaner", "--model", "gpt-4o"], '"gpt-4o" is no PROVIDER/NAME; write openai/gpt-4o (the providers'),
        (["run", "cleaner", "--model", "script/none"], "none.yaml"),
        (["run", ""], "there is no agent"),
        (["run", "x" * 500], "there is no agent"),
        (["run", "\x1b[2Jcleaner\x07"], r"\x1b[2Jcleaner\x07"),
        (["run", "\udcff\udcfe"], r"\udcff\udcfe"),
        (["validate", "nobody"], "there is no agent"),
        (["start", "helper"], "did you mean agentmd run helper?"),
        (["list", "extra"], "unexpected extra argument"),
        (["-w", "/no/such/folder", "list"], "the workspace was given as /no/such/folder, which is not a folder"),
        (["list", "-w", "/dev/null"], "the workspace was given as /dev/null, which is not a folder"),
        (["list", "-w", "bad\x1b[31m"], r"bad\x1b[31m"),
    ],
)
def test_wrong_usage_is_one_clear_line(work: AgentFolder, args: Sequence[str], message: str) -> None:
    shown = message_of(work.cli(*args))
    assert message in shown
    assert shown.count("\n") == 1
    assert not (work.path / ".agentmd/agentmd.log").exists()


def test_no_command_shows_the_help(work: AgentFolder) -> None:
    ended = work.cli()
    assert (ended.code, ended.out) == (2, "")
    assert ended.err.startswith("Usage: agentmd ")
    assert work.cli("--help").out == ended.err


def test_no_workspace_anywhere(tmp_path: Path, work: AgentFolder) -> None:
    nowhere = tmp_path / "nowhere"
    nowhere.mkdir()
    for args in (("list",), ("run", "cleaner"), ("pending",), ("info",)):
        with work.terminal(*args, cwd=nowhere, env={"HOME": str(nowhere)}) as terminal:
            assert terminal.exit_code() == 2
            assert terminal.screen.startswith("agentmd: no workspace found: ")
            assert "--workspace" in terminal.screen
    assert list(nowhere.iterdir()) == []


def test_an_invalid_agent_file(work: AgentFolder) -> None:
    (work.path / "agents/broken.md").write_text("---\nconfrim: [a]\nmodel: 5\n---\n")
    (work.path / "agents/binary.md").write_bytes(b"---\nname: \xff\xfe\n---\n")
    shown = message_of(work.cli("run", "broken"))
    assert "agents/broken.md:2:1: confrim: did you mean confirm?" in shown
    assert "agents/broken.md:3:" in shown
    assert "binary.md" in message_of(work.cli("run", "binary"))
    assert work.cli("list").code == 0
    validated = work.cli("validate")
    assert validated.code == 1
    assert "✗ agents/broken.md\n    agents/broken.md:2:1: confrim" in validated.out
    work.begin("cleaner")


def test_a_disabled_agent(work: AgentFolder) -> None:
    work.agent("resting", [{"text": "x"}], "enabled: false")
    assert message_of(work.cli("run", "resting")) == (
        "agentmd: resting is disabled; set `enabled: true` in agents/resting.md to run it\n"
    )


def test_a_missing_key(work: AgentFolder) -> None:
    (work.path / "agents/hosted.md").write_text("---\nmodel: {provider: google, name: gemini-2.5-flash}\n---\nHi.\n")
    shown = message_of(work.cli("run", "hosted", env={"GOOGLE_API_KEY": "", "GEMINI_API_KEY": ""}))
    assert "GOOGLE_API_KEY" in shown
    assert work.cli("logs").out == "No executions yet.\n"


def test_a_missing_or_wrong_script(work: AgentFolder) -> None:
    script = work.path / "agents/_config/scripts/cleaner.yaml"
    script.write_text("conversations: [{turns: []}]")
    assert "cleaner.yaml" in message_of(work.cli("run", "cleaner"))
    script.unlink()
    assert "cleaner.yaml" in message_of(work.cli("run", "cleaner"))


@pytest.mark.parametrize(
    ("config", "hint"),
    [
        ("defualts: {}\n", "did you mean defaults"),
        ("defaults: {max_tool_calls: many}\n", "max_tool_calls"),
        ("a: b: c\n", "config.yaml"),
        ("\x00", "config.yaml"),
        ("[]", "config.yaml"),
        ("log_level: LOUD\n", "log_level"),
        ("state_dir: /dev/null/x\n", "/dev/null/x"),
    ],
)
def test_a_wrong_config(work: AgentFolder, config: str, hint: str) -> None:
    (work.path / "config.yaml").write_text(config)
    ended = work.cli("run", "cleaner")
    assert hint in message_of(ended, code=1 if "state_dir" in config else 2)


def test_a_tool_module_that_cannot_be_loaded(work: AgentFolder) -> None:
    work.tools("broken", "import nothing_like_this\n")
    work.agent("tooled", [{"text": "x"}], "tools: [broken, missing]")
    shown = message_of(work.cli("run", "tooled"))
    assert "broken.py" in shown
    assert "nothing_like_this" in shown
    assert work.cli("logs").out == "No executions yet.\n"


def test_things_in_the_place_of_files(work: AgentFolder) -> None:
    (work.path / "agents/folder.md").mkdir()
    (work.path / "agents/dangling.md").symlink_to("nowhere")
    (work.path / ".env").write_bytes(b"\xff\xfe\x00")
    ended = work.cli("list")
    assert ended.code == 2
    assert ".env" in ended.err
    (work.path / ".env").unlink()
    listed = work.cli("list")
    assert listed.code == 0
    assert "agents/folder.md" in listed.out
    assert "agents/dangling.md" in listed.out


COMMANDS = (("pending",), ("list",), ("logs",), ("run", "cleaner"), ("respond", "1", "--yes"), ("resume", "1"))


@pytest.mark.parametrize("args", COMMANDS)
def test_a_database_that_is_none_of_ours(work: AgentFolder, args: Sequence[str]) -> None:
    database = work.path / ".agentmd/agentmd.db"
    database.parent.mkdir()
    database.write_bytes(b"this is text, not a database, and long enough to look at " * 20)
    before = database.read_bytes()
    assert "is not a SQLite database; it was left untouched" in message_of(work.cli(*args), code=1)
    assert database.read_bytes() == before
    database.unlink()
    other = sqlite3.connect(database)
    other.execute("CREATE TABLE theirs (x)")
    other.close()
    assert "is a database of another program; it was left untouched" in message_of(work.cli(*args), code=1)


@pytest.mark.parametrize("args", COMMANDS)
def test_a_database_of_a_newer_version(work: AgentFolder, args: Sequence[str]) -> None:
    work.begin("cleaner")
    newer = sqlite3.connect(work.path / ".agentmd/agentmd.db")
    newer.execute("PRAGMA user_version=999")
    newer.close()
    shown = message_of(work.cli(*args), code=1)
    assert "was written by a newer agentmd" in shown
    assert "Upgrade agentmd" in shown


def test_a_checkpoint_file_that_is_no_database(work: AgentFolder) -> None:
    work.begin("cleaner")
    for side in ("", "-wal", "-shm"):
        (work.path / f".agentmd/agentmd_checkpoints.db{side}").unlink(missing_ok=True)
    (work.path / ".agentmd/agentmd_checkpoints.db").write_bytes(b"no database at all, just text " * 40)
    ended = work.cli("respond", "1", "--yes")
    assert "Traceback" not in ended.err
    assert "should not have happened" not in ended.err
    assert ended.code == 0  # it is only a cache
    assert "agentmd_checkpoints.db.damaged-1 and is made anew" in ended.err
    assert not (work.path / "a.txt").exists()


def test_a_state_folder_that_is_a_file(work: AgentFolder) -> None:
    work.file(".agentmd")
    assert ".agentmd" in message_of(work.cli("run", "cleaner"), code=1)
