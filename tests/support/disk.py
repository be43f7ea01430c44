"""Disks that are full and folders that cannot be written, for processes of tests; for any user, and without mounts.

A full disk is the kernel's limit on the size of files, set to nothing while SQLite works: what SQLite sees are its own
refused writes. It is in force only then, so that what a tool does and what the test reads is not disturbed by it.
"""

from __future__ import annotations

import ctypes
import os
import resource
import sqlite3
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["as_ordinary_user", "full_disk"]

_WRITES = ("BEGIN IMMEDIATE", "COMMIT", "INSERT", "UPDATE", "DELETE")
_CAPABILITIES_V3 = 0x20080522


def full_disk(since: int | str = 1, *, only: str = "") -> Callable[[], None]:
    """For `prepare`: no database file whose path ends in `only` can grow any more.

    `since` a number: from its n-th write statement on, and not even when it is opened if n is 1; a text: from the first
    statement on that begins with it.
    """

    def prepare() -> None:
        count, full = 0, since == 1

        @contextmanager
        def at(statement: str) -> Iterator[None]:
            nonlocal count, full
            count += statement.lstrip().startswith(_WRITES)
            full = full or count == since or (isinstance(since, str) and statement.startswith(since))
            if not full:
                yield
                return
            allowed = resource.getrlimit(resource.RLIMIT_FSIZE)
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, allowed[1]))
            try:
                yield
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, allowed)

        connect = sqlite3.connect

        def connect_there(database: Any, *args: Any, **options: Any) -> sqlite3.Connection:
            if str(database).partition("?")[0].endswith(only):
                options["factory"] = _connection(at)
            return connect(database, *args, **options)

        sqlite3.connect = connect_there  # type: ignore[assignment]

    return prepare


def _connection(at: Callable[[str], Any]) -> type[sqlite3.Connection]:
    class Cursor(sqlite3.Cursor):
        def execute(self, sql: str, parameters: Any = (), /) -> Any:
            with at(sql):
                return super().execute(sql, parameters)

        def executemany(self, sql: str, parameters: Iterable[Any], /) -> Any:
            with at(sql):
                return super().executemany(sql, parameters)

        def executescript(self, script: str, /) -> Any:
            with at(script):
                return super().executescript(script)

    class Connection(sqlite3.Connection):
        def cursor(self, factory: Any = Cursor) -> Any:
            return super().cursor(factory)

        def execute(self, sql: str, parameters: Any = (), /) -> Any:
            return self.cursor().execute(sql, parameters)

        def executescript(self, script: str, /) -> Any:
            return self.cursor().executescript(script)

        def close(self) -> None:
            with at(""):
                super().close()

    return Connection


def as_ordinary_user() -> None:
    """For `prepare`: from now on the modes of files bind this process, also if it is root's."""
    if os.geteuid() != 0 or sys.platform != "linux":
        return
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES_V3, 0)
    none = (ctypes.c_uint32 * 6)()
    if ctypes.CDLL(None, use_errno=True).capset(header, none) != 0:
        raise OSError(ctypes.get_errno(), "the capabilities of root could not be dropped")
