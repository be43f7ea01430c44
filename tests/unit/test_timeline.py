"""The whole story of an execution, exactly."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC
from typing import Any

import pytest

from agent_md.cli.views.durations import spent
from agent_md.cli.views.timeline import Timeline
from agent_md.executions.execution import Event, Execution, Usage
from agent_md.executions.ids import ExecutionId, RequestId
from agent_md.executions.positions import Position
from agent_md.executions.requests import Retraction
from agent_md.executions.states import CallOutcome, EventType, Outcome, RequestKind, Status
from tests.support.rendering import lines_of
from tests.support.samples import NOON, ai, an_event, an_execution, answered, ask, complete, guard, result

DAY = "── 2026-03-08 ──"
CALL = an_event(EventType.TOOL_CALL, tool_name="file_delete", args={"path": "output/stale.log"}, position="0.0")


def at(event: Event, seconds: float) -> Event:
    return replace(event, at=NOON + seconds)


def ended(status: Status, cost: float | None = 0.0123) -> Execution:
    return an_execution(status=status, finished_at=NOON, work_ms=1500, usage=Usage(1200, 34, cost))


def test_it_tells_everything() -> None:
    approved = guard(answer=answered(Outcome.APPROVED, {"approved": True}), expires_at=NOON + 3600)
    cancelled = ask(RequestKind.CHOICE, "Where?", options=("a", "b"), answer=answered(Outcome.CANCELLED, by="policy"))
    requests = [approved, replace(cancelled, id=RequestId("r2"), position=Position(0, 1))]
    started: dict[str, Any] = {"agent": "cleaner", "trigger": "manual", "model": {"provider": "script", "name": "x"}}
    events = [
        an_event(EventType.SYSTEM, "Started", **started),
        an_event(EventType.HUMAN, "Clean up.\nPlease."),
        ai("I look.", calls=True),
        CALL,
        an_event(EventType.INTERRUPT, request_id="r1"),
        an_event(EventType.WAITING, "Waiting for an answer", request_ids=["r1"]),
        at(an_event(EventType.RESUMED, "approved", request_id="r1"), 60),
        at(result("a\n" * 3 + "b"), 65),
        at(an_event(EventType.INTERRUPT, request_id="r2"), 65),
        at(ai("Never given.", calls=False), 66),
        at(complete("aborted", "cancelled"), 67),
    ]
    timeline = Timeline("cleaner", zone=UTC)
    lines = timeline.lines(events, requests)
    lines += timeline.standing(ended(Status.ABORTED, cost=None), requests, now=NOON)
    assert lines_of(*lines) == [
        DAY,
        "12:00:00 cleaner ▶ Started execution 42 (manual, script/x)",
        "12:00:00 cleaner 👤 Clean up.",
        "  Please.",
        "12:00:00 cleaner 💬 I look.",
        '12:00:00 cleaner 🔧 file_delete → {"path": "output/stale.log"}',
        '12:00:00 cleaner ❓ Confirm file_delete {"path": "output/stale.log"} (until 2026-03-08 13:00:00)',
        "12:00:00 cleaner ⏳ Waiting for an answer",
        '12:01:00 cleaner 👉 Confirm file_delete {"path": "output/stale.log"}: approved by cli:ann (after 1 min)',
        "12:01:05 cleaner 📎 file_delete (after 5 s) ← a",
        "  a",
        "  a",
        "  b",
        "12:01:05 cleaner ❓ Where? [a | b]",
        "12:01:06 cleaner 💬 Never given.",
        "12:01:00 cleaner 👉 Where?: cancelled by policy (after 1 min)",
        "12:01:07 cleaner 🛑 aborted: cancelled",
        "12:00:00 cleaner ■ aborted after 1.5 s of work and 1 min of waiting for answers, "
        "1,234 tokens (1,200 in, 34 out), unknown cost",
    ]


def test_a_retraction_stands_between_the_answer_and_the_question_that_is_asked_again() -> None:
    given = answered(Outcome.APPROVED, {"approved": True})
    first = guard(retraction=Retraction(given, "cli:bob", NOON + 90, RequestId("r2")))
    data = {"outcome": "approved", "answered_by": "cli:ann", "retracted_by": "cli:bob", "replaced_by": "r2"}
    events = [
        an_event(EventType.INTERRUPT, request_id="r1"),
        at(an_event(EventType.RESUMED, "approved", request_id="r1"), 60),
        at(an_event(EventType.RETRACTED, "approved, retracted", request_id="r1", **data), 90),
        at(an_event(EventType.INTERRUPT, request_id="r2"), 90),
    ]
    again = guard(id=RequestId("r2"), replaces=RequestId("r1"), created_at=NOON + 90)
    assert lines_of(*Timeline("cleaner", zone=UTC).lines(events, [first, again])) == [
        DAY,
        '12:00:00 cleaner ❓ Confirm file_delete {"path": "output/stale.log"}',
        '12:01:00 cleaner 👉 Confirm file_delete {"path": "output/stale.log"}: approved by cli:ann (after 1 min)',
        "12:01:30 cleaner ↩ cli:bob retracted the answer (approved by cli:ann); it is asked again",
        '12:01:30 cleaner ❓ Confirm file_delete {"path": "output/stale.log"} (the answer was retracted)',
    ]


@pytest.mark.parametrize("pieces", [1, 2, 3])
def test_the_final_answer_is_shown_once_however_its_events_come(pieces: int) -> None:
    events = [ai("Done.", calls=False), an_event(EventType.FINAL_ANSWER, "Done."), complete("success")]
    timeline, lines = Timeline("cleaner", zone=UTC), []
    for start in range(0, 3, pieces):
        lines += timeline.lines(events[start : start + pieces], [])
    assert lines_of(*lines, *timeline.standing(ended(Status.SUCCESS), [], now=NOON)) == [
        DAY,
        "12:00:00 cleaner ✅ Done.",
        "12:00:00 cleaner ■ success after 1.5 s of work, 1,234 tokens (1,200 in, 34 out), $0.0123",
    ]


def test_an_answer_that_has_not_become_the_final_one_yet_is_shown_at_the_end() -> None:
    timeline = Timeline("cleaner", zone=UTC)
    assert timeline.lines([ai("Done.", calls=False)], []) == []
    lines = timeline.standing(an_execution(), [], now=NOON, died=True)
    assert lines_of(*lines) == [
        DAY,
        "12:00:00 cleaner 💬 Done.",
        "12:00:00 cleaner ■ running, its process died, after 0.0 s of work, 0 tokens (0 in, 0 out), $0.0000",
        "  agentmd resume 42 goes on",
    ]


def test_one_that_waits_says_how_long_already_and_what_goes_on() -> None:
    lines = Timeline("cleaner", zone=UTC).standing(
        an_execution(id=ExecutionId(7), status=Status.WAITING), [guard(), guard()], now=NOON + 7260
    )
    assert lines_of(*lines)[1:] == [
        "14:01:00 cleaner ■ waiting after 0.0 s of work and 2 h 1 min of waiting for answers, "
        "0 tokens (0 in, 0 out), $0.0000",
        "  agentmd respond 7 answers it",
    ]


def test_what_was_asked_is_whole_where_it_is_asked_and_cut_where_it_is_decided() -> None:
    request = guard(args={"path": 200 * "x"}, answer=answered(Outcome.DENIED, {"approved": False, "reason": 90 * "y"}))
    events = [an_event(EventType.INTERRUPT, request_id="r1"), an_event(EventType.RESUMED, request_id="r1")]
    asked, decided = lines_of(*Timeline("cleaner", zone=UTC).lines(events, [request]))[1:]
    assert asked.count("x") == 200
    assert decided == (
        f'12:00:00 cleaner 👉 Confirm file_delete {{"path": "{29 * "x"}…: denied by cli:ann: {90 * "y"} (after 1 min)'
    )


def test_the_session_is_named_and_how_a_queued_one_goes_on() -> None:
    started = an_event(EventType.SYSTEM, agent="a", trigger="chat", model={"provider": "script", "name": "x"})
    timeline = Timeline("cleaner", zone=UTC, session="to\nday")
    assert lines_of(*timeline.lines([started], []))[1:] == [
        "12:00:00 cleaner ▶ Started execution 42 (chat, script/x, session to\\nday)"
    ]
    standing = timeline.standing(an_execution(status=Status.QUEUED), [], now=NOON)
    assert lines_of(*standing)[-1] == "  agentmd resume 42 goes on, or says why it cannot"


def test_a_new_day_is_a_line() -> None:
    events = [at(an_event(EventType.HUMAN, word), hours * 3600) for word, hours in (("a", 0), ("b", 11), ("c", 12))]
    assert lines_of(*Timeline("x", zone=UTC).lines(events, [])) == [
        DAY,
        "12:00:00 x 👤 a",
        "23:00:00 x 👤 b",
        "── 2026-03-09 ──",
        "00:00:00 x 👤 c",
    ]


def test_a_failed_result_is_whole() -> None:
    timeline = Timeline("x", zone=UTC)
    assert lines_of(*timeline.lines([CALL, result("x" * 1000 + "END", CallOutcome.FAILED)], []))[-1].endswith("xEND")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.9, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (125, "2 min 5 s"),
        (3600, "1 h"),
        (12_000, "3 h 20 min"),
        (3605, "1 h"),
        (90_000, "1 d 1 h"),
    ],
)
def test_time_that_has_passed(seconds: float, text: str) -> None:
    assert spent(seconds) == text
