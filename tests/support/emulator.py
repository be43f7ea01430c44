"""What a terminal shows of the bytes that it gets: a strict one, to which every sequence that it does not know is a fault."""

from __future__ import annotations

import re
import unicodedata

__all__ = ["Emulator", "shown"]

_SEQUENCE = re.compile(r"\x1b\[(?P<parameters>[?0-9;]*)(?P<final>[A-Za-z])")


class Emulator:
    """Rows of cells, those that left the screen at its top included. A resize folds rows anew, as most terminals do."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self._columns, self._height = columns, rows
        self._rows: list[list[str]] = [[]]
        self._continued: list[bool] = [False]
        self._row = self._column = self._top = 0
        self._wraps = True
        self.frames: list[str] = []
        """The text after each sequence that ends a frame of a live area."""

    def feed(self, text: str) -> None:
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                found = _SEQUENCE.match(text, at)
                assert found, f"no sequence of ours: {text[at : at + 20]!r}"
                self._obey(found["parameters"], found["final"])
                at = found.end()
            else:
                self._put(text[at])
                at += 1

    def resize(self, columns: int) -> None:
        lines: list[list[str]] = []
        places: dict[int, tuple[int, int]] = {}
        for number, row in enumerate(self._rows):
            if not self._continued[number]:
                lines.append([])
            places[number] = (len(lines) - 1, len(lines[-1]))
            lines[-1] += row
        line, before = places[self._row]
        column = before + self._column
        self._columns, self._rows, self._continued = columns, [], []
        for number, cells in enumerate(lines):
            pieces = [cells[i : i + columns] for i in range(0, len(cells), columns)] or [[]]
            if number == line:
                self._row, self._column = len(self._rows) + min(column // columns, len(pieces) - 1), column % columns
            self._continued += [False] + [True] * (len(pieces) - 1)
            self._rows += pieces
        self._top = max(self._top, len(self._rows) - self._height)
        self._top = min(self._top, self._row)

    @property
    def text(self) -> str:
        """All lines, folded ones in one piece, without blanks at their ends."""
        lines: list[str] = []
        for row, continued in zip(self._rows, self._continued, strict=True):
            if continued:
                lines[-1] += "".join(row)
            else:
                lines.append("".join(row))
        return "\n".join(line.rstrip() for line in lines)

    @property
    def screen(self) -> list[str]:
        """The rows as they stand, without blanks at their ends."""
        return ["".join(row).rstrip() for row in self._rows]

    @property
    def cursor(self) -> tuple[int, int]:
        """Row, counted from the first line of all, and column."""
        return self._row, self._column

    def _obey(self, parameters: str, final: str) -> None:
        match final, parameters:
            case "K", "" | "0":
                del self._rows[self._row][self._column :]
            case "J", "" | "0":
                del self._rows[self._row][self._column :]
                del self._rows[self._row + 1 :], self._continued[self._row + 1 :]
            case "A" | "B" | "C" | "D", _:
                self._move(final, int(parameters or 1))
            case "m", _:
                pass
            case "h" | "l", "?1" | "?12" | "?25" | "?2004":
                pass  # keys of the cursor, how it looks, whether pastes are marked: nothing that is shown
            case "h" | "l", "?7":
                self._wraps = final == "h"
                if self._wraps:
                    self.frames.append(self.text)
            case _:
                raise AssertionError(f"no sequence of ours: CSI {parameters}{final}")

    def _move(self, final: str, count: int) -> None:
        if final in "AB":
            row = self._row + (count if final == "B" else -count)
            self._row = min(max(self._top, row), len(self._rows) - 1)
        else:
            column = self._column + (count if final == "C" else -count)
            self._column = min(max(0, column), self._columns - 1)

    def _put(self, character: str) -> None:
        if character == "\r":
            self._column = 0
        elif character == "\n":
            self._next_row(continued=False)
        elif character == "\t":
            for _ in range(min(8 - self._column % 8, self._columns - 1 - self._column)):
                self._cell(" ")
        elif character == "\b":
            self._column = max(0, self._column - 1)
        elif (
            unicodedata.category(character) in ("Mn", "Me") or character in "\u200c\u200d" or "🏻" <= character <= "🏿"
        ):
            self._rows[self._row][self._column - 1] += character
        else:
            assert character.isprintable(), f"a terminal would obey {character!r}"
            wide = unicodedata.east_asian_width(character) in "WF"
            self._cell(character, 2 if wide else 1)
            if wide:
                self._cell("")

    def _cell(self, character: str, size: int = 1) -> None:
        if self._column + size > self._columns:
            if self._wraps:
                self._next_row(continued=True)
                self._column = 0
            else:
                self._column = self._columns - 1
        row = self._rows[self._row]
        row += [" "] * (self._column + 1 - len(row))
        row[self._column] = character
        self._column += 1

    def _next_row(self, *, continued: bool) -> None:
        self._row += 1
        if self._row == len(self._rows):
            self._rows.append([])
            self._continued.append(continued)
        self._top = max(self._top, self._row - self._height + 1)


def shown(output: str, columns: int = 80, rows: int = 24) -> str:
    """What stands on a terminal after this output, with all that left its screen; `output` may have bare newlines."""
    emulator = Emulator(columns, rows)
    emulator.feed(re.sub(r"(?<!\r)\n", "\r\n", output))
    return emulator.text
