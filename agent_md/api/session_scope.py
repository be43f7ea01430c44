"""The scope of a sessions request: the sessions of one agent, or of all agents."""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote

from fastapi import Depends, Path, Request

from agent_md.agents.names import name_key
from agent_md.api.context import Context, ServerContext
from agent_md.errors import SeveralSessions, UnknownSession, UsageError
from agent_md.executions.sessions import Session

__all__ = ["Place", "SessionScope", "in_agent_path", "uuid_of"]

_UUID = re.compile(r"[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE | re.ASCII)


def uuid_of(text: str) -> str | None:
    """The UUID in its canonical form, lower case with dashes; None for what is none."""
    return str(uuid.UUID(text)) if _UUID.fullmatch(text) else None


@dataclass(frozen=True, slots=True)
class SessionScope:
    """The sessions of `agent`, or of all when it is None."""

    context: ServerContext
    agent: str | None

    def agent_of(self, named: str | None) -> str:
        """The agent of a new session. Raises UsageError when none is named, or another one than the path's."""
        if self.agent is None:
            agent = named or self.context.app.settings.server.default_agent
            if agent is None:
                raise UsageError(
                    "the session has no agent; name one with `agent`, use /agents/NAME/sessions, or set "
                    "`server.default_agent` in config.yaml; nothing was created"
                )
            return agent
        if named is not None and name_key(named) != name_key(self.agent):
            raise UsageError(f'the path names the agent "{self.agent}", the body "{named}"; nothing was created')
        return self.agent

    async def listed(self) -> list[Session]:
        """The sessions, newest first. Raises UnknownAgent for an agent that is not there and has none."""
        found = self.context.store.sessions.listed(agent=self.agent)
        if not found and self.agent is not None:
            (await self.context.registry()).get(self.agent)
        return found

    def find(self, session_id: str) -> Session:
        """The session of this id; a UUID counts in any form. Raises UnknownSession, SeveralSessions."""
        self.context.settle()
        for known_as in dict.fromkeys((session_id, uuid_of(session_id) or session_id)):
            found = self.context.store.sessions.listed(agent=self.agent, session_id=known_as)
            if len(found) > 1:
                agents = tuple(session.agent for session in found)
                raise SeveralSessions(
                    f"{len(found)} agents have a session {known_as}: {', '.join(agents)}; use /agents/NAME/sessions",
                    agents,
                )
            if found:
                return found[0]
        of = "there is no session" if self.agent is None else f"{self.agent} has no session"
        raise UnknownSession(f"session not found: {of} {session_id}, or it was deleted")

    def path_of(self, session: Session) -> str:
        """Where the session is, as a path."""
        below = "" if self.agent is None else f"/agents/{quote(session.agent, safe='')}"
        return f"{below}/sessions/{quote(session.id, safe='')}"


async def in_agent_path(name: Annotated[str, Path(description="The agent's name.")]) -> None:
    """Says in OpenAPI what the path has; `Place` reads it."""


async def _place(request: Request, context: Context) -> SessionScope:
    name = request.path_params.get("name")
    return SessionScope(context, None if name is None else await context.agent_name(name))


Place = Annotated[SessionScope, Depends(_place)]
"""What a route asks for to get at the sessions of its path."""
