"""A model that says its answer piece by piece, whenever a test tells it to: Gemini's stream over loopback."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue
from typing import Any

__all__ = ["DrippingModel"]

_END = object()
_BREAK = object()


class DrippingModel:
    """Serves while it is entered. What is said goes to the request that is being answered, or to the next one."""

    def __init__(self) -> None:
        self.said: SimpleQueue[Any] = SimpleQueue()
        self._http = _Http(self)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    @property
    def reference(self) -> str:
        """This model in an agent's frontmatter; the key is any `GOOGLE_API_KEY`."""
        port = self._http.server_address[1]
        return f"{{provider: google, name: gemini-2.5-flash, base_url: 'http://127.0.0.1:{port}'}}"

    def say(self, *pieces: str) -> None:
        for piece in pieces:
            self.said.put({"text": piece})

    def call(self, name: str, **args: Any) -> None:
        self.said.put({"functionCall": {"name": name, "args": args}})

    def end(self) -> None:
        """The answer is whole."""
        self.said.put(_END)

    def break_off(self) -> None:
        """The connection is lost in the middle of the answer; the client asks again."""
        self.said.put(_BREAK)

    def __enter__(self) -> DrippingModel:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()


class _Http(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False

    def __init__(self, model: DrippingModel) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.model = model


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.close_connection = True
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Connection", "close")
        self.end_headers()
        assert isinstance(self.server, _Http)
        while isinstance(part := self.server.model.said.get(), dict):
            self._chunk({"content": {"role": "model", "parts": [part]}, "index": 0})
        if part is _END:
            self._chunk({"content": {"role": "model", "parts": []}, "index": 0, "finishReason": "STOP"})
            with suppress(OSError):
                self.wfile.write(b"0\r\n\r\n")
        else:
            self.connection.shutdown(socket.SHUT_RDWR)

    def _chunk(self, candidate: dict[str, Any]) -> None:
        usage = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
        body = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "gemini-2.5-flash"}
        data = b"data: " + json.dumps(body).encode() + b"\r\n\r\n"
        with suppress(OSError):  # the client has left
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""
