"""`sessions`: lists, shows and deletes the conversations of a workspace."""

from __future__ import annotations

from typing import Annotated

import typer

from agent_md.agents.names import name_key
from agent_md.app import App
from agent_md.cli.command_context import WorkspaceOption, login, open_app
from agent_md.cli.option_values import JsonOption
from agent_md.cli.terminal.output import say
from agent_md.cli.views.chat_texts import continue_hint, message_texts, said_lines, totals
from agent_md.cli.views.sessions_table import SessionRow, sessions_table
from agent_md.errors import SeveralSessions, UnknownSession, UsageError
from agent_md.executions.chat_messages import chat_message
from agent_md.executions.execution import Execution
from agent_md.executions.sessions import Session
from agent_md.serialization import listed_session_json
from agent_md.visible_text import counted, json_line, one_line

__all__ = ["sessions"]

_SHOW, _DELETE = "show", "delete"
_TURNS = 10
"""The last turns of a session, which are named by their executions."""


def sessions(
    what: Annotated[
        str | None, typer.Argument(metavar="AGENT", help="Whose; or show, or delete.", show_default=False)
    ] = None,
    session: Annotated[
        str | None, typer.Argument(metavar="ID", help="With show and delete: the session.", show_default=False)
    ] = None,
    agent: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="With show and delete: whose session, if several agents have one with this id.",
            show_default=False,
        ),
    ] = None,
    number: Annotated[int, typer.Option("-n", metavar="N", help="How many, those that changed last.", min=1)] = 20,
    as_json: JsonOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """List conversations; show or delete one.

    Example: agentmd sessions show garden
    """
    deletes = what == _DELETE
    if what not in (_SHOW, _DELETE) and session is not None:
        raise UsageError(f"{what!r} is nothing that can be done to a session; there are show and delete")
    if what in (_SHOW, _DELETE) and session is None:
        raise UsageError(f"say which session: agentmd sessions {what} ID; `agentmd sessions` lists them")
    with open_app(workspace, drives=deletes, lenient=True) as app:
        if session is None:
            _list(app, what or agent, number, as_json=as_json)
        elif deletes:
            _delete(app, _found(app, session, agent), as_json=as_json)
        else:
            _show(app, _found(app, session, agent), as_json=as_json)


def _list(app: App, agent: str | None, number: int, *, as_json: bool) -> None:
    store = app.reading_store
    found = store.sessions.listed()
    if agent is not None:
        found = [session for session in found if name_key(session.agent) == name_key(agent)]
        if not found:
            app.registry.get(agent)  # says which agents there are
    newest = sorted(found, key=lambda session: session.changed_at, reverse=True)[:number]
    turns = [len(store.sessions.turns(session.agent, session.id)) for session in newest]
    if as_json:
        say(json_line([listed_session_json(session, count) for session, count in zip(newest, turns, strict=True)]))
        return
    say(sessions_table([SessionRow(session, count) for session, count in zip(newest, turns, strict=True)]))
    if len(found) > number:
        say(f"{counted(len(found) - number, 'more session')}: agentmd sessions -n {len(found)}")


def _found(app: App, session_id: str, agent: str | None) -> Session:
    found = app.reading_store.sessions.listed(session_id=session_id)
    mine = [session for session in found if agent is None or name_key(session.agent) == name_key(agent)]
    if not mine:
        of = "" if agent is None else f" of {agent}"
        raise UnknownSession(f"there is no session {session_id}{of}, or it was deleted; `agentmd sessions` lists them")
    if len(mine) > 1:
        agents = tuple(session.agent for session in mine)
        raise SeveralSessions(
            f"the agents {', '.join(agents)} have a session {session_id}; name one with --agent", agents
        )
    return mine[0]


def _show(app: App, session: Session, *, as_json: bool) -> None:
    store = app.reading_store
    messages = store.sessions.messages(session.agent, session.id)
    turns = store.executions(ids=store.sessions.turns(session.agent, session.id))
    if as_json:
        say(
            json_line(
                {**listed_session_json(session, len(turns)), "messages": [chat_message(item) for item in messages]}
            )
        )
        return
    say(f"Session {one_line(session.id)} of {one_line(session.agent)}: {session.status}, {_sum(turns)}")
    say(*said_lines(message_texts(messages)))
    if turns:
        ids = [str(turn.id) for turn in reversed(turns)]
        named = ", ".join(["…"] * (len(ids) > _TURNS) + ids[-_TURNS:])
        say(f"What was done in its turns: agentmd logs -e ID, of {named}")
    say(continue_hint([session.agent], session.id))


def _sum(turns: list[Execution]) -> str:
    return totals([turn.usage for turn in turns])


def _delete(app: App, session: Session, *, as_json: bool) -> None:
    under_way = app.store.sessions.delete(session.agent, session.id, by=login())
    left = []
    for turn in under_way:
        from agent_md.cli.drive.closing import close_cancelled  # only who drives something pays for it

        if not close_cancelled(app, turn).status.final:
            left.append(turn)
    if as_json:
        say(json_line({"session_id": session.id, "agent_id": session.agent, "cancelled": under_way}))
        return
    say(f"The session {one_line(session.id)} of {one_line(session.agent)} is deleted. Its executions stay in the logs.")
    for turn in under_way:
        how = "is being cancelled by the process that drives it" if turn in left else "was cancelled"
        say(f"Execution {turn}, its turn under way, {how}.")
