"""`info`: shows the settings in effect and their sources."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from agent_md import __version__
from agent_md.cli.command_context import WorkspaceOption, open_app
from agent_md.cli.option_values import JsonOption
from agent_md.cli.terminal.output import say
from agent_md.cli.views.table_layout import Listing
from agent_md.settings import Settings
from agent_md.visible_text import counted, json_line, one_line

__all__ = ["info"]


def _value(settings: Settings, key: str) -> Any:
    """A setting by its dotted key as JSON; keys of the API are not shown."""
    if key == "server.api_key":
        return None if settings.server.api_key is None else "(set)"
    value = settings.value(key)
    return str(value) if isinstance(value, Path) else list(map(str, value)) if isinstance(value, tuple) else value


def info(as_json: JsonOption = False, workspace: WorkspaceOption = None) -> None:
    """Show the settings in effect, and the source of each.

    Example: agentmd info
    """
    with open_app(workspace) as app:
        settings, registry = app.settings, app.registry
    origins = dict(sorted(settings.origins.items()))
    values = {key: _value(settings, key) for key in origins}
    counts = {"agents": len(registry.agents), "invalid": len(registry.invalid)}
    if as_json:
        shown = {key: {"value": values[key], "from": origins[key]} for key in values}
        say(json_line({"version": __version__, "workspace": str(settings.workspace), **counts, "settings": shown}))
        return
    say(f"agentmd {__version__}")
    say(f"workspace {one_line(str(settings.workspace))} ({origins.pop('workspace')})")
    say(f"{counted(counts['agents'], 'agent')}, {counted(counts['invalid'], 'file')} that cannot be used")
    say("")
    rows = [(key, _shown(values[key], settings.workspace), origins[key]) for key in origins]
    table = [[one_line(cell) for cell in row] for row in rows]
    say(Listing(("Setting", "Value", "From"), table, yielding=(1, 2)))


def _shown(value: Any, workspace: Path) -> str:
    """A setting as a config file has it: paths relative to the workspace, no value as `none`."""
    if isinstance(value, list):
        return f"[{', '.join(_shown(item, workspace) for item in value)}]"
    if isinstance(value, str):
        return value.removeprefix(f"{workspace}/")
    return "none" if value is None else json.dumps(value)
