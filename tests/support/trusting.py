"""The workspaces of tests are trusted, here and in every process that tests start; tests of trust itself say otherwise."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile

__all__ = ["TRUSTED", "TRUSTING", "UNTRUSTED", "trust_workspaces"]

TRUSTING = {"AGENTMD_TRUST": "adopt"}
"""For settings that are loaded with an environment of their own."""
TRUSTED = ("AGENTMD_TRUST", "XDG_STATE_HOME")
"""What processes with a fixed environment keep of this one."""
UNTRUSTED: dict[str, str] = {"AGENTMD_TRUST": ""}
"""What takes it back for a process."""


def trust_workspaces() -> None:
    """Trusts whatever is opened with this process's environment, and keeps records out of the home folder."""
    os.environ |= TRUSTING
    if "AGENTMD_TESTS_STATE" not in os.environ:  # that of a parent is theirs to remove
        folder = os.environ["AGENTMD_TESTS_STATE"] = tempfile.mkdtemp(prefix="agentmd-tests-")
        atexit.register(_remove, folder, os.getpid())
    os.environ["XDG_STATE_HOME"] = os.environ["AGENTMD_TESTS_STATE"]


def _remove(folder: str, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(folder, ignore_errors=True)
