"""Why a failed execution cannot begin anew yet."""

from __future__ import annotations

import pytest

from agent_md.errors import DrivenElsewhere
from agent_md.runner.retrying import first_messages_again
from tests.support.memory_store import MemoryStore
from tests.support.scenes import W1, begin
from tests.support.workers import FakeWorkers


def test_one_that_a_live_process_drives_is_followed_or_cancelled_and_one_of_a_dead_process_resumed() -> None:
    workers = FakeWorkers(W1)
    store = MemoryStore(workers=workers)
    execution = begin(store)
    with pytest.raises(DrivenElsewhere) as driven:
        first_messages_again(store, execution)
    assert "`agentmd logs -f -e 1` follows it, `agentmd cancel 1` ends it" in str(driven.value)
    assert "resume" not in str(driven.value)
    workers.living.clear()
    with pytest.raises(DrivenElsewhere, match="`agentmd resume 1` goes on with it"):
        first_messages_again(store, execution)
