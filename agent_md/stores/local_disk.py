"""Keeps state on local disks: on shared file systems neither locks nor SQLite's shared memory hold."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from agent_md.errors import StateDirUnusable
from agent_md.system import SYSTEM, System

__all__ = ["file_system_of", "require_local_disk"]

_LOCAL = frozenset(
    (
        *("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "jfs", "reiserfs", "nilfs2", "ubifs"),
        *("tmpfs", "ramfs", "rootfs", "overlay", "overlayfs", "aufs", "ecryptfs", "ntfs", "ntfs3", "fuseblk"),
        *("vfat", "msdos", "exfat", "apfs", "hfs", "hfsplus", "ufs"),
        "fuse.fuse-overlayfs",  # the root of containers without root; no two of them have one mount
    )
)


def require_local_disk(
    folder: Path, system: System = SYSTEM, *, allowed: Collection[str] = (), user_config: Path | None = None
) -> None:
    """Raises StateDirUnusable unless `folder` lies on a file system that is known to be local, or of an `allowed` type.

    Where mounts are not listed, it passes. `user_config` is named as the file that can allow one more type.
    """
    kind = file_system_of(folder, system)
    if kind is None or kind in _LOCAL or kind in allowed:
        return
    raise StateDirUnusable(
        f"the folder {folder} is on a file system of the type {kind}, which is not known to be a local disk; on a shared "
        "one file locks do not hold. Nothing was started. Set `state_dir` and `database` in config.yaml to places on a "
        "local disk; if this one is used by this machine alone, write "
        f"`allow_state_on: [{kind}]` into {user_config or 'your own config.yaml'}"
    )


def file_system_of(folder: Path, system: System = SYSTEM) -> str | None:
    """The type of the file system of the deepest mount above `folder`, the last one of several on one place. None if
    none above the folder is listed."""
    place = folder.resolve()
    depth, found = 0, None
    for mount in system.mounts():
        if place.is_relative_to(mount.folder) and len(mount.folder.parts) >= depth:
            depth, found = len(mount.folder.parts), mount.kind
    return found
