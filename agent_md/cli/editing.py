"""A text that is being typed: how keys change it, and how it stands on a screen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from agent_md.cli.keys import Key
from agent_md.cli.text import visible, width_of

__all__ = ["EditedText", "Layout", "laid_out"]

_TAB = 8
_INDENT = "  "


class EditedText:
    """A text with a cursor in it. Up and down go through `past`, oldest first, and come back to what was typed."""

    def __init__(self, past: Sequence[str] = ()) -> None:
        self.text = ""
        self.cursor = 0
        self._past = [*past, ""]
        self._at = len(past)

    def apply(self, key: Key | str) -> None:
        """Puts a text where the cursor is, or does what a key says; ENTER and END_OF_INPUT change nothing."""
        if isinstance(key, str):
            self._replace(self.cursor, self.cursor, key)
        elif key in _EDITS:
            _EDITS[key](self)

    def _replace(self, start: int, end: int, text: str = "") -> None:
        self.text = self.text[:start] + text + self.text[end:]
        self.cursor = start + len(text)

    def _recall(self, step: int) -> None:
        wanted = self._at + step
        if 0 <= wanted < len(self._past):
            self._past[self._at] = self.text
            self._at, self.text = wanted, self._past[wanted]
            self.cursor = len(self.text)

    def _go(self, place: int) -> None:
        self.cursor = min(max(place, 0), len(self.text))

    def _kill_word(self) -> None:
        before = self.text[: self.cursor].rstrip()
        start = next((index for index in range(len(before), 0, -1) if before[index - 1].isspace()), 0)
        self._replace(start, self.cursor)

    def _line_start(self) -> int:
        return self.text.rfind("\n", 0, self.cursor) + 1

    def _line_end(self) -> int:
        end = self.text.find("\n", self.cursor)
        return len(self.text) if end < 0 else end


_EDITS: dict[Key, Callable[[EditedText], None]] = {
    Key.NEW_LINE: lambda edited: edited.apply("\n"),
    Key.BACKSPACE: lambda edited: edited._replace(max(0, edited.cursor - 1), edited.cursor),
    Key.DELETE: lambda edited: edited._replace(edited.cursor, edited.cursor + 1),
    Key.LEFT: lambda edited: edited._go(edited.cursor - 1),
    Key.RIGHT: lambda edited: edited._go(edited.cursor + 1),
    Key.UP: lambda edited: edited._recall(-1),
    Key.DOWN: lambda edited: edited._recall(1),
    Key.HOME: lambda edited: edited._go(edited._line_start()),
    Key.END: lambda edited: edited._go(edited._line_end()),
    Key.KILL_WORD: EditedText._kill_word,
    Key.KILL_BEFORE: lambda edited: edited._replace(edited._line_start(), edited.cursor),
    Key.KILL_AFTER: lambda edited: edited._replace(edited.cursor, edited._line_end()),
}


@dataclass(frozen=True, slots=True)
class Layout:
    """Rows of a screen, all visible text, and where the cursor stands in them."""

    rows: tuple[str, ...]
    row: int
    column: int

    def last(self, most: int) -> Layout:
        """At most so many rows of it, that of the cursor among them."""
        first = max(0, min(self.row, len(self.rows) - most))
        return Layout(self.rows[first : first + most], self.row - first, self.column)


def laid_out(prompt: str, text: str, cursor: int, width: int) -> Layout:
    """The prompt and the text behind it, made visible and folded at `width`; further lines are indented."""
    shown = visible(text)
    place = min(len(visible(text[:cursor])), len(shown))
    rows, used, found = [prompt], width_of(prompt), (0, 0)
    for index, character in enumerate(f"{shown} "):  # the blank is where the cursor may stand behind it all
        piece = " " * (_TAB - used % _TAB) if character == "\t" else character
        columns = width_of(piece) if piece != "\n" else 0
        if columns and used + columns > width:
            rows.append("")
            used = 0
        if index == place:
            found = len(rows) - 1, min(used, width - 1)
        if piece == "\n":
            rows.append(_INDENT)
            used = len(_INDENT)
        elif index < len(shown):
            rows[-1] += piece
            used += columns
    return Layout(tuple(rows), *found)
