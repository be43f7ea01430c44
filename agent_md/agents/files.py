"""Reads files of the user without blocking and with a size limit; errors say in plain words what is wrong."""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from agent_md.errors import UsageError
from agent_md.resource_shortages import refuse_if_none_left

__all__ = ["Unreadable", "decode", "file_stamp", "read_file", "touched_lately"]

_LATELY_S = 1.0
_UTF16_OR_32 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, codecs.BOM_UTF32_BE)


class Unreadable(UsageError):
    """Why a file cannot be used, as the end of a sentence that starts with its name."""


def read_file(path: Path, limit: int) -> bytes:
    """The content of a regular file of at most `limit` bytes. Raises Unreadable; never waits for a pipe or device."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    except FileNotFoundError:
        reason = "is a link to nothing; remove it or mend it" if path.is_symlink() else "does not exist"
        raise Unreadable(reason) from None
    except OSError as error:
        refuse_if_none_left(error, f"{path} cannot be read")
        raise Unreadable(f"cannot be read: {error.strerror}") from None
    try:
        data = _read(descriptor, limit + 1)
    except OSError as error:
        raise Unreadable(f"cannot be read: {error.strerror}") from None
    finally:
        os.close(descriptor)
    if len(data) > limit:
        raise Unreadable(f"is larger than {limit // 1024} KiB; make it smaller")
    return data


def file_stamp(path: Path) -> tuple[int, int, int] | None:
    """A value that changes when a file is written or replaced; None if the file cannot be inspected."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def touched_lately(paths: Iterable[Path], now: float) -> bool:
    """Whether one of the files was written within the second before or after `now`: it may be half saved."""
    for path in paths:
        with suppress(OSError):
            if abs(now - path.stat().st_mtime) < _LATELY_S:
                return True
    return False


def decode(data: bytes) -> str:
    """UTF-8 text without its byte order mark, line ends as they are. Raises Unreadable naming the line at fault."""
    if data.startswith(_UTF16_OR_32):
        raise Unreadable("is encoded as UTF-16 or UTF-32; save it as UTF-8")
    if (index := data.find(b"\0")) >= 0:
        raise Unreadable(f"has a NUL byte in line {_line(data, index)}; save it as UTF-8 text")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        start = error.start + (len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0)
        raise Unreadable(
            f"is not UTF-8: byte 0x{data[start]:02x} in line {_line(data, start)}; save it as UTF-8"
        ) from None


def _read(descriptor: int, size: int) -> bytes:
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        raise Unreadable(f"is {_kind(mode)}, not a file")
    with open(descriptor, "rb", closefd=False) as file:
        return file.read(size)


def _line(data: bytes, index: int) -> int:
    return data.count(b"\n", 0, index) + 1


def _kind(mode: int) -> str:
    if stat.S_ISDIR(mode):
        return "a folder"
    if stat.S_ISFIFO(mode):
        return "a named pipe"
    return "a device or socket"
