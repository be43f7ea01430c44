"""Which workspace is meant, and what its config.yaml, the user's, `.env` and the environment say; read-only."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from agent_md.agents import formats
from agent_md.agents.defaults import HISTORY, ON_PENDING, PROVIDERS, SETTINGS, Defaults, non_empty, read_settings, rule
from agent_md.agents.files import Unreadable, decode, file_stamp, read_file
from agent_md.agents.names import agent_name
from agent_md.agents.source import Source
from agent_md.agents.spec import OnPending, RunSettings
from agent_md.agents.values import Section
from agent_md.agents.yamltree import MAX_BYTES, load_mapping
from agent_md.dotenv import parse_dotenv
from agent_md.errors import ConfigInvalid
from agent_md.workspace import at_home, find_workspace

__all__ = [
    "KEYS",
    "HttpSettings",
    "ServerSettings",
    "Settings",
    "WebhookSettings",
    "load_settings",
]

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
ROLES = ("user", "assistant", "system", "tool")


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The server. Times in seconds; None = not set: without host and port it has a Unix socket only."""

    host: str | None = None
    port: int | None = None
    api_key: str | None = field(default=None, repr=False)
    max_concurrent: int = 32
    max_sessions: int | None = None
    session_ttl: float | None = None
    default_agent: str | None = None
    allow_custom_ids: bool = False
    trusted_roles: tuple[str, ...] = ("user",)


@dataclass(frozen=True, slots=True)
class WebhookSettings:
    """Webhooks. `interrupt_delay` in seconds."""

    interrupt_delay: float = 5.0


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Outgoing requests. `allow_hosts` are the hosts that may be on loopback, private or link-local addresses."""

    allow_hosts: tuple[str, ...] = ()


class DotenvFile:
    """A `.env` file, read again when it has changed: a key that is added counts in a server that runs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read: tuple[object, dict[str, str]] | None = None

    def values(self) -> Mapping[str, str]:
        """What it says now; nothing if it is not there. Raises ConfigInvalid naming the line at fault."""
        stamp = file_stamp(self._path)
        if self._read is None or self._read[0] != stamp:
            self._read = stamp, _read_dotenv(self._path)
        return self._read[1]


@dataclass(frozen=True, slots=True)
class Settings:
    """The effective configuration of a workspace; all paths are absolute, and need not exist."""

    workspace: Path
    agents_dir: Path
    state_dir: Path
    database: Path
    checkpoint_database: Path
    tools_dir: Path
    skills_dir: Path
    mcp_config: Path
    defaults: Defaults
    server: ServerSettings
    webhooks: WebhookSettings
    http: HttpSettings
    prices: Path | None
    log_level: str
    allow_state_on: tuple[str, ...]
    """Types of file systems that hold state besides the local ones that are known."""
    user_config: Path
    dotenv_file: DotenvFile = field(repr=False, compare=False)
    environ: Mapping[str, str] = field(repr=False)
    """The real environment when the settings were loaded."""
    origins: Mapping[str, str]
    """For each dotted key, and for `workspace`: `default`, `config.yaml`, the user config's path, or a variable."""

    @property
    def dotenv(self) -> Mapping[str, str]:
        """What `.env` says now; secrets. Raises ConfigInvalid if it cannot be read any more."""
        return self.dotenv_file.values()

    def environment(self) -> dict[str, str]:
        """`.env` under the real environment, which wins: where keys are looked up. Raises as `dotenv`."""
        return {**self.dotenv, **self.environ}


def load_settings(workspace: Path | None, *, environ: Mapping[str, str], cwd: Path, home: Path) -> Settings:
    """The configuration of `workspace`, or without one of that which is found from `cwd`. Writes nothing.

    Raises ConfigInvalid naming the file and line of every mistake, or saying how to name a workspace.
    """
    root, found_by = find_workspace(workspace, environ, cwd, home)
    user_file = _user_config(environ, home)
    dotenv_file = DotenvFile(root / ".env")
    layers = [
        ("default", _BUILT_IN),
        (str(user_file), _read_config(user_file)),
        ("config.yaml", _read_config(root / "config.yaml", of_user=False)),
        *_variables(environ, dotenv_file.values()),
    ]
    values = {key: value for _, layer in layers for key, value in layer.items()}
    origins = {key: origin for origin, layer in layers for key in layer}
    values["defaults.model"] = _default_model([layer for _, layer in layers])
    place = _Place(root, home)
    agents_dir = place.path(values["agents_dir"])
    state_dir = place.path(values["state_dir"])
    database = state_dir / "agentmd.db" if values["database"] is None else place.path(_database(values["database"]))
    return Settings(
        workspace=root,
        agents_dir=agents_dir,
        state_dir=state_dir,
        database=database,
        checkpoint_database=database.with_name(f"{database.stem}_checkpoints.db"),
        tools_dir=place.path(values["tools_dir"] or agents_dir / "_config" / "tools"),
        skills_dir=place.path(values["skills_dir"] or agents_dir / "_config" / "skills"),
        mcp_config=place.path(values["mcp_config"] or agents_dir / "_config" / "mcp-servers.json"),
        defaults=_defaults(values),
        server=ServerSettings(**_below(values, "server")),
        webhooks=WebhookSettings(**_below(values, "webhooks")),
        http=HttpSettings(**_below(values, "http")),
        prices=None if values["prices"] is None else place.path(values["prices"]),
        log_level=values["log_level"],
        allow_state_on=values["allow_state_on"],
        user_config=user_file,
        dotenv_file=dotenv_file,
        environ=dict(environ),
        origins={"workspace": found_by, **origins},
    )


_Reader = Callable[[Section, str], Any]
_Layer = Mapping[str, Any]


def _one_of(words: tuple[str, ...]) -> _Reader:
    return lambda section, key: section.word(key, words, None)


def _as(parse: Callable[[str], Any]) -> _Reader:
    return lambda section, key: section.text(key, parse, None)


def _list_of(parse: Callable[[str], Any]) -> _Reader:
    return lambda section, key: section.texts(key, parse, ())


def _whole(low: int, high: int = 10**9) -> _Reader:
    return lambda section, key: section.integer(key, None, low, high)


def _whole_or_none(low: int) -> _Reader:
    return lambda section, key: section.integer_or_none(key, None, low)


def _setting(section: Section, key: str) -> Any:
    return getattr(read_settings(section, RunSettings()), key)


def _history(section: Section, key: str) -> Any:
    return HISTORY.get(section.word(key, HISTORY, ""))


def _days(section: Section, key: str) -> Any:
    return section.integer_or_none(key, None, 0) or None


def _database(text: str) -> str:
    """The path that a path or URL names. Raises ValueError for what is no SQLite file."""
    if "://" not in text and not text.startswith(("file:", "sqlite:")):
        return formats.path(text)
    parts = urlsplit(text)
    if parts.scheme not in ("file", "sqlite"):
        raise ValueError(f"databases of kind {parts.scheme} are not supported yet; write the path of an SQLite file")
    local = parts.netloc in (("", "localhost") if parts.scheme == "file" else ("",))
    path = unquote(parts.path.removeprefix("/") if parts.scheme == "sqlite" else parts.path)
    if not local or parts.query or parts.fragment or path in ("", ":memory:"):
        raise ValueError("expected a file on this machine, such as sqlite:///data/agentmd.db, with nothing behind it")
    return path


def _database_text(text: str) -> str:
    _database(text)
    return text


def _role(text: str) -> str:
    if text not in ROLES:
        raise ValueError(f'"{text}" is not a role; the roles are {", ".join(ROLES)}')
    return text


def _file_system(text: str) -> str:
    if not text or any(not char.isprintable() or char.isspace() for char in text):
        raise ValueError(f'"{text}" is not the type of a file system such as fuse.gocryptfs')
    return text


def _log_level(text: str) -> str:
    if text.upper() not in LOG_LEVELS:
        raise ValueError(f'"{text}" is not a level; the levels are {", ".join(LOG_LEVELS)}')
    return text.upper()


_READERS: dict[str, _Reader] = {
    "agents_dir": _as(formats.path),
    "state_dir": _as(formats.path),
    "database": _as(_database_text),
    "tools_dir": _as(formats.path),
    "skills_dir": _as(formats.path),
    "mcp_config": _as(formats.path),
    "defaults.provider": _one_of(PROVIDERS),
    "defaults.model": _as(non_empty),
    **{f"defaults.{key}": _setting for key in SETTINGS},
    "defaults.history": _history,
    "defaults.on_pending": _one_of(ON_PENDING),
    "defaults.confirm_timeout": _as(formats.time_limit),
    "defaults.confirm_tools": _list_of(rule),
    "defaults.checkpoint_retention_days": _days,
    "defaults.max_agent_depth": _whole(0, 100),
    "server.host": _as(formats.host),
    "server.port": _whole(0, 65_535),
    "server.api_key": lambda section, key: section.secret(key, non_empty),
    "server.max_concurrent": _whole(1),
    "server.max_sessions": _whole_or_none(1),
    "server.session_ttl": _as(formats.time_limit),
    "server.default_agent": _as(agent_name),
    "server.allow_custom_ids": lambda section, key: section.flag(key, False),
    "server.trusted_roles": _list_of(_role),
    "webhooks.interrupt_delay": _as(formats.duration),
    "http.allow_hosts": _list_of(formats.host),
    "prices": _as(formats.path),
    "log_level": _as(_log_level),
    "allow_state_on": _list_of(_file_system),
}
_OF_USER = ("allow_state_on",)
"""Keys of the user's config alone: a workspace may come from elsewhere, and does not say what this machine's disks are."""
KEYS = tuple(_READERS)
"""Every key of config.yaml, dotted."""

_SECTIONS = tuple(dict.fromkeys(key.partition(".")[0] for key in KEYS if "." in key))
_ELSEWHERE = {key.partition(".")[2]: key for key in KEYS if "." in key}


def _dotted(section: str, value: Any) -> _Layer:
    pairs = {f"{section}.{item.name}": getattr(value, item.name) for item in fields(value)}
    return {key: default for key, default in pairs.items() if key in _READERS}


_BUILT_IN: _Layer = {
    **dict.fromkeys(KEYS),
    "agents_dir": "agents",
    "state_dir": ".agentmd",
    "log_level": "INFO",
    "allow_state_on": (),
    **_dotted("defaults", RunSettings()),
    **_dotted("defaults", Defaults()),
    **_dotted("server", ServerSettings()),
    **_dotted("webhooks", WebhookSettings()),
    **_dotted("http", HttpSettings()),
}


def _read_config(path: Path, *, of_user: bool = True) -> _Layer:
    """The keys that the file gives, with their values. A file that does not exist gives none."""
    if not os.path.lexists(path):
        return {}
    try:
        text = decode(read_file(path, MAX_BYTES))
    except Unreadable as error:
        raise ConfigInvalid(f"{path}: the file {error}") from None
    source = Source(str(path), text)
    mapping = load_mapping(source)
    values = {} if mapping is None else _read_keys(Section(source, mapping), of_user=of_user)
    source.raise_mistakes(ConfigInvalid)
    return values


def _read_keys(top: Section, *, of_user: bool) -> _Layer:
    for key in _OF_USER:
        if not of_user and key in top.mapping.entries:
            top.note(key, "only the user's own config may say so; see `agentmd info` for what is in effect")
    sections = {name: top.section(name) for name in _SECTIONS}
    top.check_keys((*(key for key in KEYS if "." not in key), *_SECTIONS), _ELSEWHERE)
    for name, section in sections.items():
        section.check_keys([key.partition(".")[2] for key in KEYS if key.startswith(f"{name}.")])
    values = {}
    for key, read in _READERS.items():
        name, dotted, rest = key.partition(".")
        section, last = (sections[name], rest) if dotted else (top, key)
        if section.node(last) is not None:
            values[key] = read(section, last)
    return values


def _read_dotenv(path: Path) -> dict[str, str]:
    if path.is_dir() or not os.path.lexists(path):  # a folder of this name is a Python environment
        return {}
    try:
        return parse_dotenv(decode(read_file(path, MAX_BYTES)), str(path))
    except Unreadable as error:
        raise ConfigInvalid(f"{path}: the file {error}") from None


def _variables(environ: Mapping[str, str], dotenv: Mapping[str, str]) -> list[tuple[str, _Layer]]:
    layers: list[tuple[str, _Layer]] = []
    for name, key, parse in (
        ("AGENTMD_API_KEY", "server.api_key", non_empty),
        ("AGENTMD_LOG_LEVEL", "log_level", _log_level),
    ):
        text = environ.get(name) or dotenv.get(name)
        if text:
            try:
                layers.append((name, {key: parse(text)}))
            except ValueError as error:
                raise ConfigInvalid(f"the environment variable {name}: {error}") from None
    return layers


def _default_model(layers: list[_Layer]) -> str | None:
    """The default model's name; a layer that changes the provider leaves the models of the layers below behind."""
    provider = model = None
    for layer in layers:
        if layer.get("defaults.provider", provider) != provider:
            provider, model = layer["defaults.provider"], None
        model = layer.get("defaults.model", model)
    return model


def _defaults(values: _Layer) -> Defaults:
    own = {key: value for key, value in _below(values, "defaults").items() if key not in SETTINGS}
    run = {key: values[f"defaults.{key}"] for key in SETTINGS}
    return Defaults(**{**own, "settings": RunSettings(**run), "on_pending": cast(OnPending, own["on_pending"])})


def _below(values: _Layer, section: str) -> dict[str, Any]:
    return {key.partition(".")[2]: value for key, value in values.items() if key.startswith(f"{section}.")}


@dataclass(frozen=True, slots=True)
class _Place:
    """Where relative paths and `~` of a config start."""

    workspace: Path
    home: Path

    def path(self, text: str | Path) -> Path:
        return Path(os.path.normpath(self.workspace / at_home(str(text), self.home)))


def _user_config(environ: Mapping[str, str], home: Path) -> Path:
    base = environ.get("XDG_CONFIG_HOME", "")
    return (Path(base) if os.path.isabs(base) else home / ".config") / "agentmd" / "config.yaml"
