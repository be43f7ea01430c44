"""The one way to write the address of a request, so that rules, people and servers see the same one; and the placeholders
`${NAME}` in its query."""

from __future__ import annotations

import re
import socket
import string
from collections.abc import Mapping
from ipaddress import IPv6Address, ip_address
from urllib.parse import quote

__all__ = ["PLACEHOLDER", "fill_query", "host_of", "normalised_url", "origin_of", "outside_query"]

PLACEHOLDER = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")

_UNRESERVED = frozenset(string.ascii_letters + string.digits + "-._~")
_IN_PATH = _UNRESERVED | frozenset("/!$&'()*+,;=:@")
_IN_QUERY = _IN_PATH | {"?"}
_NOT_IN_ADDRESSES = re.compile(r"[\x00-\x20\x7f]")
_NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_NUMERIC = re.compile(r"(.*\.)?(0x[0-9a-f]*|[0-9]+)")
_ESCAPE_OR_CHAR = re.compile(r"%([0-9A-Fa-f]{2})|.", re.DOTALL)
_DEFAULT_PORTS = {"http": 80, "https": 443}


def normalised_url(text: str) -> str:
    """The address as it is shown, matched by rules and sent; without a fragment, and `${NAME}` stays in the query.

    Scheme and host are in lower case, an IPv4 address has its usual form however it was spelled, `.` and `..` are
    resolved, and what need not be escaped is not. Raises ValueError for anything that is not a usable http or https
    address.
    """
    import httpx

    if _NOT_IN_ADDRESSES.search(text):
        raise ValueError("it has a blank or a control character; write a blank as %20")
    base, mark, query = text.partition("#")[0].partition("?")
    try:
        base.encode(), query.encode()
        url = httpx.URL(base)
    except (httpx.InvalidURL, ValueError) as error:
        raise ValueError(f"it cannot be read ({error})") from None
    if url.scheme not in _DEFAULT_PORTS or not url.raw_host:
        raise ValueError("it must begin with http:// or https:// and a host")
    if url.userinfo or "@" in base.partition("://")[2].partition("/")[0]:
        raise ValueError("it has a name or a password in it; give them in a header")
    if url.port is not None and not 0 < url.port < 65536:
        raise ValueError(f"{url.port} is no port")
    port = "" if url.port in (None, _DEFAULT_PORTS[url.scheme]) else f":{url.port}"
    path = _without_dots(_escaped(_path_of(base), _IN_PATH))
    return f"{url.scheme}://{_host(url.raw_host.decode('ascii'))}{port}{path}{mark}{_query(query)}"


def host_of(url: str) -> str:
    """The host of a normalised address, an IPv6 address without its brackets."""
    authority = url.partition("://")[2].partition("/")[0]
    return authority[1:].partition("]")[0] if authority.startswith("[") else authority.partition(":")[0]


def origin_of(url: str) -> str:
    """Scheme, host and port of a normalised address."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


def outside_query(url: str) -> str:
    """What stands before the query of an address."""
    return url.partition("#")[0].partition("?")[0]


def fill_query(url: str, values: Mapping[str, str]) -> str:
    """A normalised address with the values of its placeholders, escaped."""
    base, mark, query = url.partition("?")
    return base + mark + PLACEHOLDER.sub(lambda found: quote(values[found[1]], safe=""), query)


def _host(host: str) -> str:
    name = host.removesuffix(".")
    try:
        address = ip_address(name)
    except ValueError:
        return _name(name)
    if getattr(address, "scope_id", None) is not None:
        raise ValueError("its host names a network interface")
    return f"[{address}]" if isinstance(address, IPv6Address) else str(address)


def _name(name: str) -> str:
    if _NUMERIC.fullmatch(name):  # `127.1`, `0x7f000001`, `2130706433`: the system reads these as addresses
        try:
            return socket.inet_ntoa(socket.inet_aton(name))
        except OSError:
            raise ValueError(f"{name} is no host") from None
    if not _NAME.fullmatch(name):
        raise ValueError("its host is no name of letters, digits, - and dots")
    return name


def _path_of(base: str) -> str:
    _, slash, path = base.partition("://")[2].partition("/")
    return slash + path or "/"


def _query(query: str) -> str:
    pieces = PLACEHOLDER.split(query)
    for at, piece in enumerate(pieces):
        pieces[at] = f"${{{piece}}}" if at % 2 else _escaped(piece, _IN_QUERY)
    return "".join(pieces)


def _escaped(text: str, kept: frozenset[str]) -> str:
    def one(found: re.Match[str]) -> str:
        if found[1] is not None:
            char = chr(int(found[1], 16))
            return char if char in _UNRESERVED else found[0].upper()
        return found[0] if found[0] in kept else quote(found[0], safe="")

    return _ESCAPE_OR_CHAR.sub(one, text)


def _without_dots(path: str) -> str:
    kept: list[str] = []
    names = path.split("/")[1:]
    for at, name in enumerate(names):
        if name == ".." and kept:
            kept.pop()
        if name not in (".", ".."):
            kept.append(name)
        elif at == len(names) - 1:
            kept.append("")
    return "/" + "/".join(kept)
