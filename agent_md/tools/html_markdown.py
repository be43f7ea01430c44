"""Pages as Markdown, by html-to-markdown, in a process that is ended when it takes too long."""

from __future__ import annotations

import subprocess
from importlib.util import find_spec
from pathlib import Path

from agent_md.errors import ToolError
from agent_md.python_command import python_command

__all__ = ["markdown_of"]

_PROCESS = Path(__file__).with_name("html_markdown_process.py")
_CLOCK_S = 30.0


def markdown_of(page: str) -> str | None:
    """The page as Markdown; None if it cannot be converted. Takes some tenths of a second. Raises ToolError if the library is
    not installed."""
    if find_spec("html_to_markdown") is None:
        raise ToolError(
            "markdown needs a package that is not installed here: pip install 'agentmd[markdown]'. Ask for it as text"
        )
    try:
        ended = subprocess.run(
            python_command(str(_PROCESS)),
            input=page.encode("utf-8", "replace"),
            capture_output=True,
            timeout=_CLOCK_S,
            env={},
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return ended.stdout.decode("utf-8", "replace") if ended.returncode == 0 else None
