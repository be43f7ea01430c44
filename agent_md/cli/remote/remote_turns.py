"""Follows the turns of a session at a server on the terminal: shows events and asks questions.

What was answered is not asked again, whatever the server shows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import Enum
from itertools import islice
from typing import Any

from agent_md.cli.asking.ask_request import ask_request
from agent_md.cli.asking.prompt import PromptClosed, TerminalPrompt
from agent_md.cli.exit_codes import CUT
from agent_md.cli.remote.remote_details import RemoteDetails
from agent_md.cli.remote.remote_output import RemoteOutput
from agent_md.cli.terminal.notices import Notices
from agent_md.cli.views.listed_request import listed
from agent_md.client.interrupts import as_request
from agent_md.client.sessions import Interrupt, RemoteSession, SessionsClient
from agent_md.client.turn_texts import TurnTexts
from agent_md.client.turns import SessionTurns, pauses
from agent_md.errors import RequestRefused
from agent_md.executions.requests import Request
from agent_md.executions.sessions import SessionStatus
from agent_md.visible_text import one_line
from agent_md.wording.request_text import summary

__all__ = ["LeftWaiting", "RemoteTurns", "Stage"]

_REFUSALS = 4


class Stage(Enum):
    """What this side is about."""

    NOTHING = "nothing"
    SENDING = "sending"
    WORKING = "working"
    ASKING = "asking"
    ANSWERING = "answering"


class LeftWaiting(Exception):
    """Somebody must be asked, and cannot be, or would not answer."""


class _Withdrawn(Exception):
    """The question is not open any more."""


class RemoteTurns:
    """The turns of one session, each sent and followed to its end. `ask` None = nobody is there to ask."""

    def __init__(
        self,
        client: SessionsClient,
        session: RemoteSession,
        agent: str,
        output: RemoteOutput,
        ask: Callable[[], TerminalPrompt] | None,
        notices: Notices,
    ) -> None:
        self.stage = Stage.NOTHING
        self._client = client
        self._turns = SessionTurns(client, session, output.note)
        self._agent = agent
        self._output = output
        self._ask = ask
        self._notices = notices
        self._decided: set[str | int] = set()

    @property
    def session_id(self) -> str:
        return self._turns.session.id

    @property
    def under_way(self) -> bool:
        """Whether, when it was last looked at, a turn had not ended."""
        return self._turns.under_way

    async def send(self, text: str) -> None:
        """Begins a turn, after those of others that are under way have been followed to their end.

        Raises RequestRefused or ServerUnreachable when the message was not sent, LeftWaiting as `follow` does.
        """
        for pause in islice(pauses(), _REFUSALS):
            self.stage = Stage.SENDING
            try:
                with self._output.working("sending"):
                    await self._turns.post(text)
            except RequestRefused as refused:
                if refused.status != 409:
                    raise
                reason = refused
            else:
                return
            await self._turns.look()
            if self.under_way:
                busy = f"The session is busy: {one_line(str(reason))}. Your message is sent after that turn."
                self._output.explain(busy, "")
                await self.follow()
                self._output.tell("")
            else:
                await asyncio.sleep(pause)
        raise reason

    async def follow(self) -> int:
        """Follows the turn to its end, asks what it asks, shows what it came to; gives its exit code.

        Raises LeftWaiting when an interrupt is not answered here, ServerUnreachable when the server is gone for
        minutes, UnknownSession when the session is.
        """
        between, texts = pauses(), TurnTexts(self._client, self.session_id)
        while True:
            self.stage = Stage.WORKING
            with self._output.working("working"):
                session = await self._turns.settled()
            if session.status is SessionStatus.IDLE:
                self._output.answered(session.response or "", session.cut)
                return 0 if session.cut is None else CUT
            if session.status is SessionStatus.ERROR:
                self._output.failed(session.error or "")
                return 1
            asked = [interrupt for interrupt in session.interrupts if interrupt.id not in self._decided]
            if not asked:  # what was answered is on its way
                await asyncio.sleep(next(between))
            elif self._ask is None:
                self.stage = Stage.ASKING
                self._output.asked([summary(as_request(interrupt, self._agent)) for interrupt in asked])
                raise LeftWaiting
            else:
                self._output.wrote(await texts.before(asked[0]))
                ids = [str(interrupt.id) for interrupt in asked]
                self._notices.tell(ids, self._agent, listed(as_request(asked[0], self._agent)))
                await self._answer(asked[0], self._ask())
                between = pauses()

    # Asking

    async def _answer(self, interrupt: Interrupt, prompt: TerminalPrompt) -> None:
        """Asks until the server takes the answer, or does not want one any more."""
        request = as_request(interrupt, self._agent)
        while interrupt.id not in self._decided:
            self.stage = Stage.ASKING
            try:
                value = await self._typed(request, interrupt, prompt)
            except _Withdrawn:
                self._output.withdrawn("it was answered elsewhere, expired or was cancelled")
                self._decided.add(interrupt.id)
                return
            self.stage = Stage.ANSWERING
            try:
                await self._turns.answer(interrupt, value)
            except RequestRefused as refused:
                if refused.status == 401:
                    raise
                if refused.status not in (404, 409):
                    prompt.tell(f"  {one_line(str(refused))}")
                    continue
                self._output.withdrawn(f"this answer was not taken: {one_line(str(refused))}")
            self._decided.add(interrupt.id)
            self._output.prompted()

    async def _typed(self, request: Request, interrupt: Interrupt, prompt: TerminalPrompt) -> Any:
        """What is typed at the prompt, while the server shows the question as open. Raises _Withdrawn, LeftWaiting."""
        details = RemoteDetails(self._client, self.session_id, interrupt, request)
        asking = asyncio.create_task(ask_request(request, prompt, details))
        watching = asyncio.create_task(self._turns.closed(interrupt))
        try:
            await asyncio.wait({asking, watching}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                watching.result()
                raise _Withdrawn
        finally:
            asking.cancel()
            watching.cancel()
            await asyncio.wait({asking, watching})
            if not watching.cancelled():
                watching.exception()  # an answer goes before it
        try:
            return asking.result()
        except PromptClosed:
            raise LeftWaiting from None
