"""The main loop of chats: reads messages, runs commands, ends the chat. `Conversation` is what it needs of local and remote ones."""

from __future__ import annotations

import re
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NoReturn, Protocol

from rich.console import RenderableType

from agent_md.agents.names import nearest
from agent_md.cli.chat.message_input import Messages
from agent_md.cli.exit_codes import INTERRUPTED
from agent_md.cli.terminal.output import NoReader, note, say
from agent_md.cli.terminal.signals import taken_over
from agent_md.cli.views.chat_texts import agent_lines, said_lines, totals
from agent_md.cli.views.hanging_indent import paragraph
from agent_md.errors import UsageError
from agent_md.executions.execution import Usage
from agent_md.visible_text import one_line

__all__ = ["COMMANDS", "ChatEnded", "ChatLines", "Conversation", "nobody_reads", "take_turns"]

_ENDS = ("/exit", "/quit")
COMMANDS = (*_ENDS, "/help", "/clear", "/history", "/cost", "/agents", "/model")
"""What is obeyed when it is typed, and not sent."""
_COMMAND = re.compile(r"(?P<name>/[a-z]+)\s*|(?P<takes>/model)\s+(?P<argument>\S+)\s*")
"""What looks like a command; with a blank before it, it is a message."""

_Commands = Mapping[str, Callable[[str], Iterable[RenderableType]]]
"""What each command does with its argument, which may be empty: its visible lines. Raises UsageError."""


class Conversation(Protocol):
    """A conversation with an agent, wherever its turns run. What cannot be told or done raises UsageError."""

    @property
    def help(self) -> Sequence[str]:
        """What can be typed; visible lines."""

    def begin(self) -> None:
        """Says with whom it is and how far it has come, and finishes a turn that is under way."""

    def turn(self, text: str) -> int:
        """Sends a message and follows its turn; gives the exit code of the turn. Raises ChatEnded."""

    def end(self) -> None:
        """Says how it can be continued, if it can, and frees what it holds."""

    def clear(self) -> Iterable[RenderableType]:
        """Begins a new session; visible lines that say so."""

    def said(self) -> Sequence[tuple[str, str]]:
        """All that was said, as pairs of role and text."""

    def costs(self) -> Iterable[tuple[str, Sequence[Usage]]]:
        """What turns took: pairs of which turns, and the usage of each."""

    def agents(self) -> tuple[Sequence[tuple[str, str]], str, str]:
        """The agents with their descriptions, which of them this is, and the command that talks with another one."""

    def model(self, wanted: str) -> str:
        """Which model answers; of `wanted`, if it is not empty, from now on."""


class ChatEnded(BaseException):
    """The chat ends; `code` is the exit code. No Exception: a signal may raise it inside of any library's `except`."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class ChatLines:
    """Visible lines of ours: between the turns where somebody `talks` at a terminal, else to standard error, away from
    the answers. That nobody reads them is no reason to stop."""

    def __init__(self, *, talks: bool) -> None:
        self._talks = talks

    def tell(self, *lines: RenderableType) -> None:
        """Visible lines and renderables. Empty lines are for a terminal alone."""
        for line in lines:
            if self._talks:
                self._say(line)
            elif line:
                note(line)

    def explain(self, *lines: RenderableType) -> None:
        """As `tell`, with texts folded at words."""
        self.tell(*(paragraph(line) if line and isinstance(line, str) else line for line in lines))

    def _say(self, line: RenderableType) -> None:
        with suppress(NoReader, OSError):
            say(line)


def take_turns(conversation: Conversation, messages: Messages, lines: ChatLines, *, talks: bool) -> int:
    """Takes turns until the messages end; gives the exit code: of what somebody `talks` at a terminal 0, else that of the
    last turn."""

    def talk() -> int:
        conversation.begin()
        code = 0
        for text in _messages_to_agent(messages, lines.explain, _commands(conversation), typed=talks):
            code = conversation.turn(text)
        return 0 if talks else code

    try:
        return _code_of_chat(talk)
    finally:
        conversation.end()


def _commands(conversation: Conversation) -> _Commands:
    def history(_: str) -> Iterable[RenderableType]:
        return list(said_lines(conversation.said())) or ["  Nothing was said in this session yet."]

    def agents(_: str) -> Iterator[RenderableType]:
        found, mine, another = conversation.agents()
        yield from agent_lines(found, mine)
        yield f"  `{another}` talks with another one."

    return {
        "/help": lambda _: conversation.help,
        "/clear": lambda _: conversation.clear(),
        "/history": history,
        "/cost": lambda _: [f"  {turns}: {totals(usages)}" for turns, usages in conversation.costs()],
        "/agents": agents,
        "/model": lambda wanted: [one_line(f"  {conversation.model(wanted)}")],
    }


def _messages_to_agent(
    messages: Messages, tell: Callable[..., None], commands: _Commands, *, typed: bool
) -> Iterator[str]:
    """The messages that are meant for the agent, as they were given; the commands among them are obeyed.

    What is `typed` may be a mistake: what looks like a command and is none is not given, and `tell` says so. Lines of
    a program are all meant as they are, except those that end the chat.
    """
    while (text := messages.next()) is not None:
        word = text.strip()
        if word in _ENDS:
            raise ChatEnded(0)
        if typed and (found := _COMMAND.fullmatch(text)) is not None:
            tell(*_obeyed(found["name"] or found["takes"], found["argument"] or "", commands))
        elif word:
            yield text


def _obeyed(name: str, argument: str, commands: _Commands) -> list[RenderableType]:
    if name not in commands:
        return [_no_command(name)]
    try:
        return list(commands[name](argument))
    except UsageError as error:
        return [f"  {one_line(str(error))}"]


def _no_command(word: str) -> str:
    near = nearest(word, COMMANDS)
    hint = f"did you mean {near}?" if near else f"there are {', '.join(COMMANDS)}."
    return f"  there is no command {word}; {hint} To send it, put a blank before it"


def nobody_reads(tell: Callable[..., None], code: int) -> NoReturn:
    """Ends a chat of a program whose answers reach nobody: the model is not asked for them."""
    tell("Nobody gets the answers any more; no further message is sent.")
    raise ChatEnded(code)


def _code_of_chat(talk: Callable[[], int]) -> int:
    """The exit code of a chat. SIGTERM and SIGHUP end it in order while it waits for a message; a turn has handlers of
    its own."""
    try:
        with taken_over((signal.SIGTERM, signal.SIGHUP), _end):
            return talk()
    except ChatEnded as over:
        return over.code
    except KeyboardInterrupt:
        return INTERRUPTED


def _end(number: int) -> NoReturn:
    raise ChatEnded(128 + number)
