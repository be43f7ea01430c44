"""Finds the agent and the workspace for a path to an agent file."""

from __future__ import annotations

import os
from pathlib import Path

from agent_md.agents.spec import AgentSpec
from agent_md.app import App
from agent_md.cli.terminal.output import note
from agent_md.errors import AgentFileInvalid, UsageError
from agent_md.workspace import NoWorkspace, find_workspace

__all__ = ["spec_named", "workspace_for"]


def workspace_for(agent: str, workspace: Path | None, folder: Path) -> Path | None:
    """The workspace to open for an agent, given by its name or by a path relative to `folder`: that which is named; else,
    for a path, the one that the file is in.

    Raises UsageError for a file that is in none: what an agent may do depends on its workspace, so none is made up.
    """
    file = _file(agent, folder)
    if file is None or workspace is not None or os.environ.get("AGENTMD_WORKSPACE"):
        return workspace
    home = Path.home()
    try:
        root, found_by = find_workspace(None, {}, file.parent, home)
    except NoWorkspace:
        root, found_by = home, ""
    if found_by != "current folder":
        raise UsageError(
            f"{agent} is in no workspace, and an agent runs in one only. Move the file into a folder `agents`, such as "
            f"{file.parent / 'agents' / file.name}, or into that of a workspace you have"
        )
    if not folder.is_relative_to(root):
        note(f"note: the workspace is {root}")
    return root


def spec_named(app: App, agent: str, folder: Path) -> AgentSpec:
    """The spec of an agent, given as for `workspace_for`. Raises UnknownAgent, AgentFileInvalid, or UsageError for a file
    that is no agent of the workspace."""
    file = _file(agent, folder)
    if file is None:
        return app.registry.get(agent).spec
    registry, workspace = app.registry, app.settings.workspace
    for entry in registry.agents:
        if _unlinked(entry.path) == file:
            return entry.spec
    for invalid in registry.invalid:
        if _unlinked(workspace / invalid.file) == file:
            raise AgentFileInvalid(invalid.error)
    raise UsageError(
        f"{agent} is no agent of the workspace {workspace}: its agents are the files below {app.settings.agents_dir}. "
        "Move it there, or name the workspace that it is in with --workspace"
    )


def _file(agent: str, folder: Path) -> Path | None:
    """The file that is named; None for a name, and for a path at which there is no file."""
    if "/" not in agent and not agent.endswith(".md"):
        return None  # no name of an agent has a slash or a point in it
    path = folder / agent
    try:
        return _unlinked(path) if path.is_file() else None
    except (OSError, ValueError):  # too long, or a NUL in it
        return None


def _unlinked(path: Path) -> Path:
    """The path with links to folders followed; one to the file itself is the agent's file."""
    return path.parent.resolve() / path.name
