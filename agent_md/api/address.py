"""The address of a workspace's server: its lock, its address file, its socket, its key."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import secrets
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from agent_md.errors import ConfigInvalid, ServerRunning, StateDirUnusable
from agent_md.resource_shortages import refuse_if_none_left
from agent_md.stores.private_files import open_private, read_private, write_private
from agent_md.stores.workers import close_in_children, close_lock
from agent_md.system import SYSTEM, System, named, way_to_end

__all__ = [
    "Address",
    "ServerLock",
    "left_behind",
    "read_address",
    "server_alive",
    "server_takes_over",
    "socket_path",
    "stored_key",
    "write_address",
]


@dataclass(frozen=True, slots=True)
class Address:
    """What clients need to reach a server. `url` and `key_file` only when it listens on TCP too."""

    pid: int
    version: str
    socket: str
    url: str | None = None
    key_file: str | None = None
    stopping: bool = False


class ServerLock:
    """Held by the one server of a workspace for as long as its process lives."""

    def __init__(self, state_dir: Path, system: System = SYSTEM) -> None:
        """Takes the lock. Raises ServerRunning, naming the address, when a live server has it."""
        path = _lock_path(state_dir)
        try:
            self._descriptor = open_private(path, os.O_RDWR | os.O_CREAT)
        except OSError as error:
            refuse_if_none_left(error, f"{path} cannot be made")
            raise StateDirUnusable(f"{path} cannot be made: {error.strerror}; the server was not started") from error
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            if left := left_behind(state_dir, system):
                raise ServerRunning(left) from None
            found = read_address(state_dir)
            where = "starting" if found is None else f"at {found.url or found.socket} (process {found.pid})"
            raise ServerRunning(f"a server of this workspace is running already, {where}") from None
        with suppress(OSError):  # a full disk: then a dead server is not told from a live one
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"{os.getpid()} {system.start_of(os.getpid())}\n".encode(), 0)
        close_in_children(self._descriptor)

    def close(self) -> None:
        close_lock(self._descriptor)


def server_alive(state_dir: Path, system: System = SYSTEM) -> bool:
    """Whether a server of this workspace lives; told by its lock, and not by those of its children that have the lock."""
    return _is_held(state_dir) and not left_behind(state_dir, system)


def _is_held(state_dir: Path) -> bool:
    try:
        descriptor = open_private(_lock_path(state_dir), os.O_RDWR)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def left_behind(state_dir: Path, system: System = SYSTEM) -> str:
    """Instructions about processes that still hold the lock of a server that has ended; "" if there are none.

    Forks that do not run Python's hooks, such as those of C libraries, inherit the lock and keep it after the server's
    death."""
    try:
        pid, _, start = read_private(_lock_path(state_dir)).strip().partition(" ")
        if not pid.isdecimal() or not start or system.start_of(int(pid)) == start:
            return ""
    except (OSError, ValueError):
        return ""
    holders = system.lock_holders(_lock_path(state_dir))
    if not holders:
        return ""
    return (
        f"the server of this workspace (process {pid}) has ended, but its lock is still held by {named(holders)}, which it "
        f"left behind and which may still have effects; end it with {way_to_end(holders)}, then go on"
    )


def server_takes_over(state_dir: Path) -> bool:
    """Whether a server of this workspace drives what is queued: one that starts will, one that stops will not."""
    if not server_alive(state_dir):
        return False
    address = read_address(state_dir)
    return address is None or not address.stopping


def _lock_path(state_dir: Path) -> Path:
    return state_dir / "server.lock"


def _address_path(state_dir: Path) -> Path:
    return state_dir / "server.json"


def read_address(state_dir: Path) -> Address | None:
    """The addresses that a server wrote, None if there are none; only a live server's mean anything."""
    try:
        data = json.loads(read_private(_address_path(state_dir)))
        return Address(**data)
    except (OSError, ValueError, TypeError):
        return None


def write_address(state_dir: Path, address: Address | None) -> None:
    """Makes the addresses known at once and whole, or withdraws them with None."""
    path = _address_path(state_dir)
    if address is None:
        path.unlink(missing_ok=True)
        return
    _write_private(path, json.dumps(asdict(address)))


def _write_private(path: Path, text: str) -> None:
    try:
        write_private(path, text)
    except OSError as error:
        refuse_if_none_left(error, f"{path} cannot be written")
        raise StateDirUnusable(f"{path} cannot be written: {error.strerror}; the server does not serve") from error


def stored_key(state_dir: Path) -> tuple[str, Path]:
    """The key made for this workspace, made now if there is none, and the file that holds it."""
    path = state_dir / "api_key"
    try:
        key = read_private(path).strip()
    except FileNotFoundError:
        key = ""
    except (OSError, ValueError) as error:
        raise ConfigInvalid(f"the key in {path} cannot be read ({error}); remove it, and a new one is made") from error
    if not key:
        key = secrets.token_urlsafe(32)
        _write_private(path, key + "\n")
    return key, path


def socket_path(state_dir: Path, environ: Mapping[str, str], system: System = SYSTEM) -> Path:
    """Where the Unix socket goes: into the state folder, or, when that path is too long for one, into a folder that
    only this user can enter: below `$XDG_RUNTIME_DIR`, that of temporary files or `/tmp`, the first that is short
    enough."""
    name = hashlib.sha256(os.fsencode(state_dir)).hexdigest()[:16] + ".sock"
    runtime, own = environ.get("XDG_RUNTIME_DIR"), f"agentmd-{os.geteuid()}"
    folders = [Path(runtime) / "agentmd"] if runtime else []
    folders += [Path(tempfile.gettempdir()) / own, Path("/tmp") / own]  # noqa: S108 - it must be this user's alone
    places = [state_dir / "server.sock", *(folder / name for folder in folders)]
    path = next((place for place in places if len(os.fsencode(place)) <= system.longest_socket_path), places[-1])
    if path is places[0]:
        return path
    folder = path.parent
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise StateDirUnusable(f"{folder} is not a folder of this user alone; remove it or set XDG_RUNTIME_DIR")
    return path
