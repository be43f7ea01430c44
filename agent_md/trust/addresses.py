"""Where a model is asked: whether that is the provider's own host or one that the user allows everywhere."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from urllib.parse import urlsplit

from agent_md.agents.spec import AgentSpec
from agent_md.errors import ConfigInvalid
from agent_md.models.factory import keys_of, own_address, with_address
from agent_md.outbound.addresses import host_allowed, plain_host
from agent_md.redaction import Redactor
from agent_md.settings import Settings
from agent_md.trust.items import Item, Kind

__all__ = ["host_is_users", "model_item"]


def model_item(spec: AgentSpec, settings: Settings, environ: Mapping[str, str]) -> Item | None:
    """What asking the agent's model would send, and where to; None where the user need not be asked: at the provider's own
    address, or at a host of `trust.hosts` of the user's config. What holds a secret is not shown."""
    written = spec.model.base_url
    if written is None:
        return None
    address = written
    with suppress(ConfigInvalid):  # a variable is missing: nothing can be sent
        address = with_address(spec.model, environ).base_url or written
    own = own_address(spec.model.provider)
    if own is not None and _origin(address) == _origin(own) is not None:
        return None
    if host_is_users(address, settings):
        return None
    keys = " or ".join(keys_of(spec.model.provider))
    shown = written if address == written else f"{written} (now {_lane(address)})"
    text = Redactor(settings.secrets(lenient=True)).text(shown)
    return Item(spec.name, Kind.MODEL, f"{text}{f', with {keys}' if keys else ''}")


def host_is_users(address: str, settings: Settings) -> bool:
    """Whether the address has a host that the user's own config allows every workspace to send to."""
    with suppress(ValueError):
        host = urlsplit(address).hostname
        return host is not None and host_allowed(host, {plain_host(known) for known in settings.trust.hosts})
    return False


def _origin(address: str) -> tuple[str, str | None, int | None] | None:
    """Scheme, host and port; None for an address with a name or password in it, or that is none."""
    with suppress(ValueError):
        parts = urlsplit(address)
        if parts.username is None and parts.password is None:
            return parts.scheme, parts.hostname, parts.port
    return None


def _lane(address: str) -> str:
    """Scheme, host and port, to be shown."""
    with suppress(ValueError):
        parts = urlsplit(address)
        port = "" if parts.port is None else f":{parts.port}"
        return f"{parts.scheme}://{parts.hostname}{port}"
    return "no address"
