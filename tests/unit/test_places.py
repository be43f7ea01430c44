"""What happens if a file changes in the instant between the last look and the effect."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_md.errors import ToolError
from agent_md.tools.base import TargetChanged
from agent_md.tools.path_sandbox import Sandbox
from agent_md.tools.pinned_path import ABSENT, digest_of_bytes, open_pinned
from tests.support.file_sandbox import make_workspace, sandbox_on

STALE = digest_of_bytes(b"what was there before")


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return make_workspace(tmp_path)


@pytest.fixture
def sandbox(workspace: Path) -> Sandbox:
    return sandbox_on(workspace)


def names(workspace: Path) -> set[str]:
    return {path.name for path in workspace.iterdir() if path.is_file()}


def test_states(sandbox: Sandbox, workspace: Path) -> None:
    with open_pinned(sandbox, sandbox.resolve("notes.txt", write=True)) as place:
        assert place.state() == digest_of_bytes(b"one\ntwo\n")
        (workspace / "notes.txt").unlink()
        assert place.state() == ABSENT
    with open_pinned(sandbox, sandbox.resolve("no/such/file", write=True)) as place:
        assert not place.has_folder
        assert place.state() == ABSENT


def test_a_huge_file_is_known_without_reading_it(sandbox: Sandbox, workspace: Path) -> None:
    with (workspace / "huge.bin").open("wb") as file:
        file.truncate(300 * 1024 * 1024)
    with open_pinned(sandbox, sandbox.resolve("huge.bin", write=True)) as place:
        before = place.state()
        assert before.startswith("stat:")
        os.utime(workspace / "huge.bin", ns=(1, 1))
        assert place.state() != before


def test_a_stale_replacement_leaves_everything_as_it_is(sandbox: Sandbox, workspace: Path) -> None:
    before = names(workspace)
    with open_pinned(sandbox, sandbox.resolve("notes.txt", write=True)) as place, pytest.raises(TargetChanged):
        place.replace(b"new", STALE)
    with open_pinned(sandbox, sandbox.resolve("notes.txt", write=True)) as place, pytest.raises(TargetChanged):
        place.replace(b"new", ABSENT)
    assert names(workspace) == before
    assert (workspace / "notes.txt").read_text() == "one\ntwo\n"


def test_a_stale_removal_removes_nothing(sandbox: Sandbox, workspace: Path) -> None:
    with open_pinned(sandbox, sandbox.resolve("notes.txt", write=True)) as place, pytest.raises(TargetChanged):
        place.remove(STALE)
    assert (workspace / "notes.txt").exists()


def test_a_stale_move_moves_nothing(sandbox: Sandbox, workspace: Path) -> None:
    with (
        open_pinned(sandbox, sandbox.resolve("notes.txt", write=True)) as source,
        open_pinned(sandbox, sandbox.resolve("moved.txt", write=True)) as destination,
    ):
        with pytest.raises(TargetChanged):
            source.move_to(destination, STALE)
        (workspace / "moved.txt").write_text("just made")
        with pytest.raises(TargetChanged, match=r"moved\.txt exists by now; nothing was moved"):
            source.move_to(destination, source.state())
    assert (workspace / "notes.txt").read_text() == "one\ntwo\n"
    assert (workspace / "moved.txt").read_text() == "just made"


def test_a_place_that_becomes_something_else_is_refused(sandbox: Sandbox, workspace: Path, tmp_path: Path) -> None:
    with open_pinned(sandbox, sandbox.resolve("notes.txt", write=True)) as place:
        (workspace / "notes.txt").unlink()
        os.link(workspace / ".env", workspace / "notes.txt")
        with pytest.raises(ToolError, match="not a path that this agent may use"), place.open():
            pass
        (workspace / "notes.txt").unlink()
        (workspace / "notes.txt").symlink_to(tmp_path / "outside.txt")
        with pytest.raises(ToolError, match="not a path that this agent may use"):
            place.replace(b"new", ABSENT)
        (workspace / "notes.txt").unlink()
        os.mkfifo(workspace / "notes.txt")
        with pytest.raises(ToolError, match="not a regular file"), place.open():
            pass
    assert (workspace / ".env").read_text() == "secret"
    assert (tmp_path / "outside.txt").read_text() == "secret"


def test_errors_of_the_system_are_errors_of_the_tool(sandbox: Sandbox) -> None:
    resolved = sandbox.resolve("notes.txt/x", write=True)
    with (
        pytest.raises(ToolError, match=r"^notes\.txt/x cannot be used: Not a directory$"),
        open_pinned(sandbox, resolved),
    ):
        pass
