"""A tool whose end a test decides: it says that it has begun, and works until it is let go."""

from __future__ import annotations

from pathlib import Path

from tests.support.waiting import until

__all__ = ["GATES", "open_gate", "until_begun"]

GATES = '''
import asyncio
from langchain_core.tools import tool
from agent_md.sdk import context

@tool
async def gated() -> str:
    """Makes the file `begun`, and ends when `gate` is there."""
    (context().workspace / "begun").touch()
    while not (context().workspace / "gate").exists():
        await asyncio.sleep(0.01)
    return "through"
'''
"""A module with the tool `gated`."""


def until_begun(workspace: Path) -> None:
    """Waits until a tool of the workspace has made the file `begun`."""
    until((workspace / "begun").exists)


def open_gate(workspace: Path) -> None:
    """Lets `gated` go, now or as soon as it begins."""
    (workspace / "gate").touch()
