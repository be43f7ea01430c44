"""LangGraph's checkpoints in a file of their own: a cache, since all that matters is in the store.

A thin subclass of `SqliteSaver` that calls sqlite3 inline (the async saver's thread hops cost more than its work, and an
unclosed connection would keep the process alive), writes in immediate transactions, loads only known types, and
takes the last written checkpoint as head (ids follow the clock of the process that wrote them).
"""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any

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

from agent_md.errors import StoreForeign
from agent_md.stores.sqlite.file import connect, error_name, make_file, peek, use_wal, words_of

__all__ = ["Checkpoints"]

_TABLES = {"checkpoints", "writes"}


class Checkpoints(SqliteSaver):
    """A checkpointer for sync and async graphs on the file at `path`; None = in memory."""

    def __init__(self, path: Path | None) -> None:
        """Opens or makes the file. Raises StoreForeign, the file untouched, for one that LangGraph did not make;
        StoreReadOnly, StoreFull or StoreError when it cannot be opened, and so do all other methods."""
        self._path = path
        with self._in_words():
            if path is not None:
                make_file(path)
                _refuse_foreign(path)
            connection = connect(path)
            super().__init__(connection, serde=JsonPlusSerializer(allowed_msgpack_modules=None))
            try:
                connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # only works before the first table
                use_wal(connection)
                connection.execute("PRAGMA synchronous=NORMAL")  # a cache: what a power loss takes is made again
                self.setup()
            except BaseException:
                connection.close()
                raise

    def close(self) -> None:
        self.conn.close()

    def _in_words(self) -> AbstractContextManager[None]:
        return words_of(self._path, if_damaged="move it away: executions go on without it")

    @contextmanager
    def cursor(self, transaction: bool = True) -> Iterator[sqlite3.Cursor]:
        with self.lock, self._in_words(), closing(self.conn.cursor()) as cursor:
            try:
                if transaction:
                    cursor.execute("BEGIN IMMEDIATE")
                yield cursor
                if transaction:
                    cursor.execute("COMMIT")
            except BaseException:
                if self.conn.in_transaction:
                    cursor.execute("ROLLBACK")
                raise

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        place = config["configurable"]
        if place.get("checkpoint_id"):
            return super().get_tuple(config)
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


def _refuse_foreign(path: Path) -> None:
    try:
        rows = peek(path, lambda connection: connection.execute("SELECT name FROM sqlite_master").fetchall())
    except sqlite3.DatabaseError as error:
        if error_name(error) != "SQLITE_NOTADB":
            raise
        ours = False
    else:
        names = {name for (name,) in rows if not name.startswith("sqlite_")}
        ours = names <= _TABLES
    if not ours:
        raise StoreForeign(
            f"{path} is not a file of LangGraph's checkpoints; it was left untouched. "
            "Move it away: executions go on without it"
        )
