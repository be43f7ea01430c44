"""`start`, `stop` and `status`: the server of a workspace."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from agent_md.agents.spec import AgentSpec
from agent_md.api.address import Address, left_behind, read_address, server_alive
from agent_md.app import App
from agent_md.cli.command_context import WorkspaceOption, open_app
from agent_md.cli.terminal.output import note, say
from agent_md.cli.views.triggers import skipped_text, start_line
from agent_md.errors import AgentmdError, ServerRunning
from agent_md.visible_text import counted, json_line, one_line, visible

if TYPE_CHECKING:
    pass

__all__ = ["start", "status", "stop"]


def start(
    detach: Annotated[bool, typer.Option("--detach", "-d", help="Run in the background.")] = False,
    host: Annotated[str | None, typer.Option(help="Listen on TCP too, at this address.", show_default=False)] = None,
    port: Annotated[
        int | None,
        typer.Option(help="Listen on TCP too, at this port of 127.0.0.1.", min=0, max=65535, show_default=False),
    ] = None,
    api_key: Annotated[
        str | None, typer.Option(help="The key for TCP; default: generated and stored.", show_default=False)
    ] = None,
    open_inbox: Annotated[bool, typer.Option("--open", help="Open the inbox in a browser.")] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Start the server: drives executions and serves HTTP.

    Example: agentmd start -d
    """
    with open_app(workspace, drives=True, starts=True) as app:
        if left := left_behind(app.settings.state_dir):
            raise ServerRunning(left)
        if server_alive(app.settings.state_dir):
            raise ServerRunning(f"a server of this workspace is running already, {_where(app)}")
        if detach:
            from agent_md.client.server_process import start_detached  # its HTTP takes a moment to import

            address = start_detached(app, host, port, api_key, _still_starts)
            _announce(app, address)
            if open_inbox:
                from agent_md.cli.commands.inbox import open_page

                open_page(address)
            return
        from agent_md.api.server import Listen, serve
        from agent_md.api.suspect_process import alone_command
        from agent_md.engines.suspect_processes import SuspectProcess
        from agent_md.web.pages import add_pages

        settings = app.settings.server
        listen = Listen(host or settings.host, settings.port if port is None else port, api_key or settings.api_key)
        drive_alone = SuspectProcess(partial(alone_command, app.settings.workspace))
        anew = serve(app, listen, partial(_ready, app, open_inbox=open_inbox), drive_alone, add_pages)
    if anew:
        from agent_md.client.server_process import start_anew

        start_anew(app.settings, listen.host, listen.port, listen.key)


def _ready(app: App, address: Address, *, open_inbox: bool) -> None:
    """The server listens; it answers as soon as this returns."""
    _announce(app, address)
    if open_inbox:
        threading.Thread(target=_open_page, args=(address,), name="open-inbox", daemon=True).start()


def _open_page(address: Address) -> None:
    from agent_md.cli.commands.inbox import open_page

    try:
        open_page(address)
    except AgentmdError as error:
        note(f"note: {error}")


def _still_starts(pid: int) -> None:
    note(f"note: the server (process {pid}) still starts")


def _where(app: App) -> str:
    found = read_address(app.settings.state_dir)
    return "starting up" if found is None else f"at {found.url or found.socket} (process {found.pid})"


def _announce(app: App, address: Address, *, skips: bool = False) -> None:
    """Says where the server listens, and what starts agents there; with `skips` also what was skipped last."""
    say(f"Listening on {visible(address.socket, one_line=True)}")
    if address.url is not None:
        say(f"Listening on {address.url}")
    if address.key_file is not None:
        say(f"The key for TCP is in {visible(address.key_file, one_line=True)}")
    for entry in app.registry.agents:
        if entry.spec.enabled and entry.spec.trigger.type != "manual":
            say(*_trigger_lines(app, entry.spec, skips=skips))


def _trigger_lines(app: App, spec: AgentSpec, *, skips: bool) -> Iterator[str]:
    state, fires = app.triggers.state(spec), app.triggers.next_fires(spec, 1)
    broken = "".join(f"; {problem}" for problem in app.preflight.trigger_problems(spec))
    yield start_line(spec, state, fires[0] if fires else None) + broken
    for problem in app.preflight.problems_without_tools(spec):
        yield f"  it cannot run: {one_line(str(problem))}"
    if skips and (skipped := skipped_text(state)) is not None:
        yield f"  {skipped}"


def stop(workspace: WorkspaceOption = None) -> None:
    """Stop the server; running executions have 3 s to end.

    Example: agentmd stop
    """
    with open_app(workspace, stops=True) as app:
        folder = _state_dir(app)
        if not server_alive(folder):
            if left := left_behind(folder):
                raise AgentmdError(left)
            say("No server is running.")
            return
        from agent_md.client.server_process import stop_server

        stop_server(folder)
    say("Stopped.")


def _state_dir(app: App) -> Path:
    """Where a server of this workspace is looked for: never where the workspace's files lead to that of another one."""
    app.trust.require_own_server()
    return app.settings.state_dir


def status(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False, workspace: WorkspaceOption = None
) -> None:
    """Show whether a server answers: exit 0 if one does, 1 if not.

    Example: agentmd status
    """
    with open_app(workspace, stops=True) as app:
        folder = _state_dir(app)
        address = read_address(folder) if server_alive(folder) else None
        info = None if address is None else _ask(address, "GET", "/info")
        if address is None or info is None:
            _say_that_none_answers(address, left_behind(folder), as_json=as_json)
            raise typer.Exit(1)
        if as_json:
            jobs = (_ask(address, "GET", "/scheduler") or {}).get("jobs", [])
            say(json_line({"running": True, "socket": address.socket, "url": address.url, **info, "jobs": jobs}))
            return
        _announce(app, address, skips=True)
        active, waiting = info["active_executions"], info["waiting_executions"]
        say(
            f"agentmd {info['version']}, process {info['pid']}, up {info['uptime_seconds']:.0f} s; "
            f"{info['agents_enabled']} of {info['agents_loaded']} agents enabled",
            f"{counted(active, 'execution')} queued or running, "
            f"{waiting} {'waits' if waiting == 1 else 'wait'} for an answer",
            *(visible(text, one_line=True) for text in _problems(info)),
        )
        if invalid := len(app.registry.invalid):
            say(
                f"{counted(invalid, 'file')} cannot be used (`agentmd list` says why); "
                "an agent stays as it was when its file was valid last"
            )


def _say_that_none_answers(address: Address | None, left: str, *, as_json: bool) -> None:
    if as_json:
        say(json_line({"running": False}))
        return
    say("No server is running." if address is None else f"Process {address.pid} does not answer.")
    if left:
        note(left)


def _problems(info: dict[str, Any]) -> Iterator[str]:
    """What the server has found to be wrong with files. A server of an older version says less."""
    yield from (f"The watch of {agent}: {problem}" for agent, problem in info.get("watcher_problems", {}).items())
    yield from (f"Tool module {module}: {problem}" for module, problem in info.get("tool_problems", {}).items())
    for agent, items in info.get("untrusted", {}).items():
        yield f"{agent} does not start before `agentmd trust` allows it: {'; '.join(items)}"
    if error := info.get("config_error"):
        yield "The configuration is invalid, so the server goes on with that of before:"
        yield from error.splitlines()
    if keys := info.get("restart_needed"):
        yield f"These settings have other values in the files; restart the server to use them: {', '.join(keys)}"


def _ask(address: Address, method: str, path: str) -> dict[str, Any] | None:
    from agent_md.client.local_server import ask  # its HTTP takes a moment to import

    return ask(address, method, path)
