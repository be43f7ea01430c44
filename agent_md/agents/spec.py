"""`AgentSpec`: an agent file as frozen, typed data, and its stored form.

A spec is complete in itself: every default of config.yaml is resolved into it, so an execution that waits needs
neither the file nor the config again.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

__all__ = [
    "SPEC_FORMAT",
    "AgentSpec",
    "ModelRef",
    "NotifyTarget",
    "OnPending",
    "PathMount",
    "RunSettings",
    "SandboxSettings",
    "Secret",
    "SpecOrigin",
    "Trigger",
]

SPEC_FORMAT = 1
"""Format number of stored specs; a change that old executions could not read raises it."""

OnPending = Literal["skip", "parallel"]


@dataclass(frozen=True, slots=True)
class ModelRef:
    """Which model answers: `provider/name`, and where, if not at the provider's usual address."""

    provider: str
    name: str
    base_url: str | None = None

    def __str__(self) -> str:
        return f"{self.provider}/{self.name}"


@dataclass(frozen=True, slots=True)
class RunSettings:
    """Limits and model parameters of one execution. Times in seconds of work, money in US dollars; None = unset."""

    temperature: float | None = None
    max_tokens: int | None = None
    timeout: float = 1800
    max_tool_calls: int = 50
    max_execution_tokens: int = 500_000
    max_cost_usd: float | None = None
    max_cost_usd_per_day: float | None = None
    loop_detection: bool = True
    max_tool_result_bytes: int = 100_000


@dataclass(frozen=True, slots=True)
class Trigger:
    """What starts the agent. Fields that its `type` does not have are None or empty; times are in seconds."""

    type: Literal["manual", "schedule", "watch", "webhook"] = "manual"
    every: float | None = None
    cron: str | None = None
    timezone: str | None = None
    catch_up: Literal["skip", "once", "all"] = "once"
    paths: tuple[str, ...] = ()
    debounce: float = 1.0
    ignore: tuple[str, ...] = ()
    secret: str | None = None
    """The placeholder `${NAME}` of what deliveries are signed with."""


@dataclass(frozen=True, slots=True)
class PathMount:
    """One folder or file that the file tools may reach as `{alias}/…`; `path` as written in the file."""

    alias: str
    path: str
    description: str = ""
    mode: Literal["ro", "rw"] = "rw"


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """What the sandboxed processes of an agent's tools have besides its paths: these variables, and so much memory each."""

    environment: tuple[str, ...] = ()
    memory_mb: int = 4096


@dataclass(frozen=True, slots=True)
class Secret:
    """A placeholder `${name}` that may be filled for these hosts; no hosts = every use asks a human."""

    name: str
    hosts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NotifyTarget:
    """A webhook of the agent; `token` and `secret` are `${NAME}` placeholders, `events` empty = all."""

    url: str
    token: str | None = None
    secret: str | None = None
    events: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SpecOrigin:
    """The sources of a spec: SHA-256 of its agent file, and of the defaults for all agents."""

    file: str
    defaults: str
    other_model: bool = False
    """Whether its model was named for one execution, instead of that of the file."""


@dataclass(frozen=True, slots=True)
class AgentSpec:
    """One agent, ready to run. Rules (`confirm`, `auto_approve`, `deny`, `confirm_tools`) are kept as written."""

    name: str
    body: str
    model: ModelRef
    description: str = ""
    icon: str = ""
    enabled: bool = True
    settings: RunSettings = field(default_factory=RunSettings)
    trigger: Trigger = field(default_factory=Trigger)
    history: int = 10
    confirm_tools: tuple[str, ...] = ("file_delete", "file_write")
    confirm: tuple[str, ...] = ()
    auto_approve: tuple[str, ...] = ()
    """`("*",)` lifts every guard but `deny`."""
    deny: tuple[str, ...] = ()
    allow_hosts: tuple[str, ...] = ()
    on_pending: OnPending = "skip"
    confirm_timeout: float | None = None
    """Seconds until an unanswered request expires; None = never."""
    paths: tuple[PathMount, ...] = ()
    tools: tuple[str, ...] = ()
    mcp: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    agents: tuple[str, ...] = ()
    secrets: tuple[Secret, ...] = ()
    command_environment: tuple[str, ...] = ()
    """Variables that commands of `run_command` get besides those that every program has."""
    sandbox: SandboxSettings | None = None
    """None = custom tools run in this process, but those that ask for a sandbox."""
    notify: tuple[NotifyTarget, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)
    source_path: str = ""
    """The agent file relative to the workspace, with `/`."""
    origin: SpecOrigin | None = field(default=None, compare=False)
    """None in specs that older versions stored."""
    format: int = SPEC_FORMAT

    def to_json(self) -> str:
        """The stored form: JSON with sorted keys, the same text for equal specs."""
        return json.dumps(asdict(self), sort_keys=True, ensure_ascii=False, separators=(",", ":"))

    @property
    def digest(self) -> str:
        """SHA-256 of the stored form; two specs with one digest behave the same."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def with_model(self, model: ModelRef) -> AgentSpec:
        """With another model. One of the same provider is reached at the same address."""
        if model.base_url is None and model.provider == self.model.provider:
            model = replace(model, base_url=self.model.base_url)
        return replace(self, model=model, origin=self.origin and replace(self.origin, other_model=True))

    @property
    def behaviour_digest(self) -> str:
        """As `digest`, but without where it came from: equal exactly for specs that behave the same."""
        return replace(self, origin=None).digest

    @classmethod
    def from_json(cls, text: str) -> AgentSpec:
        """The spec that `to_json` wrote. Raises ValueError if its format is newer than this program knows."""
        data = json.loads(text)
        if data.get("format", 0) > SPEC_FORMAT:
            raise ValueError(f"the spec has format {data['format']}, this agentmd knows up to {SPEC_FORMAT}")
        tuples = ("confirm_tools", "confirm", "auto_approve", "deny", "allow_hosts", "tools", "mcp", "skills", "agents")
        for name in tuples:
            data[name] = tuple(data[name])
        data["command_environment"] = tuple(data.get("command_environment", ()))
        data["model"] = ModelRef(**data["model"])
        data["settings"] = RunSettings(**data["settings"])
        data["trigger"] = _with_tuples(Trigger, data["trigger"], ("paths", "ignore"))
        data["paths"] = tuple(PathMount(**p) for p in data["paths"])
        data["secrets"] = tuple(_with_tuples(Secret, s, ("hosts",)) for s in data["secrets"])
        sandbox = data.get("sandbox")
        data["sandbox"] = None if sandbox is None else _with_tuples(SandboxSettings, sandbox, ("environment",))
        data["notify"] = tuple(_with_tuples(NotifyTarget, n, ("events",)) for n in data["notify"])
        data["origin"] = None if data.get("origin") is None else SpecOrigin(**data["origin"])
        return cls(**data)


def _with_tuples(kind: Any, data: dict[str, Any], names: tuple[str, ...]) -> Any:
    return kind(**{k: tuple(v) if k in names else v for k, v in data.items()})
