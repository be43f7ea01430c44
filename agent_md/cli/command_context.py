"""The context of commands: opens and closes the workspace, and describes the terminal and the user."""

from __future__ import annotations

import getpass
import logging
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent_md.app import App
from agent_md.cli.terminal.output import note
from agent_md.cli.views.screen import Screen
from agent_md.errors import StoreFull, StoreReadOnly
from agent_md.process.standard_streams import divert_tool_output, person
from agent_md.settings import load_settings

if TYPE_CHECKING:
    from agent_md.cli.asking.prompt import TerminalPrompt

__all__ = ["WorkspaceOption", "current_folder", "each_change", "login", "open_app", "screen", "terminal"]

WorkspaceOption = Annotated[
    Path | None,
    typer.Option(
        "--workspace",
        "-w",
        metavar="FOLDER",
        help="The folder with agents/. Default: $AGENTMD_WORKSPACE, the nearest one above, or ~/agentmd.",
        show_default=False,
    ),
]

log = logging.getLogger(__name__)

_POLL_S = 0.05


@contextmanager
def open_app(
    workspace: Path | None,
    *,
    drives: bool = False,
    starts: bool = False,
    lenient: bool = False,
    stops: bool = False,
) -> Iterator[App]:
    """The workspace, opened; with `drives` also made the current folder, as custom tools expect. With `lenient` a broken
    user's config or `.env` does not keep the command from its work, with `stops` neither does a broken config.yaml.

    With `drives` or `starts` the workspace must be trusted: the person at the terminal is asked, with `starts` also about
    what was added since. Raises Untrusted. Before it is closed, webhooks are told of what was driven here, where no server
    does it.
    """
    settings = load_settings(
        workspace, environ=os.environ, cwd=current_folder(), home=Path.home(), lenient=lenient, stops=stops
    )
    for text in settings.remarks:
        note(f"note: {text}")
    app = App(settings, notify=_tell)
    try:
        if drives or starts:
            from agent_md.cli.asking.trust_question import admit

            admit(app, terminal(asks=True), starts=starts)
        if drives:
            from agent_md.process.log_file import log_to_file

            os.chdir(settings.workspace)
            divert_tool_output(settings.state_dir)
            log_to_file(settings, app.found_secrets)
        yield app
    finally:
        try:
            if app.touched:
                from agent_md.cli.drive.webhook_delivery import deliver_notifications

                deliver_notifications(app)
        finally:
            app.close()


def _tell(text: str) -> None:
    log.warning(text)
    note(f"note: {text}")


def current_folder() -> Path:
    """Where the command was given; `/` if that is gone."""
    try:
        return Path.cwd()
    except FileNotFoundError:  # the folder was removed under us
        return Path("/")


def each_change(workspace: Path | None, *, follow: bool, lenient: bool = False) -> Iterator[App]:
    """The workspace now, and with `follow` again after each change of its store, which may not be there yet.

    What is read between two turns is never older than the change that comes next.
    """
    while True:
        with open_app(workspace, lenient=lenient) as app:
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
    if not asks or os.environ.get("CI"):
        return None
    from agent_md.cli.asking.prompt import TerminalPrompt, can_prompt

    return TerminalPrompt(screen()) if can_prompt() else None
