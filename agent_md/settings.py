"""Finds the workspace, and reads its settings from config.yaml, the user's config, `.env` and the environment. Writes
nothing."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, cast

from agent_md.agents.defaults import SETTINGS, Defaults, non_empty
from agent_md.agents.files import Unreadable, decode, file_stamp, read_file
from agent_md.agents.spec import OnPending, RunSettings
from agent_md.agents.yaml_positions import MAX_BYTES
from agent_md.config_file import KEYS, ConfigFile, Layer, NamedKey, database_path, log_level, read_config
from agent_md.env_file import parse_env_file
from agent_md.errors import ConfigInvalid
from agent_md.redaction import is_secret_name
from agent_md.workspace import at_home, find_workspace

__all__ = [
    "KEYS",
    "HttpSettings",
    "RetentionSettings",
    "ServerSettings",
    "Settings",
    "TerminalSettings",
    "TrustSettings",
    "WebhookSettings",
    "load_settings",
    "users_terminal",
]


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """The server. Times in seconds; None = not set: without host and port it has a Unix socket only."""

    host: str | None = None
    port: int | None = None
    api_key: str | None = field(default=None, repr=False)
    keys: tuple[NamedKey, ...] = ()
    allowed_hosts: tuple[str, ...] = ()
    """Names by which the web page is reached, besides those of the address that is listened on."""
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
class RetentionSettings:
    """What is thrown away. `executions_days` is days after the end of an execution; None = it is kept for ever."""

    executions_days: int | None = None


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """Outgoing requests. `allow_hosts` are the hosts that may be on loopback, private or link-local addresses."""

    allow_hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TrustSettings:
    """What every workspace may do unasked: use these environment variables, and send to these hosts. Only the user's own
    config sets it."""

    environment: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TerminalSettings:
    """How a question calls somebody to the terminal that asks it. `notice`: `off`, or the sequence for a notice on the
    desktop that the terminal knows, `osc9` or `osc777`."""

    bell: bool = False
    notice: str = "off"


class DotenvFile:
    """A `.env` file, read again when it has changed: a key that is added counts in a server that runs."""

    def __init__(self, path: Path, *, lenient: bool = False) -> None:
        """`lenient`: one that is broken says nothing, and raises nothing."""
        self.keeps_last_good = False
        """Whether it says what it said before when it becomes broken."""
        self._path = path
        self._lenient = lenient
        self._read: tuple[object, dict[str, str]] | None = None
        self.mistake = ""
        """What was wrong when it was last read, if that was not raised."""

    def values(self) -> Mapping[str, str]:
        """What it says now; nothing if it is not there. Raises ConfigInvalid naming the line at fault."""
        stamp = file_stamp(self._path)
        if self._read is None or self._read[0] != stamp:
            self._read = stamp, self._values()
        return self._read[1]

    def _values(self) -> dict[str, str]:
        self.mistake = ""
        try:
            return _read_dotenv(self._path)
        except ConfigInvalid as error:
            before = self._read[1] if self.keeps_last_good and self._read is not None else None
            if before is None and not self._lenient:
                raise
            self.mistake = str(error)
            return before or {}


@dataclass(frozen=True, slots=True)
class Settings:
    """The effective configuration of a workspace; all paths are absolute, and need not exist."""

    workspace: Path
    home: Path
    """The user's home folder."""
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
    terminal: TerminalSettings
    http: HttpSettings
    retention: RetentionSettings
    trust: TrustSettings
    max_cost_usd_per_day: float | None
    """US dollars that all agents together may spend in a day; None = no limit."""
    prices: Path | None
    log_level: str
    allow_state_on: tuple[str, ...]
    """Types of file systems that hold state besides the local ones that are known."""
    redact_except: tuple[str, ...]
    """Variables that hold no secret, whatever their names are."""
    user_config: Path
    dotenv_file: DotenvFile = field(repr=False, compare=False)
    environ: Mapping[str, str] = field(repr=False)
    """The real environment when the settings were loaded."""
    own: Mapping[str, Any] = field(repr=False, compare=False)
    """What would be in effect without the workspace's config.yaml, `.env` and variables, by dotted keys."""
    origins: Mapping[str, str]
    """For each dotted key, and for `workspace`: `default`, `config.yaml`, the user config's path, or a variable."""
    remarks: tuple[str, ...] = ()
    """What the person should know of these files, one line each."""

    @property
    def dotenv(self) -> Mapping[str, str]:
        """What `.env` says now; secrets. Raises ConfigInvalid if it cannot be read any more."""
        return self.dotenv_file.values()

    def value(self, key: str) -> Any:
        """The setting of a dotted key of config.yaml; for `database` the path of its file."""
        if key in ("defaults.provider", "defaults.model"):
            return getattr(self.defaults, key.removeprefix("defaults."))
        value: Any = self
        for name in key.split("."):
            if not hasattr(value, name) and hasattr(value, "settings"):
                value = value.settings
            value = getattr(value, name)
        return value

    def secrets(self, names: Collection[str] = (), *, lenient: bool = False) -> dict[str, str]:
        """The values of variables that hold secrets: of `names`, and of those whose own name says so. Raises as `dotenv`;
        if `lenient` a broken `.env` has none."""
        try:
            environ: Mapping[str, str] = self.environment()
        except ConfigInvalid:
            if not lenient:
                raise
            environ = self.environ
        wanted = frozenset((*names, *(key.variable for key in self.server.keys)))
        found = {
            name: value
            for name, value in environ.items()
            if name in wanted or (is_secret_name(name) and name not in self.redact_except)
        }
        if self.server.api_key is not None:
            found.setdefault("AGENTMD_API_KEY", self.server.api_key)
        return found

    def environment(self) -> dict[str, str]:
        """`.env` under the real environment, which wins: where keys are looked up. Raises as `dotenv`."""
        return {**self.dotenv, **self.environ}


def load_settings(
    workspace: Path | None,
    *,
    environ: Mapping[str, str],
    cwd: Path,
    home: Path,
    lenient: bool = False,
    stops: bool = False,
) -> Settings:
    """The configuration of `workspace`, or without one of that which is found from `cwd`. Writes nothing.

    Raises ConfigInvalid naming the file and line of every mistake, or saying how to name a workspace. With `lenient`
    what is wrong in the user's config, `.env` and the environment is a remark, and the rest of them counts; with `stops`
    also what is wrong in the workspace's config.
    """
    root, found_by = find_workspace(workspace, environ, cwd, home)
    user_file = _user_config(environ, home)
    of_user = read_config(user_file, of_user=True)
    of_workspace = read_config(root / "config.yaml", of_user=False)
    dotenv_file = DotenvFile(root / ".env", lenient=lenient or stops)
    variables, wrong_variables = _variables(environ, dotenv_file.values())
    wrong = [text for text in (of_user.mistakes, dotenv_file.mistake, *wrong_variables) if text]
    of_it = [of_workspace.mistakes] if of_workspace.mistakes else []
    if refused := [*([] if stops else of_it), *([] if lenient or stops else wrong)]:
        raise ConfigInvalid("\n".join(refused))
    wrong += of_it
    layers = [
        ("default", _BUILT_IN),
        (str(user_file), of_user.values),
        ("config.yaml", of_workspace.values),
        *variables,
    ]
    values = {key: value for _, layer in layers for key, value in layer.items()}
    origins = {key: origin for origin, layer in layers for key in layer}
    values["defaults.model"] = _default_model([layer for _, layer in layers])
    place = _Place(root, home)
    agents_dir = place.path(values["agents_dir"])
    state_dir = place.path(values["state_dir"])
    database = state_dir / "agentmd.db" if values["database"] is None else place.path(database_path(values["database"]))
    return Settings(
        workspace=root,
        home=home,
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
        terminal=TerminalSettings(**_below(values, "terminal")),
        http=HttpSettings(**_below(values, "http")),
        retention=RetentionSettings(**_below(values, "retention")),
        trust=TrustSettings(**_below(values, "trust")),
        max_cost_usd_per_day=values["max_cost_usd_per_day"],
        prices=None if values["prices"] is None else place.path(values["prices"]),
        log_level=values["log_level"],
        allow_state_on=values["allow_state_on"],
        redact_except=values["redact_except"],
        user_config=user_file,
        dotenv_file=dotenv_file,
        environ=dict(environ),
        own={**_BUILT_IN, **of_user.values},
        origins={"workspace": found_by, **origins},
        remarks=(*_foreign(user_file, of_user), *map(_left_out, wrong)),
    )


def users_terminal(environ: Mapping[str, str], home: Path) -> TerminalSettings:
    """The terminal settings of the user's own config, for a command without a workspace; invalid values are ignored."""
    values = read_config(_user_config(environ, home), of_user=True).values
    return TerminalSettings(**_below({**_dotted("terminal", TerminalSettings()), **values}, "terminal"))


def _left_out(mistakes: str) -> str:
    first, *more = mistakes.split("\n")
    return f"not read here: {first}" + (f" (and {len(more)} more)" if more else "")


def _foreign(path: Path, config: ConfigFile) -> list[str]:
    if not config.foreign:
        return []
    named = " and ".join(f"`{key}`" for key in config.foreign)
    another = "is a key" if len(config.foreign) == 1 else "are keys"
    return [
        f"{path}: {named} {another} of another program, and not read here; "
        "name a workspace with --workspace or AGENTMD_WORKSPACE"
    ]


def _dotted(section: str, value: Any) -> Layer:
    pairs = {f"{section}.{item.name}": getattr(value, item.name) for item in fields(value)}
    return {key: default for key, default in pairs.items() if key in KEYS}


_BUILT_IN: Layer = {
    **dict.fromkeys(KEYS),
    "agents_dir": "agents",
    "state_dir": ".agentmd",
    "log_level": "INFO",
    "allow_state_on": (),
    "redact_except": (),
    **_dotted("defaults", RunSettings()),
    **_dotted("defaults", Defaults()),
    **_dotted("server", ServerSettings()),
    **_dotted("webhooks", WebhookSettings()),
    **_dotted("terminal", TerminalSettings()),
    **_dotted("http", HttpSettings()),
    **_dotted("retention", RetentionSettings()),
    **_dotted("trust", TrustSettings()),
}


def _read_dotenv(path: Path) -> dict[str, str]:
    if path.is_dir() or not os.path.lexists(path):  # a folder of this name is a Python environment
        return {}
    try:
        return parse_env_file(decode(read_file(path, MAX_BYTES)), str(path))
    except Unreadable as error:
        raise ConfigInvalid(f"{path}: the file {error}") from None


def _variables(environ: Mapping[str, str], dotenv: Mapping[str, str]) -> tuple[list[tuple[str, Layer]], list[str]]:
    """The layers that variables make, and what is wrong with the others."""
    layers: list[tuple[str, Layer]] = []
    wrong = []
    for name, key, parse in (
        ("AGENTMD_API_KEY", "server.api_key", non_empty),
        ("AGENTMD_LOG_LEVEL", "log_level", log_level),
    ):
        text = environ.get(name) or dotenv.get(name)
        if text:
            try:
                layers.append((name, {key: parse(text)}))
            except ValueError as error:
                wrong.append(f"the environment variable {name}: {error}")
    return layers, wrong


def _default_model(layers: list[Layer]) -> str | None:
    """The default model's name; a layer that changes the provider leaves the models of the layers below behind."""
    provider = model = None
    for layer in layers:
        if layer.get("defaults.provider", provider) != provider:
            provider, model = layer["defaults.provider"], None
        model = layer.get("defaults.model", model)
    return model


def _defaults(values: Layer) -> Defaults:
    own = {key: value for key, value in _below(values, "defaults").items() if key not in SETTINGS}
    run = {key: values[f"defaults.{key}"] for key in SETTINGS}
    return Defaults(**{**own, "settings": RunSettings(**run), "on_pending": cast(OnPending, own["on_pending"])})


def _below(values: Layer, section: str) -> dict[str, Any]:
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
