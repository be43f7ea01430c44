"""The operating system: the port, and its implementation for this machine."""

from __future__ import annotations

import sys

from agent_md.system.linux import Linux
from agent_md.system.port import Mount, Process, System, named, way_to_end
from agent_md.system.posix import Posix

__all__ = ["SYSTEM", "Mount", "Process", "System", "named", "way_to_end"]


def _this() -> System:
    if sys.platform == "darwin":
        from agent_md.system.macos import MacOs

        return MacOs()
    return Linux() if sys.platform == "linux" else Posix()


SYSTEM = _this()
