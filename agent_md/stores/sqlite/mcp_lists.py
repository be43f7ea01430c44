"""What MCP servers said of their tools, on SQLite: each list is stored once, by its digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from agent_md.errors import UnknownExecution
from agent_md.executions.ids import ExecutionId
from agent_md.ports.clock import Clock
from agent_md.ports.mcp_lists import StoredTools
from agent_md.stores.sqlite.database import Database

__all__ = ["SqliteMcpLists"]


class SqliteMcpLists:
    """`agent_md.ports.McpLists` on SQLite."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    def kept(self, execution_id: ExecutionId) -> dict[str, StoredTools]:
        rows = self._db.all(
            "SELECT k.server, l.tools FROM execution_mcp_lists k JOIN mcp_lists l ON l.digest = k.digest"
            " WHERE k.execution_id = ? ORDER BY k.server",
            execution_id,
        )
        return {server: json.loads(tools) for server, tools in rows}

    def keep(self, execution_id: ExecutionId, lists: Mapping[str, StoredTools]) -> dict[str, StoredTools]:
        with self._db.write():
            if self._db.one("SELECT 1 FROM executions WHERE id = ?", execution_id) is None:
                raise UnknownExecution(f"there is no execution {execution_id}; `agentmd logs` lists them")
            for server, tools in lists.items():
                self._db.run(
                    "INSERT OR IGNORE INTO execution_mcp_lists (execution_id, server, digest) VALUES (?, ?, ?)",
                    *(execution_id, server, self._stored(tools)),
                )
            return self.kept(execution_id)

    def heard(self, server: str, tools: StoredTools) -> None:
        with self._db.write():
            self._db.run(
                "INSERT INTO mcp_servers (name, digest, heard_at) VALUES (?1, ?2, ?3)"
                " ON CONFLICT (name) DO UPDATE SET digest = ?2, heard_at = ?3",
                *(server, self._stored(tools), self._clock()),
            )

    def last(self, server: str) -> StoredTools | None:
        row = self._db.one(
            "SELECT l.tools FROM mcp_servers s JOIN mcp_lists l ON l.digest = s.digest WHERE s.name = ?", server
        )
        return None if row is None else json.loads(row[0])

    def _stored(self, tools: StoredTools) -> str:
        text = json.dumps(list(tools), ensure_ascii=False, sort_keys=True)
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        self._db.run("INSERT OR IGNORE INTO mcp_lists (digest, tools) VALUES (?, ?)", digest, text)
        return digest
