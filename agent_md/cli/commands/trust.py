"""`trust`: shows what a workspace would run, send and change, and records the user's yes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from agent_md.app import App
from agent_md.cli.asking.trust_question import ask_trust, show_items, show_state
from agent_md.cli.command_context import WorkspaceOption, open_app, terminal
from agent_md.cli.option_values import JsonOption
from agent_md.cli.terminal.output import note, say
from agent_md.errors import StateDirUnusable, UsageError
from agent_md.trust.items import Item
from agent_md.trust.state_mark import StateFolder
from agent_md.visible_text import json_line, one_line

__all__ = ["trust"]


def trust(
    folder: Annotated[
        Path | None,
        typer.Argument(metavar="FOLDER", help="The workspace; else the one that is found.", show_default=False),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Record the yes without asking.")] = False,
    adopt_state: Annotated[
        bool, typer.Option("--adopt-state", help="Take over a state folder that was not made here, such as a copy.")
    ] = False,
    revoke: Annotated[bool, typer.Option("--revoke", help="Trust it no more.")] = False,
    as_json: JsonOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Show what a workspace would run, send and change; trust it.

    Example: agentmd trust
    """
    if folder is not None and workspace is not None:
        raise UsageError("FOLDER and --workspace name the same thing: give one of them")
    if revoke and (yes or adopt_state):
        raise UsageError("--revoke takes trust back, --yes and --adopt-state give it: give one of them")
    with open_app(folder or workspace) as app:
        if as_json:
            say(json_line(_shape(app)))
            return
        if revoke:
            _revoke(app)
            return
        app.trust.require_owner()
        _trust(app, yes=yes, adopt_state=adopt_state)


def _revoke(app: App) -> None:
    shown = one_line(str(app.settings.workspace))
    say(f"{shown} is trusted no more." if app.trust.withdraw() else f"{shown} was not trusted.")


def _trust(app: App, *, yes: bool, adopt_state: bool) -> None:
    new, state = app.trust.unrecorded_items(), app.trust.state()
    takes_over = state is StateFolder.EARLIER or (adopt_state and state is StateFolder.UNMARKED)
    shown = one_line(str(app.settings.workspace))
    if not (new or takes_over) and app.trust.is_recorded:
        say(f"{shown} is trusted already; there is nothing that you did not say yes to.")
        return
    show_items(app, new)
    if takes_over:
        show_state(app)
    prompt = terminal(asks=not yes)
    if not yes and prompt is None:
        raise UsageError("nothing was recorded: there is no terminal to ask on; --yes records it without asking")
    if prompt is not None and not ask_trust(prompt, again=app.trust.is_recorded):
        raise UsageError("nothing was recorded")
    app.trust.grant(new)
    if takes_over:
        _adopt(app)
    elif state in (StateFolder.UNMARKED, StateFolder.TRACKED):
        note(f"note: its state folder is not used: {_why_not(state)}")
    say(f"{shown} is trusted.")


def _why_not(state: StateFolder) -> str:
    if state is StateFolder.TRACKED:
        return "git tracks files of it, so it may be replaced by whoever you pull from; `git rm -r --cached` them"
    return "it was not made here; --adopt-state takes it over"


def _adopt(app: App) -> None:
    try:
        app.trust.adopt_state()
    except OSError as error:
        raise StateDirUnusable(f"{app.settings.state_dir} cannot be marked: {error.strerror}") from error


def _shape(app: App) -> dict[str, Any]:
    new = {item.digest for item in app.trust.new_items()}
    return {
        "workspace": str(app.settings.workspace),
        "trusted": app.trust.is_known and not new,
        "state_folder": app.trust.state().value,
        "items": [_item_shape(item, allowed=item.digest not in new) for item in app.trust.items()],
    }


def _item_shape(item: Item, *, allowed: bool) -> dict[str, Any]:
    return {"agent": item.agent, "kind": str(item.kind), "text": item.text, "allowed": allowed}
