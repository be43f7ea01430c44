"""Limits the file descriptors of connections, so that enough remain for the files, models and checkpoints of
executions."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import resource
import time
from typing import Any

__all__ = ["connection_limit", "log_exhaustion_rarely"]

log = logging.getLogger(__name__)

_WANTED = 8192
_KEPT = 256
"""For what is no connection."""
_NO_MORE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_SELDOM_S = 60.0


def connection_limit() -> int:
    """Raises this process's limit of open files as far as it is allowed to be and of use, and gives how many of them
    connections may take."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    wanted = _WANTED if hard == unlimited else min(_WANTED, hard)
    if soft != unlimited and soft < wanted:
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
            soft = wanted
    usable = _WANTED if soft == unlimited else soft
    return max(usable - _KEPT, usable // 2)


def log_exhaustion_rarely(loop: asyncio.AbstractEventLoop) -> None:
    """Logs in one line a minute that no connection can be taken for want of descriptors, not each time it is tried:
    the loop tries hundreds of times a second. Everything else is handled as before."""
    last = -_SELDOM_S

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        nonlocal last
        error = context.get("exception")
        if not (isinstance(error, OSError) and error.errno in _NO_MORE and "socket" in context):
            loop.default_exception_handler(context)
        elif time.monotonic() - last >= _SELDOM_S:
            last = time.monotonic()
            log.error("no connection can be taken: %s; more come when others end", error.strerror)

    loop.set_exception_handler(handle)
