"""The text that agentmd appends to the system message: its paths, hosts and secrets, and the current date."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from agent_md.agents.spec import AgentSpec, PathMount, Secret

__all__ = ["briefing"]

_MODES = {"ro": "read only", "rw": "read and write"}
_DAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def briefing(spec: AgentSpec, now: datetime, notices: Sequence[str] = ()) -> str:
    """The text for a call of the model at `now`, which has its zone, with `notices` about its tools. What changes, the day, comes last: so what a
    provider keeps of the prompt stays good."""
    lines = []
    if spec.paths:
        lines = ["Files are reached below these names only:", *map(_mount, spec.paths), ""]
    lines += [*map(_notice, notices), ""] if notices else []
    if spec.allow_hosts:
        lines += [f"http_request reaches these hosts only: {', '.join(spec.allow_hosts)}", ""]
    if spec.secrets:
        lines += [
            "In headers and queries of http_request these stand for secrets, whose values you never see:",
            *map(_secret, spec.secrets),
            "",
        ]
    offset = now.strftime("%z")
    zone = f"UTC{offset[:3]}:{offset[3:5]}"
    name = now.tzname()
    day = f"{_DAYS[now.weekday()]}, {now:%Y-%m-%d}"
    lines.append(f"Today is {day}, in the zone {zone if not name or name == zone else f'{name} ({zone})'}.")
    return "\n".join(lines)


def _secret(secret: Secret) -> str:
    return f"- ${{{secret.name}}}, for {', '.join(secret.hosts) or 'any host, if a human agrees to the call'}"


def _notice(text: str) -> str:
    return " ".join(text.split())


def _mount(mount: PathMount) -> str:
    about = f": {' '.join(mount.description.split())}" if mount.description.strip() else ""
    return f"- {mount.alias}/ ({_MODES[mount.mode]}){about}"
