"""From a workspace to the list of what it would run, send and change. Nothing of it is run; only its files are read."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from agent_md.agents.mcp_file import McpServer, read_mcp_file
from agent_md.agents.mcp_values import variables as mcp_variables
from agent_md.agents.placeholders import variables
from agent_md.agents.registry import Registry
from agent_md.agents.spec import AgentSpec, Trigger
from agent_md.errors import ConfigInvalid, UsageError
from agent_md.redaction import Redactor, is_secret_name
from agent_md.settings import Settings
from agent_md.trust.addresses import host_is_users, model_item
from agent_md.trust.items import Item, Kind
from agent_md.workspace import at_home

__all__ = ["items_of_agent", "items_of_workspace", "list_items", "mcp_item", "path_item"]

_PLACES = ("agents_dir", "tools_dir", "skills_dir", "mcp_config", "prices")
_STATE = ("state_dir", "database")
_USER_OF_ADDRESS = re.compile(r"(?<=://)[^/@\s]*@")
"""Name and password in an address."""


def list_items(settings: Settings, registry: Registry) -> list[Item]:
    """Everything, the workspace's own first. Empty for agents with built-in tools and the user's own models only."""
    own = items_of_workspace(settings)
    return own + [item for entry in registry.agents for item in items_of_agent(entry.spec, settings)]


# The workspace


def items_of_workspace(settings: Settings) -> list[Item]:
    """What config.yaml and `.env` of the workspace say for all agents."""
    return [Item(None, kind, text) for kind, text in dict.fromkeys(_of_workspace(settings))]


def _of_workspace(settings: Settings) -> Iterator[tuple[Kind, str]]:
    yield from _state_and_places(settings)
    yield from _of_server(settings)
    yield from ((Kind.HOSTS, host) for host in _added(settings, "http.allow_hosts"))
    now = set(settings.defaults.confirm_tools)
    lifted = [rule for rule in settings.own["defaults.confirm_tools"] if rule not in now]
    yield from ((Kind.GUARDS, f"not before {rule}") for rule in lifted)
    limit, own_limit = settings.max_cost_usd_per_day, settings.own["max_cost_usd_per_day"]
    if own_limit is not None and (limit is None or limit > own_limit):
        yield Kind.GUARDS, f"max_cost_usd_per_day: {'none' if limit is None else limit} instead of your {own_limit}"
    yield from ((Kind.DOTENV, name) for name in sorted(_dotenv(settings)))


def _state_and_places(settings: Settings) -> Iterator[tuple[Kind, str]]:
    said = [key for key in (*_STATE, *_PLACES) if settings.origins.get(key) == "config.yaml"]
    for key in (*_STATE, *_PLACES):
        path = settings.value(key)
        if path is None:
            continue
        outside = _outside(path, settings.workspace)
        if key in _STATE and key in said:
            yield Kind.STATE, f"{key}: {path if outside is None else outside}"
        elif key in _PLACES and outside is not None:
            yield Kind.PATHS, f"{key}: {outside}"


def _of_server(settings: Settings) -> Iterator[tuple[Kind, str]]:
    for key, origin in settings.origins.items():
        if key.startswith("server.") and origin == "config.yaml":
            value = "(set)" if key == "server.api_key" else _plain(settings.value(key))
            yield Kind.SERVER, f"{key.removeprefix('server.')}: {value}"


def _plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _added(settings: Settings, key: str) -> list[str]:
    return [value for value in settings.value(key) if value not in settings.own[key]]


def _dotenv(settings: Settings) -> Mapping[str, str]:
    try:
        return settings.dotenv
    except ConfigInvalid:  # nothing of it counts
        return {}


def _environ(settings: Settings) -> dict[str, str]:
    return {**_dotenv(settings), **settings.environ}


# An agent


def items_of_agent(spec: AgentSpec, settings: Settings) -> list[Item]:
    """What the agent would do; nothing for one that is disabled."""
    if not spec.enabled:
        return []
    asked = model_item(spec, settings, _environ(settings))
    found = [] if asked is None else [asked]
    found += [item for server in _servers(spec, settings) for item in _of_server_entry(spec.name, server, settings)]
    return found + [Item(spec.name, kind, text) for kind, text in dict.fromkeys(_of_agent(spec, settings))]


def _of_agent(spec: AgentSpec, settings: Settings) -> Iterator[tuple[Kind, str]]:
    yield from _code(spec, settings)
    yield from _sent(spec, settings)
    yield from _environment(spec, settings.trust.environment)
    for mount in spec.paths:
        item = path_item(
            spec.name, settings.workspace / at_home(mount.path, settings.home), settings, mount.mode == "rw"
        )
        if item is not None:
            yield item.kind, item.text
    yield from ((Kind.GUARDS, rule) for rule in spec.auto_approve)
    if spec.trigger.type != "manual":
        yield Kind.TRIGGER, _trigger_text(spec.trigger)


def _code(spec: AgentSpec, settings: Settings) -> Iterator[tuple[Kind, str]]:
    for name in spec.tools:
        where = " in a sandbox" if spec.sandbox else ""
        yield Kind.TOOLS, _shown(settings.tools_dir / f"{name}.py", settings.workspace) + where
    for name in spec.skills:
        yield Kind.SKILLS, _shown(settings.skills_dir / name, settings.workspace)


def _sent(spec: AgentSpec, settings: Settings) -> Iterator[tuple[Kind, str]]:
    for target in spec.notify:
        if not host_is_users(target.url, settings):
            names = " and ".join(text for text in (target.token, target.secret) if text is not None)
            yield Kind.NOTIFY, f"{target.url}{f', with {names}' if names else ''}"
    known = settings.trust.hosts
    yield from ((Kind.HOSTS, host) for host in spec.allow_hosts if host not in known)
    for secret in spec.secrets:
        hosts = ", ".join(secret.hosts) or "any host, each time asked"
        yield Kind.SECRET, f"${{{secret.name}}} to {hosts}"


def _environment(spec: AgentSpec, allowed: Collection[str]) -> Iterator[tuple[Kind, str]]:
    places = {"its prompt": variables(spec.body, of_body=True)}
    if spec.model.base_url is not None:
        places["the address of its model"] = variables(spec.model.base_url, of_body=False)
    if spec.command_environment:
        places["its commands"] = list(spec.command_environment)
    if spec.sandbox is not None:
        places["the sandbox of its tools"] = list(spec.sandbox.environment)
    own = {secret.name for secret in spec.secrets}
    for place, names in places.items():
        yield from ((Kind.ENVIRONMENT, f"${{{name}}} in {place}") for name in names if name not in {*allowed, *own})


def _trigger_text(trigger: Trigger) -> str:
    if trigger.type == "schedule":
        zone = f" {trigger.timezone}" if trigger.timezone else ""
        return f"every {trigger.every:g} s" if trigger.every is not None else f"at {trigger.cron}{zone}"
    if trigger.type == "watch":
        return f"when files change: {', '.join(trigger.paths)}"
    return f"when a webhook is delivered, signed with {trigger.secret}"


def _servers(spec: AgentSpec, settings: Settings) -> Iterator[McpServer]:
    """The MCP servers of the agent that have an entry which can be used; others cannot be started."""
    if not spec.mcp:
        return
    with suppress(UsageError):
        file = read_mcp_file(settings.mcp_config)
        for name in spec.mcp:
            with suppress(UsageError):
                yield file.get(name)


def _of_server_entry(agent: str, server: McpServer, settings: Settings) -> Iterator[Item]:
    yield mcp_item(agent, server, settings)
    for name in server.variables:
        yield Item(agent, Kind.ENVIRONMENT, f"${{{name}}} to the MCP server {server.name}")


def mcp_item(agent: str | None, server: McpServer, settings: Settings) -> Item:
    """What starting or asking an MCP server is: its command or address with the variables of this moment, and all else
    that its entry has. Values of secrets are not shown."""
    given = [name for name, _ in (*server.env, *server.headers)]
    given += [f"cwd {server.cwd}"] if server.cwd else []
    given += [f"the file {server.env_file}"] if server.env_file else []
    text = f"{server.name}: {server.in_words()}" + (f", with {', '.join(given)}" if given else "")
    if not any(map(mcp_variables, server.place)):
        return Item(agent, Kind.MCP, text, server.digest)
    try:
        filled = server.filled(environ := _environ(settings), settings.workspace, settings.home).place
    except ConfigInvalid:  # a variable is missing: it cannot be started
        return Item(agent, Kind.MCP, text, server.digest)
    masked = {name: f"[secret {name}]" if is_secret_name(name) else value for name, value in environ.items()}
    shown = " ".join(server.filled(masked, settings.workspace, settings.home).place)
    shown = _USER_OF_ADDRESS.sub("", Redactor(settings.secrets(lenient=True)).text(shown))
    return Item(agent, Kind.MCP, f"{text} (now {shown})", json.dumps([server.digest, *filled]))


# Paths


def path_item(agent: str, path: Path, settings: Settings, writable: bool) -> Item | None:
    """What reaching a file or folder outside of the workspace is; None for one inside, which needs no yes."""
    outside = _outside(path, settings.workspace)
    if outside is None:
        return None
    return Item(agent, Kind.PATHS, f"{outside} ({'reads and writes' if writable else 'reads'})")


def _outside(path: Path, workspace: Path) -> str | None:
    """Where the path really leads, if that is not below the workspace."""
    real = Path(os.path.realpath(path))
    return None if real.is_relative_to(os.path.realpath(workspace)) else str(real)


def _shown(path: Path, workspace: Path) -> str:
    outside = _outside(path, workspace)
    if outside is not None:
        return outside
    return path.relative_to(workspace).as_posix() if path.is_relative_to(workspace) else str(path)
