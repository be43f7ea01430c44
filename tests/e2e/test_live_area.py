"""Rows that come and go on a real terminal: nothing of them stays, whatever happens meanwhile."""

from __future__ import annotations

import os
import signal
import termios
import time

import pytest

from agent_md.cli.terminal.live_rows import LiveArea
from agent_md.cli.views.screen import Screen
from tests.support.emulator import Emulator
from tests.support.on_terminal import FunctionTerminal

ROWS = ["⠋ one row that is rather long, and then some", "日本語 " * 8, "third\x20"]


def area() -> LiveArea:
    stream = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - the process ends with it
    return LiveArea(stream, Screen(80, 24))


def say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


def wait_for_line() -> None:
    os.read(0, 100)


def test_rows_are_replaced_and_taken_away() -> None:
    def program() -> None:
        live = area()
        say("before")
        live.show(*ROWS)
        live.show(*ROWS[:1])
        live.withdraw()
        live.withdraw()
        say("between")
        live.show(*ROWS)
        live.withdraw()
        say("after")

    with FunctionTerminal(program, columns=60) as terminal:
        assert terminal.exit_code() == 0
        assert terminal.shown == "before\nbetween\nafter\n"
        emulator = Emulator(60)
        emulator.feed(terminal.screen.replace("\n", "\r\n"))
        first, second, third = emulator.frames
        assert first == "before\n" + "\n".join(row.rstrip() for row in ROWS)
        assert (second, third) == (f"before\n{ROWS[0]}", first.replace("before", "before\nbetween"))


def test_it_works_at_the_bottom_of_the_screen() -> None:
    def program() -> None:
        live = area()
        for number in range(40):
            say(str(number))
            live.show(*ROWS)
            live.withdraw()

    with FunctionTerminal(program, rows=5, columns=60) as terminal:
        assert terminal.exit_code() == 0
        assert terminal.shown == "".join(f"{number}\n" for number in range(40))


@pytest.mark.parametrize("columns", [7, 20, 59, 200])
def test_a_resize_leaves_nothing(columns: int) -> None:
    def program() -> None:
        live = area()
        say("before")
        live.show(*ROWS)
        wait_for_line()
        live.show(*ROWS)
        live.withdraw()
        say("after")

    with FunctionTerminal(program, columns=60) as terminal:
        terminal.expect("third")
        terminal.expect("\r")
        until_then = len(terminal.screen)
        terminal.send_line()
        assert terminal.exit_code() == 0
        emulator = Emulator(60)
        emulator.feed(terminal.screen[:until_then].replace("\n", "\r\n"))
        emulator.resize(columns)
        emulator.feed(terminal.screen[until_then:].replace("\n", "\r\n"))
        assert emulator.text == "before\nafter\n"


def test_what_is_typed_meanwhile_moves_nothing_and_is_kept() -> None:
    def program() -> None:
        live = area()
        live.show(*ROWS)
        wait_for_line()
        live.withdraw()
        say("read")
        os.read(0, 100)

    with FunctionTerminal(program) as terminal:
        terminal.expect("third")
        terminal.send_line("typed")
        terminal.expect("read")
        terminal.send_line("echoed")
        assert terminal.exit_code() == 0
        assert terminal.shown == "read\nechoed\n"


def test_ctrl_z_takes_the_rows_away_and_they_come_back() -> None:
    def program() -> None:
        live = area()
        with live.suspendable():
            live.show("running")
            os.kill(os.getpid(), signal.SIGTSTP)
            assert termios.tcgetattr(0)[3] & termios.ECHO
            live.show("again")
            live.withdraw()
            say("done")
        assert signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL

    with FunctionTerminal(program, shell=True) as terminal:
        assert terminal.exit_code() == 0
        terminal.expect("running")
        terminal.expect("stopped")
        terminal.expect("again")
        assert terminal.shown == "stopped\ndone\n"


def test_a_stop_that_nobody_was_asked_about_takes_nothing_of_the_shell_away() -> None:
    def program() -> None:
        live = area()
        with live.suspendable():
            live.show("running")
            os.kill(os.getpid(), signal.SIGSTOP)
            live.withdraw()
            say("done")

    with FunctionTerminal(program, shell=True) as terminal:
        assert terminal.exit_code() == 0
        assert terminal.shown.endswith("stopped\ndone\n") or terminal.shown.startswith("stopped\ndone\n")


def test_a_process_in_the_background_shows_nothing() -> None:
    def program() -> None:
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            live = area()
            live.show(*ROWS)
            live.withdraw()
            say("background")
            os._exit(0)
        os.waitpid(child, 0)

    with FunctionTerminal(program) as terminal:
        assert terminal.exit_code() == 0
        assert terminal.screen == "background\n"


@pytest.mark.parametrize("environ", [{"TERM": "dumb"}, {}, {"TERM": "xterm", "CI": "1"}])
def test_where_nothing_is_shown(environ: dict[str, str]) -> None:
    def program() -> None:
        assert_nothing_is_shown(LiveArea.of(environ))
        say("done")

    with FunctionTerminal(program) as terminal:
        assert terminal.exit_code() == 0
        assert terminal.screen == "done\n"


def test_nothing_is_shown_in_a_pipe() -> None:
    assert_nothing_is_shown(LiveArea.of({"TERM": "xterm"}))


def assert_nothing_is_shown(live: LiveArea) -> None:
    assert not live.enabled
    live.show(*ROWS)
    live.withdraw()
    with live.suspendable():
        assert signal.getsignal(signal.SIGTSTP) is signal.SIG_DFL


def test_a_signal_handler_can_write_a_line_at_any_moment() -> None:
    def program() -> None:
        live = area()
        said = 0

        def line(*_: object) -> None:
            nonlocal said
            live.make_room()
            say("a line")
            said += 1

        signal.signal(signal.SIGALRM, line)
        signal.setitimer(signal.ITIMER_REAL, 0.0007, 0.0007)
        while said < 200:
            live.show(*ROWS)
            live.show(*ROWS[:1])
            time.sleep(0.001)  # so that the terminal is never full
        signal.setitimer(signal.ITIMER_REAL, 0)
        live.withdraw()
        say("done")

    with FunctionTerminal(program, columns=60, rows=50) as terminal:
        assert terminal.exit_code() == 0
        *lines, last = terminal.shown.splitlines()
        assert (set(lines), last) == ({"a line"}, "done")
        assert len(lines) >= 200
