"""What `run` is given besides an agent's name: messages from files and pipes, sessions, other models, paths."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_md.executions.ids import ExecutionId
from tests.support.agent_folder import AgentFolder, call

ROOT = Path(__file__).parents[2]
NOTHING = "No executions yet.\n"


@pytest.fixture
def work(folder: AgentFolder) -> AgentFolder:
    folder.agent("teller", [{"text": "Done."}])
    return folder


def message(folder: AgentFolder, number: int = 1) -> str:
    """What the model was told by an execution's own human message."""
    with folder.store() as store:
        return str(store.seed(ExecutionId(number))[-1]["data"]["content"])


def piped(folder: AgentFolder, data: bytes, *args: str, cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    """A whole program with `data` on standard input."""
    return subprocess.run(
        [sys.executable, "-m", "agent_md.cli.main", "-w", str(folder.path), *args],
        cwd=cwd or folder.path,
        env={"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "PYTHONPATH": str(ROOT)},
        input=data,
        capture_output=True,
        timeout=20,
    )


def test_standard_input_is_the_message(work: AgentFolder) -> None:
    data = "Grüße\nzwei".encode() * 20_000  # more than a pipe holds
    ended = piped(work, data + b"\n", "run", "teller", "-q", "-m", "-")
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"Done.\n", b"")
    assert message(work) == data.decode()


@pytest.mark.parametrize(
    ("data", "reason"), [(b"", "is empty"), (b"a\0", "has a NUL byte"), (b"x" * 8_388_609, "is larger than 8192 KiB")]
)
def test_standard_input_that_is_no_message(work: AgentFolder, data: bytes, reason: str) -> None:
    ended = piped(work, data, "run", "teller", "-m", "-")
    assert (ended.returncode, ended.stdout) == (2, b"")
    assert f"--message: standard input {reason}" in ended.stderr.decode()
    assert work.cli("logs").out == NOTHING


def test_standard_input_that_is_closed_is_empty(work: AgentFolder) -> None:
    ended = work.cli("run", "teller", "-m", "-", prepare=lambda: os.close(0))
    assert (ended.code, ended.out) == (2, "")
    assert "standard input" in ended.err


def test_an_unknown_agent_is_told_before_anything_is_read(work: AgentFolder) -> None:
    read, write = os.pipe()
    ended = work.cli("run", "nobody", "-m", "-", prepare=lambda: os.dup2(read, 0) and None)
    os.close(read)
    os.close(write)
    assert 'there is no agent "nobody"' in ended.err


def test_a_file_is_looked_for_where_the_command_is_given(work: AgentFolder, tmp_path: Path) -> None:
    (tmp_path / "task.txt").write_text("From a file.\n")
    assert piped(work, b"", "run", "teller", "-m", "@task.txt", cwd=tmp_path).returncode == 0
    assert message(work) == "From a file."
    refused = work.cli("run", "teller", "-m", "@ann please")
    assert (refused.code, refused.out) == (2, "")
    assert "the file ann please does not exist; nothing was started" in refused.err
    assert work.cli("run", "teller", "-m", "@@ann please").code == 0
    assert message(work, 2) == "@ann please"


def test_a_message_typed_at_the_terminal_and_then_an_answer(work: AgentFolder) -> None:
    work.agent("teller", [{"calls": [call("ask_user", question="Sure?")]}, {"text": "Done."}])
    with work.terminal("run", "teller", "-m", "-") as terminal:
        terminal.expect("Ctrl-D on an empty line ends it")
        terminal.send("First\rsecond\r\x04")
        terminal.expect("Sure?")
        terminal.expect("> ")
        terminal.answer("yes")
        assert terminal.exit_code() == 0
    assert message(work) == "First\nsecond"
    assert work.results() == ["yes"]


def seed_texts(folder: AgentFolder, number: int) -> list[str]:
    """All that an execution began with, its instructions apart."""
    with folder.store() as store:
        seed = store.seed(ExecutionId(number))
    return [message["data"]["content"] for message in seed if message["type"] != "system"]


def test_earlier_messages_are_taken_along_and_told(work: AgentFolder) -> None:
    assert work.cli("run", "teller", "-m", "one").err == ""
    second = work.cli("run", "teller", "-m", "two")
    assert second.err == "note: it begins with 2 earlier messages (--fresh leaves them out)\n"
    assert seed_texts(work, 2) == ["one", "Done.", "two"]
    fresh = work.cli("run", "teller", "-m", "three", "--fresh")
    assert (fresh.code, fresh.err) == (0, "")
    assert seed_texts(work, 3) == ["three"]
    quiet = work.cli("run", "teller", "-m", "four", "-q")
    assert (quiet.out, quiet.err) == ("Done.\n", "")
    assert seed_texts(work, 4) == ["one", "Done.", "two", "Done.", "three", "Done.", "four"]


def test_a_run_may_be_a_turn_of_a_session(work: AgentFolder) -> None:
    assert work.cli("run", "teller", "-m", "apart").code == 0
    first = work.cli("run", "teller", "-m", "one", "--session", "garden")
    assert (first.code, first.err) == (0, "")
    second = work.cli("run", "teller", "-m", "two", "--session", "garden")
    assert second.err == "note: it begins with 2 earlier messages of the session garden\n"
    assert seed_texts(work, 3) == ["one", "Done.", "two"]
    assert work.execution(3).session_id == "garden"


def test_a_session_with_a_turn_under_way_is_busy(work: AgentFolder) -> None:
    work.file("a.txt")
    work.agent("cleaner", [{"calls": [call("file_delete", path="a.txt")]}, {"text": "Done."}], "on_pending: parallel")
    assert work.cli("run", "cleaner", "--session", "s").code == 3
    refused = work.cli("run", "cleaner", "--session", "s")
    assert (refused.code, refused.out) == (2, "")
    assert "the session s of cleaner is busy with execution 1" in refused.err


def test_another_model_answers_once(work: AgentFolder) -> None:
    work.agent("other", [{"calls": [call("ask_user", question="Sure?")]}, {"text": "Other."}])
    asked = work.cli("run", "teller", "--model", "script/other")
    assert asked.code == 3
    assert "▶ Running teller  script/other\n" in asked.out
    assert "drifted" not in work.cli("pending").out
    answered = work.cli("respond", "1", "--text", "yes")
    assert (answered.code, answered.err) == (0, "")
    assert "✅ Other." in answered.out
    assert "(manual, script/other)" in work.cli("logs", "-e", "1").out
    assert "✅ Done." in work.cli("run", "teller", "--fresh").out


def test_an_edited_file_is_drift_also_with_another_model(work: AgentFolder) -> None:
    work.agent("other", [{"calls": [call("ask_user", question="Sure?")]}, {"text": "Other."}])
    assert work.cli("run", "teller", "--model", "script/other").code == 3
    with open(work.path / "agents/teller.md", "a") as file:
        file.write("More.\n")
    assert "drifted: agent file" in work.cli("pending").out


def test_an_agent_by_the_path_of_its_file(work: AgentFolder, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    inside = piped(work, b"", "run", "agents/teller.md")
    assert (inside.returncode, inside.stderr) == (0, b"")
    with work.terminal("run", str(work.path / "agents/teller.md"), cwd=elsewhere, env={"HOME": "/"}) as terminal:
        assert terminal.exit_code() == 0
        assert f"note: the workspace is {work.path}" in terminal.screen.replace("\n", "")
    assert work.execution(2).agent == "teller"


def test_a_file_that_is_no_agent_of_the_workspace(work: AgentFolder, tmp_path: Path) -> None:
    (work.path / "draft.md").write_text("---\n---\nHi.\n")
    (work.path / "agents/broken.md").write_text("---\nconfrim: []\n---\nHi.\n")
    lost = tmp_path / "lost/found.md"
    lost.parent.mkdir()
    lost.write_text("---\n---\nHi.\n")
    for path, reason in (
        (work.path / "draft.md", f"is no agent of the workspace {work.path}: its agents are the files below "),
        (work.path / "agents/broken.md", "did you mean confirm?"),
        (lost, "Move it there, or name the workspace"),
    ):
        refused = work.cli("run", str(path))
        assert (refused.code, refused.out) == (2, "")
        assert reason in refused.err
    with work.terminal("run", "found.md", cwd=lost.parent, env={"HOME": "/"}) as terminal:
        assert terminal.exit_code() == 2
        assert "is in no workspace" in terminal.screen
    assert [path.name for path in lost.parent.iterdir()] == ["found.md"]
