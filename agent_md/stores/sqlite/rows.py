"""Converts rows to the frozen data of `agent_md.executions`."""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from typing import Any

from agent_md.executions.calls import Call, Settlement, StepRecord
from agent_md.executions.execution import Event, Execution, Usage
from agent_md.executions.grants import GrantOffer
from agent_md.executions.ids import ExecutionId, RequestId, WorkerId
from agent_md.executions.positions import Position
from agent_md.executions.requests import (
    Answer,
    CallEffect,
    CoveredFile,
    NewRequest,
    PathStep,
    Preview,
    Request,
    Retraction,
    ToolSource,
)
from agent_md.executions.states import (
    CallOutcome,
    CallState,
    Decision,
    EffectKind,
    EventType,
    Outcome,
    RequestKind,
    RequestSource,
    Status,
    TriggerKind,
)

__all__ = [
    "ACTIVE",
    "CALL",
    "EVENT",
    "EXECUTION",
    "FAMILY",
    "OPEN",
    "OUTPUT",
    "REQUEST",
    "STATUS",
    "UNSETTLED",
    "dump",
    "request_body",
    "text_in",
    "to_answer",
    "to_call",
    "to_event",
    "to_execution",
    "to_request",
    "to_step",
]

ACTIVE = "x.status IN ('queued', 'running', 'waiting')"
"""Executions that have not ended."""

UNSETTLED = (
    "c.state = 'unknown' AND NOT EXISTS (SELECT 1 FROM settlements t"
    " WHERE t.execution_id = c.execution_id AND t.turn = c.turn AND t.idx = c.idx)"
)
"""Of a call `c`: it may have run, and nobody has said whether it did."""

OUTPUT = """
CASE WHEN x.output IS NULL AND x.status = 'success' THEN
    (SELECT coalesce(nullif(said.message, ''), json_extract(said.data, '$.message.data.content')) FROM events said
     WHERE said.execution_id = x.id
       AND said.key = 'ai:' || (SELECT max(u.turn) FROM ledger u WHERE u.execution_id = x.id))
ELSE x.output END"""
"""An output that is the text of the last AI message is stored there only."""

FAMILY = """
WITH RECURSIVE family (id) AS (
    SELECT {id} UNION ALL SELECT c.id FROM executions c JOIN family f ON c.parent_id = f.id)"""
"""An execution and all below it. To be formatted with its `id`."""

STATUS = f"""
CASE WHEN x.status = 'waiting' AND EXISTS (SELECT 1 FROM executions c WHERE c.parent_id = x.id) AND NOT EXISTS (
    {FAMILY.format(id="x.id")} SELECT 1 FROM family JOIN request_states r ON r.execution_id = family.id
    WHERE r.state = 'open') THEN 'running' ELSE x.status END"""
"""What people are told: one that waits for children only is at work, like these."""

_PATH = """
CASE WHEN x.parent_id IS NOT NULL THEN (
    WITH RECURSIVE line (id, parent_id, agent, above) AS (
        SELECT x.id, x.parent_id, x.agent, 0
        UNION ALL SELECT p.id, p.parent_id, p.agent, above + 1 FROM executions p JOIN line l ON p.id = l.parent_id)
    SELECT json_group_array(json_array(id, agent)) FROM (SELECT id, agent FROM line ORDER BY above DESC)) END"""

EXECUTION = f"""
SELECT x.id, x.agent, x.spec_digest, x.trigger, {STATUS}, x.created_at, x.session_id, x.parent_id, x.worker, x.epoch,
       x.started_at, x.finished_at, x.work_ms, x.error, {OUTPUT}, x.cancelled_by, x.cut,
       (SELECT coalesce(sum(input_tokens), 0) FROM ledger u WHERE u.execution_id = x.id),
       (SELECT coalesce(sum(output_tokens), 0) FROM ledger u WHERE u.execution_id = x.id),
       (SELECT CASE WHEN count(*) = count(cost_usd) THEN coalesce(sum(cost_usd), 0.0) END
        FROM ledger u WHERE u.execution_id = x.id),
       (SELECT count(*) FROM calls c WHERE c.execution_id = x.id AND {UNSETTLED}),
       (SELECT coalesce(max(count), 0) FROM attempts t WHERE t.execution_id = x.id),
       (SELECT place FROM attempts t WHERE t.execution_id = x.id ORDER BY count DESC, place LIMIT 1),
       x.suspect, x.thread, x.root_id, x.parent_turn, x.parent_idx, x.status = 'waiting'
FROM executions x"""

OPEN = "r.state = 'open'"
"""Of a row `r` of `request_states`: nobody has decided it."""

REQUEST = f"""
SELECT r.id, r.execution_id, x.agent, r.turn, r.idx, r.source, r.kind, r.message, r.digest, r.occurrence, r.created_at,
       r.expires_at, r.body, r.outcome, r.value, r.answered_by, r.answered_at, r.recorded_at, r.answered_digest, r.grant_id,
       r.used_at, r.retracted_by, r.retracted_at, r.replaced_by, r.replaces,
       {_PATH}
FROM request_states r
JOIN executions x ON x.id = r.execution_id"""

CALL = """
SELECT c.turn, c.idx, c.call_id, c.tool, c.decision, c.reason, c.state, c.epoch, c.edited_args, c.effect_before,
       c.effect_after, c.outcome, proposed.data,
       coalesce(nullif(closed.message, ''), json_extract(closed.data, '$.message.data.content')),
       t.ran, t.note, t.settled_by, t.settled_at, c.grant_id
FROM calls c
LEFT JOIN settlements t ON t.execution_id = c.execution_id AND t.turn = c.turn AND t.idx = c.idx
JOIN events proposed ON proposed.execution_id = c.execution_id AND proposed.key = 'call:' || c.turn || '.' || c.idx
LEFT JOIN events closed ON closed.execution_id = c.execution_id AND closed.key = 'result:' || c.turn || '.' || c.idx"""

EVENT = f"""
SELECT seq, execution_id, key, type,
       CASE WHEN message = '' AND type = 'final_answer'
            THEN coalesce((SELECT {OUTPUT} FROM executions x WHERE x.id = execution_id), '') ELSE message END,
       data, at
FROM events"""

_BODY = (
    *("action_digest", "tool_name", "tool_args", "options", "multi", "questions", "payload", "response_schema"),
    *("preview", "tool_source", "covered", "offer", "rule"),
)


def dump(value: Any) -> str:
    """JSON, keys in the order they came in."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def request_body(new: NewRequest) -> str:
    data = asdict(new)
    defaults = {field.name: field.default for field in fields(new)}
    return dump({name: data[name] for name in _BODY if data[name] is not None and data[name] != defaults[name]})


def to_execution(row: Any) -> Execution:
    return Execution(
        id=ExecutionId(row[0]),
        agent=row[1],
        spec_digest=row[2],
        trigger=TriggerKind(row[3]),
        status=Status(row[4]),
        created_at=row[5],
        session_id=row[6],
        parent_id=None if row[7] is None else ExecutionId(row[7]),
        worker=None if row[8] is None else WorkerId(row[8]),
        epoch=row[9],
        started_at=row[10],
        finished_at=row[11],
        work_ms=row[12],
        error=row[13],
        output=row[14],
        cancelled_by=row[15],
        cut=row[16],
        usage=Usage(row[17], row[18], row[19]),
        unknown_calls=row[20],
        attempts=row[21],
        attempted=row[22],
        suspect=bool(row[23]),
        thread=row[24],
        root_id=None if row[25] is None else ExecutionId(row[25]),
        position=None if row[26] is None else Position(row[26], row[27]),
        parked=bool(row[28]),
    )


def to_answer(row: Any) -> Answer:
    return Answer(RequestId(row[0]), Outcome(row[1]), json.loads(row[2]), *row[3:9])


def to_request(row: Any) -> Request:
    body = json.loads(row[12])
    answer = None if row[13] is None else to_answer((row[0], *row[13:21]))
    retraction = None if answer is None or row[21] is None else Retraction(answer, row[21], row[22], RequestId(row[23]))
    return Request(
        id=RequestId(row[0]),
        execution_id=ExecutionId(row[1]),
        agent=row[2],
        position=Position(row[3], row[4]),
        source=RequestSource(row[5]),
        kind=RequestKind(row[6]),
        message=row[7],
        digest=row[8],
        occurrence=row[9],
        created_at=row[10],
        expires_at=row[11],
        action_digest=body.get("action_digest"),
        tool_source=None if body.get("tool_source") is None else ToolSource(**body["tool_source"]),
        covered=tuple(CoveredFile(**file) for file in body.get("covered", ())),
        tool_name=body.get("tool_name"),
        tool_args=body.get("tool_args"),
        options=_tuple(body.get("options")),
        multi=body.get("multi"),
        questions=_tuple(body.get("questions")),
        payload=body.get("payload"),
        response_schema=body.get("response_schema"),
        preview=None if body.get("preview") is None else Preview(**body["preview"]),
        rule=body.get("rule"),
        offer=None if body.get("offer") is None else _to_offer(**body["offer"]),
        answer=answer if retraction is None else None,
        retraction=retraction,
        replaces=None if row[24] is None else RequestId(row[24]),
        path=() if row[25] is None else tuple(PathStep(ExecutionId(n), agent) for n, agent in json.loads(row[25])),
    )


def _to_offer(rule: str, tool_digest: str, subjects: list[str] | None, effect: str | None = None) -> GrantOffer:
    return GrantOffer(rule, tool_digest, _tuple(subjects), None if effect is None else EffectKind(effect))


def _tuple(value: list[Any] | None) -> tuple[Any, ...] | None:
    return None if value is None else tuple(value)


def to_call(row: Any) -> Call:
    return Call(
        position=Position(row[0], row[1]),
        call_id=row[2],
        tool=row[3],
        args=json.loads(row[8]) if row[8] is not None else json.loads(row[12])["args"],
        decision=Decision(row[4]),
        reason=row[5],
        state=CallState(row[6]),
        epoch=row[7],
        effect=None if row[9] is None else CallEffect(row[9], row[10]),
        outcome=None if row[11] is None else CallOutcome(row[11]),
        result=row[13],
        settlement=None if row[14] is None else Settlement(bool(row[14]), *row[15:18]),
        grant_id=row[18],
    )


def to_step(row: Any) -> StepRecord:
    return StepRecord(
        function=row[0],
        state=CallState(row[1]),
        result=None if row[2] is None else json.loads(row[2]),
        error=None if row[3] is None else json.loads(row[3]),
    )


def to_event(row: Any) -> Event:
    data = json.loads(row[5])
    return Event(row[0], ExecutionId(row[1]), row[2], EventType(row[3]), row[4] or text_in(data), data, row[6])


def text_in(data: dict[str, Any]) -> str:
    """The plain text of the message in an event; "" without one."""
    message = data.get("message")
    content = message["data"].get("content") if isinstance(message, dict) else None
    return content if isinstance(content, str) else ""
