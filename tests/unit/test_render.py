"""The lines of a run and of a timeline, exactly."""

import json
from datetime import UTC

import pytest

from agent_md.cli.views.event_lines import RunView, header
from agent_md.cli.views.screen import Painter, Screen, unpainted
from agent_md.executions.model import CallOutcome, Event, EventType, Outcome, Preview
from tests.support.samples import NOON, ai, an_event, answered, complete, guard, result

UTC_SCREEN = Screen(zone=UTC)
VIEW = RunView("cleaner", UTC_SCREEN)

CALL = an_event(EventType.TOOL_CALL, tool_name="file_delete", args={"path": "output/stale.log"})


def test_a_run_looks_like_this() -> None:
    final = an_event(EventType.FINAL_ANSWER, "Done.")
    lines = [
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
    assert lines == [
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
        (an_event(EventType.FINAL_ANSWER, "a\n\nb\n"), ["12:00:00 cleaner ✅ a", "  ", "  b"]),
        (complete("error", "no key"), ["12:00:00 cleaner ❌ no key"]),
        (complete("error"), ["12:00:00 cleaner ❌ ended without a reason"]),
        (complete("timeout", "1800 s of work"), ["12:00:00 cleaner ⏱ timeout: 1800 s of work"]),
        (complete("aborted", "cancelled by cli:ann"), ["12:00:00 cleaner 🛑 aborted: cancelled by cli:ann"]),
        (complete("aborted"), ["12:00:00 cleaner 🛑 aborted"]),
    ],
)
def test_other_lines_of_a_run(event: Event, lines: list[str]) -> None:
    assert VIEW.lines(event) == lines


@pytest.mark.parametrize("after_prompt", [False, True])
def test_what_a_run_does_not_show_leaves_no_blank_line(after_prompt: bool) -> None:
    assert VIEW.lines(an_event(EventType.WAITING), after_prompt=after_prompt) == []


def test_a_long_result_is_cut_in_a_run_and_says_so() -> None:
    (line,) = VIEW.lines(result("x" * 1000 + "\nsecond\nthird"))
    assert line == f"12:00:00 cleaner 📎 file_delete ← {'x' * 399}… (1,000 characters, 2 more lines)"


def test_long_arguments_are_never_cut() -> None:
    numbers = list(range(2000))
    (line,) = VIEW.lines(an_event(EventType.TOOL_CALL, tool_name="sort", args={"numbers": numbers}))
    assert line.endswith(f"sort → {json.dumps({'numbers': numbers})}")


def test_long_texts_in_arguments_are_named_by_their_size() -> None:
    args = {"path": "code.py", "content": "x\n" * 80}
    event = an_event(EventType.TOOL_CALL, tool_name="file_write", args=args)
    assert VIEW.lines(event) == ["12:00:00 cleaner 🔧 file_write code.py (80 lines)"]
    asked = guard("file_write", args, preview=Preview(diff="--- /dev/null\n+++ code.py\n"))
    assert VIEW.lines(event, [asked]) == ["12:00:00 cleaner 🔧 file_write code.py (80 lines, new)"]
    other = an_event(EventType.TOOL_CALL, tool_name="post", args={"to": "ann", "text": "x\n" * 80})
    assert VIEW.lines(other) == ['12:00:00 cleaner 🔧 post → {"to": "ann", "text": (80 lines)}']


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
    first, *rest = RunView(EVIL, UTC_SCREEN).lines(event)
    assert first.startswith(r"12:00:00 \x1b[2K\r12:00:00 cleaner ✅ [b]Done[/b]\u202e\n12:00:01 cleaner ✅ really ")
    assert all(line.startswith("  ") for line in rest)
    assert not any(character in "".join([first, *rest]) for character in "\x1b\r\n\u202e")


def test_colour_changes_only_the_look() -> None:
    coloured = RunView("cleaner", Screen(painter=Painter(colour=True), zone=UTC))
    for event in (CALL, result("no", CallOutcome.FAILED), complete("error", "x")):
        lines = coloured.lines(event)
        assert lines != VIEW.lines(event)
        assert [unpainted(line) for line in lines] == VIEW.lines(event)


def test_a_decision_taken_elsewhere_is_a_line_of_its_own() -> None:
    request = guard(answer=answered(Outcome.APPROVED, {"approved": True}, by="api"))
    assert VIEW.decided(request) == [
        '12:01:00 cleaner 👉 Confirm file_delete {"path": "output/stale.log"}: approved by api'
    ]
    assert VIEW.decided(guard()) == []


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (None, f'12:01:00 cleaner 👉 Confirm file_delete {{"path": "{89 * "x"}…: approved by api'),
        (70, f'12:01:00 cleaner 👉 Confirm file_delete {{"path": "{2 * "x"}…: approved by api'),
        (30, '12:01:00 cleaner 👉 Confirm file_delete {"p…: approved by api'),
    ],
)
def test_what_was_shown_before_is_cut_to_a_line(width: int | None, line: str) -> None:
    request = guard(args={"path": 500 * "x"}, answer=answered(Outcome.APPROVED, {"approved": True}, by="api"))
    view = RunView("cleaner", Screen(width, zone=UTC))
    assert view.decided(request, shown=True) == [line]
    assert 500 * "x" in view.decided(request)[0]


def test_times_are_shown_in_the_zone_of_the_screen() -> None:
    assert UTC_SCREEN.date_time(NOON + 0.9) == "2026-03-08 12:00:00"
