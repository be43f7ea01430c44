"""Reads keys for the line editor, and detects pastes that the terminal does not mark."""

from __future__ import annotations

import codecs
import os
import select
from collections.abc import Sequence

from prompt_toolkit.input.vt100 import Vt100Input
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.keys import Keys

__all__ = ["AT_ONCE_S", "TerminalInput", "ready"]

AT_ONCE_S = 0.03
"""Seconds. What comes within them after a line was pasted with it: nobody types that fast, not even a held key."""
_PIECE = 65_536
_MOST = 1 << 20
"""Maximum number of keys processed at once, so that the event loop keeps running during a large paste."""
_ENTER = (Keys.ControlM, Keys.ControlJ)


class TerminalInput(Vt100Input):
    """Hands over keys; several lines that come at once are one paste, whether the terminal marks it or not.

    Such a paste begins with the first Enter that more text follows, so it never ends a text that is being typed.
    """

    def __init__(self, source: int) -> None:
        super().__init__(open(source, encoding="utf-8", closefd=False))  # noqa: SIM115 - the descriptor is not ours
        self._source = source
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    def read_keys(self) -> list[KeyPress]:
        keys = self._read()
        while (
            not self._closed and ready(self._source, AT_ONCE_S if _ends_with_enter(keys) else 0) and len(keys) < _MOST
        ):
            keys += self._read()
        start = _start_of_paste(keys)
        if start is None:
            return keys
        while not self._closed and len(keys) < _MOST and ready(self._source, AT_ONCE_S):
            keys += self._read()
        return [*keys[:start], KeyPress(Keys.BracketedPaste, _text_of(keys[start:]))]

    def typed_ahead(self) -> str:
        """The text that waits in the terminal, without line ends around it; keys that are no text are left out."""
        keys: list[KeyPress] = []
        while not self._closed and len(keys) < _MOST and ready(self._source, 0):
            keys += self._read()
        return _text_of(keys).replace("\r\n", "\n").replace("\r", "\n").strip("\n")

    def _read(self) -> list[KeyPress]:
        """The keys of what can be read at once. A key that has only begun comes with its rest."""
        try:
            data = os.read(self._source, _PIECE)
        except OSError:  # the terminal is gone
            data = b""
        self._closed = not data
        self.vt100_parser.feed(self._decoder.decode(data))
        keys, self._buffer = self._buffer, []
        return keys


def ready(source: int, patience: float) -> bool:
    """Whether something can be read within so many seconds."""
    return bool(select.select([source], [], [], patience)[0])


def _ends_line(keys: Sequence[KeyPress], at: int) -> bool:
    return keys[at].key in _ENTER and (at == 0 or keys[at - 1].key != Keys.Escape)


def _ends_with_enter(keys: Sequence[KeyPress]) -> bool:
    return bool(keys) and _ends_line(keys, len(keys) - 1)


def _start_of_paste(keys: Sequence[KeyPress]) -> int | None:
    """Where the first line ends that more text follows; None if there is no such line."""
    texts = [at for at, key in enumerate(keys) if _text_of([key])]
    return next((at for at in range(len(keys)) if _ends_line(keys, at) and texts[-1] > at), None)


def _text_of(keys: Sequence[KeyPress]) -> str:
    """The text among the keys: characters, tabs, line ends and what was pasted."""
    return "".join(key.data for key in keys if not isinstance(key.key, Keys) or key.key in _TEXTS)


_TEXTS = (*_ENTER, Keys.ControlI, Keys.BracketedPaste)
