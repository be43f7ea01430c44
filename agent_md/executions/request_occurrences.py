"""The ids of requests that ask a question again."""

from __future__ import annotations

from dataclasses import replace

from agent_md.errors import AnswerRetracted
from agent_md.executions.answers import given_by_human
from agent_md.executions.days import utc_text
from agent_md.executions.ids import RequestId
from agent_md.executions.requests import Answer, Request, Retraction

__all__ = ["asked_again", "first_id", "id_of_occurrence", "is_retractable", "retracted"]

_AGAIN = "-again"


def first_id(request_id: RequestId) -> RequestId:
    """The id of the request that first asked this question."""
    return RequestId(request_id.partition(_AGAIN)[0])


def id_of_occurrence(first: RequestId, occurrence: int) -> RequestId:
    """The id of the request that asks the question of `first` for the time `occurrence`, from 0."""
    return RequestId(f"{first}{_AGAIN}{occurrence}") if occurrence else first


def asked_again(request: Request, now: float) -> Request:
    """The request that asks again after the answer to this one was retracted: the same question as its next occurrence,
    under an id of its own, with the same deadline."""
    occurrence = request.occurrence + 1
    return replace(
        request,
        id=id_of_occurrence(first_id(request.id), occurrence),
        occurrence=occurrence,
        created_at=now,
        answer=None,
        retraction=None,
        replaces=request.id,
    )


def is_retractable(answer: Answer) -> bool:
    """Whether a human gave the answer, and its call has not acted on it yet."""
    return given_by_human(answer) and answer.used_at is None


def retracted(request: Request, retraction: Retraction) -> AnswerRetracted:
    """The error for who answers a request whose answer was retracted."""
    return AnswerRetracted(
        f"the answer to request {request.id} was retracted by {retraction.retracted_by} at "
        f"{utc_text(retraction.retracted_at)}, and the question is asked again as request {retraction.replaced_by}; "
        "an answer has to name that one",
        answered_by=retraction.answer.answered_by,
        answered_at=retraction.answer.answered_at,
        recorded_at=retraction.answer.recorded_at,
        retracted_by=retraction.retracted_by,
        retracted_at=retraction.retracted_at,
        replaced_by=retraction.replaced_by,
    )
