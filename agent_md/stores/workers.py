"""Liveness of workers by file locks, which the kernel releases only at the death of a process; and what dead workers
left.

`flock`, not `lockf`: POSIX record locks vanish when any code of the process closes another descriptor of the file.

The locked file says what only its worker knows, for whoever takes over: the boot of the machine, whether it was told to
stop, and how long it has worked. One write to a file that is open anyway: nothing that a full database, a blocked loop
or a signal handler could keep it from.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from agent_md.errors import StateDirUnusable
from agent_md.executions.ids import WorkerId
from agent_md.resource_shortages import refuse_if_none_left
from agent_md.system import SYSTEM

__all__ = ["LockWorkers", "WorkerHandle", "close_in_children", "close_lock", "keep_in_children"]

_LONGEST_LAP_S = 1.0
"""The most time of work between two looks at the clock: what is more, the process was stopped."""
_KEPT_EVERY_S = 0.05

_held: set[int] = set()


class _Left(NamedTuple):
    """What the file of a worker says."""

    boot: str
    stopping: bool
    worked_ms: int

    def line(self) -> bytes:
        """Always as long for one boot, so that each write replaces the whole."""
        return f"{self.worked_ms:016d} {int(self.stopping)} {self.boot}\n".encode()

    @classmethod
    def read(cls, text: str) -> _Left | None:
        """None for a file that says nothing: what was in it went down with the machine."""
        words = text.rstrip("\n").split(" ", 2)
        if len(words) != 3 or not words[0].isdecimal():
            return None
        return cls(words[2], words[1] == "1", int(words[0]))


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

    def __init__(self, worker: WorkerId, path: Path, descriptor: int, boot: str) -> None:
        self.id = worker
        self._path = path
        self._descriptor = descriptor
        self._boot = boot
        self._owner = os.getpid()
        self._closed = False
        self._stopping = False
        self._lock = threading.Lock()
        self._looked = time.monotonic()
        self._worked = self._kept = 0.0
        self._keep()
        close_in_children(descriptor)

    def worked(self) -> int:
        """Milliseconds that this worker has worked, added up look by look so that one in which the process was stopped
        counts as one second at most. What is given was kept for others 50 ms ago at the most."""
        with self._lock:
            now = time.monotonic()
            self._worked += min(now - self._looked, _LONGEST_LAP_S)
            self._looked = now
            if self._worked - self._kept >= _KEPT_EVERY_S:
                self._kept = self._worked
                self._keep()
            return int(self._worked * 1000)

    def note_stop_request(self) -> None:
        """Notes that its end, however it comes, is what somebody wants. Safe in a signal handler."""
        self._stopping = True
        self._keep()

    def _keep(self) -> None:
        if self._closed or self._owner != os.getpid():
            return
        with suppress(OSError):  # a full disk: then less is known after its death
            os.pwrite(self._descriptor, _Left(self._boot, self._stopping, int(self._worked * 1000)).line(), 0)

    def close(self) -> None:
        """Ends the worker and removes its lock file. In a forked child this does nothing."""
        if self._closed or self._owner != os.getpid():
            return
        self._closed = True
        self._path.unlink(missing_ok=True)
        close_lock(self._descriptor)


class LockWorkers:
    """`agent_md.ports.Workers` by one locked file a worker in `directory`. `boot` names the machine's present boot."""

    def __init__(self, directory: Path, boot: Callable[[], str] = SYSTEM.boot_id) -> None:
        self._directory = directory
        self._boot = boot
        self._own: dict[WorkerId, WorkerHandle] = {}

    def acquire(self) -> WorkerHandle:
        """Makes this process a worker with a new id. Raises StateDirUnusable if the folder cannot be written."""
        worker = WorkerId(uuid.uuid4().hex)
        path = self._path(worker)
        unlocked = path.with_suffix(".new")  # nobody sees the file under its name before it is locked
        try:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            descriptor = os.open(unlocked, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            handle = WorkerHandle(worker, path, descriptor, self._boot())
            unlocked.rename(path)
        except OSError as error:
            refuse_if_none_left(error, f"{path} cannot be made")
            raise StateDirUnusable(
                f"{path} cannot be made and locked: {error.strerror}; nothing was started. "
                "Check the room on the disk, and who owns the state folder and its mode"
            ) from error
        self._own[worker] = handle
        return handle

    def alive(self, worker: WorkerId) -> bool:
        """Raises StateDirUnusable if the lock file is there but cannot be opened."""
        path = self._path(worker)
        try:
            return _is_locked(path)
        except FileNotFoundError:
            return False
        except OSError as error:
            refuse_if_none_left(error, f"{path} cannot be opened")
            raise StateDirUnusable(
                f"{path} cannot be opened ({error.strerror}), so it is not known whether its worker lives; "
                "check who owns the state folder and its mode"
            ) from error

    def worked(self, worker: WorkerId) -> int:
        """Of a worker of this process now, of another one what it kept; 0 if nothing is left of it."""
        own = self._own.get(worker)
        if own is not None:
            return own.worked()
        left = self._left(worker)
        return 0 if left is None else left.worked_ms

    def ended_by_order(self, worker: WorkerId) -> bool:
        """Whether a dead worker was told to stop, or died with the machine; also if nothing is left of it: it removes its
        file itself when it ends well."""
        left = self._left(worker)
        return left is None or left.stopping or left.boot != self._boot()

    def dead(self) -> list[WorkerId]:
        """A file under its name is locked from its first moment on, so a free one is a dead worker's for ever."""
        found = []
        for path in self._directory.glob("*.lock"):
            with suppress(OSError):  # removed by another process, or not ours
                if not _is_locked(path):
                    found.append(WorkerId(path.stem))
        return found

    def forget(self, worker: WorkerId) -> None:
        with suppress(OSError):  # removed by another process, or not ours
            self._path(worker).unlink()

    def _left(self, worker: WorkerId) -> _Left | None:
        try:
            return _Left.read(self._path(worker).read_text(encoding="ascii", errors="replace"))
        except OSError:
            return None

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
