"""Any store: what was stored comes back as it was, to the last character and in its order."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_md.executions.execution import Usage
from agent_md.executions.states import Status
from agent_md.ports.journal import ExecutionEnd, Journal
from agent_md.ports.store import Store
from tests.support.scenes import (
    FIRST,
    ai,
    begin,
    finish_call,
    gate_request,
    journal_of,
    proposal,
    record,
)

STRANGE = "Zeile 1\r\nZeile 2\u2028\t🙂 é e\u0301 \x00 \x1b[2K\u202e %s ' \" \\ {}"


VALUES = [
    {"z": 1, "a": {"y": [1, 2.5, -0.0, 1e300, 2**60, None, True, ""], "b": {}}},
    {STRANGE: STRANGE, "": [[], {}, [[[]]]]},
]


class TestValues:
    def test_texts(self, store: Store) -> None:
        execution = begin(store, agent=STRANGE, session_id=STRANGE, text=STRANGE)
        journal = journal_of(store, execution)
        call = proposal(
            tool=STRANGE,
            call_id=STRANGE,
            reason=STRANGE,
            request=gate_request(journal, message=STRANGE, digest=STRANGE),
        )
        journal.record_model_step(0, ai(STRANGE), STRANGE, Usage(), [call])
        finish_call(journal, text=STRANGE)
        journal.finish(ExecutionEnd(Status.ERROR, error=STRANGE, output=STRANGE, ended_by=STRANGE))
        ended = store.execution(execution.id)
        assert (ended.agent, ended.session_id, ended.error, ended.output) == (STRANGE,) * 4
        assert [e.id for e in store.executions(agent=STRANGE, session_id=STRANGE)] == [execution.id]
        events = {event.key: event for event in store.events(execution.id)}
        assert events["human"].message == events["ai:0"].message == events["final"].message == STRANGE
        assert events["ai:0"].data["message"] == ai(STRANGE)
        [stored], [request] = store.calls(execution.id), store.requests(execution.id)
        assert (stored.tool, stored.call_id, stored.reason, stored.result) == (STRANGE,) * 4
        assert (request.message, request.digest) == (STRANGE,) * 2
        assert request.answer is not None
        assert request.answer.answered_by == STRANGE

    @pytest.mark.parametrize("value", VALUES)
    def test_json(self, store: Store, journal: Journal, value: dict[str, Any]) -> None:
        message = {"type": "ai", "data": {"content": [value], "id": "x"}}
        call = proposal(args=value, request=gate_request(journal, tool_args=value, payload=value))
        journal.record_model_step(0, message, "", Usage(), [call])
        journal.start_call(FIRST, value, None)
        journal.begin_step(FIRST, 0, "f")
        journal.end_step(FIRST, 0, value, None)
        execution_id = journal.claim.execution_id
        [stored], [request] = store.calls(execution_id), store.requests(execution_id)
        back = [
            stored.args,
            request.tool_args,
            request.payload,
            store.steps(execution_id, FIRST)[0].result,
        ]
        assert store.model_step(execution_id, 0) == message
        assert [json.dumps(one) for one in back] == [json.dumps(value)] * len(back)

    @pytest.mark.parametrize("value", VALUES)
    def test_edited_arguments(self, store: Store, journal: Journal, value: dict[str, Any]) -> None:
        record(journal, calls=[proposal()])
        journal.start_call(FIRST, value, None)
        call = store.call(journal.claim.execution_id, FIRST)
        assert call is not None
        assert json.dumps(call.args) == json.dumps(value)

    def test_what_the_caller_changes_afterwards_is_not_stored(self, store: Store, journal: Journal) -> None:
        args = {"paths": ["a"]}
        record(journal, calls=[proposal(args=args)])
        args["paths"].append("b")
        call = store.call(journal.claim.execution_id, FIRST)
        assert call is not None
        assert call.args == {"paths": ["a"]}
