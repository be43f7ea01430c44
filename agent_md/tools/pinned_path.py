"""`PinnedPath`: a path whose folder is held open, so that checks and effects use the same folder."""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import stat
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from io import BufferedReader

from agent_md.errors import ToolError
from agent_md.tools.base import TargetChanged
from agent_md.tools.path_sandbox import Resolved, Sandbox, shown_path, sync_folder

__all__ = ["ABSENT", "PinnedPath", "digest_of_bytes", "open_pinned"]

ABSENT = "absent"

Changing = Callable[[], AbstractContextManager[None]]
"""Gives the block in which a change happens; entering it may raise instead."""

_DIGEST_LIMIT = 256 * 1024 * 1024
"""Larger files are known by inode, size and time of change instead of their content."""


class PinnedPath:
    """Where a file is or would be. All methods go through the open folder; none follows a link.

    Raises ToolError where something other than a regular file is in the place.
    """

    def __init__(self, sandbox: Sandbox, resolved: Resolved, folder: int | None) -> None:
        self.resolved = resolved
        self.shown = shown_path(resolved.given)
        self._sandbox = sandbox
        self._folder = folder

    @property
    def has_folder(self) -> bool:
        """Whether the folder exists; if not, nothing can be put here."""
        return self._folder is not None

    def stat(self) -> os.stat_result | None:
        """What the file system knows of the file; None if there is nothing."""
        if self._folder is None:
            return None
        try:
            found = os.stat(self._name, dir_fd=self._folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        self._check(found)
        return found

    def existing(self) -> os.stat_result:
        """As `stat`, but raises ToolError if there is nothing."""
        found = self.stat()
        if found is None:
            raise ToolError(f"{self.shown} does not exist")
        return found

    @contextmanager
    def open(self) -> Iterator[BufferedReader]:
        """The file, for reading."""
        self.existing()
        # A FIFO that took the file's place must not block the open.
        descriptor = os.open(
            self._name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=self._folder
        )
        with os.fdopen(descriptor, "rb") as file:
            self._check(os.fstat(descriptor))
            yield file

    def state(self) -> str:
        """`absent`, or a digest of the content; equal states are the same file for every purpose here."""
        found = self.stat()
        if found is None:
            return ABSENT
        if found.st_size > _DIGEST_LIMIT:
            return f"stat:{found.st_dev}:{found.st_ino}:{found.st_size}:{found.st_mtime_ns}"
        return self.content_digest()

    def content_digest(self) -> str:
        """The digest of the content, however large the file is; raises ToolError if there is nothing."""
        with self.open() as file:
            return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"

    def stamp(self) -> str:
        """What a plan remembers of a file besides its state: when a large one was last touched, which no tool can set
        back. A move touches it too, so that it is no part of the state."""
        found = self.stat()
        return str(found.st_ctime_ns) if found is not None and found.st_size > _DIGEST_LIMIT else ""

    def replace(self, data: bytes, expected: str, commit: Changing = nullcontext) -> None:
        """Puts `data` in the place at once, keeping mode and owner of what was there.

        Raises TargetChanged, with the place untouched, if its state is not `expected` any more.
        """
        assert self._folder is not None
        found = self.stat()
        temporary = f".agentmd-{secrets.token_hex(8)}.tmp"
        descriptor = os.open(
            temporary,
            os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
            0o666 if found is None else 0o600,
            dir_fd=self._folder,
        )
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                if found is not None:
                    _keep_rights(descriptor, found)
                self._sandbox.system.sync(descriptor)
            self.expect(expected)
            with commit():
                os.rename(temporary, self._name, src_dir_fd=self._folder, dst_dir_fd=self._folder)
        except BaseException:
            with suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=self._folder)
            raise
        sync_folder(self._folder, self._sandbox.system)

    def remove(self, expected: str, commit: Changing = nullcontext) -> None:
        """Deletes the file. Raises TargetChanged, with the file untouched, if its state is not `expected`."""
        assert self._folder is not None
        self.expect(expected)
        with commit():
            os.unlink(self._name, dir_fd=self._folder)
        sync_folder(self._folder, self._sandbox.system)

    def move_to(self, other: PinnedPath, expected: str, commit: Changing = nullcontext) -> None:
        """Gives the file the name of `other` and then takes its old one away; never overwrites.

        A move that was cut off between the two is completed. Raises TargetChanged, with nothing done, if the state of
        the file is not `expected`.
        """
        assert self._folder is not None
        assert other._folder is not None
        self.expect(expected)
        with commit():
            self._move_to(other)

    def _move_to(self, other: PinnedPath) -> None:
        assert self._folder is not None
        assert other._folder is not None
        if not self.is_half_moved_to(other):
            try:
                os.link(
                    self._name,
                    other._name,
                    src_dir_fd=self._folder,
                    dst_dir_fd=other._folder,
                    follow_symlinks=False,
                )
            except FileExistsError:
                raise TargetChanged(f"{other.shown} exists by now; nothing was moved") from None
            except OSError as error:
                raise _cannot_move(self, other, error) from None
            sync_folder(other._folder, self._sandbox.system)
        try:
            os.unlink(self._name, dir_fd=self._folder)
        except OSError as error:
            os.unlink(other._name, dir_fd=other._folder)
            raise _cannot_move(self, other, error) from None
        sync_folder(self._folder, self._sandbox.system)

    def is_half_moved_to(self, other: PinnedPath) -> bool:
        """Whether both places name one file, as a move leaves it that was cut off between its two halves."""
        here, there = self.stat(), other.stat()
        if here is None or there is None or (here.st_dev, here.st_ino) != (there.st_dev, there.st_ino):
            return False
        # Two spellings of one name on a file system that ignores case are no second name: one link.
        return here.st_nlink > 1 and self.resolved.path != other.resolved.path and not self._is_spelled_as(other)

    def expect(self, state: str) -> None:
        """Raises TargetChanged if the state is another one."""
        if self.state() != state:
            raise TargetChanged(f"{self.shown} was changed meanwhile; nothing was done")

    @property
    def _name(self) -> str:
        return self.resolved.path.name

    def _is_spelled_as(self, other: PinnedPath) -> bool:
        return str(self.resolved.path).casefold() == str(other.resolved.path).casefold()

    def _check(self, found: os.stat_result) -> None:
        if stat.S_ISLNK(found.st_mode):
            raise self._sandbox.refusal(self.resolved.given)
        if stat.S_ISDIR(found.st_mode):
            raise ToolError(f"{self.shown} is a folder, not a file")
        if not stat.S_ISREG(found.st_mode):
            raise ToolError(f"{self.shown} is not a regular file")
        self._sandbox.check_identity(found, self.resolved.given)


@contextmanager
def open_pinned(sandbox: Sandbox, resolved: Resolved, *, create: bool = False) -> Iterator[PinnedPath]:
    """The place of a resolved path, for as long as the block runs; `create` makes its folders.

    Errors of the operating system in the block come out as ToolError.
    """
    try:
        with sandbox.open_folder(resolved.path.parent, resolved.given, create=create) as folder:
            yield PinnedPath(sandbox, resolved, folder)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise ToolError(f"{shown_path(resolved.given)} cannot be used: {reason}") from error


def digest_of_bytes(data: bytes) -> str:
    """The state of a place that holds exactly `data`."""
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _keep_rights(descriptor: int, found: os.stat_result) -> None:
    """Owner and mode of the file that is replaced; not the bits that let a program run as its owner or group: they were
    given to other content."""
    with suppress(PermissionError):
        os.fchown(descriptor, found.st_uid, found.st_gid)
    os.fchmod(descriptor, stat.S_IMODE(found.st_mode) & 0o777)


def _cannot_move(source: PinnedPath, destination: PinnedPath, error: OSError) -> ToolError:
    if error.errno == errno.EXDEV:
        reason = "they are on different file systems; write the new file and delete the old one instead"
    else:
        reason = error.strerror or type(error).__name__
    return ToolError(f"{source.shown} cannot be moved to {destination.shown}: {reason}")
