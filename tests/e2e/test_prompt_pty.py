"""Questions on a real terminal, answered, refused, closed and withdrawn."""

import json
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.terminal import Terminal

ROOT = Path(__file__).parents[2]
QUESTION = '? Confirm file_delete {"path": "output/stale.log"} [y/N]: '


def program(name: str, *arguments: str, **options: Any) -> Terminal:
    return Terminal([sys.executable, "-m", "tests.support.prompt_program", name, *arguments], cwd=ROOT, **options)


def response_of(terminal: Terminal) -> Any:
    terminal.expect("response: ")
    shown = terminal.expect("\n")
    assert terminal.exit_code() == 0
    return json.loads(shown)


@pytest.mark.parametrize(
    ("typed", "response"),
    [
        ("y", {"approved": True}),
        ("YES", {"approved": True}),
        ("n", {"approved": False}),
        ("", {"approved": False}),
        ("no, it is needed", {"approved": False, "reason": "it is needed"}),
    ],
)
def test_one_line_decides_a_confirmation(typed: str, response: Any) -> None:
    with program("confirm") as terminal:
        terminal.expect(QUESTION)
        terminal.send_line(typed)
        assert response_of(terminal) == response
        assert terminal.shown.startswith(f"{QUESTION}{typed}".rstrip() + "\nresponse: ")


@pytest.mark.parametrize("garbage", ["maybe", "yy", "y\xa0es", "нет", "\x1b[200~y\x1b[A\x1b[201~"])
def test_what_is_no_answer_asks_again(garbage: str) -> None:
    with program("confirm") as terminal:
        terminal.expect(QUESTION)
        terminal.send_line(garbage)
        terminal.expect("\n  ")
        terminal.expect(QUESTION)
        terminal.send_line("y")
        assert response_of(terminal) == {"approved": True}


def test_end_of_input_leaves_the_question_unanswered() -> None:
    with program("confirm") as terminal:
        terminal.expect(QUESTION)
        terminal.send("\x04")
        terminal.expect("\nclosed: ")
        assert terminal.exit_code() == 3


def test_end_of_input_after_a_half_typed_answer_is_no_answer() -> None:
    with program("confirm") as terminal:
        terminal.expect(QUESTION)
        terminal.send("y\x04\x04\x03\x04")
        terminal.expect("\nclosed: ")
        assert terminal.exit_code() == 3


@pytest.mark.parametrize("withdraw", [signal.SIGUSR1, "\x03"])
def test_a_withdrawn_question_leaves_a_fresh_line_and_nothing_half_typed(withdraw: signal.Signals | str) -> None:
    with program("confirm") as terminal:
        terminal.expect(QUESTION)
        terminal.send("yes plea")
        terminal.expect("yes plea")
        if isinstance(withdraw, str):
            terminal.send(2 * withdraw)
        else:
            terminal.signal(withdraw)
        terminal.expect("\nwithdrawn\n")
        terminal.send_line("later")
        terminal.expect("next line: 'later\\n', threads: 1")
        assert terminal.exit_code() == 0


@pytest.mark.parametrize("ahead", ["y\n", "y", "y\ny\ny\n"])
def test_what_is_typed_before_the_question_does_not_answer_it(ahead: str) -> None:
    with program("confirm", "late") as terminal:
        terminal.expect("ready\n")
        terminal.send(ahead)
        terminal.expect(ahead)
        terminal.signal(signal.SIGUSR1)
        terminal.expect(QUESTION)
        terminal.send_line()
        assert response_of(terminal) == {"approved": False}


def test_a_text_is_taken_as_typed() -> None:
    with program("input") as terminal:
        terminal.expect("? Enter the report title:\n> ")
        terminal.send_line("  Tschüss 日本 👋 ")
        assert response_of(terminal) == {"text": "  Tschüss 日本 👋 "}


def test_a_line_that_a_dumb_terminal_would_cut_is_refused() -> None:
    with program("input", env={"TERM": "dumb"}) as terminal:
        terminal.expect("> ")
        terminal.send_line("x" * 5000)
        terminal.expect("ends at 4095 bytes")
        terminal.expect("> ")
        terminal.send_line("short")
        assert response_of(terminal) == {"text": "short"}


def test_a_wrong_number_asks_again() -> None:
    with program("choice") as terminal:
        terminal.expect("? Which?\n  1. staging\n  2. production\nChoice: ")
        terminal.send_line("3")
        terminal.expect("  3 is no option; type a number from 1 to 2\nChoice: ")
        terminal.send_line("2")
        assert response_of(terminal) == {"selected": ["production"]}


def test_several_options_are_separated_by_commas() -> None:
    with program("multi") as terminal:
        terminal.expect("  3. c\n  (several are allowed, separated by commas)\nChoice: ")
        terminal.send_line("3, a")
        assert response_of(terminal) == {"selected": ["a", "c"]}


def test_a_custom_request_takes_the_json_that_its_schema_allows() -> None:
    with program("custom") as terminal:
        terminal.expect('  {\n    "type": "rating"\n  }\n  The answer must fit the JSON Schema {"type": "integer"}\n')
        terminal.expect("? Rate it\nJSON: ")
        terminal.send_line("five")
        terminal.expect("not JSON: ")
        terminal.expect("JSON: ")
        terminal.send_line('"five"')
        terminal.expect("does not fit the request's schema")
        terminal.expect("JSON: ")
        terminal.send_line("5")
        assert response_of(terminal) == 5


def test_structured_questions_come_one_after_the_other() -> None:
    with program("questions") as terminal:
        terminal.expect("? How?  [Way]  (1/2)\n  1. Fast\n     In a hurry\n  2. Slow\n     │ 1\n     │   2\n")
        terminal.expect("  3. Other\nChoice: ")
        terminal.send_line("4")
        terminal.expect("  4 is no option; type a number from 1 to 3\nChoice: ")
        terminal.send_line("1,2")
        terminal.expect("is no option; type a number from 1 to 3\nChoice: ")
        terminal.send_line("3")
        terminal.expect("Other: ")
        terminal.send_line("  ")
        terminal.expect("  an own answer cannot be empty\nOther: ")
        terminal.send_line("with care")
        terminal.expect("? What?  [Kind]  (2/2)\n  1. A\n  2. B\n  3. Other\n")
        terminal.expect("  (several are allowed, separated by commas)\nChoice: ")
        terminal.send_line("2 1 3")
        terminal.expect("Other: ")
        terminal.send_line("Ü")
        assert response_of(terminal) == {"answers": {"How?": "with care", "What?": ["A", "B", "Ü"]}}


@pytest.mark.parametrize("own", ["A", "B"])
def test_an_own_text_that_is_the_label_of_an_option_is_that_option_once(own: str) -> None:
    with program("questions") as terminal:
        terminal.expect("Choice: ")
        terminal.answer("Fast")
        terminal.expect("Choice: ")
        terminal.send_line("1 3")
        terminal.expect("Other: ")
        terminal.send_line(own)
        assert response_of(terminal)["answers"]["What?"] == sorted({"A", own})


@pytest.mark.parametrize("out", ["\x04", "\x03"])
def test_backing_out_of_a_later_question_answers_none(out: str) -> None:
    with program("questions") as terminal:
        terminal.expect("Choice: ")
        terminal.send_line("1")
        terminal.expect("(2/2)")
        terminal.expect("Choice: ")
        terminal.send(out)
        terminal.expect("\nclosed: " if out == "\x04" else "\nwithdrawn\n")
        if out == "\x03":
            terminal.send_line()
        assert terminal.exit_code() == (3 if out == "\x04" else 0)
        assert "response: " not in terminal.screen


def test_a_preview_higher_than_the_screen_goes_through_the_pager() -> None:
    with program("tall", env={"PAGER": "sed s/line/paged/"}) as terminal:
        assert "line" not in terminal.expect("│ paged 59")
        terminal.expect("? How?  [Topic]\n  1. Fast\n  2. Slow\n  3. Other\nChoice: ")
        terminal.send_line("Slow")
        assert response_of(terminal) == {"answers": {"How?": "Slow"}}


def test_a_long_preview_goes_through_the_pager_and_the_question_follows() -> None:
    with program("long", env={"PAGER": "sed s/line/paged/"}) as terminal:
        terminal.expect("  (longer than the screen; q goes to the question)\n")
        assert "+line" not in terminal.expect("+paged 99")
        terminal.expect(QUESTION)
        terminal.send_line("y")
        assert response_of(terminal) == {"approved": True}


@pytest.mark.parametrize("pager", ["", "false", "no-such-pager", "'"])
def test_without_a_working_pager_a_long_preview_is_printed_whole(pager: str) -> None:
    with program("long", env={"PAGER": pager}) as terminal:
        shown = terminal.expect(QUESTION)
        assert [f"  +line {number}" for number in range(100)] == shown.split("\n")[:100]


PAGER = """
import os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(os.write(1, b"pager ended\\n") and 0))
print(sys.stdin.read(), flush=True)
signal.pause()
"""


def test_a_question_that_is_withdrawn_in_the_pager_ends_the_pager() -> None:
    with program("long", env={"PAGER": shlex.join([sys.executable, "-c", PAGER])}) as terminal:
        terminal.expect("+line 99")
        terminal.signal(signal.SIGUSR1)
        terminal.expect("pager ended\nwithdrawn\n")
        terminal.send_line("echoed")
        terminal.expect("echoed\nnext line: 'echoed\\n'")
        assert terminal.exit_code() == 0


def test_a_pager_that_leaves_the_terminal_raw_does_no_harm() -> None:
    with program("long", env={"PAGER": "stty -F /dev/tty raw -echo"}) as terminal:
        terminal.expect(QUESTION)
        terminal.send_line("y")
        assert response_of(terminal) == {"approved": True}


def test_arguments_too_long_for_a_question_stand_whole_above_it() -> None:
    with program("huge") as terminal:
        assert "xEND" in terminal.expect("… (whole above) [y/N]: ")
