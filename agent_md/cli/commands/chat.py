"""`chat`: talks with an agent, of this workspace (`local_chat.py`) or of a server (`remote_chat.py`)."""

from __future__ import annotations

import os
import shlex
import uuid
from typing import Annotated

import typer

from agent_md.app import App
from agent_md.cli.command_context import WorkspaceOption, open_app
from agent_md.cli.option_values import session_id
from agent_md.errors import UsageError

__all__ = ["chat"]


def chat(
    agent: Annotated[
        str | None,
        typer.Argument(metavar="AGENT", help="The agent's name; not needed if --url names it.", show_default=False),
    ] = None,
    session: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="The session to continue, or to start with this id; default: a new one.",
            show_default=False,
            parser=session_id,
        ),
    ] = None,
    go_on: Annotated[
        bool, typer.Option("--continue", "-c", help="Continue the session of this agent that changed last.")
    ] = False,
    url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Talk with the agent of a server instead, such as http://127.0.0.1:8000/agents/cleaner.",
            show_default=False,
        ),
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(metavar="KEY", help="The key of that server; prefer $AGENTMD_API_KEY.", show_default=False),
    ] = None,
    workspace: WorkspaceOption = None,
) -> None:
    """Talk with an agent: each message is a turn of one session.

    Example: agentmd chat cleaner
    """
    if go_on and (session is not None or url is not None):
        other = "--session" if session is not None else "--url"
        raise UsageError(f"--continue means the last session of this workspace, and does not go with {other}")
    if url is not None:
        from agent_md.cli.remote.remote_chat import remote_chat  # its HTTP client takes a moment to import

        key = api_key or os.environ.get("AGENTMD_API_KEY") or None
        raise typer.Exit(remote_chat(url, agent=agent, session_id=session, key=key))
    if agent is None:
        raise UsageError("which agent? `agentmd chat AGENT`, or `agentmd chat --url URL` for one of a server")
    if api_key is not None:
        raise UsageError("--api-key goes with --url")
    from agent_md.cli.chat.local_chat import local_chat  # as above

    with open_app(workspace, drives=True, starts=True) as app:
        name = app.starter.runnable_spec(agent).name
        chosen = _last_session(app, name) if go_on else session or str(uuid.uuid4())
        code = local_chat(app, name, chosen)
    raise typer.Exit(code)


def _last_session(app: App, agent: str) -> str:
    found = app.store.sessions.listed(agent=agent) if app.settings.database.exists() else []
    if not found:
        raise UsageError(
            f"{agent} has no session that could be continued; `agentmd chat {shlex.quote(agent)}` begins one"
        )
    return max(found, key=lambda session: session.changed_at).id
