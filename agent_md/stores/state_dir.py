"""Creates and checks the state folder: private to its user, on a local disk, used by one workspace."""

from __future__ import annotations

import os
from pathlib import Path

from agent_md.errors import StateDirUnusable
from agent_md.resource_shortages import refuse_if_none_left
from agent_md.settings import Settings
from agent_md.stores.local_disk import require_local_disk
from agent_md.stores.private_files import write_private

__all__ = ["make_state_dir"]


def make_state_dir(settings: Settings) -> None:
    """Makes the state folder, and that of the database, where they are not there. Raises StateDirUnusable."""
    folder = settings.state_dir
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        settings.database.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if folder.stat().st_uid == os.geteuid():
            folder.chmod(0o700)
        for place in dict.fromkeys((folder, settings.database.parent)):
            require_local_disk(place, allowed=settings.allow_state_on, user_config=settings.user_config)
        _bind(folder, settings.workspace)
        ignore = folder / ".gitignore"
        if not os.path.lexists(ignore) or not ignore.lstat().st_size:  # a full disk left it empty
            write_private(ignore, "*\n")
    except OSError as error:
        refuse_if_none_left(error, f"the state folder {folder} cannot be used")
        raise StateDirUnusable(
            f"the state folder {folder} cannot be made or written: {error.strerror}; nothing was started. "
            "Set `state_dir` in config.yaml to a folder that can be written"
        ) from error


def _bind(folder: Path, workspace: Path) -> None:
    """A state folder outside of its workspace belongs to the first one that used it: an execution must not go on
    with the files and tools of another."""
    if folder.resolve().is_relative_to(workspace.resolve()):
        return
    owner, mine = folder / "workspace", str(workspace.resolve())
    if not os.path.lexists(owner):
        write_private(owner, mine)
    elif (other := owner.read_text(encoding="utf-8", errors="surrogateescape")) != mine:
        raise StateDirUnusable(
            f"the state folder {folder} belongs to the workspace {other}; give this one a `state_dir` of its own, "
            f"or, if the workspace was moved, write its new path into {owner}"
        )
