"""Helpers of the tests explain their assertions like tests do; signals mean what they mean, whoever runs the tests."""

import os
import signal
import sys

import pytest

# A suite that is run in the background has them ignored, and every process that a test starts would too.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)

# Modules are compiled once, not by each of the many processes that tests start.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

pytest.register_assert_rewrite("tests.support")

from tests.support.trusting import trust_workspaces  # noqa: E402 - after its assertions are rewritten

trust_workspaces()


def pytest_xdist_auto_num_workers() -> int:
    """One more than there are processors, since a third of the time of a test is spent waiting for processes."""
    return min((os.cpu_count() or 1) + 1, 6)
