"""The output of a remote chat: its own lines, results of turns, and progress."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from agent_md.cli.chat.conversation import ChatLines
from agent_md.cli.terminal.live_rows import QUIET_S, TICK_S, LiveArea
from agent_md.cli.terminal.output import NoReader, give_up, note, remark, say
from agent_md.cli.views.chat_texts import TYPING
from agent_md.cli.views.event_lines import EventLine, Said, cut_text
from agent_md.cli.views.hanging_indent import paragraph
from agent_md.cli.views.progress_rows import Working
from agent_md.process.standard_streams import person
from agent_md.visible_text import one_line

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["HELP", "RemoteOutput"]

HELP = (*TYPING, "  Ctrl-C leaves: a turn goes on at the server, a question stays open.")


class RemoteOutput(ChatLines):
    """Prints for a chat with `agent`."""

    def __init__(self, agent: str, *, talks: bool) -> None:
        super().__init__(talks=talks)
        self.live = LiveArea.of()
        self._agent = agent
        self.lost = False
        """Whether something that was printed reached nobody."""
        self._after_prompt = False
        self._working = Working(one_line(agent))
        self._since = 0.0

    def answered(self, text: str, cut: str | None) -> None:
        """A turn ended well; `cut`: why its text is not whole."""
        self._print(("✅", text.strip("\n") or "(no text)", ""))
        if cut is not None:
            self._print(("✂", cut_text(cut), "attention"))

    def failed(self, error: str) -> None:
        """A turn ended as an error."""
        self._print(("❌", error.strip("\n") or "ended without a reason", "failed"))

    def wrote(self, texts: Sequence[str]) -> None:
        """What the agent said before it asks."""
        for text in texts:
            self._print(("💬", text.strip("\n"), ""))

    def asked(self, questions: Sequence[str]) -> None:
        """Visible questions that nobody is asked here."""
        for question in questions:
            self.note(f"? {question}")

    def prompted(self) -> None:
        """A question was answered at this terminal."""
        self._after_prompt = True

    def withdrawn(self, why: str) -> None:
        """A question that was open at this terminal, or its answer, counts no more; `why` is visible."""
        self._say(paragraph(f"  Withdrawn: {why}", "attention"))

    def note(self, text: str) -> None:
        """One line to standard error, made visible, and folded on a terminal."""
        self.live.withdraw()
        remark(one_line(text))

    # Progress

    @contextmanager
    def working(self, label: str) -> Iterator[None]:
        """As long as this lasts it may be seen that something goes on."""
        self._working.label, self._since = label, time.monotonic()
        try:
            yield
        finally:
            self._working.label = ""
            self.live.withdraw()

    async def show_progress(self) -> None:
        """Shows it until cancelled; returns at once where nothing can be shown."""
        while self.live.enabled:
            await asyncio.sleep(TICK_S)
            self._working.passed = time.monotonic() - self._since
            if self._working.label and self._working.passed >= QUIET_S:
                self.live.show(self._working)

    def _print(self, said: Said) -> None:
        if self._after_prompt:
            self._say("")
        self._after_prompt = False
        self._say(EventLine(time.time(), self._agent, said, markdown=True))

    def _say(self, line: RenderableType) -> None:
        self.live.withdraw()
        try:
            say(line)
        except NoReader:
            self.lost = True
        except OSError as error:
            self.lost = True
            give_up(person(sys.stdout))
            note(f"standard output cannot be written ({error.strerror})")
