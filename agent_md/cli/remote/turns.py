"""The turns of a session that another process drives: messages are sent to its server, which is asked how it goes.

Nothing is ever asked of the server without a pause after an answer that came at once, and what was answered is not
asked again, whatever the server shows.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from enum import Enum
from functools import partial
from itertools import chain, islice, repeat
from typing import Any, TypeVar

from agent_md.cli.asking.ask_request import ask_request
from agent_md.cli.asking.prompt import PromptClosed, TerminalPrompt
from agent_md.cli.exit_codes import CUT
from agent_md.cli.remote.interrupts import as_request
from agent_md.cli.remote.remote_details import RemoteDetails
from agent_md.cli.remote.remote_output import RemoteOutput
from agent_md.cli.remote.sessions_client import Interrupt, RemoteSession, SessionsClient
from agent_md.cli.remote.turn_texts import TurnTexts
from agent_md.cli.terminal.notices import Notices
from agent_md.cli.views.durations import spent
from agent_md.cli.views.questions import listed, summary
from agent_md.cli.views.visible_text import one_line
from agent_md.errors import RequestRefused, ServerUnreachable
from agent_md.executions.requests import Request
from agent_md.executions.sessions import SessionStatus

__all__ = ["LeftWaiting", "RemoteTurns", "Stage", "retry_delays"]

T = TypeVar("T")

_POLL_S = 30.0
_HELD_S = 1.0
"""A server that holds a poll for less may not hold polls at all: then there is a pause before the next one."""
_PATIENCE_S = 300.0
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


def retry_delays(patience: float = _PATIENCE_S) -> Iterator[float]:
    """Seconds to wait before each new attempt, longer and longer, until together they are `patience`."""
    waited, delay = 0.0, 0.25
    while waited < patience:
        yield delay
        waited += delay
        delay = min(2 * delay, 10.0)


def _pauses() -> Iterator[float]:
    """Seconds between looks at a session in which nothing changes."""
    return chain((0.2, 0.5, 1.0, 2.0), repeat(5.0))


def _looks() -> Iterator[float]:
    """Seconds between looks whether a question is still open."""
    return chain((0.5,), repeat(1.0, 30), repeat(5.0))


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
        self._session = session
        self._id = session.id
        self._agent = agent
        self._output = output
        self._ask = ask
        self._notices = notices
        self._decided: set[str | int] = set()

    @property
    def session_id(self) -> str:
        return self._id

    @property
    def under_way(self) -> bool:
        """Whether, when it was last looked at, a turn had not ended."""
        return self._session.status in (SessionStatus.RUNNING, SessionStatus.INTERRUPTED)

    async def send(self, text: str) -> None:
        """Begins a turn, after those of others that are under way have been followed to their end.

        Raises RequestRefused or ServerUnreachable when the message was not sent, LeftWaiting as `follow` does.
        """
        for pause in islice(_pauses(), _REFUSALS):
            try:
                await self._post(text)
            except RequestRefused as refused:
                if refused.status != 409:
                    raise
                reason = refused
            else:
                return
            self._session = await self._insist(partial(self._client.get, self._id))
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
        pauses, texts = _pauses(), TurnTexts(self._client, self._id)
        while True:
            self._session = session = await self._settled()
            if session.status is SessionStatus.IDLE:
                self._output.answered(session.response or "", session.cut)
                return 0 if session.cut is None else CUT
            if session.status is SessionStatus.ERROR:
                self._output.failed(session.error or "")
                return 1
            asked = [interrupt for interrupt in session.interrupts if interrupt.id not in self._decided]
            if not asked:  # what was answered is on its way
                await asyncio.sleep(next(pauses))
            elif self._ask is None:
                self.stage = Stage.ASKING
                self._output.asked([summary(as_request(interrupt, self._agent)) for interrupt in asked])
                raise LeftWaiting
            else:
                self._output.wrote(await texts.before(asked[0]))
                ids = [str(interrupt.id) for interrupt in asked]
                self._notices.tell(ids, self._agent, listed(as_request(asked[0], self._agent)))
                await self._answer(asked[0], self._ask())
                pauses = _pauses()

    # Sending

    async def _post(self, text: str) -> None:
        """Sends the message, and never twice: where it may have arrived the session tells whether it did."""
        self.stage = Stage.SENDING
        with self._output.working("sending"):
            try:
                await self._insist(
                    partial(self._client.post_message, self._id, text), unless=lambda error: error.may_be_done
                )
            except ServerUnreachable as error:
                if error.may_be_done and await self._has_moved():
                    return
                raise

    async def _has_moved(self) -> bool:
        before = self._session
        self._session = now = await self._insist(partial(self._client.get, self._id))
        ended = (before.status, before.response, before.error) != (now.status, now.response, now.error)
        return self.under_way or ended

    # Following

    async def _settled(self) -> RemoteSession:
        """The session as soon as it is not running."""
        self.stage = Stage.WORKING
        pauses = _pauses()
        with self._output.working("working"):
            while True:
                began = time.monotonic()
                session = await self._insist(self._poll())
                if session.status is not SessionStatus.RUNNING:
                    return session
                if time.monotonic() - began < _HELD_S:
                    await asyncio.sleep(next(pauses))

    def _poll(self) -> Callable[[], Awaitable[RemoteSession]]:
        """A look that waits; after it was cut, as proxies do, looks that do not wait."""
        waits = chain((_POLL_S,), repeat(None))
        return lambda: self._client.get(self._id, wait=next(waits))

    async def _insist(
        self,
        attempt: Callable[[], Awaitable[T]],
        *,
        unless: Callable[[ServerUnreachable], bool] = lambda _: False,
    ) -> T:
        """What the attempt gives, made again while the server is unreachable, for minutes. Once may be an accident, and
        is not told."""
        failures, delays = 0, retry_delays()
        while True:
            try:
                result = await attempt()
            except ServerUnreachable as error:
                delay = next(delays, None)
                if delay is None or unless(error):
                    raise
                failures += 1
                if failures == 2:
                    self._output.note(f"{error}; trying again for {spent(_PATIENCE_S)}")
                await asyncio.sleep(delay)
            else:
                if failures >= 2:
                    self._output.note("the server answers again")
                return result

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
                await self._insist(partial(self._client.resume, self._id, interrupt.id, value))
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
        details = RemoteDetails(self._client, self._id, interrupt, request, prompt.screen)
        asking = asyncio.create_task(ask_request(request, prompt, details))
        watching = asyncio.create_task(self._closed(interrupt.id))
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

    async def _closed(self, interrupt_id: str | int) -> None:
        """Returns as soon as the server does not show the interrupt as open; raises what ends the chat."""
        for pause in _looks():
            await asyncio.sleep(pause)
            with suppress(ServerUnreachable):
                session = await self._client.get(self._id)
                if interrupt_id not in {interrupt.id for interrupt in session.interrupts}:
                    return
