"""Pastes at every kind of question: they belong to the question, never end it, and leave nothing for the shell."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.asking import asking, response_of
from tests.support.on_terminal import FunctionTerminal

LINES = "y\necho into the shell\n1"
LONG = "0123456789" * 10 + "\n"
HUGE = LONG * 1024

QUESTIONS: dict[str, tuple[str, str, Any]] = {
    "confirm": ("[y/N]: ", "n", {"approved": False}),
    "input": ("> ", "Title", {"text": "Title"}),
    "choice": ("Choice: ", "2", {"selected": ["production"]}),
    "multi": ("Choice: ", "1,3", {"selected": ["a", "c"]}),
    "custom": ("JSON: ", "5", 5),
}
"""The prompt of each kind, an answer, and its response."""


def marked(text: str) -> str:
    """A paste as most terminals send it."""
    return f"\x1b[200~{text}\x1b[201~"


def cleared(terminal: FunctionTerminal) -> None:
    """Clears what is typed with Ctrl-C."""
    terminal.send("\x03")
    terminal.expect("\x1b[K")
    terminal.expect("\x1b[?25h")


def to_own_text(terminal: FunctionTerminal) -> None:
    """Answers the structured questions up to the text of one's own."""
    terminal.expect("Choice: ")
    terminal.send_line("3")
    terminal.expect("Other: ")


@pytest.mark.parametrize("paste", [marked(LINES), LINES, LINES + "\n"], ids=["marked", "unmarked", "ended"])
@pytest.mark.parametrize("kind", QUESTIONS)
def test_three_lines_stand_at_the_question_until_they_are_cleared(kind: str, paste: str) -> None:
    prompt, answer, response = QUESTIONS[kind]
    with asking(kind) as terminal:
        terminal.expect(prompt)
        terminal.send(paste)
        terminal.expect("y\n  echo into the shell\n  1")
        cleared(terminal)
        terminal.send_line(answer)
        assert response_of(terminal) == response


@pytest.mark.parametrize(
    ("kind", "paste"),
    [("confirm", LINES), ("confirm", LINES + "\n"), ("choice", LINES), ("multi", LINES), ("custom", LINES)],
)
def test_three_lines_that_are_entered_are_no_answer_of_these_kinds(kind: str, paste: str) -> None:
    prompt, answer, response = QUESTIONS[kind]
    with asking(kind) as terminal:
        terminal.expect(prompt)
        terminal.send(marked(paste))
        terminal.expect("\n  1")
        terminal.send_line()
        terminal.expect("  3 lines came at once, and none of them counts: ")
        terminal.expect(prompt if kind == "confirm" else f"\n{prompt}")
        terminal.send_line(answer)
        assert response_of(terminal) == response


@pytest.mark.parametrize("paste", [marked(LINES), LINES], ids=["marked", "unmarked"])
def test_three_lines_are_one_text(paste: str) -> None:
    with asking("input") as terminal:
        terminal.expect("> ")
        terminal.send(paste)
        terminal.expect("  1")
        terminal.send_line("!")
        assert response_of(terminal) == {"text": f"{LINES}!"}


def test_three_lines_are_one_text_of_ones_own() -> None:
    with asking("questions") as terminal:
        to_own_text(terminal)
        terminal.send(LINES)
        terminal.expect("  1")
        terminal.send_line()
        terminal.expect("Choice: ")
        terminal.send_line("1")
        assert response_of(terminal) == {"answers": {"How?": LINES, "What?": ["A"]}}


def test_json_may_have_lines() -> None:
    with asking("custom") as terminal:
        terminal.expect("JSON: ")
        terminal.send("\n5\n")
        terminal.expect("  5")
        terminal.send_line()
        assert response_of(terminal) == 5


@pytest.mark.parametrize("paste", [marked(HUGE), HUGE], ids=["marked", "unmarked"])
@pytest.mark.parametrize(
    "kind",
    ["confirm", "input", *(pytest.param(kind, marks=pytest.mark.stress) for kind in ("choice", "multi", "custom"))],
)
def test_a_hundred_kilobytes(kind: str, paste: str) -> None:
    prompt, answer, response = QUESTIONS[kind]
    with asking(kind, columns=120) as terminal:
        terminal.expect(prompt)
        terminal.send(paste)
        terminal.expect(LONG[:-1])
        terminal.expect("\x1b[?25h")
        if kind == "input":
            terminal.send_line("end")
            assert response_of(terminal) == {"text": f"{HUGE}end"}
        else:
            cleared(terminal)
            terminal.send_line(answer)
            assert response_of(terminal) == response


@pytest.mark.stress
def test_a_single_line_of_a_hundred_kilobytes() -> None:
    text = HUGE.replace("\n", "日")
    with asking("input") as terminal:
        terminal.expect("> ")
        terminal.send(marked(text))
        terminal.expect("0123456789")
        terminal.send_line()
        assert response_of(terminal) == {"text": text}


@pytest.mark.parametrize("paste", [LINES, LINES + "\n"], ids=["open", "ended"])
@pytest.mark.parametrize("kind", ["confirm", "choice", "multi", "custom"])
def test_on_a_dumb_terminal_lines_at_once_are_refused(kind: str, paste: str) -> None:
    prompt, answer, response = QUESTIONS[kind]
    with asking(kind, term="dumb") as terminal:
        terminal.expect(prompt)
        terminal.send(paste)
        if paste == LINES:
            terminal.send_line()
        terminal.expect("  3 lines came at once, and none of them counts: ")
        terminal.expect(prompt if kind == "confirm" else f"\n{prompt}")
        terminal.send_line(answer)
        assert response_of(terminal) == response
        assert "\x1b" not in terminal.screen


@pytest.mark.parametrize(("kind", "paste"), [("confirm", "\ny\n"), ("choice", "\n1\n")])
def test_on_a_dumb_terminal_blank_lines_before_an_answer_do_not_make_it_one(kind: str, paste: str) -> None:
    prompt, answer, response = QUESTIONS[kind]
    with asking(kind, term="dumb") as terminal:
        terminal.expect(prompt)
        terminal.send(paste)
        terminal.expect("lines came at once, and none of them counts: ")
        terminal.expect(prompt if kind == "confirm" else f"\n{prompt}")
        terminal.send_line(answer)
        assert response_of(terminal) == response


@pytest.mark.parametrize("paste", [LINES, LINES + "\n"], ids=["open", "ended"])
def test_on_a_dumb_terminal_lines_at_once_are_one_text(paste: str) -> None:
    with asking("input", term="dumb") as terminal:
        terminal.expect("> ")
        terminal.send(paste)
        if paste == LINES:
            terminal.send_line()
        assert response_of(terminal) == {"text": LINES}


def test_what_is_pasted_is_shown_and_nothing_of_it_is_obeyed() -> None:
    text = "a\x1b[31mb\u202ec\u200bd\te"
    with asking("input") as terminal:
        terminal.expect("> ")
        terminal.send(marked(text))
        terminal.expect(r"a\x1b[31mb\u202ec\u200bd")
        terminal.send_line()
        terminal.expect("the answer holds control characters")
        terminal.expect("> ")
        terminal.send(marked("b\u202ec"))
        terminal.send_line()
        assert response_of(terminal) == {"text": "b\u202ec"}
        assert json.dumps("b\u202ec") in terminal.shown
