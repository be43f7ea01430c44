"""`pending`: lists the open requests."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from agent_md.app import App
from agent_md.cli.command_context import WorkspaceOption, each_change, login
from agent_md.cli.option_values import JsonOption
from agent_md.cli.terminal.output import say
from agent_md.cli.views.tables import PendingRow, pending_table
from agent_md.executions.requests import Request
from agent_md.serialization import request_json
from agent_md.visible_text import json_line

if TYPE_CHECKING:
    pass

__all__ = ["pending"]


def pending(
    watch: Annotated[bool, typer.Option("--watch", help="Show the list again whenever it changes.")] = False,
    as_json: JsonOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """List every question that waits for an answer, oldest first.

    Example: agentmd pending
    """
    shown = None
    for app in each_change(workspace, follow=watch, lenient=True):
        requests = app.reading_store.open_requests()
        ids = [request.id for request in requests]
        if ids != shown:
            _show_pending(app, requests, as_json=as_json)
        shown = ids


def _show_pending(app: App, requests: Sequence[Request], *, as_json: bool) -> None:
    app.reading_store.showings.record(requests, login())
    drift = app.drift_of(requests)
    if as_json:
        say(json_line([request_json(request, drift=drift[request.id]) for request in requests]))
        return
    rows = [PendingRow(request, drift[request.id]) for request in requests]
    say(pending_table(rows, now=time.time()))
