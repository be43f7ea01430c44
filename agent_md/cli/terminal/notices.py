"""Rings the bell or sends a desktop notification when a question opens."""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping
from contextlib import suppress
from typing import TextIO

from agent_md.cli.views.text_width import cut
from agent_md.process.standard_streams import person, write_now
from agent_md.settings import TerminalSettings
from agent_md.visible_text import one_line

__all__ = ["Notices"]

_WIDEST = 200
_BELL = "\a"
_FORMS = {"osc9": "\x1b]9;agentmd: {}\x1b\\", "osc777": "\x1b]777;notify;agentmd;{}\x1b\\"}


class Notices:
    """Notifies about new questions, each once, but not about questions that were open before."""

    def __init__(
        self, settings: TerminalSettings, output: TextIO | None = None, environ: Mapping[str, str] = os.environ
    ) -> None:
        """Without `output` it is that of the person; nothing is written to what is no terminal."""
        self._output = person(sys.stdout) if output is None else output
        drawn = environ.get("TERM", "dumb") != "dumb"
        form = _FORMS.get(settings.notice, "") if drawn else ""
        self._form = _through_tmux(form) if form and environ.get("TMUX") else form
        self._bell = _BELL if settings.bell else ""
        self._known: set[str] = set()

    def know(self, questions: Collection[str]) -> None:
        """Takes these questions, by their ids, for known."""
        self._known.update(questions)

    def tell(self, questions: Collection[str], agent: str, text: str) -> None:
        """Tells that the agent asks `text`, the first of these open questions, if one of them is new. The cursor must be
        where text may be written."""
        new = not self._known.issuperset(questions)
        self.know(questions)
        if not new or not self._output.isatty():
            return
        shown = cut(one_line(f"{agent} asks: {text}"), _WIDEST)  # no control character is left in it
        with suppress(OSError):  # a terminal that is gone is noticed by whoever asks
            self._output.flush()
            write_now(self._output, f"{self._form.format(shown) if self._form else ''}{self._bell}")


def _through_tmux(form: str) -> str:
    """The sequence for the terminal that tmux runs in; tmux lets it through if its user allows that."""
    return "\x1bPtmux;" + form.replace("\x1b", "\x1b\x1b") + "\x1b\\"
