"""Notes about agents for the user: triggers that need a server, fields without effect."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from agent_md.agents.spec import AgentSpec
from agent_md.api.address import server_takes_over
from agent_md.app import App
from agent_md.cli.terminal.output import note, remark
from agent_md.executions.execution import Execution
from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import Status
from agent_md.process.standard_streams import person
from agent_md.visible_text import counted, one_line

__all__ = [
    "NO_AGENTS",
    "NO_SERVER",
    "abandoned_among",
    "note_earlier_messages",
    "note_unguarded_changes",
    "triggers_idle",
    "warn_unavailable",
    "without_server",
]

NO_AGENTS = "No agents yet: `agentmd new NAME` makes one."
NO_SERVER = (
    "no server runs here: `notify` of {agent} is told by the commands that drive it, as they end. Deadlines that pass "
    "meanwhile, and what a receiver does not take at once, are told by the next one; `agentmd start -d` starts a server"
)


def triggers_idle(app: App, specs: Iterable[AgentSpec]) -> list[str]:
    """A sentence about the enabled ones of these agents that only a server would start; none if one runs."""
    names = [spec.name for spec in specs if spec.enabled and spec.trigger.type != "manual"]
    if not names or server_takes_over(app.settings.state_dir):
        return []
    whose = ", ".join(map(one_line, names))
    triggers = f"the trigger of {whose} starts" if len(names) == 1 else f"the triggers of {whose} start"
    return [f"no server runs here: {triggers} nothing until one does; `agentmd start -d` starts a server"]


def without_server(app: App, spec: AgentSpec) -> list[str]:
    """What is to be said of an agent with webhooks in a workspace without a server."""
    if not spec.notify or server_takes_over(app.settings.state_dir):
        return []
    return [NO_SERVER.format(agent=spec.name)]


def warn_unavailable(app: App, agent: str) -> None:
    """Says which fields of the agent nothing acts on, or not at once."""
    from agent_md.preflight import without_effect

    spec = app.registry.get(agent).spec
    text = without_effect(spec)
    for told in [*([] if text is None else [text]), *without_server(app, spec)]:
        remark(f"note: {told}")


def note_unguarded_changes(app: App, spec: AgentSpec) -> None:
    """Says on a terminal, at the first run of an agent, which of its tools may change something without asking."""
    if person(sys.stderr).isatty() and len(app.store.executions(agent=spec.name, limit=2)) == 1:
        for text in app.preflight.unasked(spec):
            remark(f"note: {text}")


def note_earlier_messages(app: App, execution: Execution, *, hint: str = "") -> None:
    """Says how many earlier messages of its conversation a new execution begins with, if there are any; outside of a
    session with a hint how to leave them out."""
    earlier = sum(message["type"] != "system" for message in app.store.seed(execution.id)) - 1
    if earlier > 0:
        where = hint if execution.session_id is None else f" of the session {execution.session_id}"
        note(f"note: it begins with {counted(earlier, 'earlier message')}{where}")


def abandoned_among(app: App, executions: Sequence[Execution]) -> set[ExecutionId]:
    """Those of them whose process died while it drove them, or what they have called."""
    running = {execution.id for execution in executions if execution.status is Status.RUNNING}
    if not running:
        return set()
    abandoned = app.reading_store.abandoned()
    roots_of_dead = {execution.root for execution in abandoned if execution.status is Status.RUNNING}
    return running & ({execution.id for execution in abandoned} | roots_of_dead)
