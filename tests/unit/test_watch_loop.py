"""The loop of the watches: who is woken by what, and what is done where the system tells nothing."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_md.agents.spec import AgentSpec, ModelRef, Trigger
from agent_md.tools.forbidden import Forbidden
from agent_md.tools.path_sandbox import Sandbox
from agent_md.triggers.waking import FolderEvents
from agent_md.triggers.watch_loop import WatchLoop
from agent_md.triggers.watches import AgentWatch, WatchLook
from tests.support.clock import ManualClock
from tests.support.memory_store import MemoryStore
from tests.support.scenes import W1
from tests.support.waiting import eventually
from tests.support.workers import FakeWorkers


class Cursed(AgentWatch):
    """A watch with a mistake in it."""

    def look(self) -> WatchLook:
        raise ZeroDivisionError


class Desk:
    """A loop on a folder, with agents that the test may change."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "in").mkdir()
        self.store = MemoryStore(workers=FakeWorkers(W1), clock=ManualClock())
        self.specs: list[AgentSpec] = []
        self.broken: set[str] = set()
        self.loop = WatchLoop(lambda: self.specs, self.watch, lambda: None, self.events)

    def agent(self, name: str, debounce: float = 0.0) -> None:
        trigger = Trigger("watch", paths=(f"{name}/*",), debounce=debounce)
        self.specs.append(AgentSpec(name, "Work.", ModelRef("script", "x"), trigger=trigger))

    def watch(self, spec: AgentSpec) -> AgentWatch:
        if spec.name == "cursed":
            return Cursed(spec, Sandbox(self.folder, (), Forbidden(self.folder / "agents")), self.store.firings)
        return AgentWatch(spec, Sandbox(self.folder, (), Forbidden(self.folder / "agents")), self.store.firings)

    def events(
        self, folders: frozenset[Path], woken: Callable[[], object], failed: Callable[[Exception], object]
    ) -> FolderEvents:
        """As the system does; where it has no watches left for a folder, it fails."""
        if any(folder.name in self.broken for folder in folders):
            failed(OSError(errno.ENOSPC, "OS file watch limit reached"))
            folders = frozenset()
        return FolderEvents(folders or frozenset([self.folder]), woken, failed)

    def told(self) -> list[str]:
        return sorted(line for f in self.store.firings.listed() for line in (f.message or "").split("\n")[1:])


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


async def test_each_agent_is_told_of_its_own_folder_as_soon_as_something_happens(desk: Desk) -> None:
    desk.agent("in")
    desk.agent("later")
    await desk.loop.begin()
    running = asyncio.create_task(desk.loop.run())
    await eventually(lambda: desk.loop.active)
    (desk.folder / "in/a").write_text("a")
    (desk.folder / "later").mkdir()
    (desk.folder / "later/b").write_text("b")
    await eventually(lambda: desk.told() == ["created in/a", "created later/b"])
    (desk.folder / "later/c").write_text("c")
    desk.store.firings.skip(desk.store.firings.listed()[0].id, "done")
    desk.store.firings.skip(desk.store.firings.listed()[1].id, "done")
    await eventually(lambda: desk.told() == ["created in/a", "created later/b", "created later/c"])
    assert desk.loop.problems == {}
    desk.specs.clear()
    await eventually(lambda: not desk.loop.active)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_where_the_watches_of_the_system_are_used_up_one_agent_is_slower_and_says_so(desk: Desk) -> None:
    (desk.folder / "full").mkdir()
    desk.broken.add("full")
    desk.agent("in")
    desk.agent("full")
    await desk.loop.begin()
    running = asyncio.create_task(desk.loop.run())
    await eventually(lambda: desk.loop.problems)
    assert list(desk.loop.problems) == ["full"]
    assert "raise fs.inotify.max_user_watches" in desk.loop.problems["full"]
    (desk.folder / "in/a").write_text("a")
    (desk.folder / "full/b").write_text("b")
    await eventually(lambda: desk.told() == ["created full/b", "created in/a"])
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_what_fails_for_one_agent_costs_no_other_its_watch(desk: Desk) -> None:
    desk.agent("cursed")
    desk.agent("in")
    await desk.loop.begin()
    running = asyncio.create_task(desk.loop.run())
    await eventually(lambda: desk.loop.problems)
    assert desk.loop.problems == {"cursed": "its files could not be looked at (ZeroDivisionError); see the log"}
    (desk.folder / "in/a").write_text("a")
    await eventually(lambda: desk.told() == ["created in/a"])
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
