"""What MCP servers said of their tools, in memory: the fake of `agent_md.ports.McpLists`."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy

from agent_md.executions.ids import ExecutionId
from agent_md.ports.mcp_lists import StoredTools
from tests.support.memory_state import MemoryState

__all__ = ["MemoryMcpLists"]


class MemoryMcpLists:
    """The `McpLists` port on plain dicts, under the lock of a `MemoryState`."""

    def __init__(self, state: MemoryState) -> None:
        self._state = state
        self._kept: dict[ExecutionId, dict[str, StoredTools]] = {}
        self._last: dict[str, StoredTools] = {}

    def kept(self, execution_id: ExecutionId) -> dict[str, StoredTools]:
        with self._state.lock:
            return deepcopy(self._kept.get(execution_id, {}))

    def keep(self, execution_id: ExecutionId, lists: Mapping[str, StoredTools]) -> dict[str, StoredTools]:
        with self._state.lock:
            self._state.execution(execution_id)
            mine = self._kept.setdefault(execution_id, {})
            for server, tools in lists.items():
                mine.setdefault(server, deepcopy(tools))
            return deepcopy(mine)

    def heard(self, server: str, tools: StoredTools) -> None:
        with self._state.lock:
            self._last[server] = deepcopy(tools)

    def last(self, server: str) -> StoredTools | None:
        with self._state.lock:
            return deepcopy(self._last.get(server))
