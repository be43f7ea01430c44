"""The JSON objects of sessions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agent_md.executions.chat_messages import reply
from agent_md.executions.sessions import Session, SessionStatus, error_of
from agent_md.serialization.times import iso_time

__all__ = ["listed_session_json", "session_json", "session_summary"]


def session_json(session: Session, interrupts: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """A session with what its last turn came to; a turn under way has neither `response` nor `error` yet.

    `interrupts` are the views of its open requests, oldest first; they belong to one that is interrupted, and only to
    such a one.
    """
    turn, status = session.turn, session.status
    response = error = None
    if turn is not None and status is SessionStatus.IDLE:
        response = reply(turn.output or "")
    elif turn is not None and status is SessionStatus.ERROR:
        error = error_of(turn)
    return {
        "session_id": session.id,
        "status": str(status),
        "response": response,
        "error": error,
        "interrupts": list(interrupts) if status is SessionStatus.INTERRUPTED else None,
        **({"cut": turn.cut} if response is not None and turn is not None and turn.cut is not None else {}),
    }


def session_summary(session: Session, total_messages: int) -> dict[str, Any]:
    """A session in a listing."""
    return {
        "session_id": session.id,
        "agent": session.agent,
        "total_messages": total_messages,
        "status": str(session.status),
    }


def listed_session_json(session: Session, turns: int) -> dict[str, Any]:
    """A conversation, and how many turns it has."""
    return {
        "session_id": session.id,
        "agent_id": session.agent,
        "status": str(session.status),
        "turns": turns,
        "last_execution_id": None if session.turn is None else session.turn.id,
        "created_at": iso_time(session.created_at),
        "changed_at": iso_time(session.changed_at),
    }
