"""When colour and size are used: only on a terminal, and only if the user has nothing against it."""

import io
import os
import termios

import pytest

from agent_md.cli.asking.prompt import can_prompt
from agent_md.cli.views.screen import Screen


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environ", "colour"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
        ({}, False),
    ],
)
def test_colour_on_a_terminal(environ: dict[str, str], colour: bool) -> None:
    screen = Screen.of(Terminal(), environ)
    assert screen.colour is colour
    assert screen.width is not None
    assert screen.height is not None


@pytest.mark.parametrize(
    ("environ", "size"),
    [
        ({}, (80, 24)),
        ({"COLUMNS": "100"}, (100, 24)),
        ({"COLUMNS": "0", "LINES": "50"}, (80, 50)),
        ({"COLUMNS": "-1", "LINES": "x"}, (80, 24)),
    ],
)
def test_the_size_of_a_terminal_that_does_not_say_it(environ: dict[str, str], size: tuple[int, int]) -> None:
    screen = Screen.of(Terminal(), environ)
    assert (screen.width, screen.height) == size


def test_the_size_is_that_of_the_terminal_behind_the_stream() -> None:
    master, slave = os.openpty()
    try:
        termios.tcsetwinsize(master, (50, 132))
        with open(slave, "w", closefd=False) as stream:
            screen = Screen.of(stream, {})
    finally:
        os.close(slave)
        os.close(master)
    assert (screen.width, screen.height) == (132, 50)


def test_a_pipe_has_neither_colour_nor_size() -> None:
    assert Screen.of(io.StringIO(), {"TERM": "xterm"}) == Screen(None, None, colour=False)


def test_only_two_terminals_can_prompt() -> None:
    closed = Terminal()
    closed.close()
    assert can_prompt(Terminal(), Terminal())
    assert not can_prompt(Terminal(), io.StringIO())
    assert not can_prompt(io.StringIO(), Terminal())
    assert not can_prompt(closed, Terminal())
