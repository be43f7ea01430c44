"""Generates the unit of systemd, or the property list of launchd."""

from __future__ import annotations

import hashlib
import plistlib
import re
from dataclasses import dataclass
from pathlib import Path

from agent_md.errors import UsageError

__all__ = ["STOP_S", "Service", "is_as_written", "launchd_plist", "systemd_unit"]

STOP_S = 20
"""How long the service manager waits after it asked the server to stop; the server ends what runs within a few seconds."""
_RESTART_S = 10
_SLUG_LENGTH = 40
_DIGEST = re.compile(r"# sha256 of the lines below: ([0-9a-f]{64})\n")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_NOT_IN_PROGRAMS = re.compile(r"[\"'\\]")


@dataclass(frozen=True, slots=True)
class Service:
    """The input of a service manager: the absolute path of the workspace, and the command that starts its server, which
    starts with the absolute path of a program.

    Raises UsageError for values that a service file cannot contain."""

    workspace: Path
    command: tuple[str, ...]

    def __post_init__(self) -> None:
        for text in (str(self.workspace), *self.command):
            if _CONTROL.search(text):
                raise UsageError(f"no service can be made for {text!r}: the path has control characters; rename it")

    @property
    def name(self) -> str:
        """A name that only this workspace has: `agentmd-FOLDER-DIGEST`."""
        slug = re.sub(r"[^A-Za-z0-9]+", "-", self.workspace.name).strip("-")[:_SLUG_LENGTH] or "workspace"
        return f"agentmd-{slug}-{hashlib.sha256(str(self.workspace).encode()).hexdigest()[:8]}"


def systemd_unit(service: Service) -> str:
    """The unit. Raises UsageError if systemd does not take the path of the interpreter."""
    program, *arguments = service.command
    if _NOT_IN_PROGRAMS.search(program):
        raise UsageError(
            f"systemd starts no program whose path has quotes or backslashes: {program}; install agentmd elsewhere"
        )
    # The program is not subject to `$` substitution, its arguments are.
    words = [_quoted(program), *(_quoted(text.replace("$", "$$")) for text in arguments)]
    body = f"""\
[Unit]
Description=agentmd server ({_percent(str(service.workspace))})
StartLimitIntervalSec=0

[Service]
Type=exec
ExecStart={" ".join(words)}
Environment={_quoted(f"AGENTMD_WORKSPACE={service.workspace}")}
Restart=on-failure
RestartSec={_RESTART_S}
KillMode=mixed
TimeoutStopSec={STOP_S}
OOMPolicy=continue

[Install]
WantedBy=default.target
"""
    return f"""\
# A service of agentmd. `agentmd service install` writes this file, `agentmd service uninstall` removes it.
# Changes of yours belong into `systemctl --user edit {service.name}`.
# sha256 of the lines below: {hashlib.sha256(body.encode()).hexdigest()}
{body}"""


def is_as_written(unit: str) -> bool:
    """Whether a unit is one of `systemd_unit`, and nobody has changed it."""
    found = _DIGEST.search(unit)
    return found is not None and found[1] == hashlib.sha256(unit[found.end() :].encode()).hexdigest()


def launchd_plist(service: Service, home: Path) -> str:
    """The property list of a launchd agent. What the server prints goes to `~/Library/Logs`."""
    log = str(home / "Library/Logs" / f"{service.name}.log")
    entries = {
        "Label": service.name,
        "ProgramArguments": list(service.command),
        "EnvironmentVariables": {"AGENTMD_WORKSPACE": str(service.workspace)},
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": _RESTART_S,
        "ExitTimeOut": STOP_S,
        "StandardOutPath": log,
        "StandardErrorPath": log,
    }
    return plistlib.dumps(entries, sort_keys=False).decode()


def _percent(text: str) -> str:
    return text.replace("%", "%%")


def _quoted(text: str) -> str:
    escaped = _percent(text).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
