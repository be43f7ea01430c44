"""What can be said of an agent before it runs, as JSON."""

from __future__ import annotations

from typing import Any

from agent_md.agents.explained_rules import PossibleDecision
from agent_md.agents.explanation import ASKING_TOOLS, Explanation
from agent_md.serialization.agents import agent_detail
from agent_md.serialization.requests import grant_json
from agent_md.serialization.times import duration_text
from agent_md.serialization.triggers import trigger_json

__all__ = ["explanation_json", "tools_json"]


def explanation_json(explanation: Explanation) -> dict[str, Any]:
    """Every tool once for each outcome its calls can have."""
    spec = explanation.spec
    detail = agent_detail(spec)
    names = {possible.tool for possible in explanation.calls}
    kept = ("settings", "history", "trigger_type", "trigger_every", "trigger_cron", "trigger_paths", "trigger_hook")
    return {
        "agent": spec.name,
        "file": spec.source_path,
        "enabled": spec.enabled,
        "model": str(spec.model),
        "agents": list(spec.agents),
        "calls": [_call_json(explanation, possible) for possible in explanation.calls],
        "grants": [grant_json(grant, drift) for grant, drift in explanation.grants],
        "ask_themselves": [name for name in ASKING_TOOLS if name in names],
        "confirm_timeout": duration_text(spec.confirm_timeout),
        "on_pending": spec.on_pending,
        **{key: detail[key] for key in kept},
        "workspace_max_cost_usd_per_day": explanation.day_limit,
        "trigger_state": trigger_json(explanation.trigger),
        "next_fires": list(explanation.fires),
        "problems": list(explanation.problems),
        "notes": list(explanation.notes),
    }


def tools_json(explanation: Explanation) -> dict[str, Any]:
    """The tools of an agent, each with the outcomes that its calls can have."""
    return {
        "agent": explanation.spec.name,
        "file": explanation.spec.source_path,
        "tools": [
            {
                "name": tool.name,
                "origin": tool.origin,
                "description": tool.description,
                "parameters": dict(tool.parameters),
                "calls": [_call_json(explanation, each) for each in explanation.calls if each.tool == tool.name],
            }
            for tool in explanation.tools
        ],
        "problems": list(explanation.problems),
    }


def _call_json(explanation: Explanation, possible: PossibleDecision) -> dict[str, Any]:
    return {
        "tool": possible.tool,
        "decision": str(possible.verdict.decision),
        "source": possible.verdict.source,
        "rule": possible.verdict.rule,
        "place": explanation.place_of(possible),
        "unclear": possible.unclear,
    }
