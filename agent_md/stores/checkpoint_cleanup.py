"""The file of LangGraph's checkpoints, for measuring and removing threads. Does not import LangGraph.

It may be cleared while others drive: every transaction is short, and between two of them others have their turn.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path

from agent_md.stores.checkpoint_repair import CacheFile
from agent_md.stores.sqlite.file import connect, frozen_mode, use_wal, words_of

__all__ = ["ThreadFile"]

_TABLES = ("checkpoints", "writes")
_STEP_S = 0.02
"""A transaction is ended as soon as it has taken so long."""
_CHECKPOINTS = 20
_WRITES = 200
_TRUNCATE_MS = 100


class ThreadFile:
    """The file at `path`, which need not exist. All methods raise StoreError, or a kind of it, when it cannot be used;
    a damaged file is put aside by those that write, which `tell` says."""

    def __init__(
        self, path: Path, *, tell: Callable[[str], None], rest: Callable[[float], bool | None] = time.sleep
    ) -> None:
        """`rest` is called with seconds between two transactions; when it gives True there will be no other."""
        self.stopped = False
        """Whether `rest` has given True."""
        self.path = path
        self._tell = tell
        self._rest = rest

    def size(self) -> int:
        """Bytes on the disk, with what is still in the file beside it."""
        total = 0
        for suffix in ("", "-wal"):
            with suppress(OSError):
                total += Path(f"{self.path}{suffix}").stat().st_size
        return total

    def sizes(self) -> dict[str, int]:
        """The threads that have something here, each with the bytes of it. Changes nothing."""
        if not self.path.exists():
            return {}
        with self._in_words():
            try:
                return self._measure("mode=ro")
            except sqlite3.OperationalError:
                return self._measure(frozen_mode(self.path))

    def _measure(self, mode: str) -> dict[str, int]:
        connection = connect(self.path, mode)
        try:
            if not _has_tables(connection):
                return {}
            rows = connection.execute(
                "SELECT thread_id, sum(bytes) FROM ("
                "SELECT thread_id, length(checkpoint) + length(metadata) AS bytes FROM checkpoints UNION ALL"
                " SELECT thread_id, length(value) FROM writes) GROUP BY thread_id ORDER BY thread_id"
            ).fetchall()
        finally:
            connection.close()
        return {thread: size or 0 for thread, size in rows}

    def threads(self) -> list[str]:
        """The names of the threads that have something here."""
        if not self.path.exists():
            return []
        with self._opened() as connection:
            if not _has_tables(connection):
                return []
            rows = connection.execute("SELECT thread_id FROM checkpoints UNION SELECT thread_id FROM writes").fetchall()
        return [thread for (thread,) in rows]

    def remove(self, threads: Collection[str]) -> None:
        """Removes these threads. Of each the newest goes first: one that is only half removed is as it was before."""
        if not threads or not self.path.exists():
            return
        with self._opened() as connection:
            left = list(threads)
            while left and not self.stopped:
                with self._step(connection) as in_time:
                    while left and in_time():
                        if not _remove_some(connection, left[-1]):
                            left.pop()

    def give_back(self) -> None:
        """Gives free room back to the disk. What others read at this moment may keep the last of it for a while."""
        if not self.path.exists():
            return
        with self._opened() as connection:
            while (free := _free_pages(connection)) and not self.stopped:
                with self._step(connection) as in_time:
                    for _ in range(free):
                        connection.execute("PRAGMA incremental_vacuum(1)")  # Python's sqlite3 does one page at a time
                        if not in_time():
                            break
                if _free_pages(connection) >= free:
                    break  # a file that was made without room to be given back
            connection.execute(f"PRAGMA busy_timeout={_TRUNCATE_MS}")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()

    @contextmanager
    def _step(self, connection: sqlite3.Connection) -> Iterator[Callable[[], bool]]:
        """One transaction, and a pause of the same length; gives whether there is time for more in it."""
        connection.execute("BEGIN IMMEDIATE")
        begun = time.monotonic()
        try:
            yield lambda: time.monotonic() - begun < _STEP_S
            connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                connection.execute("ROLLBACK")
            raise
        self.stopped = bool(self._rest(time.monotonic() - begun))

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        with self._in_words():
            file = CacheFile(self.path, tables=_TABLES, prepare=_prepare, tell=self._tell)
            connection = file.connect()
            try:
                yield connection
            finally:
                connection.close()

    def _in_words(self) -> AbstractContextManager[None]:
        return words_of(self.path, if_damaged="move it away: executions go on without it")


def _prepare(connection: sqlite3.Connection) -> None:
    """As the checkpointer does it; who comes first makes the file."""
    connection.execute("PRAGMA auto_vacuum=INCREMENTAL")
    use_wal(connection)
    connection.execute("PRAGMA synchronous=NORMAL")


def _has_tables(connection: sqlite3.Connection) -> bool:
    rows = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return {name for (name,) in rows} >= set(_TABLES)


def _free_pages(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA freelist_count").fetchone()[0])


def _remove_some(connection: sqlite3.Connection, thread: str) -> bool:
    """Removes the newest checkpoints of a thread with what was written at them; at last writes without a checkpoint.
    False when nothing was left."""
    newest = connection.execute(
        "SELECT rowid, checkpoint_ns, checkpoint_id FROM checkpoints WHERE thread_id = ? ORDER BY rowid DESC LIMIT ?",
        (thread, _CHECKPOINTS),
    ).fetchall()
    for row, namespace, checkpoint in newest:
        connection.execute(
            "DELETE FROM writes WHERE thread_id = ? AND checkpoint_ns = ? AND checkpoint_id = ?",
            (thread, namespace, checkpoint),
        )
        connection.execute("DELETE FROM checkpoints WHERE rowid = ?", (row,))
    if newest:
        return True
    return bool(
        connection.execute(
            "DELETE FROM writes WHERE rowid IN (SELECT rowid FROM writes WHERE thread_id = ? LIMIT ?)",
            (thread, _WRITES),
        ).rowcount
    )
