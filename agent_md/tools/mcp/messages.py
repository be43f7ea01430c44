"""What comes from a server, as messages of the protocol, within bounds: a server that breaks them is done with."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

__all__ = ["LONGEST_MESSAGE", "MOST_VALUES", "Incoming", "ServerFault", "ValueCount"]

LONGEST_MESSAGE = 10 << 20
"""Bytes of one message."""
_MOST_JUNK = 1 << 18
"""Bytes of standard output that are no messages; servers print greetings there."""
_SHOWN_JUNK = 1000
_MOST_UNASKED = 10_000
"""Messages after our last one."""
MOST_VALUES = 50_000
"""Values in one message: to read very many takes a second in which nothing else runs in this process."""

_ESCAPE = re.compile(rb"\\.", re.DOTALL)


class ServerFault(Exception):
    """Why a server cannot be used, or cannot be used any more; the end of a sentence about it."""


class ValueCount:
    """Counts the values of JSON that comes in pieces; signs within its texts do not count."""

    def __init__(self) -> None:
        self.count = 0
        self._in_text = False
        self._escaped = False

    def add(self, piece: bytes) -> int:
        """The number so far."""
        plain = _ESCAPE.sub(b"", b"\\" + piece if self._escaped else piece)
        self._escaped = plain.endswith(b"\\")
        parts = plain.removesuffix(b"\\").split(b'"')
        outside = b"".join(parts[1 if self._in_text else 0 :: 2])
        self._in_text ^= len(parts) % 2 == 0
        self.count += _signs(outside)
        return self.count


def _signs(data: bytes) -> int:
    return sum(data.count(sign) for sign in (b",", b"[", b"{"))


class Incoming:
    """Makes messages of the pieces that a pipe gives."""

    def __init__(self, junk: Callable[[bytes], None]) -> None:
        """`junk` gets the beginning of what is no message."""
        self._junk = junk
        self._parts: list[bytes] = []
        self._size = 0
        self._junk_size = 0
        self._junk_lines: list[bytes] = []
        self._unasked = 0

    def asked(self) -> None:
        """Something was sent to the server."""
        self._unasked = 0

    def feed(self, chunk: bytes) -> Iterator[SessionMessage]:
        """The messages that are whole now. Raises ServerFault."""
        *lines, rest = chunk.split(b"\n")
        for line in lines:
            whole = b"".join((*self._parts, line))
            self._parts, self._size = [], 0
            if (message := self._message(whole)) is not None:
                yield message
        if self._junk_lines:
            self._junk(b"\n".join([*self._junk_lines, b""])[:_SHOWN_JUNK])
            self._junk_lines.clear()
        self._parts.append(rest)
        self._size += len(rest)
        if self._size > LONGEST_MESSAGE:
            raise ServerFault(f"it sent a line of more than {LONGEST_MESSAGE >> 20} MiB, and was ended")

    def _message(self, line: bytes) -> Any:
        from mcp.shared.message import SessionMessage
        from mcp.types import JSONRPCMessage

        if _signs(line) > MOST_VALUES and ValueCount().add(line) > MOST_VALUES:
            raise ServerFault(f"it sent a message of more than {MOST_VALUES} values, and was ended")
        if not line.lstrip().startswith(b"{"):
            return self._dropped(line)
        try:
            message = SessionMessage(JSONRPCMessage.model_validate_json(line))
        except ValueError:
            return self._dropped(line)
        self._unasked += 1
        if self._unasked > _MOST_UNASKED:
            raise ServerFault(f"it sent {_MOST_UNASKED} messages that nobody asked for, and was ended")
        return message

    def _dropped(self, line: bytes) -> None:
        self._junk_lines.append(line[:_SHOWN_JUNK])
        self._junk_size += len(line) + 1
        if self._junk_size > _MOST_JUNK:
            raise ServerFault("it keeps writing what is no message to its standard output, and was ended")
