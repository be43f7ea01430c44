"""Whether the state folder of a workspace was made by its user, and not by whoever made the workspace.

What is queued in a store is run by the next process that finds it, so a store that came with a copied or cloned folder
must not count. A folder of this user carries a mark that only they can make: it is keyed, and bound to the folder as it
lies on this disk. What git tracks may be replaced by whoever the user pulls from, and counts never.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import suppress
from enum import Enum
from pathlib import Path

from agent_md.errors import StoreError, TrustUnusable
from agent_md.settings import Settings
from agent_md.stores.private_files import read_private, write_private
from agent_md.stores.sqlite.file import frozen_mode
from agent_md.stores.sqlite.migrate import refuse_unknown
from agent_md.trust.git_index import tracks_below
from agent_md.trust.record import TrustRecord

__all__ = ["FIRST_MARKED_FORMAT", "StateFolder", "StateMark"]

FIRST_MARKED_FORMAT = 7
"""Stores of an older format come from versions that made no marks."""

_NAME = "mark"
_MADE_BEFORE_THE_MARK = frozenset({"agentmd.log", "agentmd.log.1", "tools.log", "server.err", "workspace"})
"""Of these alone nothing is run or believed."""
_NEWEST = 10**6
_AS_IT_LIES = "immutable=1"
"""Without what a crash has left in its WAL."""


class StateFolder(Enum):
    """What a state folder is to this user."""

    NONE = "none"
    """There is nothing in it that would be believed."""
    OURS = "ours"
    UNMARKED = "unmarked"
    EARLIER = "earlier"
    """Unmarked, of a version that made no marks."""
    TRACKED = "tracked"
    """Git tracks files of it."""
    LINKED = "linked"
    """It, or its database, is a link out of a place where a folder belongs, or is no folder."""


class StateMark:
    """The mark of one workspace's state folder."""

    def __init__(self, settings: Settings, record: TrustRecord) -> None:
        self._workspace = settings.workspace
        self._folder = settings.state_dir
        self._database = settings.database
        self._record = record

    def look(self) -> StateFolder:
        """What the folder is now; nothing is changed. Raises TrustUnusable."""
        if self._is_linked():
            return StateFolder.LINKED
        if not (self._has_database() or self._believed()):
            return StateFolder.NONE
        if any(tracks_below(self._workspace, path) for path in (self._folder, self._database) if self._is_inside(path)):
            return StateFolder.TRACKED
        if self._is_marked():
            return StateFolder.OURS
        return StateFolder.EARLIER if self._is_of_earlier_version() else StateFolder.UNMARKED

    def put(self) -> None:
        """Marks the folder, for the database that is configured now. Raises OSError, TrustUnusable."""
        write_private(self._folder / _NAME, self._signature(self._record.made_key()) + "\n")

    def put_if_possible(self) -> None:
        """The same where the user's own folder can be written."""
        with suppress(OSError, TrustUnusable):
            self.put()

    def _is_marked(self) -> bool:
        try:
            written = read_private(self._folder / _NAME).strip()
        except (OSError, ValueError):
            return False
        key = self._record.key()
        return key is not None and hmac.compare_digest(written, self._signature(key))

    def _signature(self, key: bytes) -> str:
        """Of the folder as it lies on the disk, where its database is, and, outside of the workspace, whose it is."""
        inode = str(self._folder.stat().st_ino)
        database = os.path.relpath(self._database, self._folder)
        outside = "" if self._is_inside(self._folder) else os.path.realpath(self._workspace)
        text = "\n".join(("agentmd state folder", inode, database, outside))
        return hmac.new(key, text.encode("utf-8", "surrogateescape"), hashlib.sha256).hexdigest()

    def _is_linked(self) -> bool:
        """Whether a part of the path below the workspace is a link, or there is something else than a folder."""
        for path in self._parts():
            with suppress(OSError):
                mode = path.lstat().st_mode
                wanted = stat.S_ISREG if path == self._database else stat.S_ISDIR
                if not wanted(mode):
                    return True
        return False

    def _parts(self) -> Iterator[Path]:
        if self._is_inside(self._folder):
            yield from (path for path in (self._folder, *self._folder.parents) if path.is_relative_to(self._workspace))
        if self._database.is_relative_to(self._folder):
            yield self._database

    def _is_inside(self, path: Path) -> bool:
        return path.is_relative_to(self._workspace)

    def _believed(self) -> set[str]:
        """The files besides the database that a process would go by."""
        with suppress(OSError):
            names = {name for name in os.listdir(self._folder) if not name.startswith(".")}
            return names - _MADE_BEFORE_THE_MARK - {self._database.name}
        return set()

    def _is_bound(self) -> bool:
        """Whether a folder outside of the workspace says that it is this one's."""
        with suppress(OSError, ValueError):
            return read_private(self._folder / "workspace") == os.path.realpath(self._workspace)
        return False

    def _has_database(self) -> bool:
        with suppress(OSError):
            return self._database.lstat().st_size > 0
        return False

    def _is_of_earlier_version(self) -> bool:
        if not (self._is_inside(self._folder) or self._is_bound()):
            return False
        for mode in (frozen_mode(self._database), _AS_IT_LIES):
            with suppress(sqlite3.Error, StoreError, OSError):
                return 0 < refuse_unknown(self._database, _NEWEST, mode=mode) < FIRST_MARKED_FORMAT
        return False
