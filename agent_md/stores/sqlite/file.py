"""One SQLite file of ours: made for its owner only, looked at without a change, opened with WAL, its errors in words."""

from __future__ import annotations

import errno
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from agent_md.errors import StoreBusy, StoreError, StoreForeign, StoreFull, StoreReadOnly
from agent_md.resource_shortages import none_left, open_files_limit, refuse_if_none_left
from agent_md.system import SYSTEM, named

__all__ = ["WRITABLE", "begin", "connect", "error_name", "frozen_mode", "make_file", "peek", "use_wal", "words_of"]

T = TypeVar("T")

WRITABLE = "mode=rw"
_IMMUTABLE = "immutable=1"
_BUSY_TIMEOUT_S = 30
_SHORT_TIMEOUT_MS = 100
_WRITE_LOCK_BYTE = 120
"""Of the file of shared memory; whoever writes has a record lock on it."""
_RETRY_S = 0.01
_WAL_PAGES = 128
_WAL_BYTES = 1024 * 1024
_FULL = (
    *("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_FSYNC", "SQLITE_IOERR_TRUNCATE"),
    *("SQLITE_IOERR_SHMOPEN", "SQLITE_IOERR_SHMSIZE"),
)
_READ_ONLY = ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def make_file(path: Path) -> None:
    """Makes an empty file for its owner only; one that is there is left alone, and never opened outside of SQLite.

    Raises StoreForeign for a folder in its place, StoreFull or StoreReadOnly if it cannot be made or written.
    """
    try:
        if path.is_dir():
            raise StoreForeign(f"{path} is a folder, not a database. Move it away, or set `database` in config.yaml")
        if path.exists() and not path.is_file():  # opening a pipe would wait for ever
            raise StoreForeign(f"{path} is not a file. Move it away, or set `database` in config.yaml")
        if not path.exists():
            with suppress(FileExistsError):  # another process was faster
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError as error:
        refuse_if_none_left(error, f"{path} cannot be made")
        kind = StoreFull if error.errno in _NO_ROOM else StoreReadOnly
        raise kind(
            f"{path} cannot be made: {error.strerror}; nothing was stored. "
            "Check the room on the disk, and who owns the state folder and its mode"
        ) from error
    if not os.access(path, os.W_OK):  # SQLite would open it, and leave side files that nobody can write either
        raise StoreReadOnly(f"{path} cannot be written; check who owns the state folder and its mode")


def connect(path: Path | None, mode: str = WRITABLE) -> sqlite3.Connection:
    """A connection in autocommit mode for any thread that holds its lock; None = a database in memory."""
    place = "file::memory:" if path is None else f"{path.absolute().as_uri()}?{mode}"
    return sqlite3.connect(place, uri=True, timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False)


def frozen_mode(path: Path) -> str:
    """How to read a file when neither it nor a file beside it can be written: with what a crash left in its WAL."""
    try:
        left = Path(f"{path}-wal").stat().st_size
    except OSError:
        left = 0
    return "mode=ro&readonly_shm=1" if left else _IMMUTABLE


def peek(path: Path, read: Callable[[sqlite3.Connection], T], mode: str = "mode=ro") -> T:
    """What `read` finds in the file, with no change to it: not even the recovery of what another program left behind."""
    try:
        with closing(connect(path, mode)) as connection:
            return read(connection)
    except sqlite3.OperationalError as error:
        if error_name(error) != "SQLITE_READONLY_ROLLBACK":
            raise
    with closing(connect(path, _IMMUTABLE)) as connection:
        return read(connection)


def use_wal(connection: sqlite3.Connection) -> None:
    """Switches to WAL, and keeps the WAL small; when several processes switch at once, SQLite refuses to wait."""
    deadline = time.monotonic() + _BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
            break
        except sqlite3.OperationalError as error:
            if not error_name(error).startswith("SQLITE_BUSY") or time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_S)
    for setting in ("fullfsync", "checkpoint_fullfsync"):  # of macOS: through the cache of the drive
        connection.execute(f"PRAGMA {setting}=ON")
    connection.execute(f"PRAGMA wal_autocheckpoint={_WAL_PAGES}")
    connection.execute(f"PRAGMA journal_size_limit={_WAL_BYTES}")  # what a long reader made of it goes again


def begin(connection: sqlite3.Connection, *, patient: bool = True) -> None:
    """Begins a write transaction, waiting for another process that writes. After one wait in vain the next ones are
    short, until it is free: nobody waits for the whole time again and again, a server least of all. One that is not
    `patient` never waits for long, and changes nothing about that."""
    (before,) = connection.execute("PRAGMA busy_timeout").fetchone()
    if not patient:
        connection.execute(f"PRAGMA busy_timeout={_SHORT_TIMEOUT_MS}")
    try:
        connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError as error:
        if error_name(error).startswith("SQLITE_BUSY"):
            connection.execute(f"PRAGMA busy_timeout={_SHORT_TIMEOUT_MS if patient else before}")
        raise
    connection.execute(f"PRAGMA busy_timeout={_BUSY_TIMEOUT_S * 1000}")


def error_name(error: sqlite3.Error) -> str:
    """SQLite's name of the error, extended code included; "" for an error of the Python module itself."""
    return getattr(error, "sqlite_errorname", None) or ""


@contextmanager
def words_of(path: Path | None, *, if_damaged: str) -> Iterator[None]:
    """Turns errors of SQLite on this file into StoreFull, StoreReadOnly or StoreError; `if_damaged` says what to do."""
    try:
        yield
    except sqlite3.Error as error:
        raise _in_words(error, path, if_damaged) from error


def _in_words(error: sqlite3.Error, path: Path | None, if_damaged: str) -> StoreError:
    name = error_name(error)
    if name.startswith(_FULL):
        return StoreFull(
            f"{path} cannot be written ({error}): the disk is full or a size limit was reached. "
            "What was not stored is not done; make room and try again"
        )
    if name.startswith("SQLITE_CANTOPEN") and none_left():
        return open_files_limit(f"{path} cannot be opened")
    if name.startswith(_READ_ONLY):
        what = "opened" if name.startswith("SQLITE_CANTOPEN") else "written"
        return StoreReadOnly(f"{path} cannot be {what} ({error}); check who owns the state folder and its mode")
    if name.startswith("SQLITE_BUSY") and path is not None:
        return StoreBusy(f"{path} {_who_holds(path)}")
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return StoreError(f"{path} is damaged ({error}); {if_damaged}")
    return StoreError(f"{path} cannot be used ({error})")


def _who_holds(path: Path) -> str:
    holders = SYSTEM.lock_holders(Path(f"{path}-shm"), byte=_WRITE_LOCK_BYTE)
    if not holders:
        return (
            "is being written by another process, which does not come to an end, and which cannot be seen from here; "
            "nothing was stored. `fuser` or `lsof` on the file may name it"
        )
    pids = " ".join(str(holder.pid) for holder in holders)
    way = f"let it go on with `kill -CONT {pids}`, or end it" if any(h.stopped for h in holders) else "end it"
    return (
        f"is being written by {named(holders)}, which does not come to an end; nothing was stored. "
        f"Wait for it, {way} with `kill {pids}` (`kill -9 {pids}` if that does not help), and try again"
    )
