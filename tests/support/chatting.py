"""Both ends of a chat: typing into one on a terminal, and feeding one through a pipe."""

from __future__ import annotations

import os

from tests.support.agent_folder import AgentFolder
from tests.support.emulator import shown
from tests.support.processes import Finished, Running
from tests.support.terminal import Terminal
from tests.support.waiting import until

__all__ = ["Piped", "on_screen", "ready", "say"]

_PASTES_MARKED = "\x1b[?2004h"
_CURSOR_SHOWN = "\x1b[?25h"


def ready(terminal: Terminal) -> None:
    """Waits until the chat waits for the next message."""
    terminal.expect(_PASTES_MARKED)
    terminal.expect("you> ")
    terminal.expect(_CURSOR_SHOWN)


def say(terminal: Terminal, text: str) -> None:
    """Types a message when the chat waits for one."""
    ready(terminal)
    terminal.send_line(text)
    terminal.expect(f"{text.lstrip()}\n")


def on_screen(terminal: Terminal, columns: int = 80) -> str:
    """What stands on the terminal, with what left it at its top."""
    return shown(terminal.screen, columns)


class Piped:
    """`agentmd chat` whose standard input is a pipe that this process writes."""

    def __init__(self, folder: AgentFolder, *args: str) -> None:
        read, self._write = os.pipe()

        def connect() -> None:
            os.dup2(read, 0)
            os.close(read)
            os.close(self._write)

        self.process: Running = folder.cli.start("chat", *args, prepare=connect)
        os.close(read)

    def send(self, data: str | bytes) -> None:
        os.write(self._write, data if isinstance(data, bytes) else data.encode())

    def expect(self, text: str) -> None:
        """Waits until it has printed this."""
        until(lambda: text in self.process.printed() or self.process.ended)
        assert text in self.process.printed()

    def end(self, data: str | bytes = "") -> Finished:
        """Sends the rest, closes the pipe, and gives how it ended."""
        self.send(data)
        os.close(self._write)
        return self.process.wait()
