"""Which workers live, told by file locks that the kernel frees at death and at nothing else.

`flock`, not `lockf`: POSIX record locks vanish when any code of the process closes another descriptor of the file.
"""

from __future__ import annotations

import fcntl
import os
import uuid
from contextlib import suppress
from pathlib import Path

from agent_md.errors import StateDirUnusable
from agent_md.executions.model import WorkerId

__all__ = ["LockWorkers", "WorkerHandle", "close_in_children", "close_lock", "keep_in_children"]

_held: set[int] = set()


def _close_in_child() -> None:
    # a fork shares the lock: a child that outlives its parent would keep a dead worker alive
    for descriptor in _held:
        os.close(descriptor)
    _held.clear()


os.register_at_fork(after_in_child=_close_in_child)


def close_in_children(descriptor: int) -> None:
    """Keeps the lock of this descriptor to this process: what it forks does not have it."""
    _held.add(descriptor)


def keep_in_children(descriptor: int) -> None:
    """Undoes `close_in_children`, before the descriptor is closed by its owner."""
    _held.discard(descriptor)


def close_lock(descriptor: int) -> None:
    """Frees the lock of a descriptor given to `close_in_children`."""
    _held.discard(descriptor)
    os.close(descriptor)


class WorkerHandle:
    """This process as a worker; it lives until `close` or the end of the process."""

    def __init__(self, worker: WorkerId, path: Path, descriptor: int) -> None:
        self.id = worker
        self._path = path
        self._descriptor = descriptor
        self._owner = os.getpid()
        self._closed = False
        close_in_children(descriptor)

    def close(self) -> None:
        """Ends the worker and removes its lock file. In a forked child this does nothing."""
        if self._closed or self._owner != os.getpid():
            return
        self._closed = True
        self._path.unlink(missing_ok=True)
        close_lock(self._descriptor)


class LockWorkers:
    """`agent_md.ports.Workers` by one locked file a worker in `directory`."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def acquire(self) -> WorkerHandle:
        """Makes this process a worker with a new id, and removes the lock files of dead ones.

        Raises StateDirUnusable if the folder cannot be written."""
        worker = WorkerId(uuid.uuid4().hex)
        path = self._path(worker)
        unlocked = path.with_suffix(".new")  # nobody sees the file under its name before it is locked
        try:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            self._remove_dead()
            descriptor = os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            unlocked.rename(path)
        except OSError as error:
            raise StateDirUnusable(
                f"{path} cannot be made and locked: {error.strerror}; nothing was started. "
                "Check the room on the disk, and who owns the state folder and its mode"
            ) from error
        return WorkerHandle(worker, path, descriptor)

    def alive(self, worker: WorkerId) -> bool:
        """Raises StateDirUnusable if the lock file is there but cannot be opened."""
        path = self._path(worker)
        try:
            return _is_locked(path)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise StateDirUnusable(
                f"{path} cannot be opened ({error.strerror}), so it is not known whether its worker lives; "
                "check who owns the state folder and its mode"
            ) from error

    def _remove_dead(self) -> None:
        """A file under its name is locked from its first moment on, so a free one is a dead worker's for ever."""
        for path in self._directory.glob("*.lock"):
            with suppress(OSError):  # removed by another process, or not ours
                if not _is_locked(path):
                    path.unlink()

    def _path(self, worker: WorkerId) -> Path:
        return self._directory / f"{worker}.lock"


def _is_locked(path: Path) -> bool:
    """Asked with a shared lock, so that those who ask at the same time do not take each other for the worker."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
