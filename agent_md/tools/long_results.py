"""Long results: gives the model the beginning, and the rest with `result_read`."""

from __future__ import annotations

from typing import Any

from agent_md.agents.effects import NO_EFFECTS, Effects
from agent_md.errors import ToolError
from agent_md.executions.requests import CallEffect
from agent_md.sdk import current_call
from agent_md.tools.arguments import action_digest, check_arguments, object_schema
from agent_md.tools.base import Plan, Settled, SettledState, ToolOptions

__all__ = ["ResultRead", "for_model"]

_NOTE = 200
"""Bytes that are kept for the line in brackets."""


def for_model(text: str, result_id: str, limit: int) -> str:
    """The result of a call as the model gets it, in at most `limit` bytes: whole, or its beginning and how to read on."""
    data = text.encode()
    if len(data) <= limit:
        return text
    shown, end = _part(data, 0, limit - _NOTE)
    return (
        f"{shown}\n[The result has {len(data)} bytes; its first {end} are shown. Read on with {ResultRead.name}: "
        f"id={result_id}, byte={end + 1}.]"
    )


class ResultRead:
    """Gives a part of a result that was too long. The whole is in the store."""

    name = "result_read"
    description = "Reads on in the result of an earlier call that was too long to be shown whole."
    parameters = object_schema(
        {"id": {"type": "string", "minLength": 1, "description": "The id that the cut result names."}},
        {"byte": {"type": "integer", "minimum": 1, "description": "First byte to read, counted from 1."}},
    )
    options = ToolOptions(read_only=True, idempotent=True, reads=(), writes=())
    subjects_are_paths = False

    def __init__(self, limit: int) -> None:
        """`limit`: the most bytes of one part."""
        self._limit = limit

    def options_for(self, args: dict[str, Any]) -> ToolOptions:
        return self.options

    def validate(self, args: dict[str, Any]) -> dict[str, Any]:
        return check_arguments(self.name, self.parameters, args)

    def subjects(self, args: dict[str, Any]) -> None:
        return None

    def effects(self, args: dict[str, Any]) -> Effects:
        return NO_EFFECTS

    def plan(self, args: dict[str, Any]) -> Plan:
        return Plan(digest=action_digest(self.name, args))

    async def run(self, args: dict[str, Any], plan: Plan) -> str:
        call = current_call.get(None)
        text = None if call is None else call.earlier_result(args["id"])
        if text is None:
            raise ToolError(
                f"there is no result {args['id']!r} in this conversation; give the id that a cut result names"
            )
        data, byte = text.encode(), args.get("byte", 1)
        if byte > len(data):
            return f"[The result has only {len(data)} bytes.]"
        start = byte - 1
        while start > 0 and _continues(data[start]):
            start -= 1
        if len(data) - start <= self._limit:
            return _part(data, start, self._limit)[0]
        shown, end = _part(data, start, self._limit - _NOTE)
        return f"{shown}\n[Bytes {start + 1} to {end} of {len(data)} are shown: read further with byte={end + 1}.]"

    def settle(self, args: dict[str, Any], effect: CallEffect) -> Settled:
        return Settled(SettledState.CHANGED)


def _part(data: bytes, start: int, size: int) -> tuple[str, int]:
    """The whole characters from `start` in at most `size` bytes, and where they end."""
    end = min(start + size, len(data))
    while end < len(data) and end > start and _continues(data[end]):
        end -= 1
    return data[start:end].decode(), end


def _continues(byte: int) -> bool:
    """Whether the byte is not the first of its character."""
    return 0x80 <= byte < 0xC0
