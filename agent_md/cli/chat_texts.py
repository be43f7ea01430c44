"""What a chat says of itself: its first lines, its help, its last lines. All of it is visible text."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import Any

from agent_md.cli.money import dollars
from agent_md.cli.screen import PLAIN, Screen, Style
from agent_md.cli.text import cut, one_line
from agent_md.executions.model import Usage
from agent_md.executions.sessions import Session

__all__ = ["HELP", "TYPING", "beginning", "continuing", "totals", "way_back"]

TYPING = (
    "  /exit, /quit or Ctrl-D ends the chat, /help shows this; any other text is a message.",
    "  Enter sends; Alt-Enter begins a new line; what is pasted waits for Enter. Up and down: earlier messages.",
)
HELP = (
    *TYPING,
    "  Ctrl-C cancels a turn that runs, leaves a question open, and ends the chat where a message is awaited.",
)
_WIDEST = 200
_SIGNS = {"human": "👤", "ai": "💬"}


def beginning(agent: str, model: str, session_id: str, screen: Screen = PLAIN, *, asks: bool) -> list[str]:
    """The first lines: `▶ Chat with cleaner  google/gemini-2.5-flash` and the session."""
    help_line = "; /help helps, /exit ends" if asks else ""
    return [
        f"{screen.painter('▶ Chat with', Style.BOLD)} {one_line(agent)}  {screen.painter(one_line(model), Style.DIM)}",
        f"  Session {one_line(session_id)}{help_line}",
    ]


def continuing(session: Session, messages: Sequence[dict[str, Any]], screen: Screen = PLAIN) -> Iterator[str]:
    """How far the session has come, and its last message of each side; nothing of one that has none."""
    turns = sum(message["type"] == "human" for message in messages)
    if not turns:
        return
    noun = "turn" if turns == 1 else "turns"
    yield f"  It goes on after {turns:,} {noun}, the last change {screen.date_time(session.changed_at)}:"
    asked = max(index for index, message in enumerate(messages) if message["type"] == "human")
    replies = [message for message in messages[asked + 1 :] if message["type"] == "ai" and _text(message)]
    for message in (messages[asked], *replies[-1:]):
        line = f"  {_SIGNS[message['type']]} {one_line(_text(message))}"
        yield screen.painter(cut(line, screen.width or _WIDEST), Style.DIM)


def totals(usages: Sequence[Usage]) -> str:
    """`3 turns, 1,234 tokens, $0.0012`."""
    costs = [usage.cost_usd for usage in usages]
    known = [cost for cost in costs if cost is not None]
    shown = dollars(sum(known) if len(known) == len(costs) else None)
    tokens = sum(usage.total_tokens for usage in usages)
    return f"{len(usages):,} {'turn' if len(usages) == 1 else 'turns'}, {tokens:,} tokens, {shown}"


def way_back(agent: str, session_id: str) -> str:
    """How the session is continued."""
    return f"This session goes on with: agentmd chat {one_line(shlex.quote(agent))} --session {shlex.quote(session_id)}"


def _text(message: dict[str, Any]) -> str:
    """The text of a message in stored form; its content may be blocks."""
    content = message["data"]["content"]
    if isinstance(content, str):
        return content.strip()
    return "".join(block.get("text", "") for block in content if isinstance(block, dict)).strip()
