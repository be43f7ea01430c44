"""The lines of a run, exactly."""

import json
import re
from datetime import UTC

import pytest

from agent_md.cli.views.event_lines import RunView, header
from agent_md.cli.views.rendering import rendered
from agent_md.cli.views.screen import Screen
from agent_md.executions.execution import Event
from agent_md.executions.requests import Preview
from agent_md.executions.states import CallOutcome, EventType, Outcome
from tests.support.rendering import lines_of
from tests.support.samples import ai, an_event, answered, complete, guard, result

VIEW = RunView("cleaner", UTC)
COLOUR = Screen(colour=True)

CALL = an_event(EventType.TOOL_CALL, tool_name="file_delete", args={"path": "output/stale.log"})


def test_a_run_looks_like_this() -> None:
    final = an_event(EventType.FINAL_ANSWER, "Done.")
    shown = [
        *header("cleaner", "google/gemini-2.5-flash"),
        *VIEW.lines(an_event(EventType.SYSTEM, "Started")),
        *VIEW.lines(an_event(EventType.HUMAN, "Begin.")),
        *VIEW.lines(ai("", calls=True)),
        *VIEW.lines(CALL),
        *VIEW.lines(an_event(EventType.INTERRUPT, request_id="r1")),
        *VIEW.lines(an_event(EventType.RESUMED, request_id="r1")),
        *VIEW.lines(result("File deleted: output/stale.log"), after_prompt=True),
        *VIEW.lines(ai("Done.", calls=False)),
        *VIEW.lines(final),
        *VIEW.lines(complete("success")),
    ]
    assert lines_of(*shown) == [
        "▶ Running cleaner  google/gemini-2.5-flash",
        "",
        '12:00:00 cleaner 🔧 file_delete → {"path": "output/stale.log"}',
        "",
        "12:00:00 cleaner 📎 file_delete ← File deleted: output/stale.log",
        "12:00:00 cleaner ✅ Done.",
    ]


@pytest.mark.parametrize(
    ("event", "lines"),
    [
        (ai("I look.\nThen I delete.", calls=True), ["12:00:00 cleaner 💬 I look.", "  Then I delete."]),
        (ai(" \n", calls=True), []),
        (an_event(EventType.FINAL_ANSWER, ""), ["12:00:00 cleaner ✅ (no text)"]),
        (an_event(EventType.FINAL_ANSWER, "a\n\nb\n"), ["12:00:00 cleaner ✅ a", "", "  b"]),
        (complete("error", "no key"), ["12:00:00 cleaner ❌ no key"]),
        (complete("error"), ["12:00:00 cleaner ❌ ended without a reason"]),
        (complete("timeout", "1800 s of work"), ["12:00:00 cleaner ⏱ timeout: 1800 s of work"]),
        (complete("aborted", "cancelled by cli:ann"), ["12:00:00 cleaner 🛑 aborted: cancelled by cli:ann"]),
        (complete("aborted"), ["12:00:00 cleaner 🛑 aborted"]),
    ],
)
def test_other_lines_of_a_run(event: Event, lines: list[str]) -> None:
    assert lines_of(*VIEW.lines(event)) == lines


@pytest.mark.parametrize("after_prompt", [False, True])
def test_what_a_run_does_not_show_leaves_no_blank_line(after_prompt: bool) -> None:
    assert list(VIEW.lines(an_event(EventType.WAITING), after_prompt=after_prompt)) == []


def test_a_long_result_is_cut_in_a_run_and_says_so() -> None:
    (line,) = lines_of(*VIEW.lines(result("x" * 1000 + "\nsecond\nthird")))
    assert line == f"12:00:00 cleaner 📎 file_delete ← {'x' * 399}… (1,000 characters, 2 more lines)"


def test_long_arguments_are_never_cut() -> None:
    numbers = list(range(2000))
    event = an_event(EventType.TOOL_CALL, tool_name="sort", args={"numbers": numbers})
    (line,) = lines_of(*VIEW.lines(event))
    assert line.endswith(f"sort → {json.dumps({'numbers': numbers})}")


def test_long_texts_in_arguments_are_named_by_their_size() -> None:
    args = {"path": "code.py", "content": "x\n" * 80}
    event = an_event(EventType.TOOL_CALL, tool_name="file_write", args=args)
    assert lines_of(*VIEW.lines(event)) == ["12:00:00 cleaner 🔧 file_write code.py (80 lines)"]
    asked = guard("file_write", args, preview=Preview(diff="--- /dev/null\n+++ code.py\n"))
    assert lines_of(*VIEW.lines(event, [asked])) == ["12:00:00 cleaner 🔧 file_write code.py (80 lines, new)"]
    other = an_event(EventType.TOOL_CALL, tool_name="post", args={"to": "ann", "text": "x\n" * 80})
    assert lines_of(*VIEW.lines(other)) == ['12:00:00 cleaner 🔧 post → {"to": "ann", "text": (80 lines)}']


EVIL = "\x1b[2K\r12:00:00 cleaner ✅ [b]Done[/b]\u202e\n12:00:01 cleaner ✅ really"


@pytest.mark.parametrize(
    "event",
    [
        ai(EVIL, calls=True),
        result(EVIL),
        an_event(EventType.TOOL_CALL, tool_name=EVIL, args={EVIL: [EVIL]}),
        an_event(EventType.FINAL_ANSWER, EVIL),
        complete("error", EVIL),
    ],
)
def test_no_text_is_obeyed_or_passes_for_a_line_of_ours(event: Event) -> None:
    first, *rest = lines_of(*RunView(EVIL, UTC).lines(event))
    assert first.startswith(r"12:00:00 \x1b[2K\r12:00:00 cleaner ✅ [b]Done[/b]\u202e\n12:00:01 cleaner ✅ really ")
    assert all(line.startswith("  ") for line in rest)
    assert not any(character in "".join([first, *rest]) for character in "\x1b\r\n\u202e")


def test_colour_changes_only_the_look() -> None:
    for event in (CALL, result("no", CallOutcome.FAILED), complete("error", "x")):
        (line,) = VIEW.lines(event)
        (coloured,) = rendered(COLOUR, line)
        assert "\x1b[2m12:00:00\x1b[0m" in coloured
        assert re.sub(r"\x1b\[[0-9;]*m", "", coloured) == lines_of(line)[0]


def test_a_decision_taken_elsewhere_is_a_line_of_its_own() -> None:
    request = guard(answer=answered(Outcome.APPROVED, {"approved": True}, by="api"))
    assert lines_of(*VIEW.decided(request)) == [
        '12:01:00 cleaner 👉 Confirm file_delete {"path": "output/stale.log"}: approved by api'
    ]
    assert list(VIEW.decided(guard())) == []


def test_what_was_shown_before_is_cut() -> None:
    request = guard(args={"path": 500 * "x"}, answer=answered(Outcome.APPROVED, {"approved": True}, by="api"))
    assert lines_of(*VIEW.decided(request, shown=True)) == [
        f'12:01:00 cleaner 👉 Confirm file_delete {{"path": "{29 * "x"}…: approved by api'
    ]
    assert 500 * "x" in lines_of(*VIEW.decided(request))[0]


def test_what_is_folded_is_indented() -> None:
    event = an_event(EventType.FINAL_ANSWER, "one two three four five\nsix " + 40 * "x")
    assert lines_of(*VIEW.lines(event), width=30) == [
        "12:00:00 cleaner ✅ one two",
        "  three four five",
        "  six",
        f"  {28 * 'x'}",
        f"  {12 * 'x'}",
    ]
