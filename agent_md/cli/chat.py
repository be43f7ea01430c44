"""`chat`: the turns of one session, each an execution of its own that this process drives."""

from __future__ import annotations

import os
import re
import shlex
import uuid
from contextlib import suppress
from typing import Annotated

import typer

from agent_md.api.address import server_takes_over
from agent_md.app import App
from agent_md.cli.attend import attend
from agent_md.cli.chat_flow import ChatOver, code_of_chat, messages_to_agent, nobody_reads
from agent_md.cli.chat_input import Messages, messages_of
from agent_md.cli.chat_texts import HELP, beginning, continuing, totals, way_back
from agent_md.cli.exit_codes import INTERRUPTED, WAITING
from agent_md.cli.live import LiveArea
from agent_md.cli.output import NoReader, TextOutput, note, remark, say
from agent_md.cli.runs import warn_unavailable
from agent_md.cli.showing import Showing
from agent_md.cli.text import one_line, wrapped
from agent_md.cli.workspace import WorkspaceOption, open_app, screen, terminal
from agent_md.errors import ConversationBusy, ConversationWaiting, StoreError, UnknownSession, UsageError
from agent_md.executions.model import Claim, Execution, ExecutionId, Status, TriggerKind, Usage

__all__ = ["chat"]

_LONGEST_ID = 200


def _session_id(text: str) -> str:
    """An id as it was given. What cannot be seen or typed again is refused."""
    if not re.fullmatch(rf"\S(?:.{{0,{_LONGEST_ID - 2}}}\S)?", text) or one_line(text) != text:
        raise typer.BadParameter(
            f"{one_line(text)!r} is no session id: 1 to {_LONGEST_ID} visible characters, no blank at either end"
        )
    return text


def chat(
    agent: Annotated[
        str | None,
        typer.Argument(metavar="AGENT", help="The agent's name; not needed where --url has it.", show_default=False),
    ] = None,
    session: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Which session to continue, or to begin under this id; else a new one.",
            show_default=False,
            parser=_session_id,
        ),
    ] = None,
    go_on: Annotated[
        bool, typer.Option("--continue", "-c", help="Continue the session of this agent that changed last.")
    ] = False,
    url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Talk with the agent of a server instead, such as http://127.0.0.1:8000/agents/cleaner.",
            show_default=False,
        ),
    ] = None,
    api_key: Annotated[
        str | None,
        typer.Option(
            metavar="KEY", help="The key of that server; better give it with $AGENTMD_API_KEY.", show_default=False
        ),
    ] = None,
    workspace: WorkspaceOption = None,
) -> None:
    """Talk with an agent: each message is a turn of one session.

    Example: agentmd chat cleaner
    """
    if go_on and (session is not None or url is not None):
        other = "--session" if session is not None else "--url"
        raise UsageError(f"--continue means the last session of this workspace, and does not go with {other}")
    if url is not None:
        from agent_md.cli.remote_chat import remote_chat  # its HTTP client takes a moment to import

        key = api_key or os.environ.get("AGENTMD_API_KEY") or None
        raise typer.Exit(remote_chat(url, agent=agent, session_id=session, key=key))
    if agent is None:
        raise UsageError("which agent? `agentmd chat AGENT`, or `agentmd chat --url URL` for one of a server")
    if api_key is not None:
        raise UsageError("--api-key goes with --url")
    with open_app(workspace, drives=True) as app:
        name = app.runnable_spec(agent).name
        chosen = _last_session(app, name) if go_on else session or str(uuid.uuid4())
        prompt = terminal(asks=True)
        talk = _Chat(app, name, chosen, messages_of(prompt), asks=prompt is not None)
        code = talk.run()
    raise typer.Exit(code)


def _last_session(app: App, agent: str) -> str:
    found = app.store.sessions.listed(agent=agent) if app.settings.database.exists() else []
    if not found:
        raise UsageError(
            f"{agent} has no session that could be continued; `agentmd chat {shlex.quote(agent)}` begins one"
        )
    return max(found, key=lambda session: session.changed_at).id


class _TurnOutput(TextOutput):
    """A run without its header: the chat has one."""

    lost = False
    """Whether something of it reached nobody."""

    def begin(self, execution: Execution, model: str) -> None:
        """Nothing."""

    def _say(self, line: str) -> None:
        try:
            super()._say(line)
        except (NoReader, OSError):
            self.lost = True
            raise


class _Chat:
    def __init__(self, app: App, agent: str, session_id: str, messages: Messages, *, asks: bool) -> None:
        self._app = app
        self._store = app.store
        self._agent = agent
        self._session = session_id
        self._messages = messages
        self._asks = asks
        self._exists = False
        self._before: dict[ExecutionId, Usage] = {}
        """What each turn had used when this chat took it up."""

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
        for text in messages_to_agent(self._messages, self._explain, HELP, typed=self._asks):
            try:
                code = self._turn(text)
            except UnknownSession:
                raise UnknownSession(
                    f"the session {self._session} of {self._agent} was deleted meanwhile, and the agent knows nothing "
                    f"of it any more. Your message was not sent; `agentmd chat {shlex.quote(self._agent)}` begins a "
                    "new session"
                ) from None
            except UsageError as error:
                if not self._asks:
                    raise
                remark(f"{error}\nYour message was not sent.")
        return 0 if self._asks else code

    # Turns

    def _turn(self, text: str) -> int:
        execution = self._start(text)
        self._exists = True
        model = str(self._app.spec_of(execution).model)
        return self._attend(execution.id, Claim(execution.id, self._app.worker, execution.epoch), model)

    def _start(self, text: str) -> Execution:
        """A new turn, after those that somebody else began in this session meanwhile."""
        while True:
            try:
                return self._app.start(
                    self._agent,
                    message=text,
                    trigger=TriggerKind.CHAT,
                    session_id=self._session,
                    session_must_exist=self._exists,
                    exclusive=True,
                )
            except (ConversationBusy, ConversationWaiting):
                self._finish_open_turns()

    def _attend(self, execution_id: ExecutionId, claim: Claim | None, model: str | None) -> int:
        shown = screen()
        output = _TurnOutput(self._agent, shown, LiveArea.of(shown))
        self._before.setdefault(execution_id, self._store.execution(execution_id).usage)
        showing = Showing(self._app, execution_id, output, new=model)
        if model is not None:
            code = attend(self._app, showing, claim, terminal(asks=self._asks))
        else:
            code = attend(self._app, showing, claim, terminal(asks=self._asks), may_drive=self._may_take_over)
        left = not self._store.execution(execution_id).status.final
        if left and code == WAITING and not self._asks:
            self._tell("What follows on standard input was not sent.")
        if left or (code == INTERRUPTED and not self._asks):
            raise ChatOver(code)
        if output.lost and not self._asks:
            nobody_reads(self._tell, code)
        if self._asks:
            self._tell("")
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
            self._explain(f"Execution {turn.id}, a turn of this session, {how}.", "")
            self._attend(turn.id, claim, None)

    def _open_turn(self) -> Execution | None:
        try:
            turn = self._store.sessions.get(self._agent, self._session).turn
        except UnknownSession:
            return None
        return turn if turn is not None and not turn.status.final else None

    def _may_take_over(self) -> bool:
        return not server_takes_over(self._app.settings.state_dir)

    # What is told

    def _begin(self) -> None:
        spec = self._app.registry.get(self._agent).spec
        warn_unavailable(self._app, self._agent)
        self._tell(*beginning(self._agent, str(spec.model), self._session, screen(), asks=self._asks))
        with suppress(UnknownSession):
            found = self._store.sessions.get(self._agent, self._session)
            self._exists = True
            said = self._store.sessions.messages(self._agent, self._session)
            self._tell(*continuing(found, said, screen()))
        if self._asks:
            self._tell("")

    def _end(self) -> None:
        with suppress(StoreError):  # what ended the chat is told by whoever raised it
            if self._before:
                turns = self._before.items()
                self._tell(totals([_since(before, self._store.execution(turn).usage) for turn, before in turns]))
        if self._exists:
            self._tell(way_back([self._agent], self._session))

    def _explain(self, *lines: str) -> None:
        """As `_tell`, folded at words."""
        self._tell(*(piece for line in lines for piece in wrapped(line, screen().width)))

    def _tell(self, *lines: str) -> None:
        """Lines of ours: between the turns on a terminal, else to standard error, away from the answers."""
        for line in lines:
            if self._asks:
                with suppress(NoReader, OSError):
                    say(line)
            elif line:
                note(line)


def _since(before: Usage, now: Usage) -> Usage:
    cost = None if before.cost_usd is None or now.cost_usd is None else now.cost_usd - before.cost_usd
    return Usage(now.input_tokens - before.input_tokens, now.output_tokens - before.output_tokens, cost)
