"""`pending`, `respond` and `cancel`: the human's side of an execution."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from agent_md.api.address import server_takes_over
from agent_md.app import App
from agent_md.cli.choices import JsonOption, LinesOption, QuietOption, execution_number
from agent_md.cli.flags import ANSWER_FLAGS, given_by
from agent_md.cli.output import note, say
from agent_md.cli.questions import drift_text
from agent_md.cli.runs import choose_output
from agent_md.cli.showing import Showing
from agent_md.cli.silent import Silent
from agent_md.cli.tables import PendingRow, pending_table
from agent_md.cli.text import json_line
from agent_md.cli.workspace import WorkspaceOption, each_change, login, open_app, screen, terminal
from agent_md.errors import NeverAsked, SeveralOpen, UsageError
from agent_md.executions.model import Execution, ExecutionId, Request, Status
from agent_md.ports import NewAnswer
from agent_md.shapes import request_shape

if TYPE_CHECKING:
    from agent_md.cli.prompt import TerminalPrompt

__all__ = ["cancel", "pending", "respond"]

_CANCEL_PATIENCE_S = 2.0
_POLL_S = 0.05


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
    drift = app.drift_of(requests)
    if as_json:
        say(json_line([request_shape(request, drift=drift[request.id]) for request in requests]))
        return
    rows = [PendingRow(request, drift[request.id]) for request in requests]
    say(*pending_table(rows, screen(), now=time.time()))


def respond(
    execution: Annotated[
        int,
        typer.Argument(
            metavar="ID", help="Its number, as `pending` shows it.", show_default=False, parser=execution_number
        ),
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Approve.")] = False,
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
            metavar="JSON", help="Questions: an object, question to answer. Custom: the value.", show_default=False
        ),
    ] = None,
    request: Annotated[
        str | None,
        typer.Option(metavar="RID", help="Which request: its id, or the beginning of it.", show_default=False),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="The one answer to all open requests, or to none.")] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Record the answer and leave.")] = False,
    quiet: QuietOption = False,
    as_json: LinesOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Answer an execution's question and go on with it. On a terminal without an answer: be asked.

    Example: agentmd respond 42 --yes
    """
    given = given_by(yes=yes, no=no, reason=reason, text=text, choice=choice, edit=edit, answers=answers)
    if given is None and (request is not None or everything or no_wait):
        raise UsageError(f"--request, --all and --no-wait go with an answer: {ANSWER_FLAGS}")
    if request is not None and everything:
        raise UsageError("--request names one request, --all means all: give one of them")
    from agent_md.cli.attend import attend

    with open_app(workspace, drives=True) as app:
        asked = app.existing(ExecutionId(execution))
        if not app.store.requests(asked.id):
            raise NeverAsked(f"execution {asked.id} ({asked.agent}) has never asked anything")
        prompt = terminal(asks=not as_json)
        if given is None and prompt is None:
            raise UsageError(f"there is no terminal to ask on; give the answer: {ANSWER_FLAGS}")
        showing = Showing(app, asked.id, choose_output(asked, quiet=quiet, as_json=as_json))
        if given is None:
            code = attend(app, showing, None, prompt, may_drive=lambda: not _server_goes_on(app))
            showing.end()
        else:
            chosen = _chosen(app, asked, request, everything=everything)
            _tell_drift(app, [item for item in chosen if item.open])
            new = [app.new_answer(asked, item, given.response_to(item)) for item in chosen]
            code = _record(app, showing, new, prompt, no_wait=no_wait)
    raise typer.Exit(code)


def _tell_drift(app: App, answered: Sequence[Request]) -> None:
    drift = app.drift_of(answered)
    for text in dict.fromkeys(drift_text(part, request) for request in answered for part in drift[request.id]):
        note(f"note: {text}")


def _chosen(app: App, execution: Execution, prefix: str | None, *, everything: bool) -> list[Request]:
    still_open = [request for request in app.store.requests(execution.id) if request.open]
    if everything and still_open:
        return still_open
    try:
        return [app.choose_request(execution, prefix, prefix=True)]
    except SeveralOpen as several:
        raise SeveralOpen(f"{several}; name one with --request, or answer all with --all", several.open) from None


def _record(
    app: App, showing: Showing, answers: list[NewAnswer], prompt: TerminalPrompt | None, *, no_wait: bool
) -> int:
    execution_id = showing.execution_id
    drives = not no_wait and not _server_goes_on(app)
    receipt = app.store.record_answers(answers, by=login(), claim_for=app.worker if drives else None)
    claim = receipt.claim
    if claim is None and drives:
        claim = app.store.claim(execution_id, app.worker)
    if claim is None and not no_wait and not drives and not _server_goes_on(app):  # it stopped meanwhile
        drives, claim = True, app.store.claim(execution_id, app.worker)
    current = app.store.execution(execution_id)
    showing.answered([answer.request_id for answer in answers], again=not receipt.recorded)
    if no_wait:
        showing.begin()
        showing.output.recorded(current, again=not receipt.recorded)
        return 0
    if claim is None and (current.status is Status.RUNNING or (not drives and not current.status.final)):
        showing.begin()
        showing.output.handed_over(current, "a live process" if drives else "the server", answered=True)
        return 0
    from agent_md.cli.attend import attend

    code = attend(app, showing, claim, prompt)
    showing.end()
    return code


def _server_goes_on(app: App) -> bool:
    return server_takes_over(app.settings.state_dir)


def cancel(
    execution: Annotated[
        int, typer.Argument(metavar="ID", help="Its number.", show_default=False, parser=execution_number)
    ],
    workspace: WorkspaceOption = None,
) -> None:
    """Abort an execution that waits or runs. Its open questions are withdrawn.

    Example: agentmd cancel 42
    """
    with open_app(workspace, drives=True, lenient=True) as app:
        asked = app.existing(ExecutionId(execution))
        current = app.store.request_cancel(asked.id, login())
        if current.status.final:
            say(f"Execution {execution} had ended before: {current.status}.")
            return
        claim = app.store.claim_to_cancel(current.id, app.worker)
        if claim is not None:
            import asyncio

            app.worked_on.add(current.id)
            asyncio.run(app.runner().advance(claim, Silent()))
        deadline = time.monotonic() + _CANCEL_PATIENCE_S
        while not app.store.execution(current.id).status.final and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        ended = app.store.execution(current.id)
        if ended.status.final:
            say(f"Execution {execution} is {ended.status}.")
        else:
            say(f"The process that drives execution {execution} was told to cancel it.")
