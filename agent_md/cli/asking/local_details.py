"""The details of a request in this workspace, shown by `?` and with edited arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from agent_md.app import App
from agent_md.cli.asking.grant_prompt import local_granting
from agent_md.cli.views.request_details import everything
from agent_md.cli.views.timeline import Timeline
from agent_md.executions.grants import scopes_of
from agent_md.executions.requests import Request
from agent_md.executions.states import RequestSource

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["LocalDetails"]


class LocalDetails:
    """`RequestDetails` of a request in the store of an app."""

    editable = True

    def __init__(self, app: App, request: Request) -> None:
        self._app = app
        self._request = request
        self._execution = app.store.execution(request.execution_id)
        self.granting = local_granting(request, scopes_of(self._execution))

    async def everything(self, request: Request) -> Sequence[RenderableType]:
        execution, store = self._execution, self._app.store
        timeline = Timeline(execution.agent, session=execution.session_id, brief=True)
        items = timeline.lines(store.events(execution.id), store.requests(execution.id))
        return everything(request, rule=self._asked_by(), conversation=items)

    def _asked_by(self) -> str:
        if self._request.rule is not None:
            return self._request.rule
        call = self._app.store.call(self._execution.id, self._request.position)
        tool = "?" if call is None else call.tool
        return f"the tool {tool}" if self._request.source is RequestSource.TOOL else "no rule that is known"

    async def edited(self, args: dict[str, Any]) -> Request:
        edited: Request = await self._app.assembly.tool_threads.aside(
            lambda: self._app.responder.edited(self._execution, self._request, args)
        )
        return edited
