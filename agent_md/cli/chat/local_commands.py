"""The commands of a local chat, such as `/clear` and `/model`, and the state that they change."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from agent_md.agents.model_names import parse_model
from agent_md.agents.spec import ModelRef
from agent_md.app import App
from agent_md.cli.chat.flow import Commands
from agent_md.cli.views.chat_texts import HELP, agent_lines, continue_hint, conversation, message_texts, totals
from agent_md.errors import UnknownSession, UsageError
from agent_md.executions.execution import Usage
from agent_md.executions.ids import ExecutionId
from agent_md.visible_text import one_line

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["ChatState", "local_commands", "used_since"]


@dataclass(slots=True)
class ChatState:
    """Who is talked to, and where."""

    agent: str
    session: str
    model: ModelRef | None = None
    """Which model answers instead of the agent's own."""
    exists: bool = False
    """Whether the session is known to have begun."""
    before: dict[ExecutionId, Usage] = field(default_factory=dict)
    """What each turn had used when this chat took it up."""


def local_commands(app: App, state: ChatState) -> Commands:
    """What each command does; see `Commands`."""
    acts = _Acts(app, state)
    return {
        "/help": lambda _: HELP,
        "/clear": lambda _: acts.clear(),
        "/history": lambda _: acts.history(),
        "/cost": lambda _: acts.cost(),
        "/agents": lambda _: acts.agents(),
        "/model": acts.model,
    }


class _Acts:
    def __init__(self, app: App, state: ChatState) -> None:
        self._app = app
        self._state = state

    def clear(self) -> Iterator[RenderableType]:
        state = self._state
        if state.exists:
            yield f"  {continue_hint([state.agent], state.session)}"
        state.session, state.exists = str(uuid.uuid4()), False
        yield f"  A new session, which knows nothing of what was said: {state.session}"

    def history(self) -> Iterator[RenderableType]:
        try:
            messages = self._app.store.sessions.messages(self._state.agent, self._state.session)
        except UnknownSession:
            messages = []
        lines = list(conversation(message_texts(messages)))
        yield from lines or ["  Nothing was said in this session yet."]

    def cost(self) -> Iterator[RenderableType]:
        state, store = self._state, self._app.store
        yield f"  This chat: {totals(used_since(self._app, state.before))}"
        if state.exists:
            turns = store.executions(ids=store.sessions.turns(state.agent, state.session))
            yield f"  The session: {totals([turn.usage for turn in turns])}"

    def agents(self) -> Iterator[RenderableType]:
        specs = [entry.spec for entry in self._app.registry.agents]
        yield from agent_lines([(spec.name, spec.description) for spec in specs], self._state.agent)
        yield "  `agentmd chat NAME` talks with another one."

    def model(self, wanted: str) -> Iterator[RenderableType]:
        state = self._state
        if wanted:
            try:
                model = parse_model(wanted)
            except ValueError as error:
                raise UsageError(str(error)) from None
            state.model = self._app.starter.runnable_spec(state.agent, model).model
            yield f"  {state.model} answers from the next message on, in this chat only."
            return
        own = self._app.registry.get(state.agent).spec.model
        yield one_line(f"  {state.model or own} answers; /model PROVIDER/NAME lets another one answer in this chat.")


def used_since(app: App, before: dict[ExecutionId, Usage]) -> list[Usage]:
    """What each of these turns has used since."""
    return [_since(usage, app.store.execution(turn).usage) for turn, usage in before.items()]


def _since(before: Usage, now: Usage) -> Usage:
    cost = None if before.cost_usd is None or now.cost_usd is None else now.cost_usd - before.cost_usd
    return Usage(now.input_tokens - before.input_tokens, now.output_tokens - before.output_tokens, cost)
