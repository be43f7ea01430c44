"""What tests of sandboxed processes need, and whether they can be run here."""

from __future__ import annotations

import fcntl
from pathlib import Path

import pytest

from agent_md.isolation.bubblewrap import isolation_problem

__all__ = ["is_locked", "need_sandbox"]


def need_sandbox() -> None:
    """Leaves a test out, saying so, where no process can be isolated."""
    if (problem := isolation_problem()) is not None:
        pytest.skip(f"NOT RUN: {problem}")


def is_locked(path: Path) -> bool:
    """Whether a living process holds a lock of the file, which ends with it."""
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
