"""Tools with `sandbox`: what their processes see and may do, what of the SDK they have, and that they end."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from agent_md.errors import AgentFileInvalid
from agent_md.executions.states import CallOutcome, RequestKind
from agent_md.python_command import python_command
from tests.support.driving import Workspace, call, turn
from tests.support.receiver import receiver
from tests.support.sandboxes import is_locked, need_sandbox
from tests.support.trusting import TRUSTING
from tests.support.waiting import until


@pytest.fixture(autouse=True)
def _sandbox() -> None:
    need_sandbox()


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path / "ws", {"NAMED": "given", "OTHER": "kept back", "HOME": "/root"})
    yield workspace
    workspace.close()


LOOK = '''
import os
import socket
from pathlib import Path

assert not Path("ws-was-here").exists()

def tried(action):
    try:
        return action()
    except (OSError, MemoryError) as error:
        return type(error).__name__

@tool
def look(paths: list[str], writes: list[str]) -> dict:
    """Looks around."""
    print("no message of the protocol")
    return {
        "pid": os.getpid(),
        "environment": sorted(os.environ),
        "folder": os.getcwd(),
        "read": {path: tried(lambda: Path(path).read_text()) for path in paths},
        "listed": {path: tried(lambda: sorted(os.listdir(path))) for path in paths},
        "written": {path: tried(lambda: Path(path).write_text("new")) for path in writes},
        "network": tried(lambda: socket.create_connection(("192.0.2.1", 80), 5)),
        "processes": [name for name in os.listdir("/proc") if name.isdigit()],
        "memory": tried(lambda: len(bytearray(3 * 2**30))),
    }
'''


def test_it_sees_its_paths_and_nothing_else(work: Workspace) -> None:
    work.tools(LOOK)
    for path in ("in/seen.txt", "in/.env", "in/deep/.git/config", "out/old.txt", "aside.txt", "agents/x.txt"):
        work.write(path)
    work.write(".env", "SECRET_VALUE=12345678")
    work.agent("""
        tools: [kit]
        sandbox: {environment: [NAMED], memory_mb: 2048}
        paths: {in: {path: in, mode: ro}, out: out}
    """)
    top = str(work.folder)
    paths = ["in/seen.txt", "in/.env", "in/deep/.git", "out/old.txt", ".env", "aside.txt", f"{top}/.agentmd", "agents"]
    writes = ["in/seen.txt", "out/new.txt", "out/old.txt", "made.txt", "/usr/made.txt", "/tmp/own.txt", "agents/y.md"]
    work.script(turn(call("look", paths=[*paths, "/etc/shadow", "/root", "/home"], writes=writes)), "Done.")
    work.start()
    seen: dict[str, Any] = json.loads(work.result())
    assert seen["folder"] == top
    assert (
        {"NAMED"}
        < set(seen["environment"])
        <= {"NAMED", "HOME", "LANG", "LC_CTYPE", "PATH", "PWD", "PYTHONDONTWRITEBYTECODE"}
    )
    assert {path: text for path, text in seen["read"].items() if text == "old"} == {
        "in/seen.txt": "old",
        "out/old.txt": "old",
    }
    assert {path for path, names in seen["listed"].items() if isinstance(names, list)} <= {
        "agents",
        "in/deep/.git",
        "/root",
        "/home",
    }
    assert not seen["listed"]["in/deep/.git"]
    assert [path for path, done in seen["written"].items() if done == 3] == [
        "out/new.txt",
        "out/old.txt",
        "/tmp/own.txt",
    ]
    assert (work.folder / "out/new.txt").read_text() == "new"
    assert (work.folder / "in/seen.txt").read_text() == "old"
    assert not Path("/tmp/own.txt").exists()
    assert seen["network"] == "OSError"
    assert len(seen["processes"]) <= 3
    assert seen["memory"] == "MemoryError"
    file = str(work.folder / "agents/_config/tools/kit.py")
    assert not [name for name, module in sys.modules.items() if getattr(module, "__file__", None) == file]


ASKING = '''
import asyncio
from agent_md.sdk import context, interrupt, request_choice, request_confirmation, request_input, request_questions, step

PLACES = [{"question": "Where?", "header": "Place", "options": [
    {"label": "here", "description": ""}, {"label": "there", "description": ""}]}]

async def asked(function, *args, **fields):
    return function(*args, **fields)

def note(text):
    with open("world.log", "a") as log:
        log.write(text + "\\n")
    return text

@tool
async def it() -> dict:
    """It."""
    first = step(note, "began")
    told = await asyncio.gather(
        asked(request_confirmation, "Sure?", tool_name="rm", tool_args={"path": "a"}),
        asked(request_input, "Which name?"),
        asked(request_choice, "Which colour?", ["red", "blue"]),
        asked(request_questions, PLACES),
        asked(interrupt, {"any": [1, None]}, response_schema={"type": "integer"}),
    )
    where = context()
    try:
        where.resolve_path("../outside")
    except Exception as error:
        refused = type(error).__name__
    return {"told": told, "first": first, "path": str(where.resolve_path("a/b")), "agent": where.agent, "refused": refused}
'''

ANSWERS = {
    RequestKind.CONFIRM: {"approved": True},
    RequestKind.INPUT: {"text": "Ann"},
    RequestKind.CHOICE: {"selected": ["blue"]},
    RequestKind.QUESTIONS: {"answers": {"Where?": "here"}},
    RequestKind.CUSTOM: 7,
}


def test_what_it_asks_is_asked_and_steps_are_done_once(work: Workspace) -> None:
    work.tools(ASKING)
    work.agent("tools: [kit]\nsandbox: true")
    work.script(turn(call("it")), "Done.")
    work.start()
    asked = work.open_requests()
    assert {request.kind for request in asked} == set(ANSWERS)
    for request in asked:
        work.record(request, ANSWERS[request.kind])
    work.go_on()
    work.check_succeeded()
    assert json.loads(work.result()) == {
        "told": [True, "Ann", "blue", {"Where?": "here"}, 7],
        "first": "began",
        "path": str(work.folder / "a/b"),
        "agent": "worker",
        "refused": "ToolError",
    }
    assert work.effects() == {"began": 1}


def test_one_tool_may_ask_for_a_sandbox_and_what_was_approved_is_what_runs(work: Workspace) -> None:
    source = '''
        from agent_md.sdk import tool_options
        import os

        @tool
        @tool_options(sandbox=True, requires_approval=True)
        def it(number: int) -> str:
            """It."""
            return f"{number} WORD {sorted(os.listdir('/proc'))[0]}"
    '''
    path = work.tools(source)
    work.agent("tools: [kit]")
    work.script(turn(call("it", number="5")), "Done.")
    work.start()
    first = work.the_request()
    assert first.tool_args == {"number": 5}
    path.write_text(path.read_text().replace("WORD", "CHANGED"))
    work.answer()
    assert "was changed since this was approved" in (work.the_request().message or "")
    work.answer()
    work.check_succeeded()
    assert work.result() == "5 CHANGED 1"


BAD = {
    "it raises": ("raise ValueError('no')", CallOutcome.FAILED, "failed: ValueError: no"),
    "it ends its process": ("os._exit(3)", CallOutcome.UNKNOWN, "ended without a result"),
    "it writes what is no message": (
        "os.write(pipe(), b'{]\\n')\n    raise SystemExit",
        CallOutcome.UNKNOWN,
        "no message",
    ),
    "its result is too long": ("return 'x' * (17 * 2**20)", CallOutcome.FAILED, "too long for a result"),
    "it asks in a step": ("return step(request_confirmation, 'Sure?')", CallOutcome.FAILED, "inside a step"),
    "it swallows a request": (
        "try:\n        request_confirmation('Sure?')\n    except BaseException:\n        return 'x'",
        *(CallOutcome.FAILED, "swallowed its own request"),
    ),
}


def test_what_goes_wrong_is_told(work: Workspace) -> None:
    head = '''
import os
from agent_md.sdk import request_confirmation, step

def pipe():
    """The pipe of the protocol, which the tool is not meant to use."""
    return next(int(fd) for fd in os.listdir("/proc/self/fd") if int(fd) > 2 and "pipe" in os.readlink(f"/proc/self/fd/{fd}")
                and os.get_inheritable(int(fd)) is False and _writes(int(fd)))

def _writes(fd):
    import fcntl
    return fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_WRONLY
'''
    tools = [
        f'\n@tool\ndef it{number}() -> str:\n    """It."""\n    {body}\n'
        for number, (body, *_) in enumerate(BAD.values())
    ]
    work.tools(head + "".join(tools))
    work.agent("tools: [kit]\nsandbox: true")
    work.script(turn(*(call(f"it{number}") for number in range(len(BAD)))), "Done.")
    work.start()
    work.check_succeeded()
    calls = work.calls()
    assert [found.outcome for found in calls] == [outcome for _, outcome, _ in BAD.values()]
    for found, (_, _, text) in zip(calls, BAD.values(), strict=True):
        assert text in (found.result or ""), found.result


PLANTING = '''
import os
from agent_md.sdk import request_confirmation, tool_options

@tool
@tool_options(timeout=4)
def plant(folder: str, end: str) -> str:
    """Creates what git obeys."""
    os.makedirs(folder + "/.git")  # it must be gone when this runs again
    open(folder + "/.git/config", "w").close()
    if end == "asks":
        request_confirmation("Sure?")
    if end == "dies":
        os._exit(3)
    if end == "stays":
        while True:
            pass
    return "done"
'''


def test_it_leaves_no_name_that_file_tools_refuse(work: Workspace) -> None:
    work.tools(PLANTING)
    (work.folder / "deep").mkdir()
    work.agent("tools: [kit]\nsandbox: true")
    ends = ("returns", "asks", "dies", "stays")
    work.script(*(turn(call("plant", folder=f"deep/{end}", end=end)) for end in ends), "Done.")
    work.start()
    assert not list(work.folder.rglob(".git"))
    work.answer()
    work.check_succeeded()
    calls = work.calls()
    assert [found.outcome for found in calls] == [CallOutcome.FAILED] * 2 + [CallOutcome.UNKNOWN] * 2
    for found in calls[:3]:
        assert ".git is now named from-sandbox-" in (found.result or "")
    until(lambda: not list(work.folder.rglob(".git")))
    assert len(list(work.folder.rglob("from-sandbox-*/config"))) == 5


HOLDING = '''
import fcntl
import os
import subprocess
import sys

CHILD = "import fcntl, sys, time; f = open('held', 'rb'); fcntl.flock(f, fcntl.LOCK_EX); print(1, flush=True); time.sleep(1000)"

def hold():
    """A process of its own session that holds a lock as long as it lives."""
    child = subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE, start_new_session=True)
    child.stdout.readline()

@tool
def leaves() -> str:
    """Leaves a process behind."""
    hold()
    return "left"

@tool
def stays() -> str:
    """Never ends."""
    hold()
    open("began", "w").close()
    while True:
        pass
'''


def test_what_it_started_ends_with_the_call_its_timeout_and_a_cancellation(work: Workspace) -> None:
    work.tools(HOLDING)
    held = work.write("held")
    work.agent("tools: [kit]\nsandbox: true\nsettings: {timeout: 20}")
    work.script(turn(call("leaves")), "Done.")
    work.start()
    assert work.result() == "left"
    until(lambda: not is_locked(held))

    work.script(turn(call("stays")), "Done.")

    async def cancelled() -> None:
        task = asyncio.ensure_future(work.advance(work.create()))
        while not (work.folder / "began").exists() or not is_locked(held):
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(cancelled())
    until(lambda: not is_locked(held))


def test_it_ends_when_our_process_is_killed(work: Workspace) -> None:
    work.tools(HOLDING)
    held = work.write("held")
    work.agent("tools: [kit]\nsandbox: true")
    work.script(turn(call("stays")), "Done.")
    arguments = ["-w", str(work.folder), "run", "worker", "-q"]
    driver = subprocess.Popen(
        python_command("-c", "from agent_md.cli.entry import main; main()", *arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**TRUSTING, "PATH": os.environ["PATH"], "HOME": str(work.folder.parent / "no-such-home")},
    )
    try:
        until(lambda: (work.folder / "began").exists() and is_locked(held))
    finally:
        os.kill(driver.pid, signal.SIGKILL)
        driver.wait()
    until(lambda: not is_locked(held))


def test_allowed_hosts_are_reached_through_the_proxy_and_no_others(work: Workspace) -> None:
    work.tools('''
        import urllib.error
        import urllib.request

        @tool
        def fetch(urls: list[str]) -> list[str]:
            """Fetches."""
            told = []
            for url in urls:
                try:
                    told.append(urllib.request.urlopen(url, b"x", timeout=20).read().decode() or "empty")
                except urllib.error.HTTPError as error:
                    told.append(f"{error.code} {error.read().decode()}")
            return told
    ''')
    work.agent("tools: [kit]\nsandbox: true\nallow_hosts: [127.0.0.1, localhost]")
    work.write("config.yaml", "http: {allow_hosts: [127.0.0.1]}\n")
    work.restart()
    with receiver() as received:
        urls = [f"http://{host}:{received.port}/x" for host in ("127.0.0.1", "localhost", "169.254.169.254")]
        work.script(turn(call("fetch", urls=urls)), "Done.")
        work.start()
        work.check_succeeded()
        fetched, private, other = json.loads(work.result())
        assert fetched == "empty"
        assert len(received.received) == 1
        assert private.startswith("403 localhost")
        assert "no address of the public internet" in private
        assert "169.254.169.254 is not one of the hosts in allow_hosts" in other


def test_without_bubblewrap_nothing_runs(work: Workspace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    work.tools("import pathlib\npathlib.Path('imported').touch()\n" + dedent(HOLDING))
    work.agent("tools: [kit]\nsandbox: true")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(AgentFileInvalid, match="no bwrap here; install it with `sudo apt install bubblewrap`"):
        work.start()
    assert not list(work.folder.rglob("imported"))
    assert not Path("imported").exists()
