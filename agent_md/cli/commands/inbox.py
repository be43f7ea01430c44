"""`inbox`: opens the server's page in a browser."""

from __future__ import annotations

import os
import sys
import webbrowser
from pathlib import Path
from typing import Annotated, Any

import typer

from agent_md.api.address import Address, left_behind, read_address, server_alive
from agent_md.cli.command_context import WorkspaceOption, open_app
from agent_md.cli.terminal.output import note, say
from agent_md.errors import AgentmdError, ServerRunning
from agent_md.visible_text import one_line

__all__ = ["inbox", "open_page"]


def inbox(
    link: Annotated[bool, typer.Option("--link", help="Print a login link; open no browser.")] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Open the page where requests are answered.

    Starts the server in the background if none runs.

    Example: agentmd inbox
    """
    with open_app(workspace, starts=True) as app:
        folder = app.settings.state_dir
        app.trust.require_own_server()
        if left := left_behind(folder):
            raise ServerRunning(left)
        address = read_address(folder) if server_alive(folder) else None
        if address is None:
            from agent_md.client.server_process import start_detached  # its HTTP takes a moment to import

            address = start_detached(app, None, None, None, _still_starts)
            say(f"Started the server (process {address.pid}); `agentmd stop` ends it.")
        open_page(address, link=link)


def open_page(address: Address, *, link: bool = False) -> None:
    """Opens the page of a server with a login link, or prints the link: also where there is no browser. Raises AgentmdError
    when the server makes none."""
    from agent_md.client.local_server import ask

    made: dict[str, Any] | None = ask(address, "POST", "/ui/login-link")
    if made is None:
        raise AgentmdError(
            f"the server (process {address.pid}) gave no login link; see agentmd.log in its state folder"
        )
    say(f"The inbox is at {one_line(made['url'])}")
    # The browser gets a file that only this user reads: arguments of processes are seen by everybody.
    if link or not _has_browser() or not webbrowser.open(Path(made["file"]).as_uri()):
        say(f"Open this link within a minute, it works once: {one_line(made['link'])}")


def _has_browser() -> bool:
    """Whether a browser opens windows here; one in the terminal would take it away."""
    if sys.platform != "darwin" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return bool(os.environ.get("BROWSER"))
    try:
        webbrowser.get()
    except webbrowser.Error:
        return False
    return True


def _still_starts(pid: int) -> None:
    note(f"note: the server (process {pid}) still starts")
