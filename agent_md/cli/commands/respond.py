"""`respond`: answers the requests of an execution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from agent_md.api.address import server_takes_over
from agent_md.app import App
from agent_md.cli.asking.answer_flags import ANSWER_FLAGS, given_by, remember_by
from agent_md.cli.command_context import WorkspaceOption, login, open_app, terminal
from agent_md.cli.drive.event_follower import EventFollower
from agent_md.cli.drive.run_output import choose_output
from agent_md.cli.option_values import LinesOption, QuietOption, execution_number
from agent_md.cli.terminal.output import note, say
from agent_md.errors import NeverAsked, SeveralOpen, UsageError
from agent_md.executions.execution import Claim, Execution
from agent_md.executions.grants import DEFAULT_UNTIL, NEVER, GrantScope
from agent_md.executions.ids import ExecutionId
from agent_md.executions.requests import Request
from agent_md.executions.states import Status
from agent_md.ports.store import NewAnswer
from agent_md.runner.responding import not_shown, refuse_asked_again
from agent_md.serialization import retraction_json
from agent_md.visible_text import json_line, one_line
from agent_md.wording.request_text import decision_text, drift_text, summary

if TYPE_CHECKING:
    from agent_md.cli.asking.prompt import TerminalPrompt

__all__ = ["respond"]


def respond(
    execution: Annotated[
        int,
        typer.Argument(
            metavar="ID", help="Its number, as `pending` shows it.", show_default=False, parser=execution_number
        ),
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Approve.")] = False,
    always: Annotated[
        bool, typer.Option("--always", help="Approve, and let similar calls run without a question from now on.")
    ] = False,
    rule: Annotated[
        str | None,
        typer.Option(metavar="RULE", help="With --always: a narrower rule than the proposed one.", show_default=False),
    ] = None,
    scope: Annotated[
        GrantScope | None,
        typer.Option(
            help="With --always: whose calls; default: those of the session, if there is one.", show_default=False
        ),
    ] = None,
    until: Annotated[
        str | None,
        typer.Option(metavar="TIME", help=f"With --always: how long, or {NEVER}; {DEFAULT_UNTIL}.", show_default=False),
    ] = None,
    no: Annotated[bool, typer.Option("--no", help="Deny.")] = False,
    reason: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Why, with --yes, --no or --edit.", show_default=False)
    ] = None,
    text: Annotated[
        str | None, typer.Option(metavar="TEXT", help="The text that was asked for.", show_default=False)
    ] = None,
    choice: Annotated[
        list[str] | None,
        typer.Option(metavar="VALUE", help="An option; repeat it where several may be chosen.", show_default=False),
    ] = None,
    edit: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="Approve with these arguments: an object.", show_default=False),
    ] = None,
    answers: Annotated[
        str | None,
        typer.Option(
            metavar="JSON",
            help="Questions: an object that maps questions to answers. Custom: the value.",
            show_default=False,
        ),
    ] = None,
    request: Annotated[
        str | None,
        typer.Option(metavar="RID", help="Which request: its id, or the start of it.", show_default=False),
    ] = None,
    retract: Annotated[
        bool, typer.Option("--retract", help="Take an answer back before its call acts on it, and ask again.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Give the same answer to all open requests, or to none.")
    ] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Record the answer and exit.")] = False,
    quiet: QuietOption = False,
    as_json: LinesOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Answer an execution's questions and continue it. On a terminal without an answer: ask.

    Example: agentmd respond 42 --yes
    """
    if retract:
        if (
            yes
            or no
            or always
            or everything
            or no_wait
            or any(each is not None for each in (reason, text, choice, edit, answers))
        ):
            raise UsageError("--retract takes an answer back and gives none: it goes with --request alone")
        with open_app(workspace) as app:
            _retract(app, app.find_execution(ExecutionId(execution)), request, as_json=as_json)
        return
    remember = remember_by(always=always, rule=rule, scope=scope, until=until)
    given = given_by(
        yes=yes, no=no, reason=reason, text=text, choice=choice, edit=edit, answers=answers, remember=remember
    )
    if given is None and (request is not None or everything or no_wait):
        raise UsageError(f"--request, --all and --no-wait go with an answer: {ANSWER_FLAGS}")
    if request is not None and everything:
        raise UsageError("--request names one request, --all means all: give one of them")
    from agent_md.cli.drive.drive_or_follow import drive_or_follow

    with open_app(workspace, drives=True) as app:
        asked = app.find_execution(ExecutionId(execution))
        if not app.store.requests(asked.id, family=True):
            raise NeverAsked(f"execution {asked.id} ({asked.agent}) has never asked anything")
        prompt = terminal(asks=not as_json)
        if given is None and prompt is None:
            raise UsageError(f"there is no terminal to ask on; give the answer: {ANSWER_FLAGS}")
        root = app.store.execution(asked.root)
        follower = EventFollower(app, root.id, choose_output(root, quiet=quiet, as_json=as_json))
        if given is None:
            code = drive_or_follow(app, follower, None, prompt, may_drive=lambda: not _server_goes_on(app))
            follower.end()
        else:
            chosen = _chosen(app, asked, request, everything=everything)
            if request is None:
                _refuse_unseen(app, asked, chosen, follower)
            _tell_drift(app, [item for item in chosen if item.open])
            new = [
                app.responder.new_answer(app.store.execution(item.execution_id), item, given.response_to(item))
                for item in chosen
            ]
            code = _record(app, follower, new, prompt, no_wait=no_wait)
    raise typer.Exit(code)


def _tell_drift(app: App, answered: Sequence[Request]) -> None:
    drift = app.drift_of(answered)
    for text in dict.fromkeys(drift_text(part, request) for request in answered for part in drift[request.id]):
        note(f"note: {text}")


def _chosen(app: App, execution: Execution, prefix: str | None, *, everything: bool) -> list[Request]:
    requests = app.store.requests(execution.id, family=True)
    still_open = [request for request in requests if request.open]
    if everything and still_open:
        for request in still_open:
            refuse_asked_again(requests, request)
        return still_open
    try:
        return [app.responder.choose_request(execution, prefix, prefix=True)]
    except SeveralOpen as several:
        raise SeveralOpen(f"{several}; name one with --request, or answer all with --all", several.open) from None


def _refuse_unseen(app: App, execution: Execution, chosen: Sequence[Request], follower: EventFollower) -> None:
    """Shows what was never shown to who answers now, and raises NotShown."""
    if unseen := app.responder.unseen(execution, chosen, login()):
        follower.questions(unseen)
        app.store.showings.record(unseen, login())
        raise not_shown(execution, unseen)


def _retract(app: App, execution: Execution, prefix: str | None, *, as_json: bool) -> None:
    request = app.responder.choose_answered(execution, prefix)
    retraction = app.store.retract(request.id, by=login())
    if as_json:
        say(json_line(retraction_json(execution.id, retraction)))
        return
    decided = decision_text(app.store.request(request.id))
    say(f"Retracted by {one_line(retraction.retracted_by)}: {summary(request)}: {decided}.")
    again = app.store.request(retraction.replaced_by)
    if again.open:
        say(f"It is asked again: agentmd respond {execution.id} --request {again.id}")
    else:
        say(f"It was asked again as {again.id}: {decision_text(again)}.")


def _record(
    app: App, follower: EventFollower, answers: list[NewAnswer], prompt: TerminalPrompt | None, *, no_wait: bool
) -> int:
    execution_id = follower.execution_id
    drives = not no_wait and not _server_goes_on(app)
    receipt = app.store.record_answers(answers, by=login(), claim_for=app.worker if drives else None)
    claim = receipt.claim
    if claim is None and drives:
        claim = _first_claim(app, execution_id)
    if claim is None and not no_wait and not drives and not _server_goes_on(app):  # it stopped meanwhile
        drives, claim = True, _first_claim(app, execution_id)
    current = app.store.execution(execution_id)
    follower.answered([answer.request_id for answer in answers], again=not receipt.recorded)
    if no_wait:
        follower.begin()
        follower.output.recorded(current, again=not receipt.recorded)
        return 0
    if claim is None and (current.status is Status.RUNNING or (not drives and not current.status.final)):
        follower.begin()
        follower.output.handed_over(current, "a live process" if drives else "the server", answered=True)
        return 0
    from agent_md.cli.drive.drive_or_follow import drive_or_follow

    code = drive_or_follow(app, follower, claim, prompt)
    follower.end()
    return code


def _first_claim(app: App, execution_id: ExecutionId) -> Claim | None:
    """A claim on the execution, or on one below it, that can go on."""
    claims = (app.store.claim(member.id, app.worker) for member in app.store.family(execution_id))
    return next((claim for claim in claims if claim is not None), None)


def _server_goes_on(app: App) -> bool:
    return server_takes_over(app.settings.state_dir)
