"""Forwards TCP connections inside a sandbox to the Unix socket of the proxy. Runs in the isolated process: as a part of it,
or, as a program of its own, around the command that is given as its arguments."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from contextlib import suppress

__all__ = ["PROXY_ADDRESS", "PROXY_SOCKET", "start_forwarder"]

PROXY_SOCKET = "/run/agentmd-proxy.sock"
"""Where the socket of the proxy is in a sandbox."""
PROXY_ADDRESS = "127.0.0.1:3128"
"""Where programs find the proxy there: few can use a Unix socket."""


def start_forwarder() -> None:
    """Forwards on threads of its own, if this sandbox has a proxy."""
    if not os.path.exists(PROXY_SOCKET):
        return
    host, _, port = PROXY_ADDRESS.partition(":")
    listener = socket.create_server((host, int(port)))
    threading.Thread(target=_accept, args=(listener,), name="forwarder", daemon=True).start()


def _accept(listener: socket.socket) -> None:
    while True:
        inner, _ = listener.accept()
        outer = socket.socket(socket.AF_UNIX)
        try:
            outer.connect(PROXY_SOCKET)
        except OSError:
            inner.close()
            outer.close()
            continue
        for source, target in ((inner, outer), (outer, inner)):
            threading.Thread(target=_copy, args=(source, target), name="forwarder", daemon=True).start()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
    with suppress(OSError):
        target.shutdown(socket.SHUT_WR)


if __name__ == "__main__":
    start_forwarder()
    code = subprocess.call(sys.argv[1:])
    sys.exit(128 - code if code < 0 else code)
