"""What a command works with: the opened workspace, closed whatever happens, its terminal, and who is there."""

from __future__ import annotations

import getpass
import io
import logging
import logging.handlers
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import typer

from agent_md.app import App
from agent_md.cli.prompt import TerminalPrompt, can_prompt
from agent_md.cli.screen import Screen
from agent_md.cli.streams import divert_tool_output, person
from agent_md.errors import StoreFull, StoreReadOnly
from agent_md.settings import Settings, load_settings

__all__ = ["WorkspaceOption", "current_folder", "each_change", "login", "open_app", "screen", "terminal"]

WorkspaceOption = Annotated[
    Path | None,
    typer.Option(
        "--workspace",
        "-w",
        metavar="FOLDER",
        help="The folder with agents/; else $AGENTMD_WORKSPACE, the nearest one above, or ~/agentmd.",
        show_default=False,
    ),
]

_LOG_BYTES = 5_000_000
_POLL_S = 0.05


@contextmanager
def open_app(workspace: Path | None, *, drives: bool = False) -> Iterator[App]:
    """The workspace, opened; with `drives` also made the current folder, as custom tools expect."""
    settings = load_settings(workspace, environ=os.environ, cwd=current_folder(), home=Path.home())
    app = App(settings)
    try:
        if drives:
            os.chdir(settings.workspace)
            divert_tool_output(settings.state_dir)
            _log_to_file(settings)
        yield app
    finally:
        app.close()


def current_folder() -> Path:
    """Where the command was given; `/` if that is gone."""
    try:
        return Path.cwd()
    except FileNotFoundError:  # the folder was removed under us
        return Path("/")


class _LogFile(logging.handlers.RotatingFileHandler):
    """Made with the first line; what cannot be written is lost, because nothing of a log is for the terminal.

    Several processes write it: one that finds it renamed by another goes on in the new one."""

    def emit(self, record: logging.LogRecord) -> None:
        """The line goes to the file that has the name now."""
        with suppress(OSError):
            if self.stream is not None and not _is_at(self.stream, self.baseFilename):
                self.stream.close()
                self.stream = self._open()
        super().emit(record)

    def _open(self) -> io.TextIOWrapper:
        path = Path(self.baseFilename)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600))
        return super()._open()

    def handleError(self, record: logging.LogRecord) -> None:
        """Nothing."""


def _is_at(file: io.TextIOWrapper, path: str) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


def _log_to_file(settings: Settings) -> None:
    """Logs of the loop and of libraries go to a file in the state folder."""
    handler = _LogFile(
        settings.state_dir / "agentmd.log",
        maxBytes=_LOG_BYTES,
        backupCount=1,
        delay=True,
        encoding="utf-8",
        errors="backslashreplace",
    )
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(process)d %(name)s: %(message)s"))
    logging.getLogger().addHandler(handler)
    logging.getLogger().setLevel(settings.log_level)
    for name in ("httpx", "httpx2"):  # they tell each address that is asked, which may hold a password or a token
        logging.getLogger(name).setLevel(logging.WARNING)


def each_change(workspace: Path | None, *, follow: bool) -> Iterator[App]:
    """The workspace now, and with `follow` again after each change of its store, which may not be there yet.

    What is read between two turns is never older than the change that comes next.
    """
    while True:
        with open_app(workspace) as app:
            database = app.settings.database
            made = database.exists()
            version = app.reading_store.version()
            yield app
            while follow and made:
                while (current := app.reading_store.version()) == version:
                    time.sleep(_POLL_S)
                    with suppress(StoreReadOnly, StoreFull):
                        app.reading_store.settle_overdue()
                version = current
                yield app
        if not follow:
            return
        while not database.exists():
            time.sleep(_POLL_S)


def login() -> str:
    """Who answers at this terminal: `cli:LOGIN`."""
    try:
        return f"cli:{getpass.getuser()}"
    except (KeyError, OSError):
        return f"cli:{os.getuid()}"


def screen() -> Screen:
    """What standard output is."""
    return Screen.of(person(sys.stdout))


def terminal(*, asks: bool) -> TerminalPrompt | None:
    """A prompt, if a human may be asked: the command `asks`, standard input and output are terminals, it is no CI job."""
    if not asks or os.environ.get("CI") or not can_prompt():
        return None
    return TerminalPrompt(screen())
