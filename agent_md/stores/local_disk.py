"""Refuses state on network file systems: their locks and SQLite's shared memory do not hold."""

from __future__ import annotations

import re
from pathlib import Path

from agent_md.errors import StateDirUnusable

__all__ = ["file_system_of", "require_local_disk"]

_NETWORK = (
    *("nfs", "cifs", "smb", "afs", "9p", "ceph", "glusterfs", "lustre", "davfs"),
    *("fuse.sshfs", "fuse.rclone", "fuse.s3fs", "fuse.ceph", "fuse.glusterfs", "fuse.davfs"),
)
_MOUNTS = Path("/proc/self/mounts")


def require_local_disk(folder: Path, mounts: Path = _MOUNTS) -> None:
    """Raises StateDirUnusable if `folder` lies on a network file system. Where mounts are not listed, it passes."""
    kind = file_system_of(folder, mounts)
    if kind is not None and kind.startswith(_NETWORK):
        raise StateDirUnusable(
            f"the state folder {folder} is on a network file system ({kind}), where file locks do not hold; "
            "set `state_dir` in config.yaml to a folder on a local disk"
        )


def file_system_of(folder: Path, mounts: Path) -> str | None:
    """The type of the file system of the deepest mount above `folder`, the last one of several on one place.

    `mounts` has the form of /proc/self/mounts. None if it cannot be read or has no mount above the folder.
    """
    try:
        text = mounts.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return None
    place = folder.resolve()
    depth, found = 0, None
    for line in text.split("\n"):
        match line.split(" "):
            case [_, target, kind, *_]:
                mount = Path(_unescaped(target))
                if place.is_relative_to(mount) and len(mount.parts) >= depth:
                    depth, found = len(mount.parts), kind
    return found


def _unescaped(path: str) -> str:
    """Blanks and backslashes are listed as their octal codes."""
    return re.sub(r"\\([0-7]{3})", lambda code: chr(int(code[1], 8)), path)
