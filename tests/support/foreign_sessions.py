"""A server of the sessions interface that is not ours: it says what a test gives it to say."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["CLOSE", "ForeignServer", "Reply", "foreign_server"]


@dataclass(frozen=True)
class Reply:
    body: Any = None
    """JSON, or bytes as they are."""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


CLOSE = Reply(status=0)
"""No answer: the connection is closed."""


@dataclass
class Asked:
    what: str
    body: Any
    at: float


class ForeignServer:
    """`replies` has a list for each `METHOD /path` without its query; its last one is given again and again."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.replies: dict[str, list[Reply]] = {}
        self.asked: list[Asked] = []

    def bodies(self, what: str) -> list[Any]:
        return [asked.body for asked in self.asked if asked.what == what]

    def times(self, what: str) -> list[float]:
        """When it was asked that."""
        return [asked.at for asked in self.asked if asked.what == what]

    def reply(self, what: str, body: Any) -> Reply:
        self.asked.append(Asked(what, body, time.monotonic()))
        given = self.replies.get(what, [Reply({"detail": "Not Found"}, 404)])
        return given.pop(0) if len(given) > 1 else given[0]


class _Http(ThreadingHTTPServer):
    foreign: ForeignServer


class _Handler(BaseHTTPRequestHandler):
    def _serve(self) -> None:
        assert isinstance(self.server, _Http)
        data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        what = f"{self.command} {self.path.partition('?')[0]}"
        reply = self.server.foreign.reply(what, json.loads(data) if data else None)
        if reply is CLOSE:
            return
        body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
        self.send_response(reply.status)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_DELETE = _serve

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


@contextmanager
def foreign_server() -> Iterator[ForeignServer]:
    """Such a server for as long as the block lasts."""
    with _Http(("127.0.0.1", 0), _Handler) as http:
        http.foreign = ForeignServer(http.server_address[1])
        thread = threading.Thread(target=http.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield http.foreign
        finally:
            http.shutdown()
            thread.join()
