"""A workspace with everything in it that no file tool may touch, and a sandbox on it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from agent_md.agents.spec import PathMount
from agent_md.tools.path_sandbox import Forbidden, Sandbox

FORBIDDEN_FILES = (
    ".env",
    ".env.local",
    "sub/.envrc",
    "agents/cleaner.md",
    "agents/team/helper.md",
    "agents/cleaner.memory.md",
    "agents/_config/tools/mine.py",
    ".agentmd/agentmd.log",
    "config.yaml",
    "data/runs.db",
    "data/runs.db-wal",
    "data/runs.db-shm",
    "data/runs.db-journal",
    ".git/config",
    "sub/.git/hooks/pre-commit",
    "worktree/.git",
    ".hg/hgrc",
    "sub/.svn/wc.db",
)


def make_workspace(folder: Path) -> Path:
    """A workspace in `folder`, which also has a secret beside it."""
    workspace = folder / "ws"
    for name in FORBIDDEN_FILES:
        path = workspace / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("secret")
    (folder / "ws-secret").mkdir()
    (folder / "ws-secret" / "key.txt").write_text("secret")
    (folder / "outside.txt").write_text("secret")
    (workspace / "notes.txt").write_text("one\ntwo\n")
    return workspace


def sandbox_on(workspace: Path, mounts: Sequence[PathMount] = ()) -> Sandbox:
    return Sandbox(workspace, mounts, forbidden_in(workspace))


def forbidden_in(workspace: Path) -> Forbidden:
    return Forbidden(
        agents_dir=workspace / "agents",
        folders=(workspace / ".agentmd",),
        files=(workspace / "data" / "runs.db", workspace / "config.yaml"),
    )
