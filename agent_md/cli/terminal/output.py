"""Prints results to standard output and notes to standard error.

What is shown to people are renderables of Rich, or visible lines. Nothing is ever parsed as markup.
"""

from __future__ import annotations

import os
import sys
from itertools import groupby
from typing import TYPE_CHECKING, TextIO

from agent_md.cli.views.rendering import rendered
from agent_md.cli.views.screen import PLAIN, Screen
from agent_md.process.standard_streams import person
from agent_md.visible_text import one_line, visible

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["NoReader", "give_up", "note", "remark", "say"]


class NoReader(Exception):
    """Nobody reads standard output any more; whatever is printed from now on goes nowhere."""


def say(*items: RenderableType) -> None:
    """Visible lines and renderables to standard output, at once. Raises NoReader, or OSError when they cannot be
    written."""
    out = person(sys.stdout)
    screen = Screen.of(out)
    try:
        for are_lines, group in groupby(items, lambda item: isinstance(item, str)):
            out.writelines(f"{line}\n" for line in (group if are_lines else rendered(screen, *group)))
        out.flush()
    except BrokenPipeError:
        give_up(out)
        raise NoReader from None


def note(item: RenderableType) -> None:
    """A line for the person, to standard error; standard output is for results."""
    lines = [one_line(item)] if isinstance(item, str) else rendered(PLAIN, item)
    try:
        for line in lines:
            print(line, file=person(sys.stderr), flush=True)
    except OSError:
        give_up(person(sys.stderr))


def remark(text: str) -> None:
    """Prints lines for the user to standard error, on a terminal wrapped at words. Wrapped lines are indented, so that
    a long untrusted text cannot start a line of the screen, where questions start."""
    err = person(sys.stderr)
    for line in visible(text).split("\n"):
        if err.isatty():
            from agent_md.cli.views.hanging_indent import paragraph

            for piece in rendered(Screen.of(err), paragraph(line)):
                note(piece)
        else:
            note(line)


def give_up(stream: TextIO) -> None:
    """Sends to nowhere what is still to be written, and what waits in the buffer: the reader is gone."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
