"""A text of others that comes in pieces, laid out in rows as it grows."""

from __future__ import annotations

from collections import deque
from itertools import islice

from agent_md.cli.views.visible_text import visible, width_of

__all__ = ["GrowingText", "VisiblePieces"]

_SEEN = 9
"""Characters before one on which it depends how that one is shown: a pile of marks is that high."""
_UNDECIDED = "\ufe0f\u200c\u200d"
"""How they are shown depends on the character after them."""
_TAB = 8
_INDENT = "  "
_KEPT_ROWS = 500


class VisiblePieces:
    """`visible` for prose in pieces: what comes out, joined, is what `visible` makes of the whole."""

    def __init__(self) -> None:
        self._context = ""
        self._held = ""

    def feed(self, piece: str) -> str:
        """What can be shown now; an undecided character at the end comes with the next piece."""
        text = self._held + piece
        decided = text.rstrip(_UNDECIDED)
        self._held = text[len(decided) :]
        before, self._context = self._context, (self._context + decided)[-_SEEN:]
        return visible(before + decided, prose=True).removeprefix(visible(before, prose=True))


class GrowingText:
    """The rows of `beginning` and the text behind it, folded at the screen's edge like a terminal does.

    Further lines of the text are indented, as in everything that is shown of a run. Costs as much as what is added;
    only when the width changes everything is laid out anew.
    """

    def __init__(self, beginning: str) -> None:
        """`beginning` is a visible line of ours without painting."""
        self._beginning = beginning
        self._pieces: list[str] = []
        self._width = 0
        self._laid = 0
        self._restart(1)

    def add(self, piece: str) -> None:
        self._pieces.append(piece)

    def rows(self, width: int, most: int) -> list[str]:
        """The last rows of it in `width` columns; if there are more than `most`, the first of them says so."""
        if width != self._width:
            self._restart(width)
        for piece in islice(self._pieces, self._laid, None):
            self._lay(self._visible.feed(piece))
        self._laid = len(self._pieces)
        if self._count <= most:
            return list(self._rows)
        kept = islice(self._rows, max(0, len(self._rows) - most + 1), None) if most > 1 else ()
        return [f"{self._beginning}…", *kept]

    def _restart(self, width: int) -> None:
        self._width, self._laid, self._count = width, 0, 0
        self._visible = VisiblePieces()
        self._rows: deque[str] = deque(maxlen=_KEPT_ROWS)
        self._new_row("")
        self._lay(self._beginning)

    def _new_row(self, beginning: str) -> None:
        self._rows.append(beginning)
        self._used = len(beginning)
        self._count += 1

    def _lay(self, text: str) -> None:
        for character in text:
            if character == "\n":
                self._new_row(_INDENT)
                continue
            if character == "\t":
                self._append(" " * min(_TAB - self._used % _TAB, self._width - 1 - self._used))
                continue
            columns = 1 if " " <= character < "\x7f" else width_of(character)
            if self._used + columns > self._width:
                self._new_row("")
            self._append(character, columns)

    def _append(self, text: str, columns: int | None = None) -> None:
        self._rows[-1] += text
        self._used += len(text) if columns is None else columns
