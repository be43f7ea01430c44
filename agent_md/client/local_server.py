"""Sends one request to the server of a workspace through its Unix socket."""

from __future__ import annotations

import http.client
import json
import socket
from typing import Any

from agent_md.api.address import Address

__all__ = ["ask"]

_ANSWER_S = 5.0


class _LocalConnection(http.client.HTTPConnection):
    """HTTP by the Unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=_ANSWER_S)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def ask(address: Address, method: str, path: str) -> dict[str, Any] | None:
    """The server's JSON, None if it does not answer."""
    connection = _LocalConnection(address.socket)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        data: dict[str, Any] = json.loads(answer.read())
        return data if answer.status == 200 else None
    except (OSError, ValueError, http.client.HTTPException):
        return None
    finally:
        connection.close()
