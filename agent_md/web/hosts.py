"""Which hosts and origins a browser may name: those that lead here, and not one that an attacker's name leads to."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection
from urllib.parse import urlsplit

from starlette.types import Scope

__all__ = ["is_allowed_host", "is_by_socket", "is_same_origin"]

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


def is_by_socket(scope: Scope) -> bool:
    """Whether the request came by the Unix socket: such a server address has no port."""
    server = scope.get("server")
    return server is not None and server[1] is None


def is_allowed_host(host: str, scope: Scope, allowed: Collection[str]) -> bool:
    """Whether a Host header names the address at which the connection arrived, or one of the `allowed` hosts. The port
    does not matter: it may be forwarded."""
    name = _host_of(f"//{host}")
    if name is None:
        return False
    return name in _names_of(scope) or any(_fits(name, entry) for entry in allowed)


def is_same_origin(origin: str, host: str, allowed: Collection[str]) -> bool:
    """Whether an Origin header is that of pages of this host, or of an `allowed` one. Without TLS here there may be some
    before this server, so the scheme is not compared."""
    parts = urlsplit(origin)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        return False
    if parts.netloc.lower() == host.lower():
        return True
    name = _host_of(origin)
    return name is not None and any(_fits(name, entry) for entry in allowed)


def _host_of(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        _ = parts.port  # raises for what is no port
        return None if parts.username is not None else _plain(parts.hostname or "") or None
    except ValueError:
        return None


def _plain(name: str) -> str:
    try:
        return str(ipaddress.ip_address(name))
    except ValueError:
        return name.lower().removesuffix(".")


def _names_of(scope: Scope) -> frozenset[str]:
    if is_by_socket(scope):
        return _LOOPBACK | {"agentmd"}
    server = scope.get("server")
    address = _plain(server[0]) if server is not None else ""
    try:
        return _LOOPBACK | {address} if ipaddress.ip_address(address).is_loopback else frozenset({address})
    except ValueError:
        return _LOOPBACK | {address} if address == "localhost" else frozenset({address})


def _fits(name: str, entry: str) -> bool:
    return name.endswith(entry[1:]) if entry.startswith("*.") else name == entry
