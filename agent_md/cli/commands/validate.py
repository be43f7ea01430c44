"""`validate`: reports the errors in agent files and config.yaml."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from agent_md.agents.registry import AgentEntry, InvalidFile, Registry
from agent_md.agents.spec import AgentSpec
from agent_md.app.app import App
from agent_md.cli.agent_notes import NO_AGENTS, triggers_idle, without_server
from agent_md.cli.command_context import WorkspaceOption, open_app
from agent_md.cli.option_values import JsonOption, StaticOption
from agent_md.cli.terminal.output import say
from agent_md.errors import AgentFileInvalid, AgentmdError, ConfigInvalid
from agent_md.visible_text import json_line, one_line, visible
from agent_md.workspace import NotAFolder, NoWorkspace

__all__ = ["validate"]

_FIRES = 5
"""So many fires of a schedule are shown when an agent is checked."""


def validate(
    agent: Annotated[str | None, typer.Argument(metavar="AGENT", help="Only this agent.", show_default=False)] = None,
    static: StaticOption = False,
    as_json: JsonOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Check agent files, models, keys, tools and rules. Exit code 1 if anything is wrong.

    Example: agentmd validate
    """
    try:
        results = _checked(workspace, agent, static=static)
    except (NoWorkspace, NotAFolder):
        raise
    except ConfigInvalid as error:  # a file is wrong, not the command
        raise AgentmdError(str(error)) from None
    if as_json:
        say(json_line(results))
    elif results:
        for result in results:
            _say_checked(result)
    else:
        say(NO_AGENTS)
    raise typer.Exit(1 if any(result["errors"] for result in results) else 0)


def _checked(workspace: Path | None, agent: str | None, *, static: bool) -> list[dict[str, Any]]:
    """What is wrong with each file, or with those of this agent alone."""
    with open_app(workspace, drives=not static, starts=not static) as app:
        entries, invalid = _chosen(app.registry, agent)
        for entry in [] if static else entries:
            app.trust.require(entry.spec)
        check = app.preflight.check_static if static else app.preflight.check
        results: list[dict[str, Any]] = [
            {
                "agent": entry.spec.name,
                "file": entry.spec.source_path,
                "errors": check(entry.spec),
                "notes": [
                    *app.preflight.notes(entry.spec, static=static),
                    *without_server(app, entry.spec),
                    *triggers_idle(app, [entry.spec]),
                ],
                "fires": app.triggers.next_fires(entry.spec, _FIRES),
                "mcp": [] if static else _offered(app, entry.spec),
            }
            for entry in entries
        ]
        return results + [
            {"agent": None, "file": i.file, "errors": [i.error], "notes": [], "fires": [], "mcp": []} for i in invalid
        ]


def _offered(app: App, spec: AgentSpec) -> list[dict[str, Any]]:
    """What each MCP server of the agent offers that can be used."""
    return [
        {"server": server, "tools": [tool.name for tool in listing.tools], "left_out": list(listing.remarks)}
        for server, listing in app.preflight.mcp_listings(spec).items()
        if listing.failure is None
    ]


def _chosen(registry: Registry, agent: str | None) -> tuple[Sequence[AgentEntry], Sequence[InvalidFile]]:
    """The agents to check and the files that cannot be used. Raises UnknownAgent."""
    if agent is None:
        return registry.agents, registry.invalid
    try:
        return [registry.get(agent)], ()
    except AgentFileInvalid:
        return (), registry.invalid_named(agent)


def _say_checked(result: dict[str, Any]) -> None:
    name = result["agent"] or result["file"]
    mark = "✗" if result["errors"] else "✓"
    say(f"{mark} {one_line(name)}  {one_line(result['file']) if result['agent'] else ''}".rstrip())
    for text in (*result["errors"], *(f"note: {text}" for text in result["notes"])):
        say(*(f"    {line}" for line in visible(text).splitlines()))
    for offered in result["mcp"]:
        tools = ", ".join(offered["tools"]) or "no tools"
        say(f"    mcp {one_line(offered['server'])}: {one_line(tools)}")
        say(*(f"    note: {one_line(text)}" for text in offered["left_out"]))
    if result["fires"]:
        say(
            *(
                f"    {head:<11} {at}"
                for head, at in zip(("next fires:", *[""] * _FIRES), result["fires"], strict=False)
            )
        )
