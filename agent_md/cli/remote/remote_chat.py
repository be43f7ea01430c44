"""`chat --url`: the turns of a session that a server drives, over the sessions interface."""

from __future__ import annotations

import asyncio
import getpass
import os
import signal
from collections.abc import Coroutine
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from agent_md.cli.asking.prompt import TerminalPrompt
from agent_md.cli.chat.conversation import COMMANDS, ChatEnded, nobody_reads, take_turns
from agent_md.cli.chat.message_input import messages_of
from agent_md.cli.command_context import screen, terminal
from agent_md.cli.exit_codes import WAITING
from agent_md.cli.remote.remote_output import HELP, RemoteOutput
from agent_md.cli.remote.remote_turns import LeftWaiting, RemoteTurns, Stage
from agent_md.cli.terminal.notices import Notices
from agent_md.cli.terminal.output import note
from agent_md.cli.terminal.signals import taken_over
from agent_md.cli.views.chat_texts import beginning, continue_hint, continuing
from agent_md.client.server_facts import listed_agents, model_name, session_usages, told
from agent_md.client.sessions import Place, RemoteSession, SessionsClient, place_of, server_of
from agent_md.errors import AgentmdError, RequestRefused, ServerUnreachable, UnknownSession
from agent_md.executions.execution import Usage
from agent_md.settings import users_terminal
from agent_md.visible_text import one_line

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["remote_chat"]

T = TypeVar("T")

_GRACE_S = 1.0
_LEFT = {
    Stage.SENDING: "session {}: it is not known whether the message was taken",
    Stage.WORKING: "session {}: the turn goes on without this terminal",
    Stage.ASKING: "session {} waits for an answer",
    Stage.ANSWERING: "session {}: it is not known whether the answer was taken",
}
_UNCLAIMED = (400, 405)
"""What a server answers that does not let its clients choose the id of a new session."""


def remote_chat(url: str, *, agent: str | None, session_id: str | None, key: str | None) -> int:
    """Talks with the agent at `url`, in a session of this id, else in a new one; gives the exit code.

    On a terminal questions are asked; else messages are the lines of standard input, and a question ends it with 3.
    """
    place = place_of(url, agent)
    client = SessionsClient(place.base, key)
    if key is not None and not (place.encrypted or place.local):
        note(f"note: the key goes to {place.base} without encryption")
    prompt = terminal(asks=True)
    output = RemoteOutput(place.name, talks=prompt is not None)
    conversation = _RemoteConversation(place, client, session_id, output, talks=prompt is not None)
    return take_turns(conversation, messages_of(prompt, COMMANDS), output, talks=prompt is not None)


class _RemoteConversation:
    """`Conversation`: the turns of a session at a server."""

    help = HELP

    def __init__(
        self, place: Place, client: SessionsClient, session_id: str | None, output: RemoteOutput, *, talks: bool
    ) -> None:
        self._place = place
        self._client = client
        self._wanted = session_id
        self._talks = talks
        self._output = output
        self._notices = Notices(users_terminal(os.environ, Path.home()))
        self._loop = asyncio.new_event_loop()
        self._session: RemoteSession | None = None
        self._turns: RemoteTurns
        self._empty = False
        """Whether the session was made here, and nothing was said in it."""

    def turn(self, text: str) -> int:
        self._empty = False
        code = self._awaited(self._turn(self._turns, text), self._turns)
        if self._output.lost and not self._talks:
            nobody_reads(self._output.tell, code)
        self._output.tell("")
        return code

    # Commands

    def clear(self) -> list[RenderableType]:
        if self._empty:
            return ["  This session is new: nothing was said in it."]
        before, session = self._turns.session_id, self._awaited(told(self._client.create()))
        self._session, self._empty, self._turns = session, True, self._turns_of(session)
        left = continue_hint(["--url", self._place.base], before)
        return [f"  {left}", f"  A new session, which knows nothing of what was said: {one_line(session.id)}"]

    def said(self) -> list[tuple[str, str]]:
        messages = self._awaited(told(self._client.messages(self._turns.session_id)))
        return [(message.role, message.text) for message in messages]

    def costs(self) -> list[tuple[str, list[Usage]]]:
        found = session_usages(self._client, self._place, self._turns.session_id)
        return [("The session", self._awaited(told(found)))]

    def agents(self) -> tuple[list[tuple[str, str]], str, str]:
        found = self._awaited(told(listed_agents(self._client)))
        return found, self._place.name, f"agentmd chat NAME --url {one_line(server_of(self._place.base)[0])}"

    def model(self, wanted: str) -> str:
        if wanted:
            return "The model of an agent of a server is chosen there: in its agent file."
        return f"{self._awaited(told(model_name(self._client, self._place)))} answers."

    def _turns_of(self, session: RemoteSession) -> RemoteTurns:
        asker = (lambda: TerminalPrompt(screen())) if self._talks else None
        self._notices.know([str(interrupt.id) for interrupt in session.interrupts])
        return RemoteTurns(self._client, session, self._place.name, self._output, asker, self._notices)

    async def _turn(self, turns: RemoteTurns, text: str) -> int:
        try:
            await turns.send(text)
        except UnknownSession as error:
            raise UnknownSession(f"{error}. Your message was not sent") from error
        except (RequestRefused, ServerUnreachable) as error:
            if not self._talks or (isinstance(error, RequestRefused) and error.status == 401):
                raise
            perhaps = isinstance(error, ServerUnreachable) and error.may_be_done
            self._output.note(str(error))
            self._output.note(f"Your message was {'probably ' if perhaps else ''}not sent.")
            return 1
        return await turns.follow()

    # Beginning and end

    def begin(self) -> None:
        try:
            session = self._awaited(self._opened())
        except RequestRefused as refused:
            self._client.key = self._typed_key(refused)
            session = self._awaited(self._opened())
        self._session = session
        self._turns = turns = self._turns_of(session)
        self._output.tell(*beginning(self._place.name, self._place.base, session.id, asks=self._talks))
        self._awaited(self._continued(session, under_way=turns.under_way), turns)
        self._output.tell("")
        if turns.under_way:
            self._output.tell("A turn of this session has not ended; that comes first.", "")
            self._awaited(turns.follow(), turns)
            self._output.tell("")

    async def _opened(self) -> RemoteSession:
        if self._wanted is None:
            self._empty = True
            return await self._client.create()
        try:
            return await self._client.get(self._wanted)
        except UnknownSession as unknown:
            return await self._begun(self._wanted, unknown)

    async def _begun(self, session_id: str, unknown: UnknownSession) -> RemoteSession:
        try:
            session = await self._client.create_as(session_id)
        except RequestRefused as refused:
            if refused.status not in _UNCLAIMED:
                raise
            raise UnknownSession(f"{unknown}; {refused}") from refused
        self._empty = True
        return session

    def _typed_key(self, refused: RequestRefused) -> str:
        """The key that is typed, unseen, because the server wants one; raises `refused` if nobody can be asked."""
        if refused.status != 401 or not self._talks or self._client.key is not None:
            raise refused
        try:
            key = getpass.getpass(f"The key of {one_line(self._place.base)}: ")
        except EOFError:
            raise refused from None
        if not key:
            raise refused
        return key

    async def _continued(self, session: RemoteSession, *, under_way: bool) -> None:
        """Tells how far a session has come, if its server does."""
        if self._wanted is None or self._empty:
            return
        with suppress(UnknownSession, RequestRefused, ServerUnreachable):
            said = [(message.role, message.text) for message in await self._client.messages(session.id)]
            self._output.tell(*continuing(said, answered=not under_way))

    def end(self) -> None:
        session = self._session
        with suppress(AgentmdError, TimeoutError):
            if session is not None and self._empty:
                self._loop.run_until_complete(asyncio.wait_for(self._client.delete(session.id), _GRACE_S))
            elif session is not None:
                self._output.tell(continue_hint(["--url", self._place.base], session.id))
        self._loop.run_until_complete(self._client.close())
        self._loop.close()

    # Waiting

    def _awaited(self, work: Coroutine[Any, Any, T], turns: RemoteTurns | None = None) -> T:
        """What the work gives; it is given up when a signal comes."""
        try:
            return self._loop.run_until_complete(self._guarded(work, turns))
        except UnknownSession:
            self._session = None
            raise

    async def _guarded(self, work: Coroutine[Any, Any, T], turns: RemoteTurns | None) -> T:
        left: asyncio.Future[int] = self._loop.create_future()

        def leave(code: int) -> None:
            if not left.done():
                left.set_result(code)

        def on_signal(number: int) -> None:
            self._loop.call_soon_threadsafe(leave, 128 + number)

        task: asyncio.Task[T] = asyncio.create_task(work)
        with taken_over((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), on_signal), self._output.live.suspendable():
            progress = asyncio.create_task(self._output.show_progress())
            try:
                waits: set[asyncio.Future[Any]] = {task, left}
                await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
                if task.done():
                    return task.result()
            except LeftWaiting:
                leave(WAITING)
            finally:
                task.cancel()
                progress.cancel()
                ended: set[asyncio.Future[Any]] = {task, progress}
                await asyncio.wait(ended, timeout=_GRACE_S)
        if turns is not None and self._session is not None and turns.stage in _LEFT:
            self._output.note(_LEFT[turns.stage].format(one_line(self._session.id)))
        if left.result() == WAITING and not self._talks:
            self._output.note("What follows on standard input was not sent.")
        raise ChatEnded(left.result())
