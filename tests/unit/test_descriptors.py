"""Descriptors: how many connections get, and what is said when there are none left."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
import subprocess
import sys

import pytest

from agent_md.api.descriptors import log_exhaustion_rarely

_PROGRAM = """
import resource, sys
from agent_md.api.descriptors import connection_limit
resource.setrlimit(resource.RLIMIT_NOFILE, tuple(map(int, sys.argv[1:])))
print(connection_limit(), resource.getrlimit(resource.RLIMIT_NOFILE)[0])
"""


@pytest.mark.parametrize(
    ("soft", "hard", "connections", "then"),
    [(256, 1024, 768, 1024), (100, 100, 50, 100), (300, 300, 150, 300), (64, 600, 344, 600)],
)
def test_the_limit_is_raised_and_not_all_are_for_connections(soft: int, hard: int, connections: int, then: int) -> None:
    told = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(soft), str(hard)], capture_output=True, text=True, check=True, timeout=30
    ).stdout
    assert told.split() == [str(connections), str(then)]


async def test_exhaustion_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.get_running_loop()
    log_exhaustion_rarely(loop)
    error = OSError(errno.EMFILE, os.strerror(errno.EMFILE))
    with socket.socket() as listening, caplog.at_level(logging.ERROR):
        for _ in range(500):
            loop.call_exception_handler({"message": "accept() failed", "exception": error, "socket": listening})
    (record,) = caplog.records
    assert "Too many open files" in record.getMessage()
    assert record.exc_info is None


async def test_other_errors_are_told_as_ever(caplog: pytest.LogCaptureFixture) -> None:
    loop = asyncio.get_running_loop()
    log_exhaustion_rarely(loop)
    with caplog.at_level(logging.ERROR):
        for _ in range(2):
            loop.call_exception_handler({"message": "a task failed", "exception": ValueError("no")})
    assert len(caplog.records) == 2
    assert all(record.exc_info for record in caplog.records)
