"""The JSON objects of requests, retractions and grants."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_md.executions.execution import Execution
from agent_md.executions.given_answers import GivenAnswer
from agent_md.executions.grants import Grant
from agent_md.executions.requests import PathStep, Request, Retraction
from agent_md.executions.session_interrupts import preview_json
from agent_md.executions.states import Drift
from agent_md.serialization.times import iso_time

__all__ = ["given_answer_json", "grant_json", "request_json", "retraction_json"]


def request_json(request: Request, *, drift: Sequence[Drift], under: Execution | None = None) -> dict[str, Any]:
    """A request, with its decision if there is one. `outcome` of one whose answer was retracted is `retracted`; the answer
    itself stays.

    `path` runs from the root execution to the asking one. `execution_id` and `agent_id` are those of the execution `under`
    which it is listed, by default the root's. `drift`: what is no longer as it was when it was asked.
    """
    steps = request.path or (request.root,)
    of = request.root if under is None else PathStep(under.id, under.agent)
    answer, retraction = request.given, request.retraction
    outcome = None if answer is None else str(answer.outcome)
    return {
        "execution_id": of.execution_id,
        "agent_id": of.agent,
        "request_id": request.id,
        "kind": str(request.kind),
        "message": request.message,
        "tool_name": request.tool_name,
        "tool_args": request.tool_args,
        "options": None if request.options is None else list(request.options),
        "multi": request.multi,
        "questions": None if request.questions is None else list(request.questions),
        "payload": request.payload,
        "response_schema": request.response_schema,
        "preview": None if request.preview is None else preview_json(request.preview),
        "rule": request.rule,
        "digest": request.digest,
        "proposed_rule": None if request.offer is None else request.offer.rule,
        "drifted": bool(drift),
        "drift": [{"what": str(part)} for part in drift],
        "created_at": iso_time(request.created_at),
        "expires_at": iso_time(request.expires_at),
        "path": [{"execution_id": step.execution_id, "agent_id": step.agent} for step in steps],
        "outcome": outcome if retraction is None else "retracted",
        "answer": None if answer is None else answer.value,
        "answered_by": None if answer is None else answer.answered_by,
        "answered_at": None if answer is None else iso_time(answer.answered_at),
        "recorded_at": None if answer is None else iso_time(answer.recorded_at),
        "grant_id": None if answer is None else answer.grant_id,
        "retracted_by": None if retraction is None else retraction.retracted_by,
        "retracted_at": None if retraction is None else iso_time(retraction.retracted_at),
        "replaced_by": None if retraction is None else retraction.replaced_by,
        "replaces": request.replaces,
    }


def retraction_json(execution_id: int, retraction: Retraction) -> dict[str, Any]:
    """The retraction of an answer: `replaced_by` is the id of the request that asks again."""
    return {
        "status": "retracted",
        "execution_id": execution_id,
        "request_id": retraction.answer.request_id,
        "retracted_by": retraction.retracted_by,
        "retracted_at": iso_time(retraction.retracted_at),
        "replaced_by": retraction.replaced_by,
    }


def grant_json(grant: Grant, drift: Sequence[Drift]) -> dict[str, Any]:
    """A grant. `drift`: what is no longer as it was when it was given, which suspends it."""
    return {
        "id": grant.id,
        "agent_id": grant.agent,
        "rule": grant.rule,
        "scope": str(grant.scope),
        "execution_id": grant.execution_id,
        "session_id": grant.session_id,
        "given_by": grant.given_by,
        "given_at": iso_time(grant.given_at),
        "until": iso_time(grant.until),
        "state": str(grant.ended or ("suspended" if drift else "active")),
        "drift": [{"what": str(part)} for part in drift],
        "ended_by": grant.ended_by,
        "ended_at": iso_time(grant.ended_at),
    }


def given_answer_json(given: GivenAnswer) -> dict[str, Any]:
    """An answer with what was asked; of one whose execution was removed `kind`, `message` and what a tool was to do are
    null. `outcome` is what was decided, also if that was `retracted`."""
    request, answer = given.request, given.answer
    return {
        "execution_id": given.execution_id,
        "agent_id": given.agent,
        "request_id": answer.request_id,
        "kind": None if request is None else str(request.kind),
        "message": None if request is None else request.message,
        "tool_name": None if request is None else request.tool_name,
        "tool_args": None if request is None else request.tool_args,
        "outcome": str(answer.outcome),
        "answer": answer.value,
        "answered_by": answer.answered_by,
        "answered_at": iso_time(answer.answered_at),
        "grant_id": answer.grant_id,
        "retracted_by": given.retracted_by,
        "retracted_at": iso_time(given.retracted_at),
    }
