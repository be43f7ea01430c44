"""What every chat has in common, whoever drives its turns: which messages are commands, and how it ends."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NoReturn

from agent_md.cli.chat_input import Messages

__all__ = ["ChatOver", "code_of_chat", "messages_to_agent"]

_ENDS = ("/exit", "/quit")
_HELP = "/help"
_INTERRUPTED = 130


class ChatOver(Exception):
    """The chat ends; `code` is the exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def messages_to_agent(messages: Messages, show_help: Callable[[], None]) -> Iterator[str]:
    """The messages that are meant for the agent, as they were given; the commands among them are obeyed."""
    while (text := messages.next()) is not None:
        word = text.strip()
        if word in _ENDS:
            raise ChatOver(0)
        if word == _HELP:
            show_help()
        elif word:
            yield text


def code_of_chat(talk: Callable[[], int]) -> int:
    """The exit code of a chat. SIGTERM and SIGHUP end it in order while it waits for a message; a turn has handlers of
    its own."""
    try:
        with _ended_by_signals():
            return talk()
    except ChatOver as over:
        return over.code
    except KeyboardInterrupt:
        return _INTERRUPTED


@contextmanager
def _ended_by_signals() -> Iterator[None]:
    def end(number: int, _: object) -> NoReturn:
        raise ChatOver(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, earlier in before.items():
            signal.signal(number, earlier)
