"""LangGraph's checkpoints in a file of their own: a cache, since all that matters is in the store.

A thin subclass of `SqliteSaver` that calls sqlite3 inline (the async saver's thread hops cost more than its work, and an
unclosed connection would keep the process alive), writes in immediate transactions, loads only known types, and
takes the last written checkpoint as head (ids follow the clock of the process that wrote them). A file that is found
damaged, at any moment, is put aside and made anew.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver

from agent_md.stores.checkpoint_repair import CacheFile, is_damage
from agent_md.stores.sqlite.file import begin, connect, use_wal, words_of

__all__ = ["Checkpoints"]

log = logging.getLogger(__name__)

T = TypeVar("T")

_TABLES = {"checkpoints", "writes"}


class _Damaged(Exception):
    """The content of the file is not what was written to it."""


class Checkpoints(SqliteSaver):
    """A checkpointer for sync and async graphs on the file at `path`; None = in memory."""

    def __init__(self, path: Path | None, *, tell: Callable[[str], None] = log.warning) -> None:
        """Opens or makes the file; a damaged one is put aside, which `tell` says, once for all processes.

        Raises StoreForeign, the file untouched, for a healthy database of another program; StoreReadOnly, StoreFull or
        StoreError when it cannot be opened, and so do all other methods."""
        super().__init__(connect(None), serde=JsonPlusSerializer(allowed_msgpack_modules=None))
        self.made_anew = 0
        """How often this object has gone on with another file: threads that began before may lack their beginning."""
        self._path = path
        self._file = None if path is None else CacheFile(path, tables=_TABLES, prepare=self._prepare, tell=tell)
        with self._in_words():
            self._reopen()

    def _reopen(self) -> None:
        before = self.conn
        if self._file is None:
            self._prepare(self.conn)
        else:
            self.conn = self._file.connect()
            with suppress(sqlite3.Error):
                before.close()

    def _prepare(self, connection: sqlite3.Connection) -> None:
        connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # only works before the first table
        use_wal(connection)
        connection.execute("PRAGMA synchronous=NORMAL")  # a cache: what a power loss takes is made again
        self.conn, self.is_setup = connection, False
        self.setup()

    def close(self) -> None:
        self.conn.close()

    def _in_words(self) -> AbstractContextManager[None]:
        return words_of(self._path, if_damaged="move it away: executions go on without it")

    def _mended(self, act: Callable[[], T]) -> T:
        """What `act` gives, done again on a new file when the one there is damaged."""
        while True:
            seen = self.made_anew
            try:
                return act()
            except _Damaged as damaged:
                with self.lock, self._in_words():
                    if self.made_anew == seen:
                        self._replace(str(damaged))

    def _replace(self, why: str | None) -> None:
        assert self._file is not None
        if why is not None:
            self._file.put_aside(why)
        self.made_anew += 1
        self._reopen()

    def _follow(self) -> None:
        """Goes on with the file that is in the place now, if another process has put ours aside, or it was taken away."""
        if self._file is not None and self._file.replaced():
            with self.lock, self._in_words():
                self._replace(None)

    @contextmanager
    def cursor(self, transaction: bool = True) -> Iterator[sqlite3.Cursor]:
        with self.lock, self._in_words(), closing(self.conn.cursor()) as cursor:
            try:
                if transaction:
                    begin(self.conn)
                yield cursor
                if transaction:
                    cursor.execute("COMMIT")
            except BaseException as error:
                with suppress(sqlite3.Error):
                    if self.conn.in_transaction:
                        cursor.execute("ROLLBACK")
                if isinstance(error, sqlite3.Error) and self._file is not None and is_damage(error):
                    raise _Damaged(str(error)) from error
                raise

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._mended(lambda: self._tuple(config))

    def _tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        place = config["configurable"]
        if place.get("checkpoint_id"):
            return super().get_tuple(config)
        self._follow()
        thread, namespace = str(place["thread_id"]), place.get("checkpoint_ns", "")
        with self.cursor(transaction=False) as cursor:
            head = cursor.execute(
                "SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ?"
                " ORDER BY rowid DESC LIMIT 1",
                (thread, namespace),
            ).fetchone()
        if head is None:
            return None
        return super().get_tuple(
            {"configurable": {"thread_id": thread, "checkpoint_ns": namespace, "checkpoint_id": head[0]}}
        )

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        found = super().list
        return iter(self._mended(lambda: [*found(config, filter=filter, before=before, limit=limit)]))

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        put = super().put
        return self._mended(lambda: put(config, checkpoint, metadata, new_versions))

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        put_writes = super().put_writes
        self._mended(lambda: put_writes(config, writes, task_id, task_path))

    def delete_thread(self, thread_id: str) -> None:
        delete_thread = super().delete_thread
        self._mended(lambda: delete_thread(thread_id))

    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        history = super().get_delta_channel_history
        return self._mended(lambda: history(config=config, channels=channels))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self.get_tuple(config)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        for item in list(self.list(config, filter=filter, before=before, limit=limit)):
            yield item

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return self.put(config, checkpoint, metadata, new_versions)

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        self.put_writes(config, writes, task_id, task_path)

    async def adelete_thread(self, thread_id: str) -> None:
        self.delete_thread(thread_id)

    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return self.get_delta_channel_history(config=config, channels=channels)
