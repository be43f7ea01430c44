"""What a chat with a server shows: its own lines, the ends of turns, and that the server works."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from agent_md.cli.chat.flow import ChatLines
from agent_md.cli.command_context import screen
from agent_md.cli.terminal.live_rows import LiveArea
from agent_md.cli.terminal.output import NoReader, give_up, note, remark, say
from agent_md.cli.terminal.spinner import QUIET_S, TICK_S, progress_row
from agent_md.cli.terminal.standard_streams import person
from agent_md.cli.views.chat_texts import TYPING
from agent_md.cli.views.event_lines import Said, cut_text, lines_of
from agent_md.cli.views.screen import Style
from agent_md.cli.views.visible_text import one_line, wrapped

__all__ = ["HELP", "RemoteOutput"]

HELP = (*TYPING, "  Ctrl-C leaves: a turn goes on at the server, a question stays open.")


class RemoteOutput(ChatLines):
    """Prints for a chat with `agent`."""

    def __init__(self, agent: str, *, talks: bool) -> None:
        super().__init__(talks=talks)
        self.live = LiveArea.of(screen())
        self._agent = agent
        self.lost = False
        """Whether something that was printed reached nobody."""
        self._after_prompt = False
        self._label: str | None = None
        self._since = 0.0

    def answered(self, text: str, cut: str | None) -> None:
        """A turn ended well; `cut`: why its text is not whole."""
        self._print(("✅", text.strip("\n") or "(no text)", ()))
        if cut is not None:
            self._print(("✂", cut_text(cut), (Style.ATTENTION,)))

    def failed(self, error: str) -> None:
        """A turn ended as an error."""
        self._print(("❌", error.strip("\n") or "ended without a reason", (Style.RED,)))

    def wrote(self, texts: Sequence[str]) -> None:
        """What the agent said before it asks."""
        for text in texts:
            self._print(("💬", text.strip("\n"), ()))

    def asked(self, questions: Sequence[str]) -> None:
        """Visible questions that nobody is asked here."""
        for question in questions:
            self.note(f"? {question}")

    def prompted(self) -> None:
        """A question was answered at this terminal."""
        self._after_prompt = True

    def withdrawn(self, why: str) -> None:
        """A question that was open at this terminal, or its answer, counts no more; `why` is visible."""
        for piece in wrapped(f"  Withdrawn: {why}", screen().width):
            self._say(screen().painter(piece, Style.ATTENTION))

    def note(self, text: str) -> None:
        """One line to standard error, made visible, and folded on a terminal."""
        self.live.withdraw()
        remark(one_line(text))

    # Progress

    @contextmanager
    def working(self, label: str) -> Iterator[None]:
        """As long as this lasts it may be seen that something goes on."""
        self._label, self._since = label, time.monotonic()
        try:
            yield
        finally:
            self._label = None
            self.live.withdraw()

    async def show_progress(self) -> None:
        """Shows it until cancelled; returns at once where nothing can be shown."""
        step = 0
        while self.live.enabled:
            await asyncio.sleep(TICK_S)
            passed = time.monotonic() - self._since
            if self._label is not None and passed >= QUIET_S:
                step += 1
                columns, _ = self.live.size()
                row = progress_row(step, one_line(self._agent), self._label, passed, columns)
                self.live.show([self.live.screen.painter(row, Style.DIM)])

    def _print(self, said: Said) -> None:
        shown = screen()
        if self._after_prompt:
            self._say("")
        self._after_prompt = False
        for line in lines_of(shown.time(time.time()), self._agent, said, shown):
            self._say(line)

    def _say(self, line: str) -> None:
        self.live.withdraw()
        try:
            say(line)
        except NoReader:
            self.lost = True
        except OSError as error:
            self.lost = True
            give_up(person(sys.stdout))
            note(f"standard output cannot be written ({error.strerror})")
