"""The loop of watches in a server: checks files after notifications and at intervals."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from agent_md.agents.names import name_key
from agent_md.agents.spec import AgentSpec
from agent_md.errors import AgentmdError
from agent_md.system import SYSTEM
from agent_md.triggers.waking import FolderEvents
from agent_md.triggers.watches import AgentWatch, WatchLook

__all__ = ["EventSource", "WatchLoop"]

log = logging.getLogger(__name__)

EventSource = Callable[[frozenset[Path], Callable[[], object], Callable[[Exception], object]], FolderEvents]
_AGENTS_S = 1.0
_MISSING_S = 1.0
_WITHOUT_EVENTS_S = 2.0
_ANYWAY_S = 60.0
_SHORTEST_S = 0.02
_LOOKS_AT_ONCE = 4


class WatchLoop:
    """Follows all agents with a watch, those that are disabled too: what changes in their files is told as skipped."""

    def __init__(
        self,
        specs: Callable[[], Sequence[AgentSpec]],
        watch: Callable[[AgentSpec], AgentWatch],
        made: Callable[[], object],
        events: EventSource = FolderEvents,
    ) -> None:
        """`specs` are the agents as they are now; `watch` makes the watch of one; `made` is called when there are new firings."""
        self._specs = specs
        self._watch = watch
        self._made = made
        self._events = events
        self._tasks: dict[str, tuple[AgentSpec, asyncio.Task[None]]] = {}
        self.problems: dict[str, str] = {}
        """By agent: what keeps changes from being seen, or from being seen at once."""

    @property
    def active(self) -> bool:
        """Whether any watch runs."""
        return bool(self._tasks)

    async def begin(self) -> None:
        """Starts the watches, at the start of a server: changes from then on are reported."""
        for spec in await asyncio.to_thread(self._watched):
            try:
                await asyncio.to_thread(self._watch(spec).begin)
            except (AgentmdError, OSError) as error:
                log.warning("the files of %s could not be looked at: %s; trying again", spec.name, error)

    def _watched(self) -> list[AgentSpec]:
        return [spec for spec in self._specs() if spec.trigger.type == "watch"]

    async def run(self) -> None:
        """Follows the agents as their files change, until cancelled."""
        with ThreadPoolExecutor(_LOOKS_AT_ONCE, thread_name_prefix="agentmd-look") as threads:
            try:
                while True:
                    await self._reconcile(threads)
                    await asyncio.sleep(_AGENTS_S)
            finally:
                await self._end(list(self._tasks))

    async def _reconcile(self, threads: ThreadPoolExecutor) -> None:
        wanted = {name_key(spec.name): spec for spec in await asyncio.to_thread(self._watched)}
        await self._end([key for key, (spec, _) in self._tasks.items() if _differs(spec, wanted.get(key))])
        for key, spec in wanted.items():
            if key not in self._tasks:
                follower = _Follower(self, self._watch(spec), spec.name, threads)
                self._tasks[key] = (spec, asyncio.create_task(follower.run()))

    async def _end(self, keys: Sequence[str]) -> None:
        ended = [self._tasks.pop(key) for key in keys]
        for spec, task in ended:
            task.cancel()
            self.problems.pop(spec.name, None)
        await asyncio.gather(*(task for _, task in ended), return_exceptions=True)


class _Follower:
    """Looks at the files of one agent, and keeps its folders attached."""

    def __init__(self, owner: WatchLoop, watch: AgentWatch, name: str, threads: ThreadPoolExecutor) -> None:
        self._owner = owner
        self._watch = watch
        self._name = name
        self._threads = threads
        self._loop = asyncio.get_running_loop()
        self._woken = asyncio.Event()
        self._events: FolderEvents | None = None
        self._attached: frozenset[tuple[Path, int]] = frozenset()
        self._attached_at = 0.0
        self._failure: str | None = None

    async def run(self) -> None:
        try:
            while True:
                self._woken.clear()
                pause, waits = await self._look()
                if waits:  # whatever happens meanwhile, nothing is complete before
                    await asyncio.sleep(pause)
                    continue
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._woken.wait(), pause)
                await asyncio.sleep(_SHORTEST_S)
        finally:
            self._detach()

    async def _look(self) -> tuple[float, bool]:
        """The time until the next look, and whether it is not to be earlier."""
        try:
            looked = await self._loop.run_in_executor(self._threads, self._watch.look)
        except (AgentmdError, OSError) as error:
            log.warning("the files of %s could not be looked at: %s; trying again", self._name, error)
            return _AGENTS_S, True
        except Exception as error:  # a mistake of ours with one agent's files costs no other agent its watch
            log.exception("the files of %s could not be looked at; trying again", self._name)
            self._tell(f"its files could not be looked at ({type(error).__name__}); see the log")
            return _ANYWAY_S, True
        if looked.made:
            self._owner._made()
        self._attach(looked)
        self._tell(looked.problem or self._failure)
        if looked.pause is not None:
            return max(_SHORTEST_S, looked.pause), True
        if looked.missing:
            return _MISSING_S, False
        return _ANYWAY_S if self._failure is None else _WITHOUT_EVENTS_S, False

    def _attach(self, looked: WatchLook) -> None:
        again = self._failure is not None and self._loop.time() > self._attached_at + _ANYWAY_S
        if looked.folders == self._attached and not again:
            return
        self._detach()
        self._attached, self._attached_at = looked.folders, self._loop.time()
        if looked.folders:
            self._failure = None
            folders = frozenset(folder for folder, _ in looked.folders)
            self._events = self._owner._events(folders, self._wake, self._fail)

    def _detach(self) -> None:
        if self._events is not None:
            self._events.close()
            self._events = None

    def _wake(self) -> None:
        with suppress(RuntimeError):  # the server ends
            self._loop.call_soon_threadsafe(self._woken.set)

    def _fail(self, error: Exception) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._failed, error)

    def _failed(self, error: Exception) -> None:
        self._detach()
        reason = " ".join(str(error).partition(" about [")[0].split())
        self._failure = (
            f"the system does not tell of changes to its files ({reason}), so they are looked at every "
            f"{_WITHOUT_EVENTS_S:g} s; {f'{SYSTEM.out_of_watches} or ' if SYSTEM.out_of_watches else ''}narrow trigger.paths"
        )
        self._woken.set()

    def _tell(self, problem: str | None) -> None:
        if problem is None:
            self._owner.problems.pop(self._name, None)
        elif self._owner.problems.get(self._name) != problem:
            self._owner.problems[self._name] = problem
            log.warning("the watch of %s: %s", self._name, problem)


def _differs(spec: AgentSpec, now: AgentSpec | None) -> bool:
    return now is None or (spec.name, spec.trigger, spec.paths) != (now.name, now.trigger, now.paths)
