"""TCP sockets of the server."""

from __future__ import annotations

import socket

from agent_md.errors import UsageError

__all__ = ["tcp_socket", "url_of"]


def tcp_socket(host: str, port: int) -> socket.socket:
    """A bound socket. Raises UsageError when the address cannot be had."""
    try:
        family, kind, protocol, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(place)
    except OSError as error:
        raise UsageError(f"{host}:{port} cannot be listened on: {error.strerror or error}") from error
    return made


def url_of(bound: socket.socket) -> str:
    """The address of a bound socket, as browsers write it."""
    host, port = bound.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
