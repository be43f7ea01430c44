"""`resume`: continues executions that nobody drives."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated

import typer

from agent_md.app import App
from agent_md.cli.command_context import WorkspaceOption, open_app, terminal
from agent_md.cli.drive.event_follower import EventFollower
from agent_md.cli.drive.run_output import choose_output
from agent_md.cli.option_values import LinesOption, OnAsk, OnAskOption, QuietOption, execution_number
from agent_md.cli.terminal.output import note, say
from agent_md.cli.views.tables import executions_table
from agent_md.errors import DrivenElsewhere, ExecutionEnded
from agent_md.executions.execution import Claim, Execution
from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import Status
from agent_md.serialization import execution_json
from agent_md.system import named, way_to_end
from agent_md.visible_text import json_line

__all__ = ["resume"]


def resume(
    execution: Annotated[
        int | None, typer.Argument(metavar="ID", help="Its number.", show_default=False, parser=execution_number)
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Continue all that can be resumed, one after the other.")
    ] = False,
    quiet: QuietOption = False,
    as_json: LinesOption = False,
    on_ask: OnAskOption = OnAsk.WAIT,
    workspace: WorkspaceOption = None,
) -> None:
    """Continue an execution that is queued or whose process died. Without ID: list those.

    Example: agentmd resume 42
    """
    if execution is None and not everything:
        _list_resumable(workspace, as_json=as_json)
        return
    from agent_md.cli.drive.drive_or_follow import drive_or_follow

    code = 0
    with open_app(workspace, drives=True) as app:
        chosen = _roots(app, app.abandoned()) if execution is None else [app.find_execution(ExecutionId(execution))]
        if not chosen:
            _note_left_behind(app)
            note("nothing to resume")
        for item in chosen:
            if item.status.final:
                _refuse_driven(app, item)
            root = app.store.execution(item.root)
            claim = next(_claims(app, root), None)
            if claim is None and everything:
                continue  # another process was faster
            if claim is None:
                _refuse_driven(app, app.store.execution(item.id))
            follower = EventFollower(app, root.id, choose_output(root, quiet=quiet, as_json=as_json))
            code = drive_or_follow(app, follower, claim, terminal(asks=not as_json), on_ask) or code
            follower.end()
    raise typer.Exit(code)


def _roots(app: App, found: Sequence[Execution]) -> list[Execution]:
    return [app.store.execution(root) for root in dict.fromkeys(execution.root for execution in found)]


def _claims(app: App, root: Execution) -> Iterator[Claim]:
    """Claims on the execution and on those below it that can go on, taken one by one."""
    for member in app.store.family(root.id):
        claim = app.store.claim(member.id, app.worker)
        if claim is not None:
            yield claim


def _list_resumable(workspace: WorkspaceOption, *, as_json: bool) -> None:
    with open_app(workspace) as app:
        found = app.reading_store.abandoned()
        _note_left_behind(app)
    if as_json:
        say(json_line([execution_json(item) for item in found]))
    elif not found:
        say("Nothing to resume.")
    else:
        died = [item.id for item in found if item.status is Status.RUNNING]
        say(*executions_table(found, left=died))


def _refuse_driven(app: App, execution: Execution) -> None:
    if execution.status.final:
        raise ExecutionEnded(f"execution {execution.id} has ended ({execution.status}); {_instead(execution)}")
    for member in app.store.family(execution.root):
        if left := _left_behind(app, member):
            raise DrivenElsewhere(left)
    if execution.status is Status.RUNNING:
        raise DrivenElsewhere(
            f"execution {execution.id} is driven by a live process; `agentmd logs -f -e {execution.id}` follows it"
        )


def _instead(execution: Execution) -> str:
    if execution.status is Status.SUCCESS:
        return "run its agent again instead"
    return f"`agentmd retry {execution.id}` begins it anew"


def _left_behind(app: App, execution: Execution) -> str:
    """What to do about processes that keep the execution from being taken over; "" if there are none."""
    holders = app.suspect_processes(execution)
    if not holders:
        return ""
    return (
        f"the process that drove execution {execution.id} has ended, but its lock is still held by {named(holders)}, which "
        "it left behind and which may still have effects, so nobody takes the execution over; end it with "
        f"{way_to_end(holders)}, then `agentmd resume {execution.id}`"
    )


def _note_left_behind(app: App) -> None:
    for execution in app.reading_store.executions(statuses=[Status.RUNNING]):
        if left := _left_behind(app, execution):
            note(left)
