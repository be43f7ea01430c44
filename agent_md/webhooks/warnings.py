"""Warnings about webhooks of an agent that cannot be delivered."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from ipaddress import ip_address
from urllib.parse import urlsplit

from agent_md.agents.spec import AgentSpec, NotifyTarget
from agent_md.errors import UsageError
from agent_md.outbound.addresses import host_allowed, is_public, plain_host
from agent_md.webhooks.targets import check_target, filled

__all__ = ["target_warnings"]


def target_warnings(spec: AgentSpec, environment: Mapping[str, str], allow_hosts: Collection[str]) -> list[str]:
    """One text for each reason why a target of `notify` would get nothing. Does not resolve host names."""
    allowed = {plain_host(host) for host in allow_hosts}
    found = [doubt for target in spec.notify for doubt in (*_unusable(target, environment), *_private(target, allowed))]
    return list(dict.fromkeys(found))


def _unusable(target: NotifyTarget, environment: Mapping[str, str]) -> Iterator[str]:
    for part in (replace(target, secret=None), replace(target, token=None)):
        try:
            check_target(filled(part, environment))
        except (ValueError, UsageError) as error:
            yield f"{error}; until then nothing is sent to {urlsplit(target.url).hostname}"


def _private(target: NotifyTarget, allowed: Collection[str]) -> Iterator[str]:
    host = urlsplit(target.url).hostname or ""
    if _is_private(plain_host(host)) and not host_allowed(host, allowed):
        yield (
            f"{host}, a host of `notify`, is no address of the public internet: nothing is sent there. "
            "If it is meant, add it to `http.allow_hosts` in config.yaml"
        )


def _is_private(host: str) -> bool:
    try:
        return not is_public(ip_address(host))
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")
