"""The texts of a chat: start, help, end. All of them are visible text.

A chat with a server says the same where it can."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from agent_md.cli.views.hanging_indent import Hanging, paragraph
from agent_md.cli.views.money import dollars
from agent_md.cli.views.short_json import short_json
from agent_md.cli.views.text_width import cut
from agent_md.cli.views.times import date_time
from agent_md.executions.chat_messages import chat_message
from agent_md.executions.execution import Usage
from agent_md.visible_text import counted, one_line, visible

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = [
    "HELP",
    "TYPING",
    "agent_lines",
    "beginning",
    "continue_hint",
    "continuing",
    "message_texts",
    "said_lines",
    "totals",
]

TYPING = (
    "  /exit, /quit or Ctrl-D ends the chat, /help shows this; any other text is a message.",
    "  /clear begins a new session, /history shows this one, /cost what it took, /agents who there is, /model who answers.",
    "  Enter sends; Alt-Enter begins a new line; what is pasted waits for Enter. Up, down and Ctrl-R: earlier messages.",
)
HELP = (
    *TYPING,
    "  Ctrl-C clears what is typed; else it cancels a turn that runs, leaves a question open, or ends the chat.",
)
_WIDEST = 200
_INDENT = 5
_SIGNS = {"user": "👤", "assistant": "💬", "call": "🔧"}


def beginning(agent: str, reached: str, session_id: str, *, asks: bool) -> list[RenderableType]:
    """The first lines: `▶ Chat with cleaner  google/gemini-2.5-flash` and the session. `reached` is the model, or the
    address of the server that has the agent; `asks`: somebody types the messages."""
    help_line = "; /help helps, /exit ends" if asks else ""
    title = Text.assemble(("▶ Chat with", "bold"), f" {one_line(agent)}  ", (one_line(reached), "dim"))
    return [Hanging(title), paragraph(f"  Session {one_line(session_id)}{help_line}")]


def continuing(
    said: Sequence[tuple[str, str]],
    *,
    changed_at: float | None = None,
    answered: bool = True,
) -> Iterator[RenderableType]:
    """How far a session has come, when it changed last if that is known, and its last message of each side.

    `said` are pairs of role and text. Of a turn that is not `answered` there is no answer yet; of a session in which
    no user said anything there is nothing.
    """
    asked = [at for at, (role, _) in enumerate(said) if role == "user"]
    if not asked:
        return
    when = "" if changed_at is None else f", the last change {date_time(changed_at)}"
    yield paragraph(f"  It goes on after {counted(len(asked), 'turn')}{when}:")
    yield _quoted("user", said[asked[-1]][1])
    replies = [text for role, text in said[asked[-1] + 1 :] if role == "assistant" and text.strip()]
    if answered and replies:
        yield _quoted("assistant", replies[-1])


def _quoted(role: str, text: str) -> RenderableType:
    """What the `user` or the `assistant` said, on one line that is cut to the screen."""
    line = f"  {_SIGNS[role]} {visible(text.strip(), one_line=True, prose=True)}"
    return Text(cut(line, _WIDEST), "dim", no_wrap=True, overflow="ellipsis")


def message_texts(messages: Iterable[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Messages in stored form as pairs of role and text, each call of theirs as one of the role `call`."""
    said: list[tuple[str, str]] = []
    for stored in messages:
        message = chat_message(stored)
        said.append((message["role"], str(message["content"])))
        said += [
            ("call", f"{call['name']} {short_json(call['args'], _WIDEST)}")
            for call in stored["data"].get("tool_calls") or ()
        ]
    return said


def said_lines(said: Sequence[tuple[str, str]]) -> Iterator[RenderableType]:
    """All that was said, each message with a sign; `said` as for `continuing`, and calls too, of the role `call`.
    Messages of other roles, and those without a text, are left out."""
    for role, text in said:
        if text.strip() and role in _SIGNS:
            yield Hanging(Text(f"  {_SIGNS[role]} {visible(text.strip(), prose=True)}"), _INDENT)


def agent_lines(agents: Sequence[tuple[str, str]], mine: str) -> Iterator[RenderableType]:
    """Agents, as pairs of name and description; who is talked to, `mine`, is marked."""
    for name, description in agents:
        mark = "▶" if name == mine else " "
        yield Hanging(Text.assemble(f"  {mark} {one_line(name)}  ", (one_line(description), "dim")), _INDENT)


def totals(usages: Sequence[Usage]) -> str:
    """`3 turns, 1,234 tokens, $0.0012`."""
    costs = [usage.cost_usd for usage in usages]
    known = [cost for cost in costs if cost is not None]
    shown = dollars(sum(known) if len(known) == len(costs) else None)
    tokens = sum(usage.total_tokens for usage in usages)
    return f"{counted(len(usages), 'turn')}, {tokens:,} tokens, {shown}"


def continue_hint(place: Sequence[str], session_id: str) -> str:
    """How the session is continued; `place` are the words of the command line that name where it is."""
    words = ("agentmd", "chat", *place, "--session", session_id)
    return f"This session goes on with: {one_line(shlex.join(words))}"
