"""Queries for the answers of all executions, including removed ones."""

from __future__ import annotations

import json
from typing import Any

from agent_md.executions.given_answers import AnswerFilter, GivenAnswer
from agent_md.executions.ids import ExecutionId, RequestId
from agent_md.executions.requests import Answer
from agent_md.executions.states import Outcome
from agent_md.stores.sqlite.database import Database
from agent_md.stores.sqlite.rows import OPEN, REQUEST, to_request

__all__ = ["given_answers"]

_BURIED = """
SELECT r.* FROM (SELECT t.execution_id, t.agent, json_extract(a.value, '$[0]') AS id,
                        json_extract(a.value, '$[1]') AS outcome, json_extract(a.value, '$[2]') AS value,
                        json_extract(a.value, '$[3]') AS answered_by, json_extract(a.value, '$[4]') AS answered_at,
                        json_extract(a.value, '$[5]') AS retracted_by, json_extract(a.value, '$[6]') AS retracted_at
                 FROM tombstones t, json_each(t.answers) a) r"""


def given_answers(db: Database, wanted: AnswerFilter, limit: int | None) -> list[GivenAnswer]:
    """See `agent_md.ports.Store.given_answers`."""
    most = -1 if limit is None else limit
    kept, values = _conditions(wanted, "x.agent")
    rows = db.all(f"{REQUEST} WHERE NOT ({OPEN}) AND {kept} ORDER BY r.answered_at DESC LIMIT ?", *values, most)
    buried, values = _conditions(wanted, "r.agent")
    removed = db.all(f"{_BURIED} WHERE {buried} ORDER BY r.answered_at DESC LIMIT ?", *values, most)
    given = [GivenAnswer.of(to_request(row)) for row in rows]
    found = [*(answer for answer in given if answer is not None), *map(_of_tombstone, removed)]
    found.sort(key=lambda one: (one.answer.answered_at, one.execution_id), reverse=True)
    return found[:limit]


def _conditions(wanted: AnswerFilter, agent: str) -> tuple[str, list[Any]]:
    found: list[str] = []
    values: list[Any] = []
    for column, chosen in ((agent, wanted.agents), ("r.outcome", wanted.outcomes or None)):
        if chosen is not None:
            found.append(f"{column} IN (SELECT value FROM json_each(?))")
            values.append(json.dumps(list(chosen)))
    if wanted.execution_id is not None:
        found.append("r.execution_id = ?")
        values.append(wanted.execution_id)
    if wanted.by is not None:
        found.append("(r.answered_by = ? OR substr(r.answered_by, instr(r.answered_by, ':') + 1) = ?)")
        values += [wanted.by, wanted.by]
    if wanted.since is not None:
        found.append("r.answered_at >= ?")
        values.append(wanted.since)
    return " AND ".join(found) or "TRUE", values


def _of_tombstone(row: Any) -> GivenAnswer:
    execution_id, agent, request_id, outcome, value, by, at, *retraction = row
    answer = Answer(RequestId(request_id), Outcome(outcome), json.loads(value), by, at, at)
    return GivenAnswer(ExecutionId(execution_id), agent, answer, None, *retraction)
