"""A question on a terminal of its own, in a forked process: as `prompt_program`, without the second that importing takes."""

from __future__ import annotations

import json
import os
import select
import sys
import termios
from typing import Any

import agent_md.cli.terminal.line_editor  # noqa: F401 - so that forks have it
from agent_md.cli.asking.ask_request import ask_request
from agent_md.cli.asking.prompt import PromptClosed, TerminalPrompt
from agent_md.cli.terminal.interruptible import run_interruptible
from agent_md.cli.views.screen import Screen
from tests.support.children import open_streams
from tests.support.on_terminal import FunctionTerminal
from tests.support.prompt_program import REQUESTS, Details

__all__ = ["asking", "response_of"]


def asking(name: str, *, term: str = "xterm-256color", shell: bool = False, columns: int = 80) -> FunctionTerminal:
    """Asks the request of this name, and prints the response as JSON, then what is left to read for a shell."""

    def ask() -> None:
        open_streams()
        os.environ |= {"TERM": term, "NO_COLOR": "1", "PAGER": ""}
        _ask(name)

    return FunctionTerminal(ask, shell=shell, columns=columns)


def response_of(terminal: FunctionTerminal) -> Any:
    """The response; fails if anything was left for the shell."""
    terminal.expect("response: ")
    shown = terminal.expect("\n")
    assert terminal.expect("\n", 10) == "left: b''\n", terminal.screen
    assert terminal.exit_code() == 0
    return json.loads(shown)


def _ask(name: str) -> None:
    try:
        details = Details(REQUESTS[name])
        response = run_interruptible(ask_request(REQUESTS[name], TerminalPrompt(Screen.of(sys.stdout)), details))
        print(f"response: {json.dumps(response)}", flush=True)
    except PromptClosed as closed:
        print(f"closed: {closed}", flush=True)
    except KeyboardInterrupt:
        print("withdrawn", flush=True)
    print(f"left: {_left()!r}", flush=True)


def _left() -> bytes:
    """What a shell would read now, also of a line without an end."""
    modes = termios.tcgetattr(0)
    termios.tcsetattr(0, termios.TCSANOW, [*modes[:3], modes[3] & ~termios.ICANON, *modes[4:]])
    left = os.read(0, 65_536) if select.select([0], [], [], 0)[0] else b""
    termios.tcsetattr(0, termios.TCSANOW, modes)
    return left
