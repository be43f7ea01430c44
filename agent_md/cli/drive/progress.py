"""The progress line while an execution works: streamed text, or the running tool and its time.

All of it stands in a LiveArea and is gone before anything is printed; what counts is printed from stored events.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import Enum, auto

from agent_md.cli.terminal.live_rows import QUIET_S, TICK_S, LiveArea
from agent_md.cli.views.event_lines import head_of
from agent_md.cli.views.progress_rows import StreamingText, Working
from agent_md.errors import StoreError
from agent_md.executions.execution import Event, Execution
from agent_md.executions.states import CallState, EventType, Status
from agent_md.ports.clock import Clock
from agent_md.ports.store import Store
from agent_md.visible_text import one_line

__all__ = ["Progress"]


class _Stage(Enum):
    PAUSED = auto()
    DRIVING = auto()
    FOLLOWING = auto()


class Progress:
    """The progress of one execution. Each method returns at once; only `run` shows anything."""

    def __init__(
        self,
        live: LiveArea,
        store: Store,
        execution: Execution,
        *,
        clock: Clock = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._live = live
        self._store = store
        self._id = execution.id
        self._agent = one_line(execution.agent)
        self._clock = clock
        self._monotonic = monotonic
        self._stage = _Stage.PAUSED
        self._turn: int | None = None
        self._open: dict[str, str] = {}
        self._streaming: StreamingText | None = None
        self._retrying = ""
        self._working = Working(self._agent)
        self._since = 0.0

    async def run(self) -> None:
        """Shows what goes on until it is cancelled; returns at once where nothing can be shown."""
        if not self._live.enabled:
            return
        while True:
            await asyncio.sleep(TICK_S)
            with suppress(StoreError):  # whoever drives meets it too, and says so
                self.tick()

    def tick(self) -> None:
        """Shows how it stands at this moment."""
        if self._stage is _Stage.PAUSED:
            return
        label, now = self._doing(), self._monotonic()
        if label != self._working.label:
            self._working.label, self._since = label, now
        self._working.passed = now - self._since
        if self._streaming is not None:
            self._live.show(self._streaming, self._working)
        elif self._working.passed >= QUIET_S:
            self._live.show(self._working)

    def driving(self) -> None:
        """This process drives the execution from now on."""
        self._enter(_Stage.DRIVING)

    def following(self) -> None:
        """Another process drives it, or is to."""
        self._enter(_Stage.FOLLOWING)

    def pause(self) -> None:
        """Nothing is shown from now on, because somebody is asked or it ended."""
        self._enter(_Stage.PAUSED)
        self._live.withdraw()

    def saw(self, events: Sequence[Event]) -> None:
        """These events are stored, and printed if they are to be."""
        for event in events:
            self._note(event)

    def delta(self, text: str) -> None:
        """A piece of the message that the model is writing."""
        if self._live.enabled and (text.strip() or self._streaming is not None):
            if self._streaming is None:
                self._streaming = StreamingText(head_of(self._clock(), self._agent, "💬"))
            self._streaming.add(text)

    def restart(self, attempt: int, attempts: int) -> None:
        """The pieces so far are void; the model is asked again, as `attempt` of `attempts`."""
        self._streaming = None
        self._retrying = f"retrying {attempt}/{attempts}"

    def _note(self, event: Event) -> None:
        match event.type:
            case EventType.AI:
                self._turn = int(event.key.removeprefix("ai:"))
                self._retrying = ""
            case EventType.TOOL_CALL:
                self._open[event.data["position"]] = event.data["tool_name"]
            case EventType.TOOL_RESULT:
                self._open.pop(event.data["position"], None)
        if event.type in (EventType.TOOL_CALL, EventType.FINAL_ANSWER, EventType.COMPLETE):
            self._streaming = None  # the message is printed, whole

    def _enter(self, stage: _Stage) -> None:
        if stage is not self._stage:
            self._stage, self._working.label, self._streaming = stage, "", None

    def _doing(self) -> str:
        if self._stage is _Stage.FOLLOWING and self._store.execution(self._id).status is Status.QUEUED:
            return "waiting for the server"
        if self._streaming is not None:
            return "writing"
        if not self._open:
            return self._retrying or "thinking"
        started = [
            one_line(call.tool)
            for call in self._store.calls(self._id, turn=self._turn)
            if call.state is CallState.STARTED
        ]
        return ", ".join(started) or self._called() or "working"

    def _called(self) -> str:
        """The agents that work for it."""
        _, *below = self._store.family(self._id)
        return ", ".join(one_line(each.agent) for each in below if each.status is Status.RUNNING and not each.parked)
