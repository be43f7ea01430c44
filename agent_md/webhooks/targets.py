"""The targets of webhooks: those of the agent file, and the one of a message."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

import httpx

from agent_md.agents import value_formats
from agent_md.agents.spec import AgentSpec, NotifyTarget
from agent_md.errors import UsageError
from agent_md.executions.deliveries import MESSAGE_TARGET, HookEvent
from agent_md.executions.execution import HookTarget
from agent_md.webhooks.signing import check_token, key_of

__all__ = ["check_target", "filled", "lane_of", "named_targets", "notify_target", "value_of"]

_LONGEST_URL = 2048
_NOTIFY = "notify:"
_PLACEHOLDER = re.compile(r"\$\{(\w+)\}", re.ASCII)


def check_target(target: HookTarget) -> HookTarget:
    """The target that a client gave, if it can be used. Where its host is, is seen at each delivery.

    Raises UsageError, whose text shows neither token nor secret.
    """
    try:
        value_formats.hook_url(target.url)
        if len(target.url) > _LONGEST_URL:
            raise ValueError(f"the address is longer than {_LONGEST_URL} characters")
        httpx.URL(target.url)  # of names that are not ASCII not all are names of hosts
        if target.token is not None:
            check_token(target.token)
        if target.secret is not None:
            key_of(target.secret)
    except (ValueError, httpx.InvalidURL) as error:
        raise UsageError(f"the webhook cannot be used: {error}") from None
    return target


def named_targets(spec: AgentSpec, hook: HookTarget | None, event: HookEvent) -> Iterator[tuple[str, str]]:
    """The names and addresses of the targets of an event: the agent's, and that of the message, which is notified about
    its turn but not about single calls."""
    for number, target in enumerate(spec.notify):
        if not target.events or event in target.events:
            yield f"{_NOTIFY}{number}", target.url
    if hook is not None and event is not HookEvent.UNKNOWN:
        yield MESSAGE_TARGET, hook.url


def notify_target(spec: AgentSpec, name: str) -> NotifyTarget:
    """The target of the agent that has this name."""
    return spec.notify[int(name.removeprefix(_NOTIFY))]


def filled(target: NotifyTarget, environment: Mapping[str, str]) -> HookTarget:
    """The target with the values of its placeholders. Raises ValueError naming a variable that is not set."""
    token, secret = (
        None if text is None else value_of(text, environment, "notify") for text in (target.token, target.secret)
    )
    return HookTarget(target.url, token, secret)


def value_of(placeholder: str, environment: Mapping[str, str], field: str) -> str:
    """The value of a `${NAME}` of this field of an agent file. Raises ValueError naming a variable that is not set."""
    found = _PLACEHOLDER.fullmatch(placeholder)
    name = found[1] if found else ""
    if not environment.get(name):
        raise ValueError(f"the variable {name} of `{field}` is not set; put it into .env or the environment")
    return environment[name]


def lane_of(url: str) -> str:
    """Scheme, host and port of an address, in ASCII: all of it that a log may show."""
    parts = urlsplit(url)
    host = (parts.hostname or "").encode("ascii", "backslashreplace").decode()
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}:{port}"
