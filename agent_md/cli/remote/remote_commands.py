"""The commands of a remote chat that need the server, such as `/cost` and `/model`."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlencode

from agent_md.cli.views.chat_texts import agent_lines, conversation, totals
from agent_md.client.sessions import Place, SessionsClient, server_of
from agent_md.errors import RequestRefused, ServerUnreachable, UnknownSession
from agent_md.executions.execution import Usage
from agent_md.visible_text import one_line

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["agents", "cost", "history", "model", "told"]

_MOST_TURNS = 1000
_NOT_TOLD = (404, 405)
"""What a server answers that has the sessions interface and not the rest of agentmd's."""


async def told(lines: Awaitable[list[RenderableType]]) -> list[RenderableType]:
    """The lines; where the server does not give them, one that says so."""
    try:
        return await lines
    except RequestRefused as refused:
        if refused.status in _NOT_TOLD:
            return ["  This server does not tell that."]
        return [f"  {one_line(str(refused))}"]
    except (ServerUnreachable, UnknownSession) as error:
        return [f"  {one_line(str(error))}"]
    except (KeyError, TypeError, ValueError):  # an answer of another program
        return ["  This server does not tell that."]


async def history(client: SessionsClient, session_id: str) -> list[RenderableType]:
    """All that was said in the session."""
    said = [(message.role, message.text) for message in await client.messages(session_id)]
    return list(conversation(said)) or ["  Nothing was said in this session yet."]


async def cost(client: SessionsClient, place: Place, session_id: str) -> list[RenderableType]:
    """What the turns of the session took."""
    agent = server_of(place.base)[1]
    wanted = {"session_id": session_id, "limit": _MOST_TURNS} | ({} if agent is None else {"agent": agent})
    turns = await client.beside(f"/executions?{urlencode(wanted)}")
    return [f"  The session: {totals([_usage(turn) for turn in turns])}"]


async def agents(client: SessionsClient, place: Place) -> list[RenderableType]:
    """The agents of the server."""
    found = [(str(agent["name"]), str(agent.get("description") or "")) for agent in await client.beside("/agents")]
    server = one_line(server_of(place.base)[0])
    hint = f"  `agentmd chat NAME --url {server}` talks with another one."
    return [*agent_lines(found, place.name), hint]


async def model(client: SessionsClient, place: Place, wanted: str) -> list[RenderableType]:
    """Which model answers; none can be chosen from here."""
    if wanted:
        return ["  The model of an agent of a server is chosen there: in its agent file."]
    agent = server_of(place.base)[1]
    if agent is None:
        return ["  The address names no agent, and the server does not tell whose sessions these are."]
    found = await client.beside(f"/agents/{quote(agent, safe='')}")
    return [one_line(f"  {found['model_provider']}/{found['model_name']} answers.")]


def _usage(turn: dict[str, Any]) -> Usage:
    cost_usd = turn["cost_usd"]
    return Usage(int(turn["input_tokens"]), int(turn["output_tokens"]), None if cost_usd is None else float(cost_usd))
