"""What a sandbox sees of a folder is what file tools may reach of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_md.agents.spec import PathMount
from agent_md.errors import ToolError
from agent_md.isolation.bubblewrap import Mount
from agent_md.tools.forbidden import Forbidden
from agent_md.tools.path_sandbox import Sandbox
from agent_md.tools.sandboxed_view import view_of
from agent_md.tools.user_files import UserFiles

FILES = (
    *(
        "a.txt",
        ".env",
        ".env.local",
        "sub/.ENV",
        "sub/deep/.env",
        "notes.md",
        "agents/one.md",
        "agents/memory.memory.md",
    ),
    *(
        "agents/_config/tools/kit.py",
        "sub/_config/x",
        ".git/config",
        "sub/.git/hooks/x",
        "sub/.hg/x",
        ".agentmd/agentmd.db",
    ),
    *(
        "config.yaml",
        "sub/.gitignore",
        "agents/data.txt",
        "out/new.txt",
        "\uff0eenv",
        "sub/\uff3f\uff43\uff4f\uff4e\uff46\uff49\uff47/y",
    ),
)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    for name in FILES:
        file = tmp_path / "ws" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
    (tmp_path / "ws/link.txt").symlink_to("a.txt")
    return tmp_path / "ws"


def sandbox(workspace: Path, *mounts: PathMount, home: Path = Path("/nonexistent")) -> Sandbox:
    forbidden = Forbidden(
        workspace / "agents",
        of_user=UserFiles(homes=(home,)),
        folders=(workspace / ".agentmd", workspace / "agents/_config/tools"),
        files=(workspace / "config.yaml", workspace / ".env"),
    )
    return Sandbox(workspace, mounts, forbidden)


@pytest.mark.parametrize(
    "mounts", [(), (PathMount("all", "."),), (PathMount("sub", "sub"), PathMount("out", "out", mode="ro"))], ids=len
)
def test_it_sees_what_file_tools_may_read(workspace: Path, mounts: tuple[PathMount, ...]) -> None:
    files = sandbox(workspace, *mounts)
    view = view_of(files, workspace / "agents/_config/tools", writable=True)

    def is_seen(path: Path) -> bool:
        places = (
            *((mount.path, 0) for mount in view.mounts),
            *((hidden, 1) for hidden in view.hidden),
        )
        found = [(len(place.parts), rank) for place, rank in places if path.is_relative_to(place)]
        return bool(found) and max(found)[1] == 0

    def may_be_read(path: Path) -> bool:
        try:
            files.resolve(str(path), write=False)
        except ToolError:
            return False
        return True

    everything = [Path(folder, name) for folder, _, names in os.walk(workspace) for name in names]
    seen = {str(path.relative_to(workspace)) for path in everything if is_seen(path)}
    readable = {str(path.relative_to(workspace)) for path in everything if may_be_read(path)}
    assert seen == readable - {"agents/data.txt"}, "what is no agent file in its folder is left out"


def test_modes_are_kept_and_a_look_writes_nowhere(workspace: Path) -> None:
    files = sandbox(workspace, PathMount("sub", "sub"), PathMount("out", "out", mode="ro"), PathMount("gone", "gone"))
    for writable in (True, False):
        view = view_of(files, workspace / "none", writable=writable)
        assert set(view.mounts) == {Mount(workspace / "sub", writable), Mount(workspace / "out")}
        assert view.shown == ()


def test_a_path_that_holds_a_home_folder_is_refused(workspace: Path) -> None:
    with pytest.raises(ToolError, match="holds the home folder"):
        view_of(sandbox(workspace, home=workspace / "sub"), workspace, writable=True)
