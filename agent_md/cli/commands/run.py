"""`run`: creates an execution of an agent and drives it in this process."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from agent_md.agents.spec import AgentSpec, ModelRef
from agent_md.api.address import server_takes_over
from agent_md.app import App
from agent_md.cli.agent_notes import note_earlier_messages, note_unguarded_changes, warn_unavailable
from agent_md.cli.command_context import WorkspaceOption, current_folder, open_app, terminal
from agent_md.cli.commands.agent_path import spec_named, workspace_for
from agent_md.cli.commands.run_message import has_unread, message_of
from agent_md.cli.drive.event_follower import EventFollower
from agent_md.cli.drive.run_output import choose_output
from agent_md.cli.option_values import LinesOption, OnAsk, OnAskOption, QuietOption, model_ref, session_id
from agent_md.cli.terminal.output import note
from agent_md.errors import UsageError
from agent_md.executions.execution import Claim, Execution
from agent_md.process.standard_streams import person
from agent_md.python_command import python_command

if TYPE_CHECKING:
    from agent_md.cli.asking.scripted_answers import ScriptedAnswers

__all__ = ["run"]


def run(
    agent: Annotated[
        str, typer.Argument(metavar="AGENT", help="The agent's name, or the path of its file.", show_default=False)
    ],
    args: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ARGS",
            help="Replace $1, $2… and $ARGUMENTS in the agent's text; otherwise added to the message.",
            show_default=False,
        ),
    ] = None,
    message: Annotated[
        str | None,
        typer.Option(
            "--message",
            "-m",
            metavar="TEXT",
            help="The message for the agent; @FILE: read a file; -: read standard input.",
            show_default=False,
        ),
    ] = None,
    session: Annotated[
        str | None,
        typer.Option(
            metavar="ID", help="Run a turn of this session, which may be new.", show_default=False, parser=session_id
        ),
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Start without earlier messages.")] = False,
    model: Annotated[
        ModelRef | None,
        typer.Option(
            metavar="PROVIDER/NAME",
            help="Use this model once, instead of the agent's.",
            show_default=False,
            parser=model_ref,
        ),
    ] = None,
    detach: Annotated[
        bool, typer.Option("--detach", "-d", help="Leave it to the server, or to a background process.")
    ] = False,
    quiet: QuietOption = False,
    as_json: LinesOption = False,
    on_ask: OnAskOption = OnAsk.WAIT,
    answers_from_script: Annotated[
        bool, typer.Option("--answers-from-script", help="Answer with the `answers` of its model's script.")
    ] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Run an agent once. Its questions are asked here.

    Example: agentmd run cleaner -m "Clean the output folder"
    """
    if detach and answers_from_script:
        raise UsageError(
            "--answers-from-script answers here, --detach leaves the execution to others: give one of them"
        )
    if fresh and session is not None:
        raise UsageError("--fresh takes no earlier messages along, --session is for taking them: give one of them")
    folder = current_folder()
    with open_app(workspace_for(agent, workspace, folder), drives=True, starts=True) as app:
        spec = spec_named(app, agent, folder)  # before anything is read
        spec = spec if model is None else spec.with_model(model)
        scripted = _answers_of(app, spec) if answers_from_script else None
        execution = app.starter.start(
            spec.name,
            args=args or [],
            message=message_of(message, folder),
            model=model,
            fresh=fresh,
            session_id=session,
            exclusive=session is not None,
            claimed=not detach,
        )
        if message != "-" and has_unread(person(sys.stdin)):
            note("note: standard input is not read; `-m -` takes it as the message")
        if not quiet:
            note_earlier_messages(app, execution, hint=" (--fresh leaves them out)")
            note_unguarded_changes(app, spec)
        output = choose_output(execution, quiet=quiet, as_json=as_json)
        warn_unavailable(app, spec.name)
        follower = EventFollower(app, execution.id, output, new=str(spec.model))
        if detach:
            if as_json:
                follower.update()  # its start
            output.handed_over(execution, _hand_over(app, execution), answered=False)
            return
        from agent_md.cli.drive.drive_or_follow import drive_or_follow  # commands that drive nothing do not pay for it

        claim = Claim(execution.id, app.worker, execution.epoch)
        code = drive_or_follow(app, follower, claim, terminal(asks=not as_json), on_ask, scripted=scripted)
        follower.end()
    raise typer.Exit(code)


def _answers_of(app: App, spec: AgentSpec) -> ScriptedAnswers:
    from agent_md.cli.asking.scripted_answers import ScriptedAnswers

    return ScriptedAnswers.of(app, spec)


def _hand_over(app: App, execution: Execution) -> str:
    """Leaves a queued execution to the server; without one, to a process of its own. Says to whom."""
    if server_takes_over(app.settings.state_dir):
        return "the server"
    command = python_command("-m", "agent_md.cli.main", "resume", str(execution.id), "--quiet")
    child = subprocess.Popen(
        [*command, "--workspace", str(app.settings.workspace)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    child.returncode = 0  # nobody waits for it: it goes on when we have ended
    return f"process {child.pid}"
