"""Decides which addresses such a request may contact."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

__all__ = ["host_allowed", "is_public", "plain_host"]

_NOT_PUBLIC_4 = tuple(
    IPv4Network(network)
    for network in (
        *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
        *("192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24"),
        *("203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4", "168.63.129.16/32"),
    )
)
"""The last one is the platform of Azure, which hands out settings and keys to its machines. The others: this network, private, shared (CGNAT), loopback, link-local, protocol assignments, documentation, the relays of 6to4,
benchmarks, multicast, reserved and broadcast."""

_GLOBAL_UNICAST_6 = IPv6Network("2000::/3")
_NOT_PUBLIC_6 = tuple(IPv6Network(network) for network in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20"))
"""Protocol assignments (Teredo among them), documentation, 6to4, documentation."""

_MAPPED = IPv6Network("::ffff:0:0/96")
_NAT64 = IPv6Network("64:ff9b::/96")


def is_public(address: IPv4Address | IPv6Address) -> bool:
    """Whether an address is a unicast one of the public internet.

    An IPv6 address that stands for an IPv4 one (mapped, NAT64) is judged by that; other forms that hide one (6to4,
    Teredo, compatible, a NAT64 prefix of one's own) are not public.
    """
    if isinstance(address, IPv4Address):
        return not any(address in network for network in _NOT_PUBLIC_4)
    if address in _MAPPED or address in _NAT64:
        return is_public(IPv4Address(int(address) & 0xFFFF_FFFF))
    return address in _GLOBAL_UNICAST_6 and not any(address in network for network in _NOT_PUBLIC_6)


def host_allowed(host: str, allowed: Collection[str]) -> bool:
    """Whether one of `allowed` is this host, or is `*.` and a domain above it."""
    name = plain_host(host)
    return any(name.endswith(known[1:]) if known.startswith("*.") else name == known for known in allowed)


def plain_host(host: str) -> str:
    """The one way to write a host: lower case, no dot at the end, an address in its shortest form."""
    name = host.lower().removesuffix(".")
    try:
        return str(ip_address(name.removeprefix("[").removesuffix("]")))
    except ValueError:
        return name
