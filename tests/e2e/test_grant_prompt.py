"""What may be allowed from now on, settled at a question on a real terminal."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.asking import asking, response_of

QUESTION = '? Confirm file_delete {"path": "output/stale.log"} [y/N]: '
SECOND = "? Allow this without asking [y/N]: "


def test_rule_scope_and_end_are_shown_and_changed_and_a_second_yes_allows_them() -> None:
    with asking("offered") as terminal:
        terminal.expect(QUESTION)
        terminal.send_line("a")
        shown = terminal.expect(SECOND)
        assert "  rule   file_delete(output/*)\n" in shown
        assert "  scope  this session  (or execution, agent)\n" in shown
        assert "  end    ends after 8h  (or 30m, 2d, never)\n" in shown
        for typed, seen in (
            ("file_delete(output/*.log)", "rule   file_delete(output/*.log)\n"),
            ("agent", "scope  this agent  (or session, execution)\n"),
            ("never", "end    never ends"),
        ):
            terminal.send_line(typed)
            assert seen in terminal.expect(SECOND)
        terminal.send_line("file_delete")
        terminal.expect("allows more than")
        terminal.expect(SECOND)
        terminal.send_line("\x1b[200~y\ny\x1b[201~")
        terminal.expect("2 lines came at once")
        terminal.expect(SECOND)
        terminal.send_line("y")
        remember = {"rule": "file_delete(output/*.log)", "scope": "agent", "until": "never"}
        assert response_of(terminal) == {"approved": True, "remember": remember}


@pytest.mark.parametrize(("then", "response"), [("y", {"approved": True}), ("", {"approved": False})])
def test_going_back_has_decided_nothing(then: str, response: Any) -> None:
    with asking("offered") as terminal:
        terminal.expect(QUESTION)
        terminal.send_line("a")
        terminal.expect(SECOND)
        terminal.send_line("")
        terminal.expect(QUESTION)
        terminal.send_line(then)
        assert response_of(terminal) == response


def test_a_call_that_no_rule_says_exactly_is_only_approved() -> None:
    with asking("confirm") as terminal:
        terminal.expect(QUESTION)
        terminal.send_line("a")
        assert "cannot be allowed from now on" in " ".join(terminal.expect(QUESTION).split())
        terminal.send_line("y")
        assert response_of(terminal) == {"approved": True}


def test_the_end_of_input_at_the_second_question_answers_nothing() -> None:
    with asking("offered") as terminal:
        terminal.expect(QUESTION)
        terminal.send_line("a")
        terminal.expect(SECOND)
        terminal.send("\x04")
        terminal.expect("closed: ")
