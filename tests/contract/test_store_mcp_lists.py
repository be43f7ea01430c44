from __future__ import annotations

import pytest

from agent_md.errors import UnknownExecution
from agent_md.executions.ids import ExecutionId
from agent_md.ports.store import Store
from tests.support.scenes import begin

OLD = [{"tool": "a", "description": "", "parameters": {"type": "object"}}]
NEW = [*OLD, {"tool": "b", "description": "é", "parameters": {}}]


def test_the_first_list_of_a_server_counts_for_the_whole_life_of_an_execution(store: Store) -> None:
    first, second = begin(store).id, begin(store).id
    assert store.mcp_lists.kept(first) == {}
    assert store.mcp_lists.keep(first, {"s": OLD}) == {"s": OLD}
    assert store.mcp_lists.keep(first, {"s": NEW, "t": NEW}) == {"s": OLD, "t": NEW}
    assert store.mcp_lists.keep(second, {"s": NEW}) == {"s": NEW}
    assert store.mcp_lists.kept(first) == {"s": OLD, "t": NEW}


def test_a_list_needs_its_execution(store: Store) -> None:
    with pytest.raises(UnknownExecution):
        store.mcp_lists.keep(ExecutionId(99), {"s": OLD})


def test_what_a_server_said_last(store: Store) -> None:
    assert store.mcp_lists.last("s") is None
    store.mcp_lists.heard("s", OLD)
    store.mcp_lists.heard("t", [])
    store.mcp_lists.heard("s", NEW)
    assert store.mcp_lists.last("s") == NEW
    assert store.mcp_lists.last("t") == []
