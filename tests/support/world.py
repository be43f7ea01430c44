"""A workspace for fault tests, what happened in it, and what must be true of it whatever was killed."""

from __future__ import annotations

import collections
import contextlib
import shutil
import sqlite3
from pathlib import Path
from typing import Any

from agent_md import Workspace
from agent_md.executions.calls import Call
from agent_md.executions.execution import Execution
from agent_md.executions.ids import ExecutionId
from agent_md.executions.requests import Request
from agent_md.executions.states import CallOutcome, Outcome, RequestKind, RequestSource, Status
from agent_md.stores.sqlite.store import SqliteStore
from agent_md.stores.workers import LockWorkers
from tests.support.processes import Cli, Finished
from tests.support.snapshots import Snapshot

__all__ = ["Story", "World", "http_answer"]

_TOOLS = '''
import os, signal
from pathlib import Path
from langchain_core.tools import tool
from agent_md.sdk import context, request_choice, request_input, step, tool_options

def effect(key):
    """One line in the world, written with one system call."""
    place = os.environ.get("KILL_IN_TOOL", "")
    if place == f"{key}:before":
        os.kill(os.getpid(), signal.SIGKILL)
    out = os.open(context().workspace / "world.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(out, f"{key}\\n".encode())
    os.close(out)
    if place == f"{key}:after":
        os.kill(os.getpid(), signal.SIGKILL)
    return key

@tool
def danger(key: str) -> str:
    """Guarded."""
    return "did " + effect(key)

@tool
async def plain(key: str) -> str:
    """Not guarded."""
    return "did " + effect(key)

@tool
@tool_options(idempotent=True)
def asking(key: str) -> str:
    """Two questions and two steps."""
    name = request_input(f"Name for {key}?")
    step(effect, f"{key}-first")
    colour = request_choice("Colour?", ["red", "blue"])
    step(effect, f"{key}-second")
    return f"{name} {colour}"
'''

_AGENT = """---
name: worker
model: {provider: script, name: worker}
tools: [effects]
confirm: [danger]
---
Work.
"""

_SCRIPT = """
conversations:
  - turns:
      - text: Let me see.
        calls:
          - {name: danger, args: {key: A}}
          - {name: danger, args: {key: B}}
          - {name: plain, args: {key: U}}
          - {name: danger, args: {key: C}}
        usage: {input: 10, output: 1, cost: 0.5}
      - expect: {tool: plain, result: "did U|may have run"}
        calls:
          - {name: file_write, args: {path: out.txt, content: new}}
          - {name: asking, args: {key: Q}}
          - {name: plain, args: {key: V}}
        usage: {input: 20, output: 2, cost: 0.25}
      - text: All done.
        usage: {input: 30, output: 3, cost: 0.125}
"""

MAY_HAVE_RUN = "may have run"


class World:
    """A workspace with one agent, `worker`, and the commands that drive it to its end whatever happens to them."""

    def __init__(self, workspace: Path) -> None:
        self.workspace = workspace
        (workspace / "agents/_config/tools").mkdir(parents=True)
        (workspace / "agents/_config/scripts").mkdir()
        (workspace / "agents/_config/tools/effects.py").write_text(_TOOLS)
        for name, (text, script) in self.agents().items():
            (workspace / f"agents/{name}.md").write_text(text)
            (workspace / f"agents/_config/scripts/{name}.yaml").write_text(script)
        self.cli = Cli(workspace)

    agent = "worker"
    """The agent that is run."""

    def agents(self) -> dict[str, tuple[str, str]]:
        """The text and the script of each agent."""
        return {"worker": (_AGENT, _SCRIPT)}

    @property
    def checkpoints(self) -> Path:
        return self.workspace / ".agentmd/agentmd_checkpoints.db"

    def store(self) -> SqliteStore:
        """The store as it is now, opened by a process of no importance."""
        folder = self.workspace / ".agentmd"
        return SqliteStore(folder / "agentmd.db", workers=LockWorkers(folder / "workers"))

    def effects(self) -> collections.Counter[str]:
        log = self.workspace / "world.log"
        return collections.Counter(log.read_text().split()) if log.exists() else collections.Counter()

    def status(self) -> Status | None:
        if not (self.workspace / ".agentmd/agentmd.db").exists():
            return None
        store = self.store()
        try:
            found = store.executions(ids=[ExecutionId(1)])
            return found[0].status if found else None
        finally:
            store.close()

    def in_flight(self, execution: int = 1) -> str | None:
        """What a drive of the execution has begun, as the store notes it; None before anything."""
        row = self._row("SELECT begun FROM executions WHERE id = ?", execution)
        return row[0] if row else None

    def is_in_flight(self, place: str, epoch: int, execution: int = 1) -> bool:
        """Whether this drive of the execution, the first one is 1, has begun what the place names."""
        row = self._row("SELECT begun, epoch FROM executions WHERE id = ?", execution)
        return row == (place, epoch)

    def _row(self, query: str, execution: int) -> tuple[Any, ...] | None:
        """None also before there is a store."""
        if self.status() is None:
            return None
        with contextlib.closing(sqlite3.connect(self.workspace / ".agentmd/agentmd.db")) as database:
            row: tuple[Any, ...] | None = database.execute(query, (execution,)).fetchone()
        return row

    def execution(self, execution: int = 1) -> Execution:
        store = self.store()
        try:
            return store.execution(ExecutionId(execution))
        finally:
            store.close()

    def open_requests(self) -> list[Request]:
        store = self.store()
        try:
            return [request for request in store.requests(ExecutionId(1), family=True) if request.open]
        finally:
            store.close()

    def respond(self, request: Request, **kill: Any) -> Finished:
        """Answers a request in the way that belongs to it: the same each time it is asked."""
        return self.cli("respond", str(request.root.execution_id), "--request", request.id, *_flags(request), **kill)

    def step(self, **kill: Any) -> Finished:
        """The next process of the story: `run`, then one that answers the oldest open request, as often as there is one."""
        return (
            self.cli("run", self.agent, **kill)
            if self.status() is None
            else self.respond(self.open_requests()[0], **kill)
        )

    def begin(self) -> World:
        """Runs the agent in this process until it waits for three answers."""
        with Workspace(self.workspace) as workspace:
            assert workspace.run("worker").status is Status.WAITING
        return self

    def finish(self) -> Status:
        """Goes on in this process, whatever was left, until the execution has ended; gives its status."""
        with Workspace(self.workspace) as workspace:
            for _ in range(40):
                status = self.status()
                if status is None:
                    workspace.run(self.agent)
                elif status.final:
                    return status
                elif status is Status.WAITING:
                    request = self.open_requests()[0]
                    workspace.answer(request, _response(request))
                else:
                    workspace.resume(1)
        raise AssertionError(f"the execution is stuck as {self.status()}")

    def lose_checkpoints(self, copy: Path | None = None) -> None:
        """Takes the checkpoint file away, or puts an older copy in its place."""
        for suffix in ("", "-wal", "-shm"):
            Path(f"{self.checkpoints}{suffix}").unlink(missing_ok=True)
        if copy is not None and copy.exists():
            shutil.copy(copy, self.checkpoints)

    def copy_checkpoints(self, target: Path) -> None:
        """A whole copy of the checkpoints as they are now."""
        if self.checkpoints.exists():
            source, copy = sqlite3.connect(self.checkpoints), sqlite3.connect(target)
            source.backup(copy)
            source.close()
            copy.close()

    def check(self) -> None:
        """What must hold of a finished execution, whatever was killed on its way."""
        store = self.store()
        try:
            execution = store.execution(ExecutionId(1))
            calls = store.calls(execution.id)
            requests = store.requests(execution.id)
            events = store.events(execution.id)
        finally:
            store.close()
        effects = self.effects()
        assert execution.status is Status.SUCCESS, execution
        assert execution.output == "All done."
        assert (execution.usage.input_tokens, execution.usage.output_tokens) == (60, 6)
        assert execution.usage.cost_usd == 0.875
        assert len(calls) == 7
        results = [event.key for event in events if event.key.startswith("result:")]
        assert sorted(results) == sorted({f"result:{call.position}" for call in calls})
        for call in calls:
            self._check_call(call, [r for r in requests if r.position == call.position], effects)
        assert set(effects) <= {"A", "B", "C", "U", "V", "Q-first", "Q-second"}

    def _check_call(self, call: Call, requests: list[Request], effects: collections.Counter[str]) -> None:
        key = call.args.get("key")
        for request in requests:
            assert request.answer is not None
            assert (request.answer.outcome, request.answer.value) == _expected(request), request
        if call.tool == "file_write":
            assert call.outcome is CallOutcome.DONE, call
            assert (self.workspace / "out.txt").read_text() == "new"
            assert len(requests) == 1
        elif call.tool == "asking":
            if call.outcome is CallOutcome.UNKNOWN:  # a step was cut
                assert MAY_HAVE_RUN in (call.result or "")
                assert effects["Q-first"] <= 1
                assert effects["Q-second"] <= 1
            else:
                assert len(requests) == 2
                assert call.result == "Ann blue", call
                assert effects["Q-first"] == effects["Q-second"] == 1
        elif key == "B":
            assert call.outcome is CallOutcome.DENIED
            assert call.result == "Action denied by user: not this one"
            assert effects["B"] == 0
        elif call.outcome is CallOutcome.UNKNOWN:
            assert MAY_HAVE_RUN in (call.result or "")
            assert effects[key] <= 1
        else:
            assert call.outcome is CallOutcome.DONE, call
            assert call.result == f"did {key}"
            assert effects[key] == 1
        if call.tool == "danger":
            assert len(requests) == 1


class Story:
    """The execution of a World from its start to its end, one process after the other, and what each of them found."""

    def __init__(self, folder: Path, kind: type[World] = World) -> None:
        self._world = kind(folder / "ws")
        self._found: list[Snapshot] = []
        self.writes: list[int] = []
        """How many write statements each process made."""
        while (status := self._world.status()) is None or not status.final:
            self._found.append(Snapshot(self._world.workspace, folder / f"before-{len(self._found)}"))
            ended = self._world.step()
            assert ended.code in (0, 3), ended
            self.writes.append(self._world.cli.writes_of_last())
        self._world.check()

    @property
    def points(self) -> list[tuple[int, int]]:
        """Every write of every process, counted from 1."""
        return [(process, write) for process, count in enumerate(self.writes) for write in range(1, count + 1)]

    def before(self, process: int) -> World:
        """The world, set back to where this process is the next one."""
        self._found[process].restore()
        return self._world


def _flags(request: Request) -> tuple[str, ...]:
    response = _response(request)
    if "approved" in response:
        return ("--yes",) if response["approved"] else ("--no", "--reason", response["reason"])
    return ("--text", response["text"]) if "text" in response else ("--choice", *response["selected"])


def _response(request: Request) -> dict[str, Any]:
    if request.source is RequestSource.GATE:
        denied = (request.tool_args or {}).get("key") == "B"
        return {"approved": False, "reason": "not this one"} if denied else {"approved": True}
    return {"text": "Ann"} if request.kind is RequestKind.INPUT else {"selected": ["blue"]}


def http_answer(request: dict[str, Any]) -> dict[str, Any]:
    """The answer that belongs to a request, as HTTP gives and takes it."""
    if request["kind"] == "confirm":
        denied = (request["tool_args"] or {}).get("key") == "B"
        return {"approved": False, "reason": "not this one"} if denied else {"approved": True}
    return {"text": "Ann"} if request["kind"] == "input" else {"selected": ["blue"]}


def _expected(request: Request) -> tuple[Outcome, Any]:
    response = _response(request)
    if "approved" not in response:
        return Outcome.ANSWERED, response
    return (Outcome.APPROVED if response["approved"] else Outcome.DENIED), response
