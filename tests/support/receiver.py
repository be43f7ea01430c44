"""A receiver of webhooks on loopback that behaves as badly as it is told to."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["Behaviour", "Received", "Receiver", "answer", "close_early", "endless", "never", "receiver", "saying"]


@dataclass(frozen=True)
class Received:
    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        data: dict[str, Any] = json.loads(self.body)
        return data


@dataclass
class Receiver:
    """What came, in order; `behaviours` are what it does with the next requests, and then it says 204."""

    port: int
    received: list[Received] = field(default_factory=list)
    behaviours: list[Behaviour] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook"


class Exchange(BaseHTTPRequestHandler):
    """One request."""

    receiver: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.receiver.received.append(Received(self.path, headers, body))
        behave = self.receiver.behaviours.pop(0) if self.receiver.behaviours else answer(204)
        with suppress(ConnectionError):
            behave(self)

    do_GET = do_PUT = do_DELETE = do_HEAD = do_POST

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


Behaviour = Callable[[Exchange], None]


def answer(status: int, **headers: str) -> Behaviour:
    """Answers at once; `Retry_After` is the header Retry-After."""

    def behave(exchange: Exchange) -> None:
        exchange.send_response(status)
        for name, value in headers.items():
            exchange.send_header(name.replace("_", "-"), value)
        exchange.end_headers()

    return behave


def saying(status: int, body: bytes, **headers: str) -> Behaviour:
    """Answers with a body."""

    def behave(exchange: Exchange) -> None:
        answer(status, Content_Length=str(len(body)), **headers)(exchange)
        exchange.wfile.write(body)

    return behave


def close_early(exchange: Exchange) -> None:
    """Goes without an answer."""


def never(exchange: Exchange) -> None:
    """Says nothing until the test is over."""
    exchange.receiver.closing.wait(30)


def endless(exchange: Exchange) -> None:
    """Begins an answer that does not end."""
    answer(200)(exchange)
    while not exchange.receiver.closing.is_set():
        exchange.wfile.write(b"x" * 65536)


class _Server(ThreadingHTTPServer):
    daemon_threads = False
    block_on_close = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Nothing: who asks may go, or not trust us."""


@contextmanager
def receiver(tls: ssl.SSLContext | None = None) -> Iterator[Receiver]:
    """A receiver for as long as the block lasts."""
    handler = type("Handler", (Exchange,), {})
    with _Server(("127.0.0.1", 0), handler) as server:
        if tls is not None:
            server.socket = tls.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        made = Receiver(server.server_address[1])
        handler.receiver = made  # type: ignore[attr-defined]
        thread = threading.Thread(target=lambda: server.serve_forever(poll_interval=0.01))
        thread.start()
        try:
            yield made
        finally:
            made.closing.set()
            server.shutdown()
            thread.join()
