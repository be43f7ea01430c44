"""The details of a question that a server of the sessions interface provides."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from agent_md.cli.asking.grant_prompt import remote_granting
from agent_md.cli.views.hanging_indent import indented, paragraph
from agent_md.cli.views.request_details import everything
from agent_md.client.sessions import Interrupt, SessionsClient
from agent_md.errors import RequestRefused, ServerUnreachable, UnknownSession
from agent_md.executions.requests import Request
from agent_md.visible_text import one_line

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["RemoteDetails"]


class RemoteDetails:
    """`RequestDetails` of an interrupt of a session. Edited arguments are checked by the server, when they are sent."""

    def __init__(self, client: SessionsClient, session_id: str, interrupt: Interrupt, request: Request) -> None:
        self._client = client
        self._id = session_id
        self._interrupt = interrupt
        self._request = request
        self.editable = interrupt.editable is True
        self.granting = remote_granting()

    async def everything(self, request: Request) -> Sequence[RenderableType]:
        rule = self._interrupt.rule
        said = await self._conversation()
        by = rule if isinstance(rule, str) else "the server does not say by what"
        return everything(request, rule=by, conversation=said)

    async def _conversation(self) -> list[RenderableType]:
        try:
            messages = await self._client.messages(self._id)
        except (UnknownSession, RequestRefused, ServerUnreachable) as error:
            return [paragraph(f"(the server does not tell it: {one_line(str(error))})")]
        lines: list[RenderableType] = []
        for message in messages:
            lines += [paragraph(f"{one_line(message.role)}:"), indented(message.text)]
        return lines

    async def edited(self, args: dict[str, Any]) -> Request:
        return replace(self._request, tool_args=args, preview=None)
