"""Files of the user's own are no file tool's, whatever `paths` says and however they are reached."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from agent_md.agents.spec import AgentSpec, ModelRef, PathMount
from agent_md.assembly import Assembly
from agent_md.errors import ToolError
from agent_md.settings import load_settings
from agent_md.tools.path_sandbox import Sandbox

OWN = (
    *(".bashrc", ".zshenv", ".profile", ".netrc", ".gitconfig", ".anything"),
    *(
        ".config/fish/config.fish",
        ".config/systemd/user/x.service",
        ".ssh/authorized_keys",
        ".ssh/new",
        ".aws/credentials",
    ),
    *(
        ".local/bin/ls",
        ".local/lib/python3.11/site-packages/x.pth",
        ".local/share/systemd/user/x.service",
        ".unknown/x",
    ),
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    for name in OWN:
        path = home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.name != "new":
            path.write_text("the user's\n")
    (home / "ws/agents").mkdir(parents=True)
    return home


def sandbox(home: Path, *mounts: PathMount, environ: dict[str, str] | None = None, workspace: str = "ws") -> Sandbox:
    settings = load_settings(home / workspace, environ=environ or {}, cwd=home, home=home)
    return Assembly(settings).sandbox(AgentSpec("a", "", ModelRef("script", "a"), paths=mounts))


def refused(sandbox: Sandbox, path: str, **how: Any) -> bool:
    try:
        sandbox.resolve(path, write=how.get("write", True))
    except ToolError as error:
        return "is not a path that this agent may use" in str(error)
    return False


@pytest.mark.parametrize("name", OWN)
def test_through_a_declared_path_to_the_home(home: Path, name: str) -> None:
    mounted = sandbox(home, PathMount("home", "~" if home == Path.home() else str(home)))
    assert refused(mounted, f"home/{name}")
    assert refused(mounted, f"home/{name}", write=False)
    assert not refused(mounted, "home/notes.txt")


@pytest.mark.parametrize("name", [name for name in OWN if name != ".unknown/x"])
def test_through_a_declared_path_to_the_very_place(home: Path, name: str) -> None:
    assert refused(sandbox(home, PathMount("one", str(home / name))), "one")
    assert refused(sandbox(home, PathMount("all", str((home / name).parent))), f"all/{Path(name).name}")


def test_a_folder_that_was_declared_is_no_secret(home: Path) -> None:
    (home / ".local/share/notes").mkdir(parents=True)
    declared = sandbox(
        home, PathMount("own", str(home / ".unknown")), PathMount("notes", str(home / ".local/share/notes"))
    )
    assert not refused(declared, "own/x")
    assert not refused(declared, "notes/today.txt")


def test_through_links_from_the_workspace_and_to_it(home: Path) -> None:
    (home / "ws/link").symlink_to(home / ".ssh/authorized_keys")
    (home / "ws/rc").write_text("dotfiles of the workspace\n")
    (home / ".kshrc").symlink_to(home / "ws/rc")
    os.link(home / ".bashrc", home / "ws/hard")
    os.link(home / ".ssh/authorized_keys", home / "ws/keys")
    inside = sandbox(home)
    for name in ("link", "rc", "hard", "keys"):
        assert refused(inside, name), name
    assert not refused(inside, "notes.txt")


def test_the_folder_of_configuration_is_where_the_environment_says(home: Path) -> None:
    (home / "settings").mkdir()
    environ = {"XDG_CONFIG_HOME": str(home / "settings")}
    mount = PathMount("own", str(home / "settings"))
    assert not refused(sandbox(home, mount), "own/x")
    assert refused(sandbox(home, mount, environ=environ), "own/x")
    assert not refused(sandbox(home, environ={"XDG_CONFIG_HOME": str(home)}), "x.txt")


def test_a_workspace_may_be_hidden(home: Path) -> None:
    (home / ".agents/agents").mkdir(parents=True)
    hidden = sandbox(home, workspace=".agents")
    assert not refused(hidden, "notes.txt")
    assert refused(hidden, "sub/.git/config")
