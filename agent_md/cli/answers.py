"""`pending`, `respond` and `cancel`: the human's side of an execution."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Annotated, Any

import typer

from agent_md.app import App
from agent_md.cli.attend import EXIT_OF, EXIT_WAITING, login
from agent_md.cli.output import JsonOutput, Output, note, say
from agent_md.cli.runs import attend, choose_output
from agent_md.cli.tables import PendingRow, pending_table
from agent_md.cli.workspace import WorkspaceOption, open_app, screen, terminal
from agent_md.errors import AnswerRefused, NeverAsked, SeveralOpen, ToolError, UnknownRequest, UsageError
from agent_md.executions.answers import validate_response
from agent_md.executions.model import Execution, ExecutionId, Request, RequestKind, RequestSource, Status
from agent_md.ports import AnswerReceipt, NewAnswer
from agent_md.shapes import request_shape

__all__ = ["cancel", "pending", "respond"]

_CANCEL_PATIENCE_S = 2.0
_POLL_S = 0.05
_DRIFT = "note: the agent file has changed since execution {id} started; it goes on as it started"


def pending(
    watch: Annotated[bool, typer.Option("--watch", help="Show the list again whenever it changes.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """List every question that waits for an answer, oldest first.

    Example: agentmd pending
    """
    with open_app(workspace) as app:
        _show_pending(app, as_json=as_json)
        while watch:
            version = app.reading_store.version()
            while app.reading_store.version() == version:
                time.sleep(_POLL_S)
                app.reading_store.settle_overdue()
            _show_pending(app, as_json=as_json)


def _show_pending(app: App, *, as_json: bool) -> None:
    store = app.reading_store
    requests = store.open_requests()
    drifted = {r.execution_id: app.drifted(store.execution(r.execution_id)) for r in requests}
    if as_json:
        say(json.dumps([request_shape(r, drifted=drifted[r.execution_id]) for r in requests]))
        return
    rows = [PendingRow(r, drifted=drifted[r.execution_id]) for r in requests]
    for line in pending_table(rows, screen(), now=time.time()):
        say(line)


def respond(
    execution: Annotated[
        int, typer.Argument(help="The execution's number, as `pending` shows it.", show_default=False)
    ],
    yes: Annotated[bool, typer.Option("--yes", help="Approve.")] = False,
    no: Annotated[bool, typer.Option("--no", help="Deny.")] = False,
    reason: Annotated[str | None, typer.Option(help="Why, with --yes or --no.", show_default=False)] = None,
    text: Annotated[str | None, typer.Option(help="The text asked for.", show_default=False)] = None,
    choice: Annotated[list[str] | None, typer.Option(help="An option; repeatable.", show_default=False)] = None,
    edit: Annotated[
        str | None, typer.Option(help="Approve with these arguments (JSON object).", show_default=False)
    ] = None,
    answers: Annotated[
        str | None,
        typer.Option(help="Answers to questions, or the value of a custom request (JSON).", show_default=False),
    ] = None,
    request: Annotated[str | None, typer.Option(help="The request's id, or its beginning.", show_default=False)] = None,
    everything: Annotated[bool, typer.Option("--all", help="The same answer to all open requests.")] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Record the answer and leave.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only the final answer.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one event a line, and never ask.")] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Answer an execution's question and go on with it; on a terminal without flags, be asked.

    Example: agentmd respond 42 --yes
    """
    given = _given(yes=yes, no=no, reason=reason, text=text, choice=choice, edit=edit, answers=answers)
    with open_app(workspace, drives=True) as app:
        asked = app.store.execution(ExecutionId(execution))
        output = choose_output(quiet=quiet, as_json=as_json)
        if app.drifted(asked) and not asked.status.final:
            note(_DRIFT.format(id=asked.id))
        if given is None:
            code = _walk_through(app, asked, output, request, asks=not as_json)
        else:
            chosen = _chosen(app, asked, request, everything=everything)
            code = _record(app, asked, [_answer(app, asked, item, given) for item in chosen], output, no_wait=no_wait)
    raise typer.Exit(code)


class _Given(dict[str, Any]):
    """What the flags say; exactly one of approved, text, selected, edit, answers, with perhaps a reason."""


def _given(
    *,
    yes: bool,
    no: bool,
    reason: str | None,
    text: str | None,
    choice: list[str] | None,
    edit: str | None,
    answers: str | None,
) -> _Given | None:
    given = _Given()
    if yes or no:
        given["approved"] = yes
    if text is not None:
        given["text"] = text
    if choice:
        given["selected"] = choice
    if edit is not None:
        given["edit"] = _json("--edit", edit)
    if answers is not None:
        given["answers"] = _json("--answers", answers)
    if (yes and no) or len(given) > 1:
        raise UsageError("give one answer: one of --yes, --no, --text, --choice, --edit, --answers")
    if reason is not None:
        if "approved" not in given and "edit" not in given:
            raise UsageError("--reason goes with --yes, --no or --edit")
        given["reason"] = reason
    return given or None


def _json(option: str, text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_no_constant)
    except ValueError as error:
        raise AnswerRefused(f"{option} is not JSON: {error}") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value")


def _chosen(app: App, execution: Execution, prefix: str | None, *, everything: bool) -> list[Request]:
    requests = app.store.requests(execution.id)
    if not requests:
        raise NeverAsked(f"execution {execution.id} ({execution.agent}) has never asked anything")
    if prefix is not None:
        return [_by_prefix(requests, prefix)]
    still_open = [request for request in requests if request.open]
    if everything and still_open:
        return still_open
    if len(still_open) > 1:
        raise SeveralOpen(
            f"execution {execution.id} has {len(still_open)} open requests: "
            + ", ".join(request.id for request in still_open)
            + "; name one with --request, or answer all with --all",
            tuple(request.id for request in still_open),
        )
    if still_open:
        return still_open
    return [max(requests, key=lambda request: request.answer.answered_at if request.answer else 0.0)]


def _by_prefix(requests: list[Request], prefix: str) -> Request:
    found = [request for request in requests if request.id == prefix] or [
        request for request in requests if request.id.startswith(prefix)
    ]
    if not found:
        raise UnknownRequest(
            f"no request of this execution begins with {prefix!r}; they are: {', '.join(r.id for r in requests)}"
        )
    if len(found) > 1:
        raise UsageError(f"{prefix!r} begins several requests: {', '.join(r.id for r in found)}; write more of it")
    return found[0]


_KEYS = {
    RequestKind.CONFIRM: ("approved", "edit"),
    RequestKind.INPUT: ("text",),
    RequestKind.CHOICE: ("selected",),
    RequestKind.QUESTIONS: ("answers",),
    RequestKind.CUSTOM: ("answers",),
}
_FLAGS = {
    "approved": "--yes or --no",
    "edit": "--edit",
    "text": "--text",
    "selected": "--choice",
    "answers": "--answers",
}


def _answer(app: App, execution: Execution, request: Request, given: _Given) -> NewAnswer:
    """The validated answer of the flags to one request. Raises AnswerRefused."""
    key = next(name for name in given if name != "reason")
    if key not in _KEYS[request.kind]:
        wanted = ", ".join(_FLAGS[name] for name in _KEYS[request.kind])
        raise AnswerRefused(f"request {request.id} is a {request.kind}: answer it with {wanted}")
    reason = {"reason": given["reason"]} if "reason" in given else {}
    response: Any
    if key == "edit":
        response = {"approved": True, "args": given["edit"], **reason}
    elif key == "answers" and request.kind is RequestKind.CUSTOM:
        response = given["answers"]
    else:
        response = {key: given[key], **reason}
    outcome, value = validate_response(request, response)
    digest = _edited_digest(app, execution, request, value) if key == "edit" and request.open else None
    return NewAnswer(request.id, outcome, value, digest)


def _edited_digest(app: App, execution: Execution, request: Request, value: dict[str, Any]) -> str:
    from agent_md.agents.spec import AgentSpec
    from agent_md.graph.gate import edited_plan

    assert request.source is RequestSource.GATE
    assert request.tool_name is not None
    spec = AgentSpec.from_json(app.store.spec(execution.id))
    try:
        return edited_plan(spec, app.tools(spec, lenient=True), request.tool_name, value["args"]).digest
    except ToolError as error:
        raise AnswerRefused(f"the edited arguments are refused: {error}; nothing was run") from None


def _record(app: App, execution: Execution, answers: list[NewAnswer], output: Output, *, no_wait: bool) -> int:
    worker = None if no_wait else app.worker
    receipt = app.store.record_answers(answers, by=login(), claim_for=worker)
    if no_wait:
        _say_recorded(receipt, output)
        return 0
    current = app.store.execution(execution.id)
    claim = receipt.claim or app.store.claim(execution.id, app.worker)
    if claim is None and current.status is Status.RUNNING:
        output.handed_over(current, "a live process")
        return 0
    if claim is None and current.status.final:
        note(f"execution {execution.id} has ended: {current.status}")
        return EXIT_OF[current.status]
    if claim is None:
        return EXIT_WAITING
    return attend(app, execution, claim, output, asks=not isinstance(output, JsonOutput))


def _say_recorded(receipt: AnswerReceipt, output: Output) -> None:
    if not isinstance(output, JsonOutput):
        say("Recorded." if receipt.recorded else "This answer was recorded before.")


def _walk_through(app: App, execution: Execution, output: Output, request: str | None, *, asks: bool) -> int:
    requests = app.store.requests(execution.id)
    if not requests:
        raise NeverAsked(f"execution {execution.id} ({execution.agent}) has never asked anything")
    if request is not None:
        raise UsageError("--request goes with an answer: --yes, --no, --text, --choice, --edit or --answers")
    if not asks or terminal() is None:
        raise UsageError(
            "there is no terminal to ask on: give the answer with --yes, --no, --text, --choice, --edit or --answers"
        )
    if execution.status.final:
        note(f"execution {execution.id} has ended: {execution.status}")
        return EXIT_OF[execution.status]
    return attend(app, execution, None, output, asks=True)


def cancel(
    execution: Annotated[int, typer.Argument(help="The execution's number.", show_default=False)],
    workspace: WorkspaceOption = None,
) -> None:
    """Abort an execution that waits or runs; its open questions are withdrawn.

    Example: agentmd cancel 42
    """
    with open_app(workspace, drives=True) as app:
        current = app.store.request_cancel(ExecutionId(execution), login())
        if current.status.final:
            say(f"Execution {execution} had ended before: {current.status}.")
            return
        claim = app.store.claim_to_cancel(current.id, app.worker)
        if claim is not None:
            asyncio.run(app.runner().advance(claim, _Silent()))
        deadline = time.monotonic() + _CANCEL_PATIENCE_S
        while not app.store.execution(current.id).status.final and time.monotonic() < deadline:
            time.sleep(_POLL_S)
        ended = app.store.execution(current.id)
        if ended.status.final:
            say(f"Execution {execution} is {ended.status}.")
        else:
            say(f"The process that drives execution {execution} was told to cancel it.")


class _Silent:
    def stored(self) -> None: ...

    def delta(self, execution_id: ExecutionId, turn: int, text: str) -> None: ...

    def restart(self, execution_id: ExecutionId, turn: int) -> None: ...
