"""Standard output and error that are closed, full, unread or unable: what was to be done is done all the same."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from agent_md.executions.states import Status
from tests.support.agent_folder import AgentFolder, call

ROOT = Path(__file__).parents[2]
AGENTMD = [sys.executable, "-m", "agent_md.cli.main"]
PATIENCE_S = 120
"""What commands may take that import everything, where others work too."""
AT_ONCE_S = 20.0
"""From its last output to the end of a process; a thread or a connection that it waits for holds it for good."""


@pytest.fixture
def work(folder: AgentFolder) -> AgentFolder:
    folder.file("a.txt")
    folder.agent("quick", [{"text": "Grüße 👋"}])
    folder.agent("cleaner", [{"calls": [call("file_delete", path="a.txt")]}, {"text": "Done."}])
    folder.agent("failing", [{"error": {"kind": "bad_request", "message": "no"}}])
    return folder


def environment(changes: Mapping[str, str] | None = None) -> dict[str, str]:
    return {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "PYTHONPATH": str(ROOT), **(changes or {})}


def shell(folder: AgentFolder, command: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """A command line of a shell, in which `agentmd` is ours."""
    return subprocess.run(
        ["bash", "-c", f'agentmd() {{ "$PROGRAM" -m agent_md.cli.main "$@"; }}; {command}'],
        cwd=folder.path,
        env=environment({"PROGRAM": sys.executable, "LANG": "C.UTF-8", **(env or {})}),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
    )


def test_a_reader_that_leaves_ends_a_listing_quietly(work: AgentFolder) -> None:
    ended = shell(work, "for c in list logs info; do agentmd $c | head -0; echo ${PIPESTATUS[0]}; done")
    assert (ended.stdout, ended.stderr) == ("0\n0\n0\n", "")


def test_a_reader_that_leaves_does_not_stop_a_run(work: AgentFolder) -> None:
    ended = shell(work, "agentmd run quick | head -0; echo ${PIPESTATUS[0]}")
    assert (ended.stdout, ended.stderr) == ("0\n", "")
    assert work.execution().status is Status.SUCCESS


@pytest.mark.parametrize(("redirect", "err"), [(">&-", True), ("2>&-", False), (">&- 2>&- <&-", False)])
def test_closed_streams(work: AgentFolder, redirect: str, err: bool) -> None:
    ended = shell(work, f"agentmd run cleaner {redirect}; code=$?; agentmd list {redirect} || exit 9; exit $code")
    assert ended.returncode == 3
    assert ended.stderr == ("execution 1 waits for an answer: agentmd respond 1 --request 1-0.0\n" if err else "")
    assert work.execution().status is Status.WAITING


def test_a_full_disk_behind_standard_output(work: AgentFolder) -> None:
    listed = shell(work, "agentmd list > /dev/full")
    assert (listed.returncode, listed.stderr) == (1, "agentmd: standard output: No space left on device\n")
    run = shell(work, "agentmd run quick > /dev/full")
    assert run.returncode == 0
    assert run.stderr == "standard output cannot be written (No space left on device); execution 1 goes on\n"
    assert work.execution().status is Status.SUCCESS


def test_a_plain_locale(work: AgentFolder) -> None:
    ended = shell(work, "agentmd run quick", {"LANG": "C"})
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.endswith("quick ✅ Grüße 👋\n")


def test_an_output_that_cannot_encode(work: AgentFolder) -> None:
    ended = shell(work, "agentmd run quick; agentmd run cleaner; agentmd list", {"PYTHONIOENCODING": "ascii"})
    assert ended.returncode == 0
    assert ended.stdout.isascii()
    assert r"quick \u2705 Gr\xfc\xdfe \U0001f44b" in ended.stdout
    assert ended.stderr == "execution 2 waits for an answer: agentmd respond 2 --request 2-0.0\n"


@pytest.mark.parametrize(
    ("args", "code"),
    [
        (["run", "quick"], 0),
        (["run", "cleaner"], 3),
        (["run", "failing"], 1),
        pytest.param(["run", "nobody"], 2, marks=pytest.mark.stress),
        (["list"], 0),
        pytest.param(["pending"], 0, marks=pytest.mark.stress),
        pytest.param(["logs"], 0, marks=pytest.mark.stress),
        pytest.param(["info"], 0, marks=pytest.mark.stress),
        pytest.param(["validate"], 0, marks=pytest.mark.stress),
        pytest.param(["resume"], 0, marks=pytest.mark.stress),
        pytest.param(["--help"], 0, marks=pytest.mark.stress),
        (["wrong"], 2),
    ],
)
def test_every_command_ends_when_it_has_no_more_to_say(work: AgentFolder, args: Sequence[str], code: int) -> None:
    with subprocess.Popen(
        [*AGENTMD, *args],
        cwd=work.path,
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        assert process.stdout is not None
        last = time.monotonic()
        while os.read(process.stdout.fileno(), 65536):
            last = time.monotonic()
        assert process.wait(PATIENCE_S) == code
        assert time.monotonic() - last < AT_ONCE_S


HEAVY = ("langgraph", "langchain", "langchain_core", "fastapi", "uvicorn", "langchain_google_genai", "prompt_toolkit")
LIGHT = ("pending", "list", "logs", "info", "resume", "--help", "run --help", "logs -e 1")
PROGRAM = f"""
import contextlib, io, sys
from agent_md.cli.main import main
for line in {LIGHT!r}:
    sys.argv[1:] = line.split()
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
        main()
    print(line, bool(out.getvalue()), sorted({{*{HEAVY!r}}} & sys.modules.keys()))
"""


def test_commands_that_only_read_load_nothing_heavy(work: AgentFolder) -> None:
    assert work.cli("run", "cleaner").code == 3
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=work.path,
        env=environment(),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=PATIENCE_S,
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    assert ended.stdout.splitlines() == [f"{line} True []" for line in LIGHT]
