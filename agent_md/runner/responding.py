"""Finds the request that a response is for, and converts the response to an answer."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from agent_md.errors import AnswerRefused, NeverAsked, NotShown, SeveralOpen, ToolError, UnknownRequest, UsageError
from agent_md.executions.answers import validate_response, without_shown_args
from agent_md.executions.execution import Execution
from agent_md.executions.grants import GrantScope
from agent_md.executions.ids import RequestId
from agent_md.executions.request_occurrences import is_retractable, retracted
from agent_md.executions.requests import Request
from agent_md.executions.states import RequestKind, RequestSource
from agent_md.ports.store import NewAnswer
from agent_md.runner.record_grant import new_grant, remembered

if TYPE_CHECKING:
    from agent_md.tools.base import Plan

__all__ = [
    "Editing",
    "choose_answered",
    "choose_request",
    "edited_request",
    "new_answer",
    "not_shown",
    "refuse_asked_again",
    "unseen",
]


class Editing(Protocol):
    """What is known of the tools of an execution whose calls may be edited; they are given by name."""

    def args(self, tool: str, edited: dict[str, Any]) -> dict[str, Any]:
        """Edited arguments as the tool would get them. Raises ToolError when it does not take them."""

    def plan(self, tool: str, edited: dict[str, Any]) -> Plan:
        """What the tool would do with them. Raises ToolError when that is refused."""


def choose_request(
    execution: Execution, requests: Sequence[Request], wanted: str | None, *, prefix: bool = False
) -> Request:
    """The request that is meant: the named one (with `prefix` its id may be cut short), else the only open one, else
    the one decided last.

    `requests` are all of the execution, oldest first. Raises NeverAsked, UnknownRequest, SeveralOpen naming the open
    ones, UsageError for a prefix that fits several, and AnswerRetracted for an open one that is not named and asks again
    after a retraction: who answers may mean the question before.
    """
    if not requests:
        raise NeverAsked(f"execution {execution.id} ({execution.agent}) has never asked anything")
    if wanted is not None:
        return _named(execution, requests, wanted, prefix=prefix)
    still_open = [request for request in requests if request.open]
    if len(still_open) > 1:
        ids = tuple(request.id for request in still_open)
        raise SeveralOpen(
            f"execution {execution.id} has {len(ids)} open requests, and none was named: {', '.join(ids)}", ids
        )
    if still_open:
        refuse_asked_again(requests, still_open[0])
        return still_open[0]
    return max(requests, key=lambda request: request.given.recorded_at if request.given else 0.0)


def refuse_asked_again(requests: Sequence[Request], unnamed: Request) -> None:
    """Raises AnswerRetracted if an open request that nobody named asks again after a retraction."""
    for request in requests:
        if request.id == unnamed.replaces and request.retraction is not None:
            raise retracted(request, request.retraction)


def unseen(requests: Sequence[Request], chosen: Sequence[Request], shown: Collection[RequestId]) -> list[Request]:
    """The open ones of the `chosen` requests, none of which was named, that who answers may not know: they came up after
    the first ones of the execution and are not among those that were `shown`. `requests` as in `choose_request`."""
    first = requests[0]

    def came_with_first(request: Request) -> bool:
        """In the one transaction that stored the first: of one message, or raised by a tool in one go."""
        if (request.execution_id, request.source) != (first.execution_id, first.source):
            return False
        if request.source is RequestSource.GATE:
            return (request.position.turn, request.occurrence) == (first.position.turn, 0)
        return (request.position, request.created_at) == (first.position, first.created_at)

    return [r for r in chosen if r.open and r.id not in shown and not came_with_first(r)]


def not_shown(execution: Execution, requests: Sequence[Request], shapes: Sequence[dict[str, Any]] = ()) -> NotShown:
    """The error for an answer to requests that were not shown before, and are now."""
    ids = tuple(request.id for request in requests)
    which = f"request {ids[0]}" if len(ids) == 1 else f"requests {', '.join(ids)}"
    return NotShown(
        f"nothing was answered: {which} of execution {execution.id} came up later and had not been shown to you; now "
        "read what is asked, and give the same answer again, or one that names the request",
        ids,
        tuple(shapes),
    )


def choose_answered(execution: Execution, requests: Sequence[Request], wanted: str | None) -> Request:
    """The request whose answer is meant by who retracts one: the named one, whose id may be cut short, else the only one
    whose answer can be retracted, else the one that was retracted last, else the one decided last.

    Raises as `choose_request`; SeveralOpen names those whose answer can be retracted.
    """
    if not requests:
        raise NeverAsked(f"execution {execution.id} ({execution.agent}) has never asked anything")
    if wanted is not None:
        return _named(execution, requests, wanted, prefix=True)
    candidates = [request for request in requests if request.answer is not None and is_retractable(request.answer)]
    if len(candidates) > 1 or any(request.replaces is not None for request in candidates):
        ids = tuple(request.id for request in candidates)
        raise SeveralOpen(
            f"execution {execution.id} was answered more than once; say with --request which answer is meant: "
            f"{', '.join(ids)}",
            ids,
        )
    if candidates:
        return candidates[0]
    before = [request for request in requests if request.retraction is not None]
    if before:
        return max(before, key=lambda request: request.retraction.retracted_at if request.retraction else 0.0)
    return max(requests, key=lambda request: request.given.recorded_at if request.given else 0.0)


def _named(execution: Execution, requests: Sequence[Request], wanted: str, *, prefix: bool) -> Request:
    found = [request for request in requests if request.id == wanted]
    if not found and prefix:
        found = [request for request in requests if request.id.startswith(wanted)]
    if not found:
        raise UnknownRequest(
            f"execution {execution.id} has no request {wanted!r}; it has: {', '.join(r.id for r in requests)}"
        )
    if len(found) > 1:
        raise UsageError(f"{wanted!r} begins several requests: {', '.join(r.id for r in found)}; write more of it")
    return found[0]


def new_answer(
    request: Request, response: Any, editing: Editing, scopes: Sequence[GrantScope] = tuple(GrantScope)
) -> NewAnswer:
    """The validated answer to a request, bound to the edited action if its arguments were edited, with the grant that it
    gives.

    What `remember` leaves out is filled in; `scopes` as in `new_grant`. Edited arguments are those that the tool will get; if they are the ones that were shown, nothing was edited. Raises
    AnswerRefused, also for edited arguments that the tool, a `deny` rule or the sandbox refuses.
    """
    outcome, value = validate_response(request, response)
    if request.kind is RequestKind.CONFIRM and "remember" in value:
        grant = new_grant(request, value["remember"], scopes)
        return NewAnswer(request.id, outcome, {**value, "remember": remembered(grant)}, grant=grant)
    if request.kind is not RequestKind.CONFIRM or request.tool_name is None or "args" not in value:
        return NewAnswer(request.id, outcome, value)
    try:
        edited = {**value, "args": editing.args(request.tool_name, value["args"])}
        value = without_shown_args(request, edited)
        digest = editing.plan(request.tool_name, value["args"]).digest if request.open and "args" in value else None
    except ToolError as error:
        if not request.open:  # whatever it is now, it is compared with the answer that was given
            return NewAnswer(request.id, outcome, value)
        raise _refused(error) from None
    return NewAnswer(request.id, outcome, value, digest)


def edited_request(request: Request, args: dict[str, Any], editing: Editing) -> Request:
    """A request of a guarded call as it is shown with edited arguments: those that the tool would get, and what it would
    do with them. Raises AnswerRefused as `new_answer` does."""
    assert request.tool_name is not None
    try:
        checked = editing.args(request.tool_name, args)
        return replace(request, tool_args=checked, preview=editing.plan(request.tool_name, checked).preview)
    except ToolError as error:
        raise _refused(error) from None


def _refused(error: ToolError) -> AnswerRefused:
    return AnswerRefused(f"the edited arguments are refused: {error}; nothing was run")
