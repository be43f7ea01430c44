"""`service`: installs the server of a workspace as a user service."""

from __future__ import annotations

import getpass
import os
import sys
import time
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from agent_md.api.address import read_address, server_alive
from agent_md.app import App
from agent_md.cli.command_context import WorkspaceOption, current_folder, open_app
from agent_md.cli.terminal.output import note, say
from agent_md.errors import AgentmdError, NoServiceManager, ServerRunning, Untrusted
from agent_md.models.factory import KEY_VARIABLES
from agent_md.python_command import python_command
from agent_md.service.installation import Installation
from agent_md.service.unit_files import Service, launchd_plist, systemd_unit
from agent_md.service.user_systemd import lingers
from agent_md.workspace import find_workspace

__all__ = ["Action", "Manager", "service"]

_READY_S = 30.0
_POLL_S = 0.1
_OF_THE_SHELL = (*KEY_VARIABLES, "AGENTMD_API_KEY", "AGENTMD_LOG_LEVEL")


class Action(StrEnum):
    """What to do with the service."""

    PRINT = "print"
    INSTALL = "install"
    UNINSTALL = "uninstall"


class Manager(StrEnum):
    """What manages services of users."""

    SYSTEMD = "systemd"
    LAUNCHD = "launchd"


def service(
    action: Annotated[
        Action, typer.Argument(metavar="ACTION", help="print, install or uninstall.", show_default=False)
    ],
    manager: Annotated[
        Manager | None,
        typer.Option(help="Print for this manager; default: that of this machine.", show_default=False),
    ] = None,
    workspace: WorkspaceOption = None,
) -> None:
    """Run the server as a service: starts at login, and after failures.

    Example: agentmd service install
    """
    if action is not Action.PRINT and (manager or _usual()) is Manager.LAUNCHD:
        raise NoServiceManager(
            f"agentmd {action}s no services of launchd; nothing was changed. "
            "`agentmd service print` shows the property list, to be saved in ~/Library/LaunchAgents"
        )
    if action is Action.INSTALL:
        with open_app(workspace, starts=True) as app:
            _install(app)
        return
    root, _ = find_workspace(workspace, os.environ, current_folder(), Path.home())
    described = _service(root)
    if action is Action.UNINSTALL:
        installed = Installation(described, Path.home())
        removed = installed.uninstall()
        say(
            f"The service {installed.name} is stopped and removed."
            if removed
            else "No service of this workspace is installed."
        )
    elif (manager or _usual()) is Manager.SYSTEMD:
        say(systemd_unit(described).rstrip("\n"))
    else:
        say(launchd_plist(described, Path.home()).rstrip("\n"))


def _usual() -> Manager:
    return Manager.LAUNCHD if sys.platform == "darwin" else Manager.SYSTEMD


def _service(workspace: Path) -> Service:
    program, *words = python_command("-m", "agent_md.cli.main", "start", "--workspace", str(workspace))
    return Service(workspace, (os.path.abspath(program), *words))


def _install(app: App) -> None:
    if app.trust.unrecorded_items():
        raise Untrusted(
            "the service would not have AGENTMD_TRUST of this shell, and nothing is recorded; `agentmd trust --yes` records "
            "that you trust this workspace"
        )

    def refuse_a_second_server() -> None:
        if server_alive(app.settings.state_dir):
            raise ServerRunning(
                "a server of this workspace is running already; `agentmd stop`, then install the service"
            )

    installation = Installation(_service(app.settings.workspace), Path.home())
    has_old_unit = installation.install(refuse_a_second_server)
    name = installation.name
    say(f"The service {name} is installed: {installation.path}")
    if has_old_unit:
        note(f"the running server has the unit of before; `systemctl --user restart {name}` uses the new one")
    _say_what_it_lacks(app)
    _wait_until_it_answers(app, name)


def _say_what_it_lacks(app: App) -> None:
    user = getpass.getuser()
    if not lingers(user):
        note(
            f"note: it runs while {user} is logged in; `loginctl enable-linger` lets it run from boot on, without a login"
        )
    names = [name for name in _OF_THE_SHELL if os.environ.get(name) and name not in app.settings.dotenv]
    if names:
        note(
            f"note: a service does not have the variables of this shell: {', '.join(names)}; write them into "
            f"{app.settings.workspace / '.env'}"
        )


def _wait_until_it_answers(app: App, name: str) -> None:
    from agent_md.client.local_server import ask

    folder = app.settings.state_dir
    deadline = time.monotonic() + _READY_S
    while time.monotonic() < deadline:
        address = read_address(folder) if server_alive(folder) else None
        if address is not None and ask(address, "GET", "/health") is not None:
            say(f"Its server answers (process {address.pid}). `agentmd status` shows what it does")
            return
        time.sleep(_POLL_S)
    raise AgentmdError(
        f"the service is installed, but its server does not answer after {_READY_S:g} s; "
        f"`journalctl --user -u {name}` says why. systemd goes on trying"
    )
