"""What a server tells beside the sessions: agents, models, and what turns took. Other servers of sessions do not tell it."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from agent_md.client.sessions import Place, SessionsClient, server_of
from agent_md.errors import RequestRefused, ServerUnreachable, UnknownSession, UsageError
from agent_md.executions.execution import Usage
from agent_md.visible_text import one_line

__all__ = ["listed_agents", "model_name", "session_usages", "told"]

T = TypeVar("T")

_MOST_TURNS = 1000
_NOT_TOLD = (404, 405)
"""What a server answers that has the sessions interface and not the rest of agentmd's."""


async def told(found: Awaitable[T]) -> T:
    """What the server tells. Raises UsageError, which says that it does not, or why."""
    try:
        return await found
    except RequestRefused as refused:
        if refused.status not in _NOT_TOLD:
            raise UsageError(one_line(str(refused))) from refused
    except (ServerUnreachable, UnknownSession) as error:
        raise UsageError(one_line(str(error))) from error
    except (KeyError, TypeError, ValueError):  # an answer of another program
        pass
    raise UsageError("This server does not tell that.")


async def session_usages(client: SessionsClient, place: Place, session_id: str) -> list[Usage]:
    """What each turn of the session took."""
    agent = server_of(place.base)[1]
    wanted = {"session_id": session_id, "limit": _MOST_TURNS} | ({} if agent is None else {"agent": agent})
    return [_usage(turn) for turn in await client.beside(f"/executions?{urlencode(wanted)}")]


async def listed_agents(client: SessionsClient) -> list[tuple[str, str]]:
    """The agents of the server, with their descriptions."""
    return [(str(agent["name"]), str(agent.get("description") or "")) for agent in await client.beside("/agents")]


async def model_name(client: SessionsClient, place: Place) -> str:
    """Which model answers."""
    agent = server_of(place.base)[1]
    if agent is None:
        raise UsageError("The address names no agent, and the server does not tell whose sessions these are.")
    found = await client.beside(f"/agents/{quote(agent, safe='')}")
    return f"{found['model_provider']}/{found['model_name']}"


def _usage(turn: dict[str, Any]) -> Usage:
    cost_usd = turn["cost_usd"]
    return Usage(int(turn["input_tokens"]), int(turn["output_tokens"]), None if cost_usd is None else float(cost_usd))
