"""The real command line in forked processes, that can be killed before any chosen write to a database.

Forking a process that has everything imported saves the second that importing takes; what runs is the product's own
`main`, with its own databases, locks and signals.
"""

from __future__ import annotations

import functools
import importlib
import os
import pkgutil
import re
import signal
import sqlite3
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import agent_md
from tests.support.children import leave_after, open_streams, run_agentmd

__all__ = ["Cli", "Finished", "Running", "preload"]

_WRITES = re.compile(r"\s*(BEGIN IMMEDIATE|COMMIT|INSERT|UPDATE|DELETE)", re.IGNORECASE)
_PATIENCE_S = 60.0
_OF_PROVIDERS = [f"agent_md.models.{name}" for name in ("anthropic", "google", "ollama", "openai", "responses_api")]
"""Their libraries take seconds and are needed by few tests."""
_LATE = (
    "anyio._backends._asyncio",
    "httpcore",
    "jsonschema",
    "langchain_core.messages.block_translators.langchain_v0",
    "langchain_core.tools.structured",
    "langchain_core.tracers.run_collector",
    "langchain_core.tracers.stdout",
    "langchain_mcp_adapters.sessions",
    "langchain_mcp_adapters.tools",
    "typer._adapters",
    "uvicorn.lifespan.off",
    "uvicorn.protocols.websockets.auto",
)


@dataclass(frozen=True)
class Finished:
    """A process that ended: its exit code, or minus the signal that killed it, and what it printed."""

    code: int
    out: str
    err: str

    @property
    def killed(self) -> bool:
        return self.code == -signal.SIGKILL


@dataclass
class Running:
    pid: int
    folder: Path
    _status: int | None = None

    @property
    def ended(self) -> bool:
        if self._status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._status = status if pid else None
        return self._status is not None

    def wait(self) -> Finished:
        deadline = time.monotonic() + _PATIENCE_S
        while not self.ended:
            if time.monotonic() > deadline:
                os.kill(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                raise AssertionError(f"the process hung; it printed {self._read('out')!r} {self._read('err')!r}")
            time.sleep(0.002)
        assert self._status is not None
        return Finished(os.waitstatus_to_exitcode(self._status), self._read("out"), self._read("err"))

    def printed(self) -> str:
        """What it has written to standard output so far."""
        return self._read("out")

    def kill(self, number: int = signal.SIGKILL) -> None:
        os.kill(self.pid, number)

    def _read(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8", errors="replace")


class Cli:
    """Runs `agentmd` on one workspace."""

    def __init__(self, workspace: Path, env: Mapping[str, str] | None = None) -> None:
        self.workspace = workspace
        self._env = {"CI": "", **(env or {})}
        self._last = workspace

    def __call__(
        self,
        *args: str,
        kill_before_write: int | None = None,
        env: Mapping[str, str] | None = None,
        prepare: Callable[[], None] | None = None,
        named: bool = True,
    ) -> Finished:
        return self.start(*args, kill_before_write=kill_before_write, env=env, prepare=prepare, named=named).wait()

    def start(
        self,
        *args: str,
        kill_before_write: int | None = None,
        env: Mapping[str, str] | None = None,
        prepare: Callable[[], None] | None = None,
        named: bool = True,
    ) -> Running:
        """Begins a command; it is killed right before its n-th write statement (from 1) if that is given.

        `prepare` is called in the new process before the command. With `named` the workspace is told with -w."""
        (self.workspace / ".out").mkdir(exist_ok=True)
        folder = self._last = Path(tempfile.mkdtemp(dir=self.workspace / ".out"))
        (folder / "out").touch()
        (folder / "err").touch()
        pid = os.fork()
        if pid == 0:
            prepared = prepare or (lambda: None)
            words = ["-w", str(self.workspace), *args] if named else list(args)
            leave_after(lambda: _run(folder, {**self._env, **(env or {})}, words, kill_before_write, prepared))
        return Running(pid, folder)

    def writes_of_last(self) -> int:
        """How many write statements the last command made, if it was not killed."""
        return int((self._last / "writes").read_text() or "0")


def _run(
    folder: Path,
    env: Mapping[str, str],
    args: Sequence[str],
    kill_before_write: int | None,
    prepare: Callable[[], None],
) -> None:
    _redirect(folder)
    os.environ.update(env)
    prepare()
    _count_writes(folder / "writes", kill_before_write)
    run_agentmd(args)


def _redirect(folder: Path) -> None:
    for number, path, flags in (
        (0, "/dev/null", os.O_RDONLY),
        (1, folder / "out", os.O_WRONLY),
        (2, folder / "err", os.O_WRONLY),
    ):
        descriptor = os.open(path, flags)
        os.dup2(descriptor, number)
    open_streams()


def _count_writes(path: Path, kill_before: int | None) -> None:
    """Keeps the count in a file as it grows: a process may end without passing through here again."""
    count = 0
    kept = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)

    def seen(statement: str) -> None:
        nonlocal count
        if _WRITES.match(statement):
            count += 1
            os.pwrite(kept, str(count).encode(), 0)
            if count == kill_before:
                os.kill(os.getpid(), signal.SIGKILL)

    connect = sqlite3.connect

    @functools.wraps(connect)
    def traced(*args: object, **kwargs: object) -> sqlite3.Connection:
        connection = connect(*args, **kwargs)  # type: ignore[arg-type]
        connection.set_trace_callback(seen)
        return connection

    sqlite3.connect = traced  # type: ignore[assignment]


def preload() -> None:
    """Imports what the command line and the server import late, so that forks have it: all of the product, and of other
    libraries what is no provider's."""
    for found in pkgutil.walk_packages(agent_md.__path__, "agent_md."):
        if found.name not in _OF_PROVIDERS:
            importlib.import_module(found.name)
    for name in _LATE:
        importlib.import_module(name)
