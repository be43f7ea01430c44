"""`run` and `resume`: executions driven by this process."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, cast

import typer

from agent_md.app import App
from agent_md.cli.attend import Attendant, OnAsk
from agent_md.cli.choices import OnAskChoice
from agent_md.cli.output import JsonOutput, Output, QuietOutput, TextOutput, note, say
from agent_md.cli.tables import executions_table
from agent_md.cli.workspace import WorkspaceOption, open_app, screen, terminal
from agent_md.errors import DrivenElsewhere, ExecutionEnded
from agent_md.executions.model import Claim, Execution, ExecutionId, Status
from agent_md.shapes import execution_shape

__all__ = ["attend", "choose_output", "resume", "run"]


def run(
    agent: Annotated[str, typer.Argument(help="The agent's name.", show_default=False)],
    args: Annotated[
        list[str] | None, typer.Argument(help="Fills $1, $2… and $ARGUMENTS in its prompt.", show_default=False)
    ] = None,
    message: Annotated[
        str | None, typer.Option("--message", "-m", help="What to tell the agent.", show_default=False)
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the final answer.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one event a line, and never ask.")] = False,
    on_ask: Annotated[
        OnAskChoice, typer.Option(help="What to do with a question when nobody can be asked here.")
    ] = OnAskChoice.WAIT,
    workspace: WorkspaceOption = None,
) -> None:
    """Run an agent once, asking here when it needs you.

    Example: agentmd run cleaner -m "Clean the output folder"
    """
    with open_app(workspace, drives=True) as app:
        execution = app.start(agent, args=args or [], message=message)
        output = choose_output(quiet=quiet, as_json=as_json)
        _warn_unavailable(app, agent)
        output.begin(execution, str(app.registry.get(agent).spec.model))
        claim = Claim(execution.id, app.worker, execution.epoch)
        code = attend(app, execution, claim, output, asks=not as_json, on_ask=on_ask.value, from_start=True)
    raise typer.Exit(code)


def resume(
    execution: Annotated[int | None, typer.Argument(help="The execution's number.", show_default=False)] = None,
    everything: Annotated[bool, typer.Option("--all", help="All that can go on, one after the other.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the final answer.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one event a line, and never ask.")] = False,
    on_ask: Annotated[
        OnAskChoice, typer.Option(help="What to do with a question when nobody can be asked here.")
    ] = OnAskChoice.WAIT,
    workspace: WorkspaceOption = None,
) -> None:
    """Go on with an execution that is queued or whose process died; without a number, list those.

    Example: agentmd resume 42
    """
    with open_app(workspace, drives=execution is not None or everything) as app:
        if execution is None and not everything:
            _list_resumable(app, as_json=as_json)
            return
        if execution is not None:
            chosen = [app.store.execution(ExecutionId(execution))]
            _refuse_ended(chosen[0])
        else:
            chosen = app.store.abandoned()
            if not chosen:
                note("nothing to resume")
        code = 0
        for item in chosen:
            claim = app.store.claim(item.id, app.worker)
            if claim is None and not everything:
                _refuse_driven(app.store.execution(item.id))
            if claim is not None or not everything:
                output = choose_output(quiet=quiet, as_json=as_json)
                code = attend(app, item, claim, output, asks=not as_json, on_ask=on_ask.value) or code
    raise typer.Exit(code)


def choose_output(*, quiet: bool, as_json: bool) -> Output:
    if as_json:
        return JsonOutput()
    return QuietOutput() if quiet else TextOutput(screen())


def attend(
    app: App,
    execution: Execution,
    claim: Claim | None,
    output: Output,
    *,
    asks: bool,
    on_ask: str = "wait",
    from_start: bool = False,
) -> int:
    """Attends until the end or a wait; gives the exit code."""
    attendant = Attendant(app, execution.id, output, terminal() if asks else None, cast(OnAsk, on_ask))
    attendant.begin(from_start=from_start)
    return asyncio.run(attendant.run(claim))


def _list_resumable(app: App, *, as_json: bool) -> None:
    found = app.store.abandoned()
    if as_json:
        say(json.dumps([execution_shape(item) for item in found]))
    elif not found:
        say("Nothing to resume.")
    else:
        for line in executions_table(found, screen()):
            say(line)


def _refuse_ended(execution: Execution) -> None:
    if execution.status.final:
        raise ExecutionEnded(f"execution {execution.id} has ended ({execution.status}); run its agent again instead")


def _refuse_driven(execution: Execution) -> None:
    _refuse_ended(execution)
    if execution.status is Status.RUNNING:
        raise DrivenElsewhere(f"execution {execution.id} is driven by a live process")


def _warn_unavailable(app: App, agent: str) -> None:
    spec = app.registry.get(agent).spec
    unavailable = [name for name in ("mcp", "skills", "agents", "notify", "secrets") if getattr(spec, name)]
    if unavailable:
        note(f"note: {', '.join(unavailable)} of {spec.name} have no effect in this version")
