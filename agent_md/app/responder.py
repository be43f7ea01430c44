"""Validates responses of users and programs and converts them to answers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from agent_md.agents.spec import AgentSpec
from agent_md.executions.execution import Execution
from agent_md.executions.grants import GrantScope, scopes_of
from agent_md.executions.requests import Request
from agent_md.ports.store import NewAnswer

if TYPE_CHECKING:
    from agent_md.app.app import App
    from agent_md.tools.base import Plan, Tool

__all__ = ["Responder"]


class Responder:
    """Chooses the request that is meant, and validates responses to it. Records nothing."""

    def __init__(self, app: App) -> None:
        self._app = app

    def choose_request(self, execution: Execution, wanted: str | None, *, prefix: bool = False) -> Request:
        """The request of an execution, or of one below it, that is meant; see `agent_md.runner.responding.choose_request`."""
        from agent_md.runner.responding import choose_request

        return choose_request(execution, self._app.store.requests(execution.id, family=True), wanted, prefix=prefix)

    def unseen(self, execution: Execution, chosen: Sequence[Request], by: str) -> list[Request]:
        """Which of the requests, chosen without being named, `by` may not know; see `agent_md.runner.responding.unseen`."""
        from agent_md.runner.responding import unseen

        store = self._app.store
        shown = store.showings.shown([request.id for request in chosen], by)
        return unseen(store.requests(execution.id, family=True), chosen, shown)

    def choose_answered(self, execution: Execution, wanted: str | None) -> Request:
        """The request whose answer is to be retracted; see `agent_md.runner.responding.choose_answered`."""
        from agent_md.runner.responding import choose_answered

        return choose_answered(execution, self._app.store.requests(execution.id, family=True), wanted)

    def new_answer(
        self, execution: Execution, request: Request, response: Any, *, scopes: Sequence[GrantScope] | None = None
    ) -> NewAnswer:
        """The validated answer to a request. `scopes`: those that a grant may have, the default first; None means those of
        the execution. Raises AnswerRefused."""
        from agent_md.runner.responding import new_answer

        allowed = scopes_of(execution) if scopes is None else scopes
        return new_answer(request, response, _Editing(self._app, execution), allowed)

    def edited(self, execution: Execution, request: Request, args: dict[str, Any]) -> Request:
        """The request as it is shown with edited arguments, which are validated. Raises AnswerRefused."""
        from agent_md.runner.responding import edited_request

        return edited_request(request, args, _Editing(self._app, execution))


class _Editing:
    """`agent_md.runner.responding.Editing` for one execution. Loads its tools only when a call was edited."""

    def __init__(self, app: App, execution: Execution) -> None:
        self._app = app
        self._execution = execution

    @cached_property
    def _spec(self) -> AgentSpec:
        return self._app.spec_of(self._execution)

    @cached_property
    def _tools(self) -> dict[str, Tool]:
        from agent_md.app.mcp_tools import kept_mcp_tools

        mcp = kept_mcp_tools(self._app.store, self._execution.id) if self._spec.mcp else ()
        return self._app.assembly.tools(self._spec, lenient=True, mcp=mcp, execution=self._execution)

    def args(self, tool: str, edited: dict[str, Any]) -> dict[str, Any]:
        from agent_md.graph.gate import edited_args
        from agent_md.graph.redacting import refuse_secrets

        refuse_secrets(self._app.assembly.redactor(self._spec), edited)
        return edited_args(self._tools, tool, edited)

    def plan(self, tool: str, edited: dict[str, Any]) -> Plan:
        from agent_md.graph.gate import edited_plan

        return edited_plan(self._spec, self._tools, tool, edited)
