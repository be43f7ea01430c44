"""LangGraph's checkpoints in a file of their own: a cache, since all that matters is in the store.

A thin subclass of `SqliteSaver` that calls sqlite3 inline (the async saver's thread hops cost more than its work, and an
unclosed connection would keep the process alive), writes in immediate transactions, loads only known types, and
takes the last written checkpoint as head (ids follow the clock of the process that wrote them).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
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

__all__ = ["Checkpoints"]

_BUSY_TIMEOUT_S = 30


class Checkpoints(SqliteSaver):
    """A checkpointer for sync and async graphs on the file at `path`; None = in memory."""

    def __init__(self, path: Path | None) -> None:
        """Opens or makes the file. Raises StoreForeign, the file untouched, for a file that is no SQLite database."""
        if path is not None and not path.exists():
            with suppress(FileExistsError):
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        connection = sqlite3.connect(
            path or ":memory:", timeout=_BUSY_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        super().__init__(connection, serde=JsonPlusSerializer(allowed_msgpack_modules=None))
        try:
            connection.execute("PRAGMA auto_vacuum=INCREMENTAL")  # only works before the first table
            connection.execute("PRAGMA synchronous=NORMAL")  # a cache: what a power loss takes is made again
            self.setup()
        except sqlite3.DatabaseError as error:
            connection.close()
            if error.sqlite_errorname not in ("SQLITE_NOTADB", "SQLITE_CORRUPT"):
                raise
            raise StoreForeign(
                f"{path} is not a checkpoint database ({error}); it was left untouched. "
                "Move it away: executions go on without it"
            ) from None

    def close(self) -> None:
        self.conn.close()

    @contextmanager
    def cursor(self, transaction: bool = True) -> Iterator[sqlite3.Cursor]:
        with self.lock:
            cursor = self.conn.cursor()
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
            finally:
                cursor.close()

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        place = config["configurable"]
        if place.get("checkpoint_id"):
            return super().get_tuple(config)
        thread, namespace = str(place["thread_id"]), place.get("checkpoint_ns", "")
        head = self.conn.execute(
            "SELECT checkpoint_id FROM checkpoints WHERE thread_id = ? AND checkpoint_ns = ? ORDER BY rowid DESC LIMIT 1",
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
