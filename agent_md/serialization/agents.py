"""The JSON objects of agents."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

from agent_md.agents.spec import AgentSpec
from agent_md.serialization.times import duration_text, iso_time

__all__ = ["agent_detail", "agent_json", "hook_path", "invalid_json"]

_HISTORY = {0: "off", 10: "low", 50: "medium", 200: "high"}


def agent_json(
    spec: AgentSpec, workspace: Path = Path(), *, last_run: float | None = None, next_run: float | None = None
) -> dict[str, Any]:
    """An agent in a listing, with its file below `workspace`. `last_run` and `next_run` in seconds since 1970."""
    return {
        "name": spec.name,
        "description": spec.description,
        "icon": spec.icon,
        "enabled": spec.enabled,
        "trigger_type": spec.trigger.type,
        "model_provider": spec.model.provider,
        "model_name": spec.model.name,
        "source_path": str(workspace / spec.source_path),
        "last_run": iso_time(last_run),
        "next_run": iso_time(next_run),
    }


def hook_path(spec: AgentSpec) -> str | None:
    """Where the webhook of an agent takes deliveries, below the address of a server; None if it has none."""
    return f"/agents/{quote(spec.name, safe='')}/hooks" if spec.trigger.type == "webhook" else None


def agent_detail(
    spec: AgentSpec, workspace: Path = Path(), *, last_run: float | None = None, next_run: float | None = None
) -> dict[str, Any]:
    """One agent by itself: also how it is set up. Durations and `history` as agent files write them."""
    return agent_json(spec, workspace, last_run=last_run, next_run=next_run) | {
        "history": _HISTORY.get(spec.history, str(spec.history)),
        "settings": asdict(spec.settings),
        "paths": {mount.alias: mount.path for mount in spec.paths},
        "path_details": {
            mount.alias: {"path": mount.path, "description": mount.description, "mode": mount.mode}
            for mount in spec.paths
        },
        "custom_tools": list(spec.tools),
        "mcp": list(spec.mcp),
        "skills": list(spec.skills),
        "trigger_every": duration_text(spec.trigger.every),
        "trigger_cron": spec.trigger.cron,
        "trigger_paths": list(spec.trigger.paths),
        "trigger_hook": hook_path(spec),
        "confirm": list(spec.confirm),
        "auto_approve": list(spec.auto_approve),
        "on_pending": spec.on_pending,
        "confirm_timeout": duration_text(spec.confirm_timeout),
    }


def invalid_json(file: str, error: str, last_good: str | None = None) -> dict[str, Any]:
    """An agent file that cannot be used, with the reason, and the agent that a server goes on with as it was before."""
    return {"file": file, "error": error, "last_good": last_good}
