"""The loop of hot reload: checks each kind of files when they change."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from agent_md.system import SYSTEM
from agent_md.triggers.waking import FolderEvents

__all__ = ["Announce", "Announcement", "ChangeReport", "EventSource", "ReloadLoop", "Reloadable", "folders_below"]

log = logging.getLogger(__name__)

Announcement = tuple[str, dict[str, Any]]
"""Name and data of an event that is sent to clients and not stored."""
Announce = Callable[[str, dict[str, Any]], object]
EventSource = Callable[[frozenset[Path], Callable[[], object], Callable[[Exception], object]], FolderEvents]

_LOOK_S = 1.0
"""Seconds between checks without notifications: for files behind links, and for systems that send none."""
_UNSETTLED_S = 0.1
_SHORTEST_S = 0.02
_ATTACH_AGAIN_S = 60.0
_MOST_FOLDERS = 1000


@dataclass(frozen=True, slots=True)
class ChangeReport:
    """What a look found. `unsettled`: a change is under way, and the next look should come soon."""

    announcements: Sequence[Announcement] = ()
    unsettled: bool = False


class Reloadable(Protocol):
    """One kind of files that a running server follows. Its methods are called in a thread, one at a time."""

    def folders(self) -> Iterable[Path]:
        """The folders in which changes show, each without those below it. They need not exist."""

    def look(self, *, at_once: bool) -> ChangeReport:
        """Reads what has changed since the last look. With `at_once` a change counts even if it may be half saved."""


class ReloadLoop:
    """Looks at all kinds of files when something happens in their folders, and once a second."""

    def __init__(self, kinds: Sequence[Reloadable], announce: Announce, events: EventSource = FolderEvents) -> None:
        """`announce` is called on the event loop."""
        self._kinds = kinds
        self._announce = announce
        self._events = events
        self._lock = asyncio.Lock()
        self._woken = asyncio.Event()
        self._attached: frozenset[tuple[Path, int]] = frozenset()
        self._listening: FolderEvents | None = None
        self._retry_at = 0.0
        self._failing: list[Reloadable] = []

    async def run(self) -> None:
        """Follows the files until cancelled."""
        try:
            while True:
                self._woken.clear()
                unsettled = await self.look()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._woken.wait(), _UNSETTLED_S if unsettled else _LOOK_S)
                await asyncio.sleep(_SHORTEST_S)
        finally:
            self._detach()

    async def look(self, *, at_once: bool = False) -> bool:
        """Reads what has changed and announces it; gives whether a change is under way."""
        async with self._lock:
            found = [await asyncio.to_thread(self._look_at, kind, at_once) for kind in self._kinds]
            for name, data in (announcement for news in found for announcement in news.announcements):
                self._announce(name, data)
            self._attach(await asyncio.to_thread(self._existing_folders))
        return any(news.unsettled for news in found)

    def _look_at(self, kind: Reloadable, at_once: bool) -> ChangeReport:
        try:
            news = kind.look(at_once=at_once)
        except Exception:  # a mistake of ours with one kind of files costs the others nothing
            if kind not in self._failing:
                log.exception("%s: the files could not be looked at; trying again", type(kind).__name__)
                self._failing.append(kind)
            return ChangeReport()
        if kind in self._failing:
            self._failing.remove(kind)
        return news

    def _existing_folders(self) -> frozenset[tuple[Path, int]]:
        found = set()
        for folder in {folder for kind in self._kinds for folder in kind.folders()}:
            with suppress(OSError):
                found.add((folder, folder.stat().st_ino))  # a folder that was made anew is attached anew
        return frozenset(found)

    def _attach(self, folders: frozenset[tuple[Path, int]]) -> None:
        loop = asyncio.get_running_loop()
        if folders == self._attached and (self._listening is not None or loop.time() < self._retry_at):
            return
        self._detach()
        self._attached = folders

        def failed(error: Exception) -> None:
            with suppress(RuntimeError):  # the server ends
                loop.call_soon_threadsafe(self._failed, error)

        def woken() -> None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._woken.set)

        self._retry_at = loop.time() + _ATTACH_AGAIN_S
        self._listening = self._events(frozenset(folder for folder, _ in folders), woken, failed)

    def _failed(self, error: Exception) -> None:
        self._detach()
        log.warning(
            "the system does not tell of changes to agent files and the configuration (%s), so they are looked at every "
            "%g s%s",
            *(error, _LOOK_S, f"; {SYSTEM.out_of_watches}" if SYSTEM.out_of_watches else ""),
        )

    def _detach(self) -> None:
        if self._listening is not None:
            self._listening.close()
            self._listening = None


def folders_below(folder: Path, *, skip: Callable[[str], bool]) -> Iterator[Path]:
    """The folder and those below it, without those whose name is to be skipped; the first thousand."""
    left = _MOST_FOLDERS
    for current, names, _ in os.walk(folder):
        names[:] = sorted(name for name in names if not skip(name))
        yield Path(current)
        left -= 1
        if left == 0:
            return
