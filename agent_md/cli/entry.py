"""The entry point of the command. Ctrl-C during the imports exits without a traceback."""

from __future__ import annotations

import sys

__all__ = ["main"]

_INTERRUPTED = 130


def main() -> None:
    """As `agent_md.cli.main.main`."""
    try:
        from agent_md.cli.main import main as run
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    run()
