"""What is new under a forbidden name after a sandboxed call has another name then, and the call fails."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_md.agents.spec import PathMount
from agent_md.errors import ToolError
from agent_md.tools import sandboxed_view
from agent_md.tools.forbidden import Forbidden
from agent_md.tools.path_sandbox import Sandbox
from agent_md.tools.sandboxed_leftovers import Leftovers


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    for name in ("out/a.txt", "old/.git/config", "old/.env", "in/x", "agents/one.md"):
        put(tmp_path / "ws" / name)
    return tmp_path / "ws"


def put(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")


def sandbox(workspace: Path, *mounts: PathMount) -> Sandbox:
    files = (workspace / "config.yaml", workspace / "own.db")
    return Sandbox(workspace, mounts, Forbidden(workspace / "agents", folders=(workspace / ".agentmd",), files=files))


def names(workspace: Path) -> set[str]:
    return {str(path.relative_to(workspace)) for path in workspace.rglob("*")}


@pytest.mark.parametrize(
    "name",
    [
        ".git/config",
        "out/.GIT",
        "out/deep/.hg/hgrc",
        ".svn/x",
        ".env",
        "out/.envrc",
        "config.yaml",
        "out/_config/tools/x.py",
        ".agentmd/agentmd.db",
        "out/\uff0eenv",
    ],
)
def test_what_is_new_is_renamed_and_told(workspace: Path, name: str) -> None:
    before = names(workspace)
    leftovers = Leftovers(sandbox(workspace))
    put(workspace / name)
    with pytest.raises(
        ToolError, match=r"appeared what no tool of this agent may create: .* is now named from-sandbox-"
    ):
        leftovers.set_aside()
    assert not (workspace / name).exists()
    kept = {Path(found).name for found in names(workspace) - before if "from-sandbox-" in found}
    assert kept, "nothing is deleted"
    leftovers.set_aside()


def test_links_count_and_are_not_followed(workspace: Path, tmp_path: Path) -> None:
    put(tmp_path / "aside/config")
    (workspace / "out/.hg").symlink_to("a.txt")
    leftovers = Leftovers(sandbox(workspace, PathMount("out", "out")))
    (workspace / "out/.git").symlink_to(tmp_path / "aside")
    (workspace / "out/.hg").unlink()
    put(workspace / "out/.hg/hgrc")
    with pytest.raises(ToolError, match=r"git is now named .*hg is now named"):
        leftovers.set_aside()
    assert (tmp_path / "aside/config").exists()
    assert not os.path.lexists(workspace / "out/.git")
    assert not (workspace / "out/.hg").exists()


def test_a_folder_moved_away_does_not_make_place_for_another(workspace: Path) -> None:
    leftovers = Leftovers(sandbox(workspace))
    (workspace / "old").rename(workspace / "moved")
    put(workspace / "old/.git/config")
    with pytest.raises(ToolError, match=r"old/\.git is now named"):
        leftovers.set_aside()
    assert (workspace / "moved/.git/config").exists()
    assert (workspace / "moved/.env").exists()


def test_what_was_there_and_what_is_allowed_stays(workspace: Path) -> None:
    put(workspace / "own.db")
    leftovers = Leftovers(sandbox(workspace))
    for name in ("out/.gitignore", "out/env", "own.db-wal", "own.db-shm", "out/config.yaml"):
        put(workspace / name)
    (workspace / "old/.env").unlink()
    put(workspace / "old/.env")  # as editors save
    before = names(workspace)
    leftovers.set_aside()
    assert names(workspace) == before


def test_more_than_can_be_looked_through_is_told(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    leftovers = Leftovers(sandbox(workspace, PathMount("out", "out")))
    monkeypatch.setattr(sandboxed_view, "_SEARCH_LIMIT", 10)
    put(workspace / "out/.git/config")
    for number in range(10):
        put(workspace / f"out/{number}")
    with pytest.raises(ToolError, match="not looked through to the end"):
        leftovers.set_aside()
