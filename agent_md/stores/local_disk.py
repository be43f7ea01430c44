"""Refuses state on network file systems: their locks and SQLite's shared memory do not hold."""

from __future__ import annotations

from pathlib import Path

from agent_md.errors import StateDirUnusable

__all__ = ["file_system_of", "require_local_disk"]

_NETWORK = ("nfs", "cifs", "smb", "afs", "9p", "ceph", "glusterfs", "lustre", "fuse.sshfs", "fuse.rclone", "fuse.s3fs")
_MOUNTS = Path("/proc/self/mounts")


def require_local_disk(folder: Path) -> None:
    """Raises StateDirUnusable if `folder` lies on a network file system. Where mounts are not listed, it passes."""
    kind = file_system_of(folder, _MOUNTS)
    if kind is not None and kind.startswith(_NETWORK):
        raise StateDirUnusable(
            f"the state folder {folder} is on a network file system ({kind}), where file locks do not hold; "
            "set `state_dir` in config.yaml to a folder on a local disk"
        )


def file_system_of(folder: Path, mounts: Path) -> str | None:
    """The type of the file system of the deepest mount above `folder`, None if the list cannot be read."""
    try:
        lines = mounts.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except OSError:
        return None
    place = folder.resolve()
    found = (Path("/"), None)
    for line in lines:
        _, target, kind, *_ = line.split(" ")
        mount = Path(target.replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\"))
        if (mount == place or mount in place.parents) and len(mount.parts) >= len(found[0].parts):
            found = (mount, kind)  # type: ignore[assignment] # the first has no kind
    return found[1]
