"""A shell in which `agentmd` is the product's own `main`, in a process forked from this one: what importing takes is saved."""

from __future__ import annotations

import array
import contextlib
import json
import os
import select
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.children import leave_after, open_streams, run_agentmd
from tests.support.trusting import TRUSTING

__all__ = ["Shell"]

_CLIENT = """\
import array, json, os, socket, sys
asked = socket.socket(socket.AF_UNIX)
asked.connect({socket!r})
asked.sendmsg([b"."], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0, 1, 2]))])
told = {{"args": sys.argv[1:], "cwd": os.getcwd(), "env": dict(os.environ)}}
asked.sendall(json.dumps(told).encode() + b"\\n")
sys.exit(int(asked.makefile().readline() or 70))
"""
_PATIENCE_S = 60.0


class Shell:
    """Bash with a home of its own, below `folder`; `close` it in the end. `env` adds to a small fixed environment."""

    def __init__(self, folder: Path, env: Mapping[str, str] | None = None) -> None:
        programs = folder / "bin"
        self.home = folder / "home"
        programs.mkdir(parents=True)
        self.home.mkdir()
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / "shell.sock"))
        self._listening.listen()
        self._children: dict[int, socket.socket] = {}
        (folder / "client.py").write_text(_CLIENT.format(socket=str(folder / "shell.sock")))
        _program(
            programs / "agentmd", f'{shlex.quote(sys.executable)} -IS {shlex.quote(str(folder / "client.py"))} "$@"'
        )
        _program(programs / "python3", f'{shlex.quote(sys.executable)} "$@"')
        self._env = {"PATH": f"{programs}:/usr/local/bin:/usr/bin:/bin", "HOME": str(self.home), "LANG": "C.UTF-8"}
        self._env |= {"TZ": "UTC", "TERM": "xterm", **TRUSTING, **(env or {})}

    def __call__(self, script: str, cwd: Path) -> None:
        """Runs a script with nothing on standard input; what it prints is not kept. Fails if it does not end.

        What it leaves in the background is ended, unless that has a session of its own."""
        command = ["/bin/bash", "-c", script]
        null = subprocess.DEVNULL
        with subprocess.Popen(
            command, cwd=cwd, env=self._env, stdin=null, stdout=null, stderr=null, start_new_session=True
        ) as bash:
            try:
                self._serve_until_end(bash)
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(bash.pid, signal.SIGKILL)

    def _serve_until_end(self, bash: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + _PATIENCE_S
        while bash.poll() is None:
            assert time.monotonic() < deadline, "the shell hangs"
            if select.select([self._listening], [], [], 0.005)[0]:
                self._serve()
            self._reap(os.WNOHANG)

    def close(self) -> None:
        self._listening.close()
        self._reap(0)

    def _serve(self) -> None:
        connection, _ = self._listening.accept()
        pid = os.fork()
        if pid == 0:
            leave_after(partial(_run, connection))
        self._children[pid] = connection

    def _reap(self, options: int) -> None:
        """Tells the exit codes of those that ended."""
        for asked in list(self._children):
            pid, status = os.waitpid(asked, options)
            if pid:
                with self._children.pop(pid) as connection:
                    code = os.waitstatus_to_exitcode(status)
                    connection.sendall(f"{code if code >= 0 else 128 - code}\n".encode())


def _program(path: Path, command: str) -> None:
    path.write_text(f"#!/bin/sh\nexec {command}\n")
    path.chmod(0o755)


def _run(connection: socket.socket) -> None:
    told = _take_over(connection)
    run_agentmd(told["args"])


def _take_over(connection: socket.socket) -> dict[str, Any]:
    """Becomes what asked: its standard streams, its folder, its environment; gives what it said."""
    _, ancillary, _, _ = connection.recvmsg(1, socket.CMSG_SPACE(3 * 4))
    streams = array.array("i", ancillary[0][2])
    told: dict[str, Any] = json.loads(connection.makefile().readline())
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    open_streams()
    os.environ.clear()
    os.environ.update(told["env"])
    os.chdir(told["cwd"])
    return told
