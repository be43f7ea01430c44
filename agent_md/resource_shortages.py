"""Recognises shortages of this process: memory, threads, open files."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Iterator

from agent_md.errors import OpenFilesLimit, OutOfResources

__all__ = ["none_left", "open_files_limit", "refuse_if_none_left", "shortage"]

_SHORT = {errno.EAGAIN: "threads or processes", errno.ENOMEM: "memory"}
_NO_MORE = (errno.EMFILE, errno.ENFILE)
_NEEDED_AT_ONCE = 8
"""So many are opened for one database, with its side files and its folder."""


def refuse_if_none_left(error: OSError, what: str) -> None:
    """Raises OpenFilesLimit if that is why `what`, the beginning of a sentence, failed."""
    if error.errno in _NO_MORE:
        raise open_files_limit(what) from error


def open_files_limit(what: str) -> OpenFilesLimit:
    """The error for `what`, the beginning of a sentence."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return OpenFilesLimit(
        f"{what}: too many open files. This process may have {soft} open at once; allow more with `ulimit -n 1024` "
        "(LimitNOFILE= in a service of systemd), and try again"
    )


def shortage(error: BaseException) -> str | None:
    """What this process ran out of, if an error comes from that, directly or not: memory, threads or processes, open
    files with their limit."""
    found = (_short_of(cause) for cause in _causes(error, set()))
    return next((what for what in found if what is not None), None)


def _short_of(error: BaseException) -> str | None:
    if isinstance(error, OutOfResources):
        return str(error)
    if isinstance(error, MemoryError):
        return "memory"
    if isinstance(error, OSError) and error.errno in _NO_MORE:
        limit = open_files_limit(f"{error.filename or 'a file'} cannot be opened")
        return f"open files ({limit})"
    if isinstance(error, OSError) and error.errno in _SHORT:
        return _SHORT[error.errno]
    if isinstance(error, RuntimeError) and "can't start new thread" in str(error):
        return "threads"
    return None


def _causes(error: BaseException | None, seen: set[int]) -> Iterator[BaseException]:
    """The error and all that it came from."""
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        for part in error.exceptions if isinstance(error, BaseExceptionGroup) else ():
            yield from _causes(part, seen)
        error = error.__cause__ or error.__context__


def none_left() -> bool:
    """Whether no database can be opened for want of descriptors, for an error that does not say why."""
    opened: list[int] = []
    try:
        for _ in range(_NEEDED_AT_ONCE):
            opened.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
    except OSError as error:
        return error.errno in _NO_MORE
    finally:
        for descriptor in opened:
            os.close(descriptor)
    return False
