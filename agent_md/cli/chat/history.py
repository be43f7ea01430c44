"""The history of typed messages of a workspace's chats, in a file in its state folder.

Answers to questions are never in it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.history import History

__all__ = ["ChatHistory"]

_FILE = "chat-history.jsonl"
_KEPT = 1_000
"""Messages that are kept when the file has grown too large."""
_LARGEST = 4 << 20
"""Bytes of the file after which older messages are dropped when the next chat begins."""
_LONGEST = 64 << 10
"""Characters. A longer message is a document that was pasted, which nobody calls back by a key."""


class ChatHistory(History):
    """Oldest first in the file, each message a line of JSON; only its owner may read it (0600).

    A file that cannot be read or written is no reason to stop: then messages are kept for this chat alone.
    """

    def __init__(self, state_dir: Path) -> None:
        super().__init__()
        self._path = state_dir / _FILE

    def load_history_strings(self) -> Iterable[str]:
        """The messages, newest first; lines of the file that are none are passed over."""
        try:
            data = self._read()
        except OSError:
            return []
        texts = [text for line in data.split(b"\n") if (text := _text_of(line)) is not None]
        if len(data) > _LARGEST:
            texts = texts[-_KEPT:]
            with suppress(OSError):
                self._replace(texts)
        return reversed(texts)

    def store_string(self, string: str) -> None:
        """Adds a message to the file, in one write: several chats may do so at once."""
        if not string.strip() or len(string) > _LONGEST or not self._path.parent.is_dir():
            return
        with suppress(OSError):
            file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                os.write(file, _line_of(string))
            finally:
                os.close(file)

    def _read(self) -> bytes:
        with open(os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
            return file.read()

    def _replace(self, texts: Iterable[str]) -> None:
        beside = self._path.with_suffix(f".{os.getpid()}")
        with open(os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file:
            file.writelines(map(_line_of, texts))
        beside.replace(self._path)


def _line_of(text: str) -> bytes:
    return json.dumps(text).encode("ascii") + b"\n"


def _text_of(line: bytes) -> str | None:
    try:
        text = json.loads(line)
    except ValueError:
        return None
    return text if isinstance(text, str) else None
