"""Files that processes of a workspace write beside the store: opened as what they are, never through a link."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path

from agent_md.system import SYSTEM

__all__ = ["open_private", "read_private", "write_private"]

_LARGEST = 1_000_000


def open_private(path: Path, flags: int) -> int:
    """A descriptor of the regular file at `path`; a new file has mode 0600.

    Raises OSError, with ELOOP for a link and EINVAL for anything but a regular file: another user who puts one of these
    there must neither choose what is written, nor block us."""
    descriptor = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o600)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is not a file", str(path))
    return descriptor


def read_private(path: Path) -> str:
    """The text of such a file, of its first megabyte at most. Raises OSError as `open_private`, and UnicodeDecodeError."""
    with open(open_private(path, os.O_RDONLY), "rb") as file:
        return file.read(_LARGEST).decode()


def write_private(path: Path, text: str, *, durable: bool = False) -> None:
    """Puts the text in the place at once and whole; a link that was there is replaced, not followed. A `durable` one is
    whole also after a loss of power. Raises OSError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    try:
        with open(open_private(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "w", encoding="utf-8") as file:
            file.write(text)
            if durable:
                file.flush()
                SYSTEM.sync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
