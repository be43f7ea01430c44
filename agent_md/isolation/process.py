"""A process under bubblewrap that communicates by lines, and is ended with all its children."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from agent_md.errors import OutOfResources
from agent_md.isolation.bubblewrap import View, bubblewrap_command
from agent_md.isolation.forwarder import PROXY_ADDRESS, PROXY_SOCKET
from agent_md.resource_shortages import shortage

if TYPE_CHECKING:
    from agent_md.isolation.proxy import OutboundProxy

__all__ = ["MEMORY_BYTES", "IsolatedProcess", "Isolation", "LineTooLong", "sandbox_variables"]

MEMORY_BYTES = 4 * 2**30
_OUTPUT_KEPT = 4096


class LineTooLong(Exception):
    """The process wrote more than a line may have."""


@dataclass(frozen=True, slots=True)
class Isolation:
    """What an isolated process is given: files, a current folder, variables and no others, addresses of memory for each
    process, and a proxy to hosts where there is one. `look_after` is called when the process has ended."""

    view: View
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    memory_bytes: int = MEMORY_BYTES
    proxy: OutboundProxy | None = None
    look_after: Callable[[], None] | None = None


def sandbox_variables(isolation: Isolation, socket: Path | None) -> tuple[dict[str, str], bytes]:
    """The variables of an isolated process, and arguments for bubblewrap; `socket` is that of its proxy, which has been
    started."""
    environment = {**_BASE_ENVIRONMENT, **isolation.environment}
    if socket is None:
        return environment, b""
    environment |= dict.fromkeys(_PROXY_VARIABLES, f"http://{PROXY_ADDRESS}")
    return environment, b"".join(os.fsencode(part) + b"\0" for part in ("--bind", str(socket), PROXY_SOCKET))


class IsolatedProcess:
    """One process, and whatever it starts. It is started and spoken with on one thread, whose end is its end too."""

    def __init__(self, isolation: Isolation) -> None:
        self._isolation = isolation
        self._look_after = isolation.look_after
        self._lock = threading.Lock()
        self._ended = False
        self._process: subprocess.Popen[bytes] | None = None
        self._open = ExitStack()
        self._output = b""
        self._output_reader: threading.Thread | None = None

    def start(self, command: Sequence[str]) -> None:
        """Starts it. Raises OutOfResources with nothing begun when there is no process to be had."""
        isolation = self._isolation
        view = isolation.view
        try:
            socket = None if isolation.proxy is None else self._open.enter_context(isolation.proxy)
            environment, extra = sandbox_variables(isolation, socket)
            line, arguments = bubblewrap_command(command, view, isolation.folder, isolation.memory_bytes)
            self._spawn(line, extra, arguments, environment)
        except (OSError, RuntimeError) as error:
            self.end()
            if (short := shortage(error)) is not None:
                raise OutOfResources(short) from error
            raise
        except BaseException:
            self.end()
            raise

    def _spawn(self, line: list[str], extra: bytes, arguments: bytes, environment: Mapping[str, str]) -> None:
        descriptor = os.memfd_create("arguments")
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(extra + arguments)
            os.lseek(descriptor, 0, os.SEEK_SET)
            with self._lock:
                if self._ended:
                    return
                self._process = subprocess.Popen(
                    [str(descriptor) if part == "{args}" else part for part in line],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    env=dict(environment),
                    cwd="/",
                    pass_fds=(descriptor,),
                    start_new_session=True,
                )
        finally:
            os.close(descriptor)
        self._output_reader = threading.Thread(target=self._read_output, name="output of a sandbox", daemon=True)
        self._output_reader.start()

    def write_line(self, line: bytes) -> None:
        """Sends a line, which has no line break; nothing if the process has ended."""
        if self._process is not None and self._process.stdin is not None:
            with suppress(BrokenPipeError, ValueError):
                self._process.stdin.write(line + b"\n")
                self._process.stdin.flush()

    def read_line(self, limit: int) -> bytes:
        """The next line, b"" when the process has ended. Raises LineTooLong."""
        if self._process is None or self._process.stdout is None:
            return b""
        try:
            line = self._process.stdout.readline(limit + 1)
        except ValueError:  # it was closed
            return b""
        if len(line) > limit:
            raise LineTooLong
        return line if line.endswith(b"\n") else b""

    def last_output(self) -> str:
        """The end of what it wrote besides its lines. Waits a moment for the end of it."""
        if self._output_reader is not None:
            self._output_reader.join(1)
        output = self._output
        if len(output) >= _OUTPUT_KEPT:  # the line that was cut may begin within a secret, which nobody would find
            output = output.partition(b"\n")[2]
        return output.decode("utf-8", "replace").strip()

    @property
    def ended(self) -> bool:
        """Whether it was ended from here."""
        return self._ended

    def end(self) -> None:
        """Ends it with all that it started. May be called on any thread, and more than once."""
        with self._lock:
            self._ended = True
            process = self._process
        if process is not None and process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        self._open.close()

    def close(self) -> None:
        """Ends it and frees what it had. On the thread that started it. Raises what `look_after` raises."""
        self.end()
        if self._process is None:
            return
        if self._output_reader is not None:
            self._output_reader.join(1)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        look_after, self._look_after = self._look_after, None
        if look_after is not None:
            look_after()

    def _read_output(self) -> None:
        """Lets it out where the output of tools goes, so that the process is not held up by it."""
        assert self._process is not None
        assert self._process.stderr is not None
        with self._process.stderr as pipe:
            while chunk := os.read(pipe.fileno(), 65536):
                self._output = (self._output + chunk)[-_OUTPUT_KEPT:]
                with suppress(OSError):
                    os.write(2, chunk)


_BASE_ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/tmp",  # noqa: S108 - a folder of the process alone
    "LANG": "C.UTF-8",
    "PYTHONDONTWRITEBYTECODE": "1",
}
_PROXY_VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy")
