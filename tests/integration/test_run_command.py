"""`run_command`: real programs, their limits, and what is left of them."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent_md.errors import ToolError
from agent_md.isolation.bubblewrap import isolation_problem
from agent_md.isolation.process import Isolation
from agent_md.tools.base import TargetChanged
from agent_md.tools.run_command import CommandAccess, RunCommand, command_environment
from agent_md.tools.sandboxed_view import view_of
from agent_md.tools.threads import ToolThreads
from tests.support.builtins import command_tool
from tests.support.file_sandbox import make_workspace, sandbox_on
from tests.support.waiting import until


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = make_workspace(tmp_path)
    (folder / "out").mkdir(exist_ok=True)
    return folder


def done(tool: RunCommand, *command: str, **args: Any) -> str:
    checked = tool.validate({"command": list(command), **args})
    return asyncio.run(tool.run(checked, tool.plan(checked)))


def on(workspace: Path, **environ: str) -> RunCommand:
    return command_tool(sandbox_on(workspace), **environ)


def test_words_reach_the_program_as_they_are(workspace: Path) -> None:
    tool = on(workspace)
    assert done(tool, "printf", "%s|", "a b", "*", "$HOME", "") == "exit code 0\na b|*|$HOME||"
    assert done(tool, "pwd", folder="out") == f"exit code 0\n{workspace}/out"
    assert done(tool, "sh", "-c", "echo out; echo err >&2; exit 3") == "exit code 3\nout\nerr"
    assert done(tool, "true") == "exit code 0, no output"
    assert done(tool, "cat") == "exit code 0, no output"  # nothing to read
    assert done(tool, "echo a | tr a b; kill -9 $$", shell=True) == "exit code 137\nb"


def test_it_gets_only_named_variables(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "precious-value")
    assert "precious-value" not in done(on(workspace), "env")
    assert "EXTRA=1" in done(on(workspace, EXTRA="1"), "env")


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({"command": []}, "command"),
        ({"command": [""]}, "its first word, the program, is empty"),
        ({"command": ["ls -l"]}, "is a list of words"),
        ({"command": ["a", "b"], "shell": True}, "one line, as the only word"),
        ({"command": ["a\0b", "c"]}, "no argument can have"),
        ({"command": ["ls"], "timeout": 4000}, "timeout"),
    ],
)
def test_arguments_that_cannot_be_meant(workspace: Path, args: dict[str, Any], problem: str) -> None:
    with pytest.raises(ToolError, match=problem):
        on(workspace).validate(args)


def test_what_is_not_there_or_out_of_bounds(workspace: Path) -> None:
    for command, folder, problem in [
        (["no-such-program"], None, "there is no program no-such-program"),
        (["./nothing"], None, "there is no program ./nothing"),
        (["ls"], "..", "is not a path that this agent may use"),
        (["ls"], "missing", "is no folder"),
        (["ls"], ".git", "is not a path that this agent may use"),
    ]:
        args = {"command": command, **({} if folder is None else {"folder": folder})}
        with pytest.raises(ToolError, match=problem):
            on(workspace).plan(args)


def test_what_was_approved_is_what_runs(workspace: Path) -> None:
    tool = on(workspace)
    shutil.copy("/bin/echo", workspace / "say")
    args = tool.validate({"command": ["./say", "hello"]})
    plan = tool.plan(args)
    assert plan.preview is not None
    assert "this agent may change this program" in str(plan.preview.resolved)
    shutil.copy("/bin/true", workspace / "say")
    assert tool.plan(args).digest != plan.digest
    with pytest.raises(TargetChanged, match="nothing was done"):
        asyncio.run(tool.run(args, plan))


def _left(marker: str) -> bool:
    found = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return any(line.startswith(f"sleep {marker}") for line in found.splitlines())


@pytest.mark.parametrize(
    ("line", "limit", "said"),
    [
        ("setsid sleep {marker} & echo begun", 20, None),
        ("sleep {marker}", 1, "did not end within 1 s"),
        (
            "trap '' TERM; (trap '' TERM; setsid sleep {marker} &) ; trap '' TERM; while :; do sleep 0.1; done",
            1,
            "within 1 s",
        ),
        ("sleep {marker} & yes", 20, "wrote more than"),
    ],
)
def test_nothing_is_left_of_it(workspace: Path, line: str, limit: int, said: str | None) -> None:
    marker = f"{1000 + os.getpid()}.{abs(hash(line)) % 1000}"
    tool = on(workspace)
    if said is None:
        assert done(tool, line.format(marker=marker), shell=True, timeout=limit) == "exit code 0\nbegun"
    else:
        with pytest.raises(ToolError, match=said):
            done(tool, line.format(marker=marker), shell=True, timeout=limit)
    assert not _left(marker)


def test_nothing_is_left_when_the_call_is_cancelled(workspace: Path) -> None:
    marker = f"{2000 + os.getpid()}"
    tool = on(workspace)
    args = tool.validate({"command": [f"touch begun; sleep {marker}"], "shell": True})

    async def cancelled() -> None:
        running = asyncio.ensure_future(tool.run(args, tool.plan(args)))
        await asyncio.to_thread(until, (workspace / "begun").exists)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(cancelled())
    assert not _left(marker)


def _repository(workspace: Path, ran: Path) -> Path:
    """A repository whose own settings and hooks would start programs."""
    folder = workspace / "repo"
    folder.mkdir()
    touch = f"touch {shlex.quote(str(ran))}"

    def git(*words: str) -> None:
        subprocess.run(
            ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *words], cwd=folder, check=True, capture_output=True
        )

    git("init", "-q")
    (folder / "a.txt").write_text("one\n")
    git("add", ".")
    git("commit", "-qm", "first")
    (folder / "a.txt").write_text("two\n")
    (folder / ".gitattributes").write_text("*.txt filter=bad diff=bad\n")
    for name, value in {
        "core.fsmonitor": touch,
        "core.pager": touch,
        "core.hooksPath": "hooks",
        "diff.external": touch,
        "filter.bad.clean": f"{touch}; cat",
        "filter.bad.required": "true",
        "diff.bad.textconv": f"{touch}; cat",
        "alias.st": f"!{touch}",
    }.items():
        git("config", name, value)
    (folder / "hooks").mkdir()
    for hook in ("post-checkout", "pre-commit", "post-index-change"):
        (folder / "hooks" / hook).write_text(f"#!/bin/sh\n{touch}\n")
        (folder / "hooks" / hook).chmod(0o755)
    ran.unlink(missing_ok=True)
    return folder


def test_the_settings_of_a_repository_start_no_program(workspace: Path, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    _repository(workspace, ran)
    tool = on(workspace)
    for words in (["status"], ["diff"], ["log", "-p", "-1"], ["show"], ["add", "a.txt"], ["stash", "list"], ["st"]):
        done(tool, "git", *words, folder="repo")
        assert not ran.exists(), words
    assert "+two" in done(tool, "git", "diff", "--cached", folder="repo")
    subprocess.run(["git", "status"], cwd=workspace / "repo", capture_output=True, check=False)
    assert ran.exists(), "without what the tool does it would have run"


def test_in_a_sandbox_it_reaches_what_file_tools_reach(workspace: Path, tmp_path: Path) -> None:
    if (problem := isolation_problem()) is not None:
        pytest.skip(f"NOT RUN: {problem}")
    sandbox = sandbox_on(workspace)

    def isolation() -> Isolation:
        return Isolation(view_of(sandbox, workspace / "agents/_config/tools", writable=True), workspace)

    given = {**os.environ, "NAMED": "1"}
    access = CommandAccess(lambda: command_environment(given, ("NAMED",)), isolation)
    tool = RunCommand(sandbox, access, ToolThreads())
    marker = f"{3000 + os.getpid()}"
    assert done(tool, "cat", "notes.txt") == "exit code 0\none\ntwo"
    assert done(tool, f"setsid sleep {marker} & echo $NAMED $HOME > made", shell=True) == "exit code 0, no output"
    assert (workspace / "made").read_text() == "1 /tmp\n"
    for path in (str(tmp_path / "outside.txt"), ".git/config", ".env", str(Path.home() / ".bashrc")):
        assert "secret" not in done(tool, "cat", path), path
    with pytest.raises(ToolError, match="did not end within 1 s"):
        done(tool, "sleep", marker, timeout=1)
    assert not _left(marker)
