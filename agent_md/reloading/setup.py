"""Sets up hot reload for one workspace."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agent_md.agents.current import CurrentAgents
from agent_md.assembly import Assembly
from agent_md.reloading.agent_files import AgentFiles
from agent_md.reloading.config_files import ConfigFiles, UseSettings
from agent_md.reloading.loop import Announce, ReloadLoop
from agent_md.reloading.tool_files import ToolFiles
from agent_md.reloading.trust_changes import BlockedAgents, TrustChanges
from agent_md.tools.last_good_modules import LastGoodModules

__all__ = ["Reloading", "follow_files"]


@dataclass(frozen=True, slots=True)
class Reloading:
    """The loop that reads changed files again, and what it knows of them."""

    loop: ReloadLoop
    config: ConfigFiles
    tools: ToolFiles
    trust: TrustChanges


def follow_files(
    agents: CurrentAgents, parts: Assembly, use: UseSettings, announce: Announce, blocked: BlockedAgents
) -> Reloading:
    """Follows agent files, configuration and tool modules. From now on an agent, `.env` or tool module that becomes
    invalid stays as it was when it was valid last. `use` is called with new settings; `blocked` gives the agents that may not
    start."""
    settings, kept = parts.settings, LastGoodModules()
    agents.keeps_last_good = settings.dotenv_file.keeps_last_good = True
    parts.kept_tools = kept
    config = ConfigFiles(settings, use, home=Path.home())
    tools = ToolFiles(settings.tools_dir, kept, agents.registry)
    trust = TrustChanges(blocked)
    loop = ReloadLoop((config, AgentFiles(agents, settings.agents_dir), tools, trust), announce)
    return Reloading(loop, config, tools, trust)
