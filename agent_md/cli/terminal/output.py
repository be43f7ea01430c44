"""Prints lines for people and results for programs. Standard output is for results, standard error for notes."""

from __future__ import annotations

import os
import sys
from typing import TextIO

from agent_md.cli.terminal.standard_streams import person
from agent_md.cli.views.screen import Screen
from agent_md.cli.views.visible_text import one_line, visible, wrapped

__all__ = ["NoReader", "give_up", "note", "remark", "say"]


class NoReader(Exception):
    """Nobody reads standard output any more; whatever is printed from now on goes nowhere."""


def say(*lines: str) -> None:
    """Lines to standard output, at once. Raises NoReader, or OSError when they cannot be written."""
    out = person(sys.stdout)
    try:
        for line in lines:
            print(line, file=out)
        out.flush()
    except BrokenPipeError:
        give_up(out)
        raise NoReader from None


def note(text: str) -> None:
    """A line for the person, to standard error; standard output is for results."""
    try:
        print(one_line(text), file=person(sys.stderr), flush=True)
    except OSError:
        give_up(person(sys.stderr))


def remark(text: str) -> None:
    """Lines for the person, to standard error; on a terminal folded at words."""
    width = Screen.of(person(sys.stderr)).width
    for line in visible(text).split("\n"):
        for piece in wrapped(line, width):
            note(piece.rstrip())


def give_up(stream: TextIO) -> None:
    """Sends to nowhere what is still to be written, and what waits in the buffer: the reader is gone."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
