"""One workspace, driven in this process by the real App, that can be opened anew between any two steps.

    work = Workspace(tmp_path)
    work.tools(SOURCE); work.agent("tools: [kit]\\nconfirm: [danger]"); work.script(turn(call("danger", key="A")), "Done.")
    work.start()
    work.restart(lose_checkpoints=True)
    work.answer(work.open_requests()[0], {"approved": True})

Every model call is checked: the history it gets must have the shape that providers insist on.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from agent_md.app import App
from agent_md.executions.calls import Call
from agent_md.executions.execution import Claim, Event, Execution
from agent_md.executions.ids import ExecutionId
from agent_md.executions.positions import Position
from agent_md.executions.requests import Request
from agent_md.executions.states import Status
from agent_md.graph.run_context import RunContext
from agent_md.ports.clock import Clock
from agent_md.ports.store import Store
from agent_md.settings import load_settings
from agent_md.stores.sqlite.store import SqliteStore
from agent_md.stores.state_dir import make_state_dir
from tests.support.provider_shape import check_provider_shape
from tests.support.trusting import TRUSTING

__all__ = ["KIT", "Replies", "Sink", "Workspace", "call", "turn"]

KIT = '''
import os
from pathlib import Path
from langchain_core.tools import tool
from agent_md.sdk import *

def effect(key):
    """One line in the world."""
    with (context().workspace / "world.log").open("a") as log:
        log.write(f"{key}\\n")
    return key

@tool
def plain(key: str) -> str:
    """Not guarded."""
    return "did " + effect(key)

@tool
def danger(key: str) -> str:
    """Guarded."""
    return "did " + effect(key)
'''
"""The head of a module of tools: the SDK, `effect`, and two tools."""

Turn = dict[str, Any]


def call(tool: str, **args: Any) -> Turn:
    return {"name": tool, "args": args}


def turn(*calls: Turn, text: str = "", **more: Any) -> Turn:
    """One answer of the script model; `more` as in a script: usage, delay, error, expect."""
    return {"text": text, "calls": list(calls), **more}


class Sink:
    """The `ProgressSink` port; `on_stored` is told of each new event."""

    def __init__(self, on_stored: Callable[[], None] = lambda: None) -> None:
        self._on_stored = on_stored
        self.deltas: list[str] = []

    def stored(self) -> None:
        self._on_stored()

    def delta(self, execution_id: ExecutionId, turn: int, text: str) -> None:
        self.deltas.append(text)

    def restart(self, execution_id: ExecutionId, turn: int, attempt: int, attempts: int) -> None:
        self.deltas.clear()


class Replies:
    """A `CallModel` that says these messages, one a turn, whatever a script could not say."""

    def __init__(self, *messages: AIMessage) -> None:
        self._messages = messages

    async def __call__(
        self, history: Sequence[BaseMessage], on_text: Callable[[str], None], on_retry: Callable[[int, int], None]
    ) -> AIMessage:
        start = max(index for index, message in enumerate(history) if isinstance(message, HumanMessage))
        return self._messages[sum(isinstance(message, AIMessage) for message in history[start:])]


class _WatchedApp(App):
    """The real one, with an eye on what its models are given."""

    watcher: Workspace

    @property
    def store(self) -> Store:
        if self._store is None and self.watcher.clock is not None:
            make_state_dir(self.settings)
            self._store = SqliteStore(self.settings.database, workers=self._workers, clock=self.watcher.clock)
            self._store.settle_overdue()
        return super().store

    def _run_context(self, *args: Any, **kwargs: Any) -> RunContext:
        run_context = super()._run_context(*args, **kwargs)
        return replace(run_context, call_model=self.watcher.watched(run_context))


class Workspace:
    """A workspace with one agent, `worker`, of one execution."""

    def __init__(self, folder: Path, environ: Mapping[str, str] | None = None, clock: Clock | None = None) -> None:
        self.folder = folder
        self.clock = clock
        self.environ = TRUSTING | dict(environ or {})
        self.model: Replies | None = None
        """Speaks instead of the agent's model."""
        self.histories: list[list[BaseMessage]] = []
        """What the model was given, call by call."""
        (folder / "agents/_config/tools").mkdir(parents=True)
        (folder / "agents/_config/scripts").mkdir()
        self.script("Done.")
        self.app = self._opened()

    # What is in it

    def agent(self, settings: str = "", model: str = "{provider: script, name: worker}") -> None:
        text = f"---\nname: worker\nmodel: {model}\n{dedent(settings)}\n---\nWork.\n"
        (self.folder / "agents/worker.md").write_text(text)

    def tools(self, source: str, module: str = "kit") -> Path:
        """Writes a module that begins with `KIT`, and gives its path."""
        path = self.folder / "agents/_config/tools" / f"{module}.py"
        path.write_text(KIT + dedent(source))
        return path

    def module(self, name: str = "kit") -> Any:
        """The module as the tools of this process run it."""
        file = str(self.folder / "agents/_config/tools" / f"{name}.py")
        (module,) = [module for module in sys.modules.values() if getattr(module, "__file__", None) == file]
        return module

    def script(self, *turns: Turn | str) -> None:
        """What the model says, turn by turn; a text says it and calls nothing."""
        said = [{"text": each} if isinstance(each, str) else each for each in turns]
        path = self.folder / "agents/_config/scripts/worker.yaml"
        path.write_text(json.dumps({"conversations": [{"turns": said}]}))

    def write(self, path: str, content: str = "old") -> Path:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
        return file

    def effects(self) -> Counter[str]:
        """How often each `effect` happened."""
        log = self.folder / "world.log"
        return Counter(log.read_text().split("\n")[:-1]) if log.exists() else Counter()

    # Processes

    def _opened(self) -> App:
        settings = load_settings(
            self.folder, environ=self.environ, cwd=self.folder, home=self.folder.parent / "no-such-home"
        )
        app = _WatchedApp(settings)
        app.watcher = self
        return app

    def restart(self, *, lose_checkpoints: bool = False, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Goes on as another process would, with what is on disk, which `meanwhile` may change."""
        self.app.close()
        meanwhile()
        if lose_checkpoints:
            for file in self.checkpoint_files():
                file.unlink()
        self.app = self._opened()

    def checkpoint_files(self) -> list[Path]:
        return list((self.folder / ".agentmd").glob("agentmd_checkpoints.db*"))

    def close(self) -> None:
        self.app.close()

    def watched(self, run_context: RunContext) -> Callable[..., Awaitable[AIMessage]]:
        async def call_model(
            history: Sequence[BaseMessage], on_text: Callable[[str], None], on_retry: Callable[[int, int], None]
        ) -> AIMessage:
            check_provider_shape(history)
            self.histories.append(list(history))
            return await (self.model or run_context.call_model)(history, on_text, on_retry)

        return call_model

    # The execution

    @property
    def execution(self) -> Execution:
        return self.app.store.executions(limit=1)[0]

    def create(self, **options: Any) -> Claim:
        created = self.app.starter.start("worker", **options)
        assert created.worker is not None
        return Claim(created.id, created.worker, created.epoch)

    def start(self, sink: Sink | None = None, **options: Any) -> Execution:
        """Runs a new execution until it ends or waits."""
        return self.drive(self.create(**options), sink)

    def drive(self, claim: Claim, sink: Sink | None = None) -> Execution:
        return asyncio.run(self.advance(claim, sink))

    async def advance(self, claim: Claim, sink: Sink | None = None) -> Execution:
        return await self.app.runner().advance(claim, sink or Sink())

    def go_on(self) -> Execution:
        """Drives what is queued."""
        claim = self.app.store.claim(self.execution.id, self.app.worker)
        assert claim is not None, self.execution
        return self.drive(claim)

    def record(self, request: Request, response: Any) -> None:
        """Records an answer as the faces do; raises AnswerRefused."""
        answer = self.app.responder.new_answer(self.execution, request, response)
        self.app.store.record_answers([answer], by="cli:ann")

    def answer(self, request: Request | None = None, response: Any = None) -> Execution:
        """Answers a request, the only open one if none is named, and drives on; approves if nothing else is said."""
        chosen = request or self.the_request()
        self.record(chosen, {"approved": True} if response is None else response)
        return self.go_on()

    def requests(self) -> list[Request]:
        return self.app.store.requests(self.execution.id)

    def open_requests(self) -> list[Request]:
        return [request for request in self.requests() if request.open]

    def the_request(self) -> Request:
        """The one that is open."""
        (request,) = self.open_requests()
        return request

    def calls(self) -> list[Call]:
        return self.app.store.calls(self.execution.id)

    def result(self, index: int = 0, turn: int = 0) -> str:
        """What the model was told of a call."""
        found = self.app.store.call(self.execution.id, Position(turn, index))
        assert found is not None
        assert found.state.closed, found
        return found.result or ""

    def results_seen(self) -> list[str]:
        """The results in the last history that the model was given, since its last message."""
        texts: list[str] = []
        for message in reversed(self.histories[-1]):
            if not isinstance(message, ToolMessage):
                break
            texts.insert(0, str(message.content))
        return texts

    def events(self) -> list[Event]:
        return self.app.store.events(self.execution.id)

    def check_succeeded(self, output: str = "Done.") -> None:
        """Fails unless the execution ended well, each of its calls closed and told once."""
        execution = self.execution
        assert (execution.status, execution.output) == (Status.SUCCESS, output), execution
        self.check_closed()

    def check_closed(self) -> None:
        """Fails unless every call is closed and has exactly one `tool_call` and one `tool_result` event."""
        keys = Counter(event.key for event in self.events())
        for found in self.calls():
            assert found.state.closed, found
            assert keys[f"call:{found.position}"] == keys[f"result:{found.position}"] == 1
        assert not self.open_requests()
