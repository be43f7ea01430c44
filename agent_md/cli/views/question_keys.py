"""The keys that a question accepts, and the line that lists them."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

from agent_md.cli.views.hanging_indent import Hanging, paragraph
from agent_md.cli.views.screen import Screen
from agent_md.cli.views.text_width import width_of
from agent_md.executions.states import RequestKind

__all__ = ["Command", "hint_lines"]


class Command(StrEnum):
    """What is typed instead of an answer; the question is put again after it."""

    EDIT = "e"
    ALWAYS = "a"
    EVERYTHING = "?"


_ANSWERS = {
    RequestKind.CONFIRM: ("y yes", "n no", "n TEXT no, with this reason"),
    RequestKind.CUSTOM: ("a JSON value",),
}
_ONE, _SEVERAL = "a number, or an option as it is written", "numbers or options, separated by commas"
_COMMANDS = {Command.EDIT: "e edit", Command.ALWAYS: "a always", Command.EVERYTHING: "? everything"}


def hint_lines(
    kind: RequestKind, commands: Collection[Command], screen: Screen, *, multi: bool = False
) -> tuple[Hanging, ...]:
    """What can be typed, on one dim line that is folded where it is too wide; none where any text is the answer."""
    if kind is RequestKind.INPUT:
        return ()
    answers = _ANSWERS.get(kind, (_SEVERAL if multi else _ONE,))
    line, *further = [*answers, *(text for command, text in _COMMANDS.items() if command in commands)]
    rows = [f"  {line}"]
    for part in further:
        longer = f"{rows[-1]} · {part}"
        if screen.width is None or width_of(longer) <= screen.width:
            rows[-1] = longer
        else:
            rows.append(f"  {part}")
    return tuple(paragraph(row, "dim") for row in rows)
