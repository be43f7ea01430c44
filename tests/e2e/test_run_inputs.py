"""What `run` is given besides an agent's name: messages from files and pipes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_md.executions.model import ExecutionId
from tests.support.agent_folder import AgentFolder

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


def test_a_message_typed_at_the_terminal(work: AgentFolder) -> None:
    with work.terminal("run", "teller", "-m", "-") as terminal:
        terminal.expect("Ctrl-D on an empty line ends it")
        terminal.send("First\rsecond\r\x04")
        assert terminal.exit_code() == 0
    assert message(work) == "First\nsecond"
