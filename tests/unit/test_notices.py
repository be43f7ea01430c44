"""What calls somebody to the terminal: which questions, in which form, and never anything that the terminal obeys."""

from __future__ import annotations

import io
import os
import re
import tty
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_md.cli.terminal.notices import Notices
from agent_md.settings import TerminalSettings, users_terminal

BOTH = TerminalSettings(bell=True, notice="osc9")


class Seen:
    """A terminal, and what was written to it since one looked last."""

    def __init__(self) -> None:
        self._there, here = os.openpty()
        tty.setraw(here)
        os.set_blocking(self._there, False)
        self.stream = open(here, "w", encoding="utf-8")  # noqa: SIM115 - closed by `close`

    def notices(self, settings: TerminalSettings, term: str = "xterm") -> Notices:
        return Notices(settings, self.stream, {"TERM": term})

    def text(self) -> str:
        try:
            return os.read(self._there, 65536).decode()
        except BlockingIOError:
            return ""

    def close(self) -> None:
        self.stream.close()
        os.close(self._there)


@pytest.fixture
def seen() -> Iterator[Seen]:
    found = Seen()
    yield found
    found.close()


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (TerminalSettings(), ""),
        (TerminalSettings(bell=True), "\a"),
        (TerminalSettings(notice="osc9"), "\x1b]9;agentmd: cleaner asks: Delete it?\x1b\\"),
        (TerminalSettings(notice="osc777"), "\x1b]777;notify;agentmd;cleaner asks: Delete it?\x1b\\"),
        (BOTH, "\x1b]9;agentmd: cleaner asks: Delete it?\x1b\\\a"),
    ],
)
def test_a_question_is_told_in_the_form_that_is_set(seen: Seen, settings: TerminalSettings, told: str) -> None:
    seen.notices(settings).tell(["1-0.0"], "cleaner", "Delete it?")
    assert seen.text() == told


def test_tmux_is_asked_to_let_it_through(seen: Seen) -> None:
    Notices(BOTH, seen.stream, {"TERM": "tmux", "TMUX": "/tmp/x,1,0"}).tell(["1"], "cleaner", "Sure?")
    assert seen.text() == "\x1bPtmux;\x1b\x1b]9;agentmd: cleaner asks: Sure?\x1b\x1b\\\x1b\\\a"


def test_a_terminal_that_draws_nothing_only_rings(seen: Seen) -> None:
    seen.notices(BOTH, term="dumb").tell(["1-0.0"], "cleaner", "Delete it?")
    assert seen.text() == "\a"


def test_each_question_is_told_once_and_those_that_were_open_never(seen: Seen) -> None:
    notices = seen.notices(TerminalSettings(bell=True))
    notices.know(["1-0.0"])
    for questions, told in (
        (["1-0.0"], ""),
        (["1-1.0", "1-1.1"], "\a"),
        (["1-1.1"], ""),
        (["1-2.0"], "\a"),
    ):
        notices.tell(questions, "cleaner", "Sure?")
        assert seen.text() == told, questions


@pytest.mark.parametrize(
    "hostile",
    ["\x1b]52;c;aGk=\x07", "a\x07b", "\x9c\x9d0;x", "x\x1b\\\x1b[2J", "one\ntwo\r\n", "\u202eevil", "\udcff", "4;3;50"],
)
@pytest.mark.parametrize("notice", ["osc9", "osc777"])
def test_nothing_of_others_is_obeyed(seen: Seen, notice: str, hostile: str) -> None:
    seen.notices(TerminalSettings(notice=notice)).tell(["1"], hostile, hostile)
    inside = re.fullmatch(r"\x1b\](?:9;agentmd: |777;notify;agentmd;)(.*)\x1b\\", seen.text())
    assert inside is not None
    assert inside[1].isprintable()
    assert " asks: " in inside[1]


def test_a_long_question_is_cut(seen: Seen) -> None:
    seen.notices(TerminalSettings(notice="osc9")).tell(["1"], "cleaner", "x" * 10_000)
    assert len(seen.text()) < 250


def test_nothing_is_written_to_what_is_no_terminal() -> None:
    output = io.StringIO()
    Notices(BOTH, output, {"TERM": "xterm"}).tell(["1"], "cleaner", "Sure?")
    assert output.getvalue() == ""


def test_a_command_without_a_workspace_asks_the_users_config(tmp_path: Path) -> None:
    assert users_terminal({}, tmp_path) == TerminalSettings()
    config = tmp_path / ".config/agentmd/config.yaml"
    config.parent.mkdir(parents=True)
    config.write_text("terminal: {bell: true, notice: osc7}\nlog_level: INFO\n")
    assert users_terminal({}, tmp_path) == TerminalSettings(bell=True)
    assert users_terminal({"XDG_CONFIG_HOME": str(tmp_path / "other")}, tmp_path) == TerminalSettings()
