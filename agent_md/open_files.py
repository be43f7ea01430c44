"""What is said when this process has as many files open as it may: not who owns a folder, but the limit."""

from __future__ import annotations

import errno
import os
import resource

from agent_md.errors import OpenFilesLimit

__all__ = ["limit_behind", "none_left", "open_files_limit", "refuse_if_none_left"]

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


def limit_behind(error: BaseException) -> OpenFilesLimit | None:
    """The error for one that came of this, directly or not; None for any other."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, OSError) and seen.errno in _NO_MORE:
            return open_files_limit(f"{seen.filename or 'a file'} cannot be opened")
        seen = seen.__cause__ or seen.__context__
    return None


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
