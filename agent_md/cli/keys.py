"""What is typed at a terminal that hands over each key at once: text, and the keys that edit it."""

from __future__ import annotations

import codecs
import re
from enum import Enum, auto

__all__ = ["PASTE_OFF", "PASTE_ON", "Key", "KeyReader"]

PASTE_ON, PASTE_OFF = "\x1b[?2004h", "\x1b[?2004l"
"""Ask a terminal to mark what is pasted, and to do so no more; one that does not know it ignores it."""


class Key(Enum):
    """A key that is no text."""

    ENTER = auto()
    NEW_LINE = auto()
    BACKSPACE = auto()
    DELETE = auto()
    LEFT = auto()
    RIGHT = auto()
    UP = auto()
    DOWN = auto()
    HOME = auto()
    END = auto()
    KILL_WORD = auto()
    KILL_BEFORE = auto()
    KILL_AFTER = auto()
    END_OF_INPUT = auto()


_PASTE, _PASTE_END = "\x1b[200~", "\x1b[201~"
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[\x20-\x7e]|[^\[O])", re.DOTALL)
_BEGUN = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|O)?")
_TEXT = re.compile(r"[^\x00-\x1f\x7f-\x9f]+")
_SEQUENCES = {
    **dict.fromkeys(("\x1b[D", "\x1bOD"), Key.LEFT),
    **dict.fromkeys(("\x1b[C", "\x1bOC"), Key.RIGHT),
    **dict.fromkeys(("\x1b[A", "\x1bOA"), Key.UP),
    **dict.fromkeys(("\x1b[B", "\x1bOB"), Key.DOWN),
    **dict.fromkeys(("\x1b[H", "\x1bOH", "\x1b[1~", "\x1b[7~"), Key.HOME),
    **dict.fromkeys(("\x1b[F", "\x1bOF", "\x1b[4~", "\x1b[8~"), Key.END),
    "\x1b[3~": Key.DELETE,
    **dict.fromkeys(("\x1b\n", "\x1b\r"), Key.NEW_LINE),
}
_CONTROLS = {
    **dict.fromkeys("\r\n", Key.ENTER),
    **dict.fromkeys("\b\x7f", Key.BACKSPACE),
    "\x01": Key.HOME,
    "\x02": Key.LEFT,
    "\x04": Key.END_OF_INPUT,
    "\x05": Key.END,
    "\x06": Key.RIGHT,
    "\x0b": Key.KILL_AFTER,
    "\x0e": Key.DOWN,
    "\x10": Key.UP,
    "\x15": Key.KILL_BEFORE,
    "\x17": Key.KILL_WORD,
}


class KeyReader:
    """Takes bytes as they come, in pieces of any size; keys that mean nothing here are left out.

    What is pasted is text, whatever is in it; its line ends become `\\n`. Bytes that are no UTF-8 become surrogates, as
    in arguments.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._rest = ""
        self._pasting = False

    @property
    def undecided(self) -> bool:
        """Whether a key has begun of which more may come at once: Escape alone, or the beginning of another."""
        return bool(self._rest) and not self._pasting

    def forget(self) -> None:
        """Drops the key that has begun: nothing more came."""
        self._rest = ""

    def feed(self, data: bytes) -> list[Key | str]:
        """The keys and texts that are complete now, in order."""
        self._rest += self._decoder.decode(data)
        found: list[Key | str] = []
        while self._rest and (self._take_pasted(found) if self._pasting else self._take_typed(found)):
            pass
        return found

    def _take_pasted(self, found: list[Key | str]) -> bool:
        text, end, rest = self._rest.partition(_PASTE_END)
        kept = 0 if end else _overlap(text, "\r", _PASTE_END)
        text, held = text[: len(text) - kept], text[len(text) - kept :]
        if text:
            found.append(text.replace("\r\n", "\n").replace("\r", "\n"))
        self._pasting, self._rest = not end, rest or held
        return bool(end)

    def _take_typed(self, found: list[Key | str]) -> bool:
        if text := _TEXT.match(self._rest):
            found.append(text.group())
            self._rest = self._rest[text.end() :]
        elif self._rest[0] != "\x1b":
            self._add(found, _CONTROLS.get(self._rest[0]))
            self._rest = self._rest[1:]
        elif sequence := _SEQUENCE.match(self._rest):
            self._pasting = sequence.group() == _PASTE
            self._add(found, _SEQUENCES.get(sequence.group()))
            self._rest = self._rest[sequence.end() :]
        elif _BEGUN.fullmatch(self._rest):
            return False
        else:
            self._rest = self._rest[1:]
        return True

    @staticmethod
    def _add(found: list[Key | str], key: Key | None) -> None:
        if key is not None:
            found.append(key)


def _overlap(text: str, *wanted: str) -> int:
    """How much of the end of `text` may be the beginning of one of these texts."""
    return max((n for each in wanted for n in range(1, len(each) + 1) if text.endswith(each[:n])), default=0)
