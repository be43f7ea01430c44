"""Keeps state on local disks: on shared file systems neither locks nor SQLite's shared memory hold."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path

from agent_md.errors import StateDirUnusable

__all__ = ["file_system_of", "require_local_disk"]

_LOCAL = frozenset(
    (
        *("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "jfs", "reiserfs", "nilfs2", "ubifs"),
        *("tmpfs", "ramfs", "rootfs", "overlay", "overlayfs", "aufs", "ecryptfs", "ntfs", "ntfs3", "fuseblk"),
        *("vfat", "msdos", "exfat", "apfs", "hfs", "hfsplus", "ufs"),
        "fuse.fuse-overlayfs",  # the root of containers without root; no two of them have one mount
    )
)
_MOUNTS = Path("/proc/self/mounts")


def require_local_disk(
    folder: Path, mounts: Path = _MOUNTS, *, allowed: Collection[str] = (), user_config: Path | None = None
) -> None:
    """Raises StateDirUnusable unless `folder` lies on a file system that is known to be local, or of an `allowed` type.

    Where mounts are not listed, it passes. `user_config` is named as the file that can allow one more type.
    """
    kind = file_system_of(folder, mounts)
    if kind is None or kind in _LOCAL or kind in allowed:
        return
    raise StateDirUnusable(
        f"the folder {folder} is on a file system of the type {kind}, which is not known to be a local disk; on a shared "
        "one file locks do not hold. Nothing was started. Set `state_dir` and `database` in config.yaml to places on a "
        "local disk; if this one is used by this machine alone, write "
        f"`allow_state_on: [{kind}]` into {user_config or 'your own config.yaml'}"
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
