"""One SQLite file: opening it safely, its schema, its transactions, its errors in words."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import resources
from pathlib import Path
from typing import Any

from agent_md.errors import StoreError, StoreForeign, StoreFull, StoreNewer, StoreReadOnly

__all__ = ["APPLICATION_ID", "Database"]

APPLICATION_ID = 0x61676D64
"""Marks the file as agentmd's: "agmd" in ASCII."""

_BUSY_TIMEOUT_S = 30
_RETRY_S = 0.01
_FULL = ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_FSYNC", "SQLITE_IOERR_TRUNCATE", "SQLITE_IOERR_SHMSIZE")
_READ_ONLY = ("SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM")


class Database:
    """A connection in autocommit mode, shared by the threads of this process under one lock.

    Every write is a short `BEGIN IMMEDIATE` transaction: a deferred one that reads first fails at once when another
    process writes, whatever the timeout.
    """

    def __init__(self, path: Path | None, *, frozen: bool = False) -> None:
        """Opens the file, making it and its schema if need be; None = in memory, empty. `frozen` = read only, without
        the side files of SQLite, for a folder that cannot be written.

        Raises StoreForeign or StoreNewer, the file untouched, for a file that is not ours or from a newer program;
        StoreReadOnly, StoreFull or StoreError when it cannot be opened.
        """
        self.path = path
        self._lock = threading.RLock()
        self._watcher: sqlite3.Connection | None = None
        self._frozen = frozen
        with self._in_words():
            if path is not None and not path.exists():
                _make(path)
            self._connection = self._connect()
            try:
                self._prepare()
            except BaseException:
                self._connection.close()
                raise

    def _connect(self) -> sqlite3.Connection:
        place = "file::memory:" if self.path is None else self.path.absolute().as_uri()
        return sqlite3.connect(
            place + ("?immutable=1" if self._frozen else ""),
            uri=True,
            timeout=_BUSY_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
        )

    def _prepare(self) -> None:
        known = _migrations()
        self._refuse_foreign(newest=len(known))
        connection = self._connection
        if self._frozen:
            return
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0:
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # only works before the first table
        self._use_wal()
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("PRAGMA foreign_keys=ON")
        if self._schema_version() < len(known):
            with self.write():
                for number, script in enumerate(known[self._schema_version() :], self._schema_version() + 1):
                    for statement in script.split(";\n"):
                        connection.execute(statement)
                    connection.execute(f"PRAGMA user_version={number}")
                connection.execute(f"PRAGMA application_id={APPLICATION_ID}")

    def _use_wal(self) -> None:
        """Switches to WAL; when several processes do so at once, SQLite refuses instead of waiting."""
        deadline = time.monotonic() + _BUSY_TIMEOUT_S
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode=WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorname != "SQLITE_BUSY" or time.monotonic() > deadline:
                    raise
                time.sleep(_RETRY_S)

    def _schema_version(self) -> int:
        return int(self._connection.execute("PRAGMA user_version").fetchone()[0])

    def _refuse_foreign(self, newest: int) -> None:
        try:
            self._connection.execute("BEGIN")  # one snapshot: another process may be making the schema right now
            (owner,) = self._connection.execute("PRAGMA application_id").fetchone()
            (tables,) = self._connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
            version = self._schema_version()
            self._connection.execute("COMMIT")
        except sqlite3.DatabaseError as error:
            if error.sqlite_errorname != "SQLITE_NOTADB":
                raise
            raise StoreForeign(
                f"{self.path} is not a SQLite database; it was left untouched. "
                "Move it away, or set `database` in config.yaml to another file"
            ) from None
        if owner != APPLICATION_ID and (tables or owner):
            raise StoreForeign(
                f"{self.path} is a database of another program; it was left untouched. "
                "Set `database` in config.yaml to another file"
            )
        if version > newest:
            raise StoreNewer(
                f"{self.path} was written by a newer agentmd (format {version}, this one knows {newest}); "
                "it was left untouched. Upgrade agentmd"
            )

    @contextmanager
    def write(self) -> Iterator[None]:
        """A write transaction: all of the block is stored, or, when it raises, nothing."""
        with self._lock, self._in_words():
            self._connection.execute("BEGIN IMMEDIATE")
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

    def _execute(self, sql: str, parameters: Sequence[Any]) -> sqlite3.Cursor:
        try:
            return self._connection.execute(sql, parameters)
        except UnicodeEncodeError:  # a lone surrogate: kept as its escape, which is also what JSON makes of it
            return self._connection.execute(sql, [_encodable(value) for value in parameters])

    def version(self) -> int:
        """Changes with every commit of any other connection; read on a connection that never writes."""
        with self._lock, self._in_words():
            if self._watcher is None:
                self._watcher = self._connect()
            return int(self._watcher.execute("PRAGMA data_version").fetchone()[0])

    def close(self) -> None:
        with self._lock:
            self._connection.close()
            if self._watcher is not None:
                self._watcher.close()

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise _in_words(error, self.path) from error
        except OSError as error:
            raise StoreReadOnly(f"{self.path} cannot be made: {error.strerror}; nothing was stored") from error


def _in_words(error: sqlite3.Error, path: Path | None) -> StoreError:
    name = getattr(error, "sqlite_errorname", None) or ""
    if name.startswith(_FULL):
        return StoreFull(
            f"{path} cannot be written ({error}): the disk is full or a size limit was reached. "
            "What was not stored is not done; make room and try again"
        )
    if name.startswith(_READ_ONLY):
        return StoreReadOnly(f"{path} cannot be written ({error}); check who owns the state folder and its mode")
    if name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
        return StoreError(f"{path} is damaged ({error}); restore it from a copy")
    return StoreError(f"{path} cannot be used ({error})")


def _encodable(value: Any) -> Any:
    return value.encode("utf-8", "backslashreplace").decode() if isinstance(value, str) else value


def _make(path: Path) -> None:
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:  # another process was faster; its file must not be opened and closed outside of SQLite
        return


def _migrations() -> list[str]:
    folder = resources.files("agent_md.stores.sqlite") / "migrations"
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
    return [f.read_text(encoding="utf-8").strip().removesuffix(";") for f in files]
