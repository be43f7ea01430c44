"""A way to a server by TCP: it notes what is asked, can be cut, and stays when the server behind it is another one."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingTCPServer

from tests.support.waiting import until

__all__ = ["Relay", "relay"]


class Relay:
    """Passes each connection on to the server's Unix socket, by which nobody needs a key."""

    def __init__(self, socket_path: Path, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.socket_path = socket_path
        self.requests: list[str] = []
        """Method and path of each, in order."""
        self._open: set[socket.socket] = set()

    def count(self, beginning: str) -> int:
        return sum(request.startswith(beginning) for request in self.requests)

    def until_asked(self, beginning: str, times: int = 1) -> None:
        """Waits until so many requests have begun like this."""
        until(lambda: self.count(beginning) >= times)

    def cut(self) -> None:
        """Breaks off what is under way."""
        for connection in list(self._open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def serve(self, client: socket.socket, head: bytes) -> None:
        """Passes one exchange on, whose request begins with `head`."""
        method, path, _ = head.decode().split(" ", 2)
        self.requests.append(f"{method} {path}")
        server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with server, suppress(OSError):
            server.connect(str(self.socket_path))
            server.sendall(head)
            self._open |= {client, server}
            other_way = threading.Thread(target=_pass_on, args=(client, server))
            other_way.start()
            _pass_on(server, client)
            other_way.join()
        self._open -= {client, server}


def _pass_on(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while piece := source.recv(65536):
            target.sendall(piece)
    for end in (source, target):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


class _Listener(ThreadingTCPServer):
    allow_reuse_address = True
    relay: Relay


class _Connection(StreamRequestHandler):
    def handle(self) -> None:
        assert isinstance(self.server, _Listener)
        with suppress(OSError):
            if head := self.connection.recv(65536):
                self.server.relay.serve(self.connection, head)


@contextmanager
def relay(socket_path: Path) -> Iterator[Relay]:
    """A relay for as long as the block lasts."""
    with _Listener(("127.0.0.1", 0), _Connection) as listener:
        listener.relay = Relay(socket_path, listener.server_address[1])
        thread = threading.Thread(target=listener.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield listener.relay
        finally:
            listener.relay.cut()
            listener.shutdown()
            thread.join()
            listener.relay.cut()
