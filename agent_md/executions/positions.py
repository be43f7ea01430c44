"""Positions in an execution: of a turn or of a call."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass

__all__ = ["BETWEEN", "POSITION", "Position", "most_attempts", "place_of_call", "place_of_turn"]

POSITION = r"^(0|[1-9][0-9]{0,8})\.(0|[1-9][0-9]{0,8})$"
"""How positions are written."""

BETWEEN = "outside its model and tool calls"
"""Where a drive is that has begun and has neither a model call nor a tool call in flight: at its tool modules, say."""

_CALL = "call "


@dataclass(frozen=True, slots=True, order=True)
class Position:
    """A tool call's place in its execution: ordinal of the AI message, index of the call in it; both from 0."""

    turn: int
    index: int

    def __str__(self) -> str:
        return f"{self.turn}.{self.index}"

    @classmethod
    def parse(cls, text: str) -> Position:
        """The position that is written like this. Raises ValueError for what does not match POSITION."""
        turn, index = text.split(".")
        return cls(int(turn), int(index))


def place_of_turn(turn: int) -> str:
    """Where a drive is that asks the model for AI message `turn`, in words."""
    return f"model call {turn}"


def place_of_call(position: Position, tool: str) -> str:
    """Where a drive is that runs this call, in words."""
    return f"{_CALL}{position} ({tool})"


def most_attempts(place: str) -> int:
    """How many drives in a row may end at this place without a new stored row; then the execution is stopped. A call is
    never run a third time: it may have had its effect each time."""
    return 2 if place.startswith(_CALL) else 3
