"""An HTTP transport that resolves a host name once, checks the addresses, and connects to one of them."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from ipaddress import ip_address

import httpx

from agent_md.errors import AddressRefused
from agent_md.outbound.addresses import host_allowed, is_public, plain_host

__all__ = ["GuardedTransport", "Resolve", "allowed_addresses", "refuse_private_host", "resolve"]

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""The addresses of a host for a port, best first. Raises OSError when there are none."""

_NO_REUSE = httpx.Limits(max_connections=None, max_keepalive_connections=0)
"""Connections are known by their address here: one that is kept could serve another name, whose certificate nobody saw."""


async def resolve(host: str, port: int) -> Sequence[str]:
    """What the system says. It is asked in a thread that nobody waits for: some questions are never answered."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def tell(found: list[str] | None, error: OSError | None) -> None:
        if answer.done():
            return
        if error is not None:
            answer.set_exception(error)
        else:
            answer.set_result(found or [])

    def ask() -> None:
        found, failed = None, None
        try:
            rows = socket.getaddrinfo(host.encode("ascii"), port, type=socket.SOCK_STREAM)
            found = list(dict.fromkeys(str(row[4][0]) for row in rows))
        except OSError as error:
            failed = error
        except ValueError:
            failed = OSError("no host has such a name")
        with suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(tell, found, failed)

    threading.Thread(target=ask, name=f"resolve {host}", daemon=True).start()
    return await answer


class GuardedTransport(httpx.AsyncBaseTransport):
    """Sends a request only to an address that was checked; the name is not looked up again.

    Every address of a name must be public (`is_public`), unless the host as written is one of `allow_hosts`. Else
    AddressRefused is raised and nothing was sent; so is for other schemes than http and https, and for a name or
    password in the address. Proxies of the environment are not used, redirects are not followed: a client that
    follows them has each one checked here. Raises as transports of httpx do, ConnectError when no name is found.
    """

    def __init__(self, allow_hosts: Callable[[], Collection[str]] = tuple, *, resolve: Resolve = resolve) -> None:
        """`allow_hosts` is asked at each request."""
        self._allow_hosts = allow_hosts
        self._resolve = resolve
        self._inner = httpx.AsyncHTTPTransport(limits=_NO_REUSE)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        allowed = frozenset(plain_host(host) for host in self._allow_hosts())
        addresses = await allowed_addresses(request.url, allowed, self._resolve)
        server = request.url.raw_host.decode("ascii").removesuffix(".")
        for number, address in enumerate(addresses, 1):
            pinned = httpx.Request(
                request.method,
                request.url.copy_with(host=address),
                headers=request.headers,  # `Host` is the name as it was written
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": server},
            )
            try:
                return await self._inner.handle_async_request(pinned)
            except (httpx.ConnectError, httpx.ConnectTimeout):  # nothing was sent
                if number == len(addresses):
                    raise
        raise httpx.ConnectError(f"{server} has no address")

    async def aclose(self) -> None:
        await self._inner.aclose()


async def allowed_addresses(url: httpx.URL, allowed: Collection[str], resolve: Resolve = resolve) -> Sequence[str]:
    """The addresses at which a URL may be asked; `allowed` are hosts as `plain_host` writes them.

    Raises AddressRefused as GuardedTransport does, ConnectError when no name is found.
    """
    host = url.raw_host.decode("ascii")
    if url.scheme not in ("http", "https") or not host:
        raise AddressRefused("the address is not one of http or https; nothing was sent")
    if url.userinfo:
        raise AddressRefused(
            f"the address of {host} has a name or a password in it; nothing was sent. Give them in a header"
        )
    port = url.port or (443 if url.scheme == "https" else 80)
    try:
        addresses = await resolve(host, port)
    except OSError as error:
        raise httpx.ConnectError(f"{host} cannot be found: {error.strerror or error}") from error
    if not (host_allowed(host, allowed) or host_allowed(url.host, allowed)):
        _refuse_private(host, addresses)
    return addresses


def refuse_private_host(host: str, allowed: Collection[str]) -> None:
    """Raises AddressRefused for a host that is refused whatever a name stands for: an address, or localhost. `allowed` as in
    `allowed_addresses`."""
    name = plain_host(host)
    try:
        address = str(ip_address(name))
    except ValueError:
        if name != "localhost" and not name.endswith(".localhost"):
            return
        address = "127.0.0.1"
    if not host_allowed(name, allowed):
        _refuse_private(host, [address])


def _refuse_private(host: str, addresses: Sequence[str]) -> None:
    for address in addresses:
        if not is_public(ip_address(address)):
            where = "is" if plain_host(host) == plain_host(address) else f"is at {address},"
            raise AddressRefused(
                f"{host} {where} no address of the public internet; nothing was sent. "
                "If it is meant, add the host to `http.allow_hosts` in config.yaml"
            )
