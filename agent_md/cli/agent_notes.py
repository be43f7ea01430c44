"""Notes about agents for the person at the command line: triggers that need a server, fields without effect."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agent_md.agents.spec import AgentSpec
from agent_md.api.address import server_takes_over
from agent_md.app import App
from agent_md.cli.drive.webhook_delivery import without_server
from agent_md.cli.terminal.output import remark
from agent_md.cli.views.visible_text import one_line
from agent_md.executions.model import Execution, ExecutionId, Status
from agent_md.preflight import without_effect

__all__ = ["NO_AGENTS", "abandoned_among", "triggers_idle", "warn_unavailable"]

NO_AGENTS = "No agents yet: `agentmd new NAME` makes one."


def triggers_idle(app: App, specs: Iterable[AgentSpec]) -> list[str]:
    """A sentence about the enabled ones of these agents that only a server would start; none if one runs."""
    names = [spec.name for spec in specs if spec.enabled and spec.trigger.type != "manual"]
    if not names or server_takes_over(app.settings.state_dir):
        return []
    whose = ", ".join(map(one_line, names))
    triggers = f"the trigger of {whose} starts" if len(names) == 1 else f"the triggers of {whose} start"
    return [f"no server runs here: {triggers} nothing until one does; `agentmd start -d` starts a server"]


def warn_unavailable(app: App, agent: str) -> None:
    """Says which fields of the agent nothing acts on, or not at once."""
    spec = app.registry.get(agent).spec
    text = without_effect(spec)
    for told in [*([] if text is None else [text]), *without_server(app, spec)]:
        remark(f"note: {told}")


def abandoned_among(app: App, executions: Sequence[Execution]) -> set[ExecutionId]:
    """Those of them whose process died while it drove them."""
    running = {execution.id for execution in executions if execution.status is Status.RUNNING}
    return running & {execution.id for execution in app.reading_store.abandoned()} if running else set()
