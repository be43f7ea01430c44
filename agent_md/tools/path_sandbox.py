"""The files that the tools of one agent may access, and safe resolution of paths."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from agent_md.agents.spec import PathMount
from agent_md.errors import ToolError
from agent_md.system import SYSTEM, System
from agent_md.tools.forbidden import Forbidden, ForbiddenPlaces, real_path

__all__ = ["Forbidden", "Resolved", "Root", "Sandbox", "shown_path", "sync_folder"]

_LONGEST_PATH = 4096
_FOLDER_FLAGS = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Root:
    """A folder or file that may be reached: the workspace (`alias` None) or a declared path. `path` has no links."""

    alias: str | None
    path: Path
    writable: bool

    def subject(self, real: Path) -> str:
        """`real` relative to this root, as rules name it: `alias/…` for a declared path."""
        parts = real.relative_to(self.path).parts
        return "/".join((self.alias, *parts) if self.alias else parts) or "."


@dataclass(frozen=True, slots=True)
class Resolved:
    """A resolved path of a call. `path` is absolute and had no links when it was resolved; `given` is the path in the
    call; `subject` is the path relative to `root`, which rules are matched with."""

    path: Path
    root: Root
    subject: str
    given: str


class Sandbox:
    """The files of one agent. `mounts` are its declared paths; without any the workspace is the root."""

    def __init__(
        self,
        workspace: Path,
        mounts: Sequence[PathMount],
        forbidden: Forbidden,
        system: System = SYSTEM,
        permitted: Callable[[Path, bool], bool] = lambda path, writable: True,
    ) -> None:
        """`permitted` says whether a declared path may lead to this real path now, to be written to or only read."""
        self._workspace = workspace
        self._mounts = tuple(mounts)
        self._forbidden = forbidden
        self._permitted = permitted
        self.system = system

    @property
    def workspace(self) -> Path:
        """Where relative paths without an alias begin."""
        return real_path(self._workspace)

    def roots(self) -> tuple[Root, ...]:
        """The roots as they are now: inner ones before those around them, of equal ones the read-only one first. A
        declared path that leads where it may not is none: what it links to can have changed since the start."""
        mounted = [Root(mount.alias, self._mounted(mount), mount.mode == "rw") for mount in self._mounts]
        roots = [root for root in mounted if self._permitted(root.path, root.writable)]
        if not self._mounts:
            roots = [Root(None, real_path(self._workspace), writable=True)]
        return tuple(sorted(roots, key=lambda root: (-len(root.path.parts), root.writable)))

    def forbidden(self) -> ForbiddenPlaces:
        """What is forbidden now, inside the roots too."""
        return self._forbidden.look()

    def resolve(self, path: str, write: bool) -> Resolved:
        """Resolves `path`, with all links followed.

        Its root is the innermost one that contains it, however the path was spelled. Raises ToolError for a path that
        is not allowed, with the same text for every reason, and for a write in a read-only root."""
        base, names = self._start(path)
        real = real_path(base.joinpath(*names))
        root = next((root for root in self.roots() if real.is_relative_to(root.path)), None)
        if root is None or self.forbidden().forbid(real, root.path) or _has_dangling_link(base, names):
            raise self.refusal(path)
        with suppress(OSError):
            self.check_identity(real.lstat(), path)
        if write and not root.writable:
            raise ToolError(f"{shown_path(path)} is read-only for this agent; nothing was done")
        return Resolved(real, root, root.subject(real), path)

    def check_identity(self, found: os.stat_result, given: str) -> None:
        """Raises ToolError if a file that was reached as `given` has a forbidden name as well."""
        if stat.S_ISREG(found.st_mode) and found.st_nlink > 1:
            roots = [real_path(self._workspace), *(root.path for root in self.roots())]
            if self.forbidden().have(found, roots):
                raise self.refusal(given)

    @contextmanager
    def open_folder(self, path: Path, given: str, *, create: bool = False) -> Iterator[int | None]:
        """A descriptor of the folder at `path`, which had no links when it was resolved from `given`; None if there is
        no such folder and `create` is not set.

        Every folder from the top is opened by its name in the one before, never through a link: one that was swapped
        for a link since the path was resolved is refused.
        """
        folder = self._open(path, given, create=create)
        try:
            yield folder
        finally:
            if folder is not None:
                os.close(folder)

    def refusal(self, given: str) -> ToolError:
        """The one answer to every path that is not allowed."""
        if self._mounts:
            where = f"files are reached as {', '.join(f'{mount.alias}/…' for mount in self._mounts)}"
        else:
            where = "files are reached by their path relative to the workspace"
        return ToolError(f"{shown_path(given)} is not a path that this agent may use; {where}")

    def _mounted(self, mount: PathMount) -> Path:
        return real_path(self._workspace / Path(mount.path).expanduser())

    def _start(self, path: str) -> tuple[Path, list[str]]:
        """Where the path starts, and the names from there on."""
        try:
            usable = "\0" not in path and len(path.encode()) <= _LONGEST_PATH
        except UnicodeEncodeError:
            usable = False
        if not usable or path.startswith("~"):
            raise self.refusal(path)
        names = [name for name in path.split("/") if name not in ("", ".")]
        if path.startswith("/"):
            return Path("/"), names
        names = self.without_braces(names, path)
        for mount in self._mounts:
            if names and names[0] == mount.alias:
                return self._mounted(mount), names[1:]
        return real_path(self._workspace), names

    def without_braces(self, names: list[str], given: str) -> list[str]:
        """The names of a relative path, with `alias` for an `{alias}` at its beginning. Raises ToolError for an unknown
        one; without declared paths there is no alias, and a name in braces is one."""
        if not (self._mounts and names and names[0].startswith("{") and names[0].endswith("}")):
            return names
        alias = names[0][1:-1]
        if all(alias != mount.alias for mount in self._mounts):
            raise self.refusal(given)
        return [alias, *names[1:]]

    def _open(self, path: Path, given: str, *, create: bool) -> int | None:
        folder = os.open("/", _FOLDER_FLAGS)
        for name in path.parts[1:]:
            try:
                inner = self._enter(folder, name, given, create=create)
            finally:
                os.close(folder)
            if inner is None:
                return None
            folder = inner
        return folder

    def _enter(self, folder: int, name: str, given: str, *, create: bool) -> int | None:
        try:
            return os.open(name, _FOLDER_FLAGS, dir_fd=folder)
        except FileNotFoundError:
            if not create:
                return None
        except OSError as error:
            if error.errno in (errno.ENOTDIR, errno.ELOOP) and _is_link(folder, name):
                raise self.refusal(given) from None
            raise
        with suppress(FileExistsError):
            os.mkdir(name, dir_fd=folder)
            sync_folder(folder, self.system)
        return self._enter(folder, name, given, create=False)


def shown_path(path: str) -> str:
    """A path as messages show it: whole, unless it is absurdly long."""
    text = path.encode("utf-8", "backslashreplace").decode().replace("\0", "\\0")
    return text if len(text) <= 300 else f"{text[:300]}…"


def sync_folder(folder: int, system: System) -> None:
    """Makes what was done to the names in an open folder survive a loss of power, where the folder can be read."""
    with suppress(PermissionError):
        readable = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
        try:
            system.sync(readable)
        finally:
            os.close(readable)


def _is_link(folder: int, name: str) -> bool:
    return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)


def _has_dangling_link(base: Path, names: Sequence[str]) -> bool:
    ways = [base.joinpath(*names[: count + 1]) for count in range(len(names))]
    return any(os.path.islink(way) and not os.path.exists(way) for way in ways)
