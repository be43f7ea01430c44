"""A SQLite file that is only a cache, shared by processes: a damaged one is put aside and made anew, never deleted."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from pathlib import Path

from agent_md.errors import StoreError, StoreForeign, StoreReadOnly
from agent_md.resource_shortages import refuse_if_none_left
from agent_md.stores.sqlite.file import connect, error_name, make_file, peek

__all__ = ["CacheFile", "is_damage"]

_DAMAGE = ("SQLITE_CORRUPT", "SQLITE_NOTADB", "SQLITE_IOERR_SHORT_READ", "SQLITE_IOERR_READ", "SQLITE_IOERR_CORRUPTFS")
_NOT_THERE = ("no such table", "no such column", "has no column")
"""What SQLite says of a file that was emptied, or whose tables are of another make."""
_SIDE_FILES = ("-wal", "-shm", "-journal")
_MOST = 5
"""So many files are put aside by one process; if that does not help, the disk is at fault."""
_LOCK_S = 30.0
_RETRY_S = 0.02

_Identity = tuple[int, int]


def is_damage(error: sqlite3.Error) -> bool:
    """Whether the error is the file's fault: its content is not what SQLite wrote."""
    return error_name(error).startswith(_DAMAGE) or any(words in str(error) for words in _NOT_THERE)


class _Unusable(Exception):
    """There is something in the file's place that is no file which can be read and written."""


class CacheFile:
    """The file at `path`. `tables`: the tables that it may contain; `prepare` creates them, and sets up a new
    connection.

    A process may hold the file open while another one renames it. SQLite identifies files by inode, not by name: that
    process continues with the old file until `replaced` returns True, and cannot damage the new one. A shared lock of
    the folder for opening, and an exclusive one for renaming, prevent that a file is opened while it is renamed with
    the files beside it."""

    def __init__(
        self,
        path: Path,
        *,
        tables: Collection[str],
        prepare: Callable[[sqlite3.Connection], None],
        tell: Callable[[str], None],
    ) -> None:
        self._path = path
        self._tables = frozenset(tables)
        self._prepare = prepare
        self._tell = tell
        self._moved = 0
        self._identity: _Identity | None = None

    def connect(self) -> sqlite3.Connection:
        """A connection to the file, which is created if necessary. A damaged file is renamed first, and reported by the
        process that renames it.

        Raises StoreForeign for a valid database of another program, which is not changed; sqlite3.Error and StoreError
        for other failures, and if new files are damaged repeatedly."""
        while True:
            try:
                with self._folder_locked(fcntl.LOCK_SH):
                    return self._open()
            except _Unusable as error:
                self.put_aside(str(error))
            except sqlite3.Error as error:
                if not is_damage(error):
                    raise
                self.put_aside(str(error))

    def replaced(self) -> bool:
        """Whether the file in this place is another one now than that which was opened, or is gone."""
        return self._look() != self._identity

    def put_aside(self, why: str) -> None:
        """Moves the file that was opened last, and those beside it, to a free name; if it is still in its place."""
        with self._folder_locked(fcntl.LOCK_EX):
            if self.replaced() or self._identity is None:
                return
            if self._moved >= _MOST:
                raise StoreError(
                    f"{self._path} was damaged ({why}) although it was made anew {_MOST} times; check the disk"
                )
            aside = self._free_name()
            try:
                for suffix in (*_SIDE_FILES, ""):
                    if os.path.lexists(f"{self._path}{suffix}"):
                        os.rename(f"{self._path}{suffix}", f"{aside}{suffix}")
            except OSError as error:
                raise StoreError(
                    f"{self._path} cannot be used ({why}), and cannot be put aside ({error.strerror}); check who owns "
                    "the state folder and its mode, or move it away: executions go on without it"
                ) from error
            self._moved += 1
        self._tell(
            f"{self._path} could not be used ({why}): it was put aside as {aside.name} and is made anew. "
            "Nothing is lost; the executions go on from what is stored"
        )

    def _free_name(self) -> Path:
        number = 1
        while os.path.lexists(aside := self._path.with_name(f"{self._path.name}.damaged-{number}")):
            number += 1
        return aside

    def _look(self) -> _Identity | None:
        try:
            found = os.stat(self._path)
        except FileNotFoundError:
            try:
                found = os.lstat(self._path)  # a link to nowhere
            except FileNotFoundError:
                return None
        return found.st_dev, found.st_ino

    def _open(self) -> sqlite3.Connection:
        self._identity = self._look()
        if self._identity is not None and not self._is_usable():
            raise _Unusable("it is no file that can be read and written")
        make_file(self._path)
        self._identity = self._look()
        self._refuse_foreign()
        connection = connect(self._path)
        try:
            self._prepare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _is_usable(self) -> bool:
        if self._path.is_file() and os.access(self._path, os.R_OK | os.W_OK):
            return True
        return not os.access(self._path.parent, os.W_OK)  # it cannot be moved: let it be opened, and the error be told

    def _refuse_foreign(self) -> None:
        rows = peek(self._path, lambda connection: connection.execute("SELECT name FROM sqlite_master").fetchall())
        if not {name for (name,) in rows if not name.startswith("sqlite_")} <= self._tables:
            raise StoreForeign(
                f"{self._path} is a database of another program; it was left untouched. "
                "Move it away: executions go on without it"
            )

    @contextmanager
    def _folder_locked(self, kind: int) -> Iterator[None]:
        try:
            descriptor = os.open(self._path.parent, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            refuse_if_none_left(error, f"{self._path} cannot be opened")
            raise StoreReadOnly(
                f"{self._path} cannot be opened: {error.strerror}; check who owns the state folder and its mode"
            ) from error
        deadline = time.monotonic() + _LOCK_S
        try:
            while not _locked(descriptor, kind):
                if time.monotonic() > deadline:
                    raise StoreError(
                        f"{self._path} cannot be opened: for {_LOCK_S:g} s another process has been opening it; "
                        "see whether one of agentmd's processes is stopped, and let it go on or end it"
                    )
                time.sleep(_RETRY_S)
            yield
        finally:
            os.close(descriptor)


def _locked(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
