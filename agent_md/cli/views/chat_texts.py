"""What a chat says of itself: its first lines, its help, its last lines. All of it is visible text.

A chat with a server says the same where it can."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from agent_md.cli.views.money import dollars
from agent_md.cli.views.screen import PLAIN, Screen, Style
from agent_md.cli.views.visible_text import counted, cut, one_line, visible
from agent_md.executions.model import Usage

__all__ = ["HELP", "TYPING", "beginning", "continuing", "totals", "way_back"]

TYPING = (
    "  /exit, /quit or Ctrl-D ends the chat, /help shows this; any other text is a message.",
    "  Enter sends; Alt-Enter begins a new line; what is pasted waits for Enter. Up, down and Ctrl-R: earlier messages.",
)
HELP = (
    *TYPING,
    "  Ctrl-C clears what is typed; else it cancels a turn that runs, leaves a question open, or ends the chat.",
)
_WIDEST = 200
_SIGNS = {"user": "👤", "assistant": "💬"}


def beginning(agent: str, reached: str, session_id: str, screen: Screen = PLAIN, *, asks: bool) -> list[str]:
    """The first lines: `▶ Chat with cleaner  google/gemini-2.5-flash` and the session. `reached` is the model, or the
    address of the server that has the agent; `asks`: somebody types the messages."""
    help_line = "; /help helps, /exit ends" if asks else ""
    return [
        f"{screen.painter('▶ Chat with', Style.BOLD)} {one_line(agent)}  {screen.painter(one_line(reached), Style.DIM)}",
        f"  Session {one_line(session_id)}{help_line}",
    ]


def continuing(
    said: Sequence[tuple[str, str]],
    screen: Screen = PLAIN,
    *,
    changed_at: float | None = None,
    answered: bool = True,
) -> Iterator[str]:
    """How far a session has come, when it changed last if that is known, and its last message of each side.

    `said` are pairs of role and text. Of a turn that is not `answered` there is no answer yet; of a session in which
    no user said anything there is nothing.
    """
    asked = [at for at, (role, _) in enumerate(said) if role == "user"]
    if not asked:
        return
    when = "" if changed_at is None else f", the last change {screen.date_time(changed_at)}"
    yield f"  It goes on after {counted(len(asked), 'turn')}{when}:"
    yield _quoted("user", said[asked[-1]][1], screen)
    replies = [text for role, text in said[asked[-1] + 1 :] if role == "assistant" and text.strip()]
    if answered and replies:
        yield _quoted("assistant", replies[-1], screen)


def _quoted(role: str, text: str, screen: Screen) -> str:
    """What the `user` or the `assistant` said, on one line that is cut to the screen."""
    return screen.painter(
        cut(f"  {_SIGNS[role]} {visible(text.strip(), one_line=True, prose=True)}", screen.width or _WIDEST), Style.DIM
    )


def totals(usages: Sequence[Usage]) -> str:
    """`3 turns, 1,234 tokens, $0.0012`."""
    costs = [usage.cost_usd for usage in usages]
    known = [cost for cost in costs if cost is not None]
    shown = dollars(sum(known) if len(known) == len(costs) else None)
    tokens = sum(usage.total_tokens for usage in usages)
    return f"{counted(len(usages), 'turn')}, {tokens:,} tokens, {shown}"


def way_back(place: Sequence[str], session_id: str) -> str:
    """How the session is continued; `place` are the words of the command line that name where it is."""
    words = ("agentmd", "chat", *place, "--session", session_id)
    return f"This session goes on with: {one_line(shlex.join(words))}"
