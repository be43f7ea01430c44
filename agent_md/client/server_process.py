"""Starts the server of a workspace in the background, puts a new one in its place, and stops it."""

from __future__ import annotations

import logging
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import NoReturn

from agent_md.api.address import Address, read_address, server_alive
from agent_md.app import App
from agent_md.client.local_server import ask
from agent_md.error_codes import codes_of
from agent_md.errors import AgentmdError, ConfigInvalid, UsageError
from agent_md.process.standard_streams import return_streams
from agent_md.python_command import python_command
from agent_md.settings import Settings, load_settings
from agent_md.stores.private_files import open_private, read_private

__all__ = ["start_anew", "start_detached", "stop_server"]

log = logging.getLogger(__name__)

_SLOW_S = 30.0
"""A loaded machine may take longer to start a server; after this it is said that it still starts."""
_READY_S = 300.0
_STOP_S = 10.0
_POLL_S = 0.05
_CONFIG_S = 1.0


def start_detached(
    app: App, host: str | None, port: int | None, api_key: str | None, still_starts: Callable[[int], None]
) -> Address:
    """Starts a server as a process of its own, and gives its address when it answers. `still_starts` is called with its
    process id if that takes long. Raises AgentmdError with the last that it said, if it ended."""
    command, environ = _command(app.settings, host, port, api_key)
    errors = app.settings.state_dir / "server.err"
    app.open()
    with open(open_private(errors, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as out:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=out,
            start_new_session=True,
            env=environ,
        )
    began, slow = time.monotonic(), False
    while (waited := time.monotonic() - began) < _READY_S:
        address = read_address(app.settings.state_dir)
        if address is not None and address.pid == child.pid and ask(address, "GET", "/health") is not None:
            child.returncode = 0  # nobody waits for it: it goes on when we have ended
            return address
        if child.poll() is not None:
            raise _why_it_ended(child.returncode, errors)
        if waited > _SLOW_S and not slow:
            slow = True
            still_starts(child.pid)
        time.sleep(_POLL_S)
    child.terminate()
    child.wait()
    raise AgentmdError(
        f"the server did not answer within {_READY_S:g} s, and was told to end; "
        f"see {app.settings.state_dir / 'agentmd.log'}"
    )


def start_anew(settings: Settings, host: str | None, port: int | None, api_key: str | None) -> NoReturn:
    """Puts a new server in the place of this process, which has given its work back: same number, same streams."""
    _wait_for_valid_config(settings)
    return_streams()
    command, environ = _command(settings, host, port, api_key)
    os.execve(command[0], command, environ)  # noqa: S606 - without a shell is what is meant


def stop_server(state_dir: Path) -> None:
    """Tells the server to stop, and returns when it has ended. Raises AgentmdError if it does not."""
    deadline = time.monotonic() + _STOP_S
    told = False
    while server_alive(state_dir):
        address = read_address(state_dir)  # none while it is starting
        told = told or (address is not None and ask(address, "POST", "/shutdown") is not None)
        if time.monotonic() > deadline:
            process = "" if address is None else f" (process {address.pid})"
            what = "is still stopping" if told else "does not answer"
            raise AgentmdError(f"the server{process} {what}; see {state_dir / 'agentmd.log'}")
        time.sleep(_POLL_S)


def _command(
    settings: Settings, host: str | None, port: int | None, api_key: str | None
) -> tuple[list[str], dict[str, str]]:
    """What starts a server of this workspace, and its environment: a key is for nobody who lists processes."""
    command = python_command("-m", "agent_md.cli.main", "start", "--workspace", str(settings.workspace))
    command += ["--host", host] if host is not None else []
    command += ["--port", str(port)] if port is not None else []
    return command, dict(os.environ) if api_key is None else {**os.environ, "AGENTMD_API_KEY": api_key}


def _wait_for_valid_config(settings: Settings) -> None:
    """Returns when the configuration can be read: with one that is broken the new server would end at once."""
    told = ""
    while True:
        try:
            load_settings(settings.workspace, environ=settings.environ, cwd=settings.workspace, home=Path.home())
            return
        except ConfigInvalid as error:
            if str(error) != told:
                told = str(error)
                log.warning("the server starts anew when the configuration is valid: %s", told)
            time.sleep(_CONFIG_S)


def _why_it_ended(code: int, errors: Path) -> AgentmdError:
    """The last that it said; with the exit code that it had."""
    said = read_private(errors).strip().removeprefix("agentmd: ")
    kind = UsageError if code == codes_of(UsageError("")).exit else AgentmdError
    return kind(said or f"the server ended at once with exit code {code}")
