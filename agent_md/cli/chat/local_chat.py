"""`chat` with an agent of this workspace: this process drives each turn as an execution."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from agent_md.api.address import server_takes_over
from agent_md.app import App
from agent_md.cli.agent_notes import warn_unavailable
from agent_md.cli.chat.flow import COMMANDS, ChatEnded, ChatLines, code_of_chat, messages_to_agent, nobody_reads
from agent_md.cli.chat.local_commands import ChatState, local_commands, used_since
from agent_md.cli.chat.message_input import Messages, messages_of
from agent_md.cli.command_context import terminal
from agent_md.cli.drive.drive_or_follow import drive_or_follow
from agent_md.cli.drive.event_follower import EventFollower
from agent_md.cli.drive.run_output import TextOutput
from agent_md.cli.exit_codes import INTERRUPTED, WAITING
from agent_md.cli.terminal.live_rows import LiveArea
from agent_md.cli.terminal.output import NoReader, remark
from agent_md.cli.views.chat_texts import beginning, continue_hint, continuing, message_texts, totals
from agent_md.errors import ConversationBusy, ConversationWaiting, StoreError, UnknownSession, UsageError
from agent_md.executions.execution import Claim, Execution
from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import Status, TriggerKind

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["local_chat"]


def local_chat(app: App, agent: str, session_id: str) -> int:
    """Talks with the agent in the session of this id, which may be new; gives the exit code.

    On a terminal questions are asked; else messages are the lines of standard input, and a question ends it with 3.
    """
    prompt = terminal(asks=True)
    messages = messages_of(prompt, COMMANDS, folder=app.settings.workspace, state_dir=app.settings.state_dir)
    return _Chat(app, agent, session_id, messages, asks=prompt is not None).run()


class _TurnOutput(TextOutput):
    """A run without its header: the chat has one."""

    lost = False
    """Whether something of it reached nobody."""

    def begin(self, execution: Execution, model: str) -> None:
        """Nothing."""

    def _say(self, line: RenderableType) -> None:
        try:
            super()._say(line)
        except (NoReader, OSError):
            self.lost = True
            raise


class _Chat:
    def __init__(self, app: App, agent: str, session_id: str, messages: Messages, *, asks: bool) -> None:
        self._app = app
        self._store = app.store
        self._state = ChatState(agent, session_id)
        self._messages = messages
        self._asks = asks
        self._lines = ChatLines(talks=asks)

    def run(self) -> int:
        """Takes turns until the messages end; gives the exit code."""
        try:
            return code_of_chat(self._talk)
        finally:
            self._end()

    def _talk(self) -> int:
        self._begin()
        self._finish_open_turns()
        code = 0
        for text in self._texts():
            try:
                code = self._turn(text)
            except UnknownSession:
                raise UnknownSession(
                    f"the session {self._state.session} of {self._state.agent} was deleted meanwhile, and the agent knows nothing "
                    f"of it any more. Your message was not sent; `agentmd chat {shlex.quote(self._state.agent)}` begins a "
                    "new session"
                ) from None
            except UsageError as error:
                if not self._asks:
                    raise
                remark(f"{error}\nYour message was not sent.")
        return 0 if self._asks else code

    def _texts(self) -> Iterator[str]:
        """The messages that are meant for the agent."""
        commands = local_commands(self._app, self._state)
        return messages_to_agent(self._messages, self._lines.explain, commands, typed=self._asks)

    # Turns

    def _turn(self, text: str) -> int:
        execution = self._start(text)
        self._state.exists = True
        model = str(self._app.spec_of(execution).model)
        return self._drive(execution.id, Claim(execution.id, self._app.worker, execution.epoch), model)

    def _start(self, text: str) -> Execution:
        """A new turn, after those that somebody else began in this session meanwhile."""
        while True:
            try:
                return self._app.starter.start(
                    self._state.agent,
                    message=text,
                    model=self._state.model,
                    trigger=TriggerKind.CHAT,
                    session_id=self._state.session,
                    session_must_exist=self._state.exists,
                    exclusive=True,
                )
            except (ConversationBusy, ConversationWaiting):
                self._finish_open_turns()

    def _drive(self, execution_id: ExecutionId, claim: Claim | None, model: str | None) -> int:
        output = _TurnOutput(self._state.agent, LiveArea.of())
        self._state.before.setdefault(execution_id, self._store.execution(execution_id).usage)
        follower = EventFollower(self._app, execution_id, output, new=model)
        may_drive: Callable[[], bool] = self._may_take_over if model is None else lambda: True
        code = drive_or_follow(self._app, follower, claim, terminal(asks=self._asks), may_drive=may_drive)
        left = not self._store.execution(execution_id).status.final
        if left and code == WAITING and not self._asks:
            self._lines.tell("What follows on standard input was not sent.")
        if left or (code == INTERRUPTED and not self._asks):
            raise ChatEnded(code)
        if output.lost and not self._asks:
            nobody_reads(self._lines.tell, code)
        self._lines.tell("")
        return code

    def _finish_open_turns(self) -> None:
        """Goes on with the turns of the session that have not ended: a new one would not know what became of them."""
        while (turn := self._open_turn()) is not None:
            claim = self._store.claim(turn.id, self._app.worker) if self._may_take_over() else None
            if claim is not None:
                how = "was left in the middle; it goes on first"
            elif turn.status is Status.WAITING:
                how = "waits for an answer; that comes first"
            else:
                how = "is driven by another process; it is followed to its end first"
            self._lines.explain(f"Execution {turn.id}, a turn of this session, {how}.", "")
            self._drive(turn.id, claim, None)

    def _open_turn(self) -> Execution | None:
        try:
            turn = self._store.sessions.get(self._state.agent, self._state.session).turn
        except UnknownSession:
            return None
        return turn if turn is not None and not turn.status.final else None

    def _may_take_over(self) -> bool:
        return not server_takes_over(self._app.settings.state_dir)

    # What is told

    def _begin(self) -> None:
        spec = self._app.registry.get(self._state.agent).spec
        warn_unavailable(self._app, self._state.agent)
        self._lines.tell(*beginning(self._state.agent, str(spec.model), self._state.session, asks=self._asks))
        with suppress(UnknownSession):
            found = self._store.sessions.get(self._state.agent, self._state.session)
            self._state.exists = True
            said = message_texts(self._store.sessions.messages(self._state.agent, self._state.session))
            self._lines.tell(*continuing(said, changed_at=found.changed_at))
        self._lines.tell("")

    def _end(self) -> None:
        with suppress(StoreError):  # what ended the chat is told by whoever raised it
            if self._state.before:
                self._lines.tell(totals(used_since(self._app, self._state.before)))
        if self._state.exists:
            self._lines.tell(continue_hint([self._state.agent], self._state.session))
