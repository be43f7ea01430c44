"""`chat` with an agent of this workspace: this process drives each turn as an execution."""

from __future__ import annotations

import shlex
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from agent_md.agents.model_names import parse_model
from agent_md.agents.spec import ModelRef
from agent_md.api.address import server_takes_over
from agent_md.app import App
from agent_md.cli.agent_notes import warn_unavailable
from agent_md.cli.chat.conversation import COMMANDS, ChatEnded, ChatLines, nobody_reads, take_turns
from agent_md.cli.chat.message_input import messages_of
from agent_md.cli.command_context import terminal
from agent_md.cli.drive.drive_or_follow import drive_or_follow
from agent_md.cli.drive.event_follower import EventFollower
from agent_md.cli.drive.run_output import TextOutput
from agent_md.cli.exit_codes import INTERRUPTED, WAITING
from agent_md.cli.terminal.live_rows import LiveArea
from agent_md.cli.terminal.output import NoReader, remark
from agent_md.cli.views.chat_texts import HELP, beginning, continue_hint, continuing, message_texts, totals
from agent_md.errors import ConversationBusy, ConversationWaiting, StoreError, UnknownSession, UsageError
from agent_md.executions.execution import Claim, Execution, Usage
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
    lines = ChatLines(talks=prompt is not None)
    conversation = _LocalConversation(app, agent, session_id, lines, asks=prompt is not None)
    return take_turns(conversation, messages, lines, talks=prompt is not None)


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


class _LocalConversation:
    """`Conversation`: each turn is an execution that this process drives."""

    help = HELP

    def __init__(self, app: App, agent: str, session_id: str, lines: ChatLines, *, asks: bool) -> None:
        self._app = app
        self._store = app.store
        self._agent = agent
        self._session = session_id
        self._model: ModelRef | None = None
        """Which model answers instead of the agent's own."""
        self._exists = False
        """Whether the session is known to have begun."""
        self._before: dict[ExecutionId, Usage] = {}
        """What each turn had used when this chat took it up."""
        self._lines = lines
        self._asks = asks

    def begin(self) -> None:
        warn_unavailable(self._app, self._agent)
        self._say_where()
        self._finish_open_turns()

    def turn(self, text: str) -> int:
        try:
            return self._turn(text)
        except UnknownSession:
            raise UnknownSession(
                f"the session {self._session} of {self._agent} was deleted meanwhile, and the agent knows nothing "
                f"of it any more. Your message was not sent; `agentmd chat {shlex.quote(self._agent)}` begins a new session"
            ) from None
        except UsageError as error:
            if not self._asks:
                raise
            remark(f"{error}\nYour message was not sent.")
            return 0

    def end(self) -> None:
        with suppress(StoreError):  # what ended the chat is told by whoever raised it
            if self._before:
                self._lines.tell(totals(self._used()))
        if self._exists:
            self._lines.tell(continue_hint([self._agent], self._session))

    # Turns

    def _turn(self, text: str) -> int:
        execution = self._start(text)
        self._exists = True
        model = str(self._app.spec_of(execution).model)
        return self._drive(execution.id, Claim(execution.id, self._app.worker, execution.epoch), model)

    def _start(self, text: str) -> Execution:
        """A new turn, after those that somebody else began in this session meanwhile."""
        while True:
            try:
                return self._app.starter.start(
                    self._agent,
                    message=text,
                    model=self._model,
                    trigger=TriggerKind.CHAT,
                    session_id=self._session,
                    session_must_exist=self._exists,
                    exclusive=True,
                )
            except (ConversationBusy, ConversationWaiting):
                self._finish_open_turns()

    def _drive(self, execution_id: ExecutionId, claim: Claim | None, model: str | None) -> int:
        output = _TurnOutput(self._agent, LiveArea.of())
        self._before.setdefault(execution_id, self._store.execution(execution_id).usage)
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
            turn = self._store.sessions.get(self._agent, self._session).turn
        except UnknownSession:
            return None
        return turn if turn is not None and not turn.status.final else None

    def _may_take_over(self) -> bool:
        return not server_takes_over(self._app.settings.state_dir)

    def _say_where(self) -> None:
        spec = self._app.registry.get(self._agent).spec
        self._lines.tell(*beginning(self._agent, str(spec.model), self._session, asks=self._asks))
        with suppress(UnknownSession):
            found = self._store.sessions.get(self._agent, self._session)
            self._exists = True
            said = message_texts(self._store.sessions.messages(self._agent, self._session))
            self._lines.tell(*continuing(said, changed_at=found.changed_at))
        self._lines.tell("")

    # Commands

    def clear(self) -> Iterator[RenderableType]:
        if self._exists:
            yield f"  {continue_hint([self._agent], self._session)}"
        self._session, self._exists = str(uuid.uuid4()), False
        yield f"  A new session, which knows nothing of what was said: {self._session}"

    def said(self) -> list[tuple[str, str]]:
        try:
            return list(message_texts(self._store.sessions.messages(self._agent, self._session)))
        except UnknownSession:
            return []

    def costs(self) -> Iterator[tuple[str, list[Usage]]]:
        yield "This chat", self._used()
        if self._exists:
            turns = self._store.executions(ids=self._store.sessions.turns(self._agent, self._session))
            yield "The session", [turn.usage for turn in turns]

    def agents(self) -> tuple[list[tuple[str, str]], str, str]:
        found = [(entry.spec.name, entry.spec.description) for entry in self._app.registry.agents]
        return found, self._agent, "agentmd chat NAME"

    def model(self, wanted: str) -> str:
        if wanted:
            try:
                model = parse_model(wanted)
            except ValueError as error:
                raise UsageError(str(error)) from None
            self._model = self._app.starter.runnable_spec(self._agent, model).model
            return f"{self._model} answers from the next message on, in this chat only."
        own = self._app.registry.get(self._agent).spec.model
        return f"{self._model or own} answers; /model PROVIDER/NAME lets another one answer in this chat."

    def _used(self) -> list[Usage]:
        """What each turn of this chat has used in it."""
        return [_since(usage, self._store.execution(turn).usage) for turn, usage in self._before.items()]


def _since(before: Usage, now: Usage) -> Usage:
    cost = None if before.cost_usd is None or now.cost_usd is None else now.cost_usd - before.cost_usd
    return Usage(now.input_tokens - before.input_tokens, now.output_tokens - before.output_tokens, cost)
