"""Opens the workspace for one command, and closes it whatever happens."""

from __future__ import annotations

import logging
import logging.handlers
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from agent_md.app import App
from agent_md.cli.prompt import TerminalPrompt, can_prompt
from agent_md.cli.screen import Screen
from agent_md.settings import Settings, load_settings

__all__ = ["WorkspaceOption", "open_app", "screen", "terminal"]

WorkspaceOption = Annotated[
    Path | None,
    typer.Option(
        "--workspace",
        "-w",
        help="The folder with agents/; else $AGENTMD_WORKSPACE, the nearest one above, or ~/agentmd.",
        show_default=False,
    ),
]

_LOG_BYTES = 5_000_000


@contextmanager
def open_app(workspace: Path | None, *, drives: bool = False) -> Iterator[App]:
    """The workspace, opened; with `drives` also made the current folder, as custom tools expect."""
    settings = load_settings(workspace, environ=os.environ, cwd=_cwd(), home=Path.home())
    app = App(settings)
    try:
        if drives:
            os.chdir(settings.workspace)
            _log_to_file(settings)
        yield app
    finally:
        app.close()


def _cwd() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:  # the folder was removed under us
        return Path("/")


def _log_to_file(settings: Settings) -> None:
    """Logs of the loop and of libraries go to a file in the state folder; nothing of them is for the terminal."""
    path = settings.state_dir / "agentmd.log"
    root = logging.getLogger()
    root.setLevel(settings.log_level)
    with suppress(OSError):
        settings.state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        handler = logging.handlers.RotatingFileHandler(
            path, maxBytes=_LOG_BYTES, backupCount=1, delay=True, encoding="utf-8", errors="backslashreplace"
        )
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(process)d %(name)s: %(message)s"))
        root.addHandler(handler)


def screen() -> Screen:
    """What standard output is."""
    return Screen.of(sys.stdout)


def terminal() -> TerminalPrompt | None:
    """A prompt, if a human may be asked: standard input and output are terminals, and this is no CI job."""
    if os.environ.get("CI") or not can_prompt():
        return None
    return TerminalPrompt(screen())
