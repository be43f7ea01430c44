"""`grants`: lists and revokes grants."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from agent_md.agents.names import name_key
from agent_md.app import App
from agent_md.cli.command_context import WorkspaceOption, login, open_app
from agent_md.cli.option_values import JsonOption
from agent_md.cli.terminal.output import say
from agent_md.cli.views.grants import grants_table, state_text
from agent_md.errors import UsageError
from agent_md.executions.grants import GrantEnd, GrantId
from agent_md.serialization import grant_json
from agent_md.visible_text import json_line, one_line

__all__ = ["grants"]

_REVOKE = "revoke"


def grants(
    what: Annotated[str | None, typer.Argument(metavar="AGENT", help="Whose; or revoke.", show_default=False)] = None,
    grant: Annotated[
        str | None, typer.Argument(metavar="ID", help="With revoke: the grant's number.", show_default=False)
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also grants that have ended.")] = False,
    as_json: JsonOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """List and revoke grants: calls that answers allowed from now on.

    Example: agentmd grants revoke 3
    """
    with open_app(workspace, lenient=True) as app:
        if what == _REVOKE:
            _revoke(app, _number(grant), as_json=as_json)
        elif grant is not None:
            raise UsageError(f"{what!r} is nothing that can be done to a grant; there is revoke")
        else:
            _show(app, what, everything=everything, as_json=as_json)


def _number(text: str | None) -> GrantId:
    if text is None or re.fullmatch(r"[0-9]{1,18}", text) is None:
        given = "" if text is None else f"{text!r} is not the number of a grant; "
        raise UsageError(f"{given}say which grant: `agentmd grants` shows their numbers")
    return GrantId(int(text))


def _show(app: App, agent: str | None, *, everything: bool, as_json: bool) -> None:
    store = app.reading_store
    names = None
    if agent is not None:
        names = [known for known in store.agent_names() if name_key(known) == name_key(agent)]
        if not names:
            app.registry.get(agent)  # says which agents there are
    found = store.grants.listed(agents=names, ended=everything)
    drift = app.drift_of_grants(found)
    if as_json:
        say(json_line([grant_json(grant, drift[grant.id]) for grant in found]))
        return
    say(grants_table([(grant, drift[grant.id]) for grant in found]))


def _revoke(app: App, grant_id: GrantId, *, as_json: bool) -> None:
    before = app.reading_store.grants.get(grant_id)
    grant = app.store.grants.revoke(grant_id, by=login())
    if as_json:
        say(json_line(grant_json(grant, app.drift_of_grants([grant])[grant.id])))
        return
    named = f"Grant {grant.id}, {one_line(grant.rule)} of {one_line(grant.agent)},"
    if before.ended in (GrantEnd.EXPIRED, GrantEnd.REVOKED):
        say(f"{named} had ended before: {state_text(grant, ())}.")
    else:
        say(f"{named} is revoked: calls that have not begun ask again.")
