"""Prints lines for people and results for programs. Standard output is for results, standard error for notes.

What is shown to people are renderables of Rich, or visible lines. Nothing is ever parsed as markup.
"""

from __future__ import annotations

import io
import os
import sys
from typing import TYPE_CHECKING, TextIO

from agent_md.cli.views.screen import PLAIN, Screen
from agent_md.process.standard_streams import person
from agent_md.visible_text import one_line, visible

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["NoReader", "give_up", "note", "remark", "rendered", "say"]

_UNLIMITED = 1 << 20
"""Columns of a pipe: what is printed there is not folded."""


class NoReader(Exception):
    """Nobody reads standard output any more; whatever is printed from now on goes nowhere."""


def say(*items: RenderableType) -> None:
    """Visible lines and renderables to standard output, at once. Raises NoReader, or OSError when they cannot be
    written."""
    out = person(sys.stdout)
    try:
        for item in items:
            print(item if isinstance(item, str) else "\n".join(rendered(item, Screen.of(out))), file=out)
        out.flush()
    except BrokenPipeError:
        give_up(out)
        raise NoReader from None


def rendered(item: RenderableType, screen: Screen) -> list[str]:
    """The lines of a renderable on this screen, with the sequences for its looks."""
    from rich.console import Console  # only commands that print such things pay for it
    from rich.theme import Theme

    from agent_md.cli.views.looks import LOOKS

    lines = io.StringIO()
    console = Console(
        file=lines,
        width=screen.width or _UNLIMITED,
        height=screen.height or _UNLIMITED,
        color_system="standard" if screen.painter.colour else None,
        force_terminal=screen.painter.colour,
        legacy_windows=False,
        theme=Theme(LOOKS),
        markup=False,
        emoji=False,
        highlight=False,
    )
    console.print(item, no_wrap=screen.width is None or None)
    return [line.rstrip() for line in lines.getvalue().split("\n")[:-1]]


def note(item: RenderableType) -> None:
    """A line for the person, to standard error; standard output is for results."""
    lines = [one_line(item)] if isinstance(item, str) else rendered(item, PLAIN)
    try:
        for line in lines:
            print(line, file=person(sys.stderr), flush=True)
    except OSError:
        give_up(person(sys.stderr))


def remark(text: str) -> None:
    """Lines for the person, to standard error; on a terminal folded at words. What is folded is indented: a text of
    others that is long enough must not begin a line of the screen, where questions do."""
    err = person(sys.stderr)
    for line in visible(text).split("\n"):
        if err.isatty():
            from agent_md.cli.views.hanging import paragraph

            for piece in rendered(paragraph(line), Screen.of(err)):
                note(piece)
        else:
            note(line)


def give_up(stream: TextIO) -> None:
    """Sends to nowhere what is still to be written, and what waits in the buffer: the reader is gone."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
