"""One SQLite database: its schema, its transactions, its errors in words."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from inspect import signature
from pathlib import Path
from typing import Any

from agent_md.errors import StoreReadOnly
from agent_md.stores.sqlite.file import WRITABLE, begin, connect, frozen_mode, make_file, use_wal, words_of
from agent_md.stores.sqlite.migrate import migrate, migrations, refuse_unknown

__all__ = ["Database"]


class Database:
    """A connection in autocommit mode, shared by the threads of this process under one lock.

    Every write is a short `BEGIN IMMEDIATE` transaction: a deferred one that reads first fails at once when another
    process writes, whatever the timeout.
    """

    def __init__(self, path: Path | None, *, frozen: bool = False, scripts: Sequence[str] | None = None) -> None:
        """Opens the file, making it and its schema if need be; None = in memory, empty. `frozen` = read only, also
        where no side file of SQLite can be made or written. `scripts` = other migrations than the package's.

        Raises StoreForeign or StoreNewer, the file untouched, for a file that is not ours or from a newer program;
        StoreReadOnly, StoreFull or StoreError when it cannot be opened.
        """
        self.path = path
        self._lock = threading.RLock()
        self._watcher: sqlite3.Connection | None = None
        self._scripts = migrations() if scripts is None else scripts
        with self._in_words():
            self._place, self._mode = self._look(path, frozen=frozen)
            self._connection = connect(self._place, self._mode)
            try:
                if self._mode == WRITABLE:
                    self._prepare()
            except BaseException:
                self._connection.close()
                raise

    def _look(self, path: Path | None, *, frozen: bool) -> tuple[Path | None, str]:
        """What to open, and how: a frozen file that has nothing in it yet is as good as an empty one in memory."""
        if path is None:
            return None, WRITABLE
        newest = len(self._scripts)
        if not frozen:
            make_file(path)
            refuse_unknown(path, newest, mode="mode=ro")
            return path, WRITABLE
        mode = frozen_mode(path)
        version = refuse_unknown(path, newest, mode=mode)
        if version == 0:
            return None, WRITABLE
        if version < newest:
            raise StoreReadOnly(
                f"{path} has an older format ({version}, this agentmd needs {newest}) and cannot be upgraded, since it "
                "cannot be written; make room, check who owns the state folder and its mode"
            )
        return path, mode

    def _prepare(self) -> None:
        connection = self._connection
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # only works before the first table
        use_wal(connection)
        connection.execute("PRAGMA synchronous=FULL")
        migrate(connection, self._scripts)
        connection.execute("PRAGMA foreign_keys=ON")

    @contextmanager
    def write(self, *, patient: bool = True) -> Iterator[None]:
        """A write transaction: all of the block is stored, or, when it raises, nothing. One that is not `patient` waits
        only a moment for others that write."""
        with self._lock, self._in_words():
            begin(self._connection, patient=patient)
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def run(self, sql: str, *parameters: Any) -> int:
        """Runs one statement and gives the number of rows it changed."""
        with self._lock, self._in_words():
            return self._execute(sql, parameters).rowcount

    def one(self, sql: str, *parameters: Any) -> Any:
        """The first row, or None."""
        with self._lock, self._in_words():
            return self._execute(sql, parameters).fetchone()

    def all(self, sql: str, *parameters: Any) -> list[Any]:
        with self._lock, self._in_words():
            return self._execute(sql, parameters).fetchall()

    def function(self, name: str, function: Callable[..., Any]) -> None:
        """Lets statements call a function of Python with as many arguments as it has. It must not raise."""
        count = len(signature(function).parameters)
        with self._lock, self._in_words():
            self._connection.create_function(name, count, function, deterministic=True)

    def _execute(self, sql: str, parameters: Sequence[Any]) -> sqlite3.Cursor:
        try:
            return self._connection.execute(sql, parameters)
        except UnicodeEncodeError:  # a lone surrogate: kept as its escape, which is also what JSON makes of it
            return self._connection.execute(sql, [_encodable(value) for value in parameters])

    def version(self) -> int:
        """Changes with every commit of any other connection; read on a connection that never writes."""
        with self._lock, self._in_words():
            if self._watcher is None:
                self._watcher = connect(self._place, self._mode)
            return int(self._watcher.execute("PRAGMA data_version").fetchone()[0])

    def close(self) -> None:
        with self._lock:
            self._connection.close()
            if self._watcher is not None:
                self._watcher.close()

    def _in_words(self) -> AbstractContextManager[None]:
        return words_of(self.path, if_damaged="restore it from a copy")


def _encodable(value: Any) -> Any:
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value
