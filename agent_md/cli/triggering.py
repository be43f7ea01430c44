"""What is to be said of triggers where no server runs: nothing starts an agent then."""

from __future__ import annotations

from collections.abc import Iterable

from agent_md.agents.spec import AgentSpec
from agent_md.api.address import server_takes_over
from agent_md.app import App
from agent_md.cli.text import one_line

__all__ = ["triggers_idle"]


def triggers_idle(app: App, specs: Iterable[AgentSpec]) -> list[str]:
    """A sentence about the enabled ones of these agents that only a server would start; none if one runs."""
    names = [spec.name for spec in specs if spec.enabled and spec.trigger.type != "manual"]
    if not names or server_takes_over(app.settings.state_dir):
        return []
    whose = ", ".join(map(one_line, names))
    triggers = f"the trigger of {whose} starts" if len(names) == 1 else f"the triggers of {whose} start"
    return [f"no server runs here: {triggers} nothing until one does; `agentmd start -d` starts a server"]
