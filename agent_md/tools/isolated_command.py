"""A command line that runs a program under bubblewrap."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from agent_md.isolation.bubblewrap import bubblewrap_command
from agent_md.isolation.process import Isolation, sandbox_variables
from agent_md.python_command import python_command

__all__ = ["IsolatedCommand", "isolated_command"]


@dataclass(frozen=True, slots=True)
class IsolatedCommand:
    """What is started outside of the sandbox: its command, variables, and the descriptors that it inherits."""

    command: list[str]
    environment: dict[str, str]
    descriptors: tuple[int, ...]


@contextmanager
def isolated_command(
    command: Sequence[str], folder: Path, environment: Mapping[str, str], isolation: Isolation
) -> Iterator[IsolatedCommand]:
    """While the block runs, the command can be started, and reach the hosts that its sandbox allows."""
    with ExitStack() as stack:
        socket = None if isolation.proxy is None else stack.enter_context(isolation.proxy)
        variables, extra = sandbox_variables(isolation, socket)
        if socket is not None:
            command = python_command("-m", "agent_md.isolation.forwarder", *command)
        line, arguments = bubblewrap_command(command, isolation.view, folder, isolation.memory_bytes)
        descriptor = os.memfd_create("arguments")
        stack.callback(os.close, descriptor)
        with open(descriptor, "wb", closefd=False) as file:
            file.write(extra + arguments)
        os.lseek(descriptor, 0, os.SEEK_SET)
        kept = {name: value for name, value in environment.items() if name not in ("HOME", "PATH", "TMPDIR")}
        words = [str(descriptor) if part == "{args}" else part for part in line]
        yield IsolatedCommand(words, {**variables, **kept}, (descriptor,))
