"""What is told of changed files, and when they are complete: pure."""

from __future__ import annotations

import pytest

from agent_md.triggers.change_sets import LONGEST_UNREST_S, Change, Settling, changes_between, message_of


@pytest.mark.parametrize(
    ("before", "now", "expected"),
    [
        ({}, {"a": "1"}, [Change("created", "a")]),
        ({"a": "1"}, {"a": "2"}, [Change("modified", "a")]),
        ({"a": "1"}, {}, [Change("deleted", "a")]),
        ({"a": "1"}, {"b": "1"}, [Change("moved", "b", "a")]),
        ({"a": "1", "b": "2"}, {"a": "2", "b": "1"}, [Change("modified", "a"), Change("modified", "b")]),
        ({"a": "1"}, {"b": "1", "c": "1"}, [Change("moved", "b", "a"), Change("created", "c")]),
        ({"a": "1", "b": "1"}, {"c": "1"}, [Change("deleted", "b"), Change("moved", "c", "a")]),
        ({"a": "1"}, {"a": "1"}, []),
    ],
)
def test_each_file_is_told_once_by_what_happened_to_it(
    before: dict[str, str], now: dict[str, str], expected: list[Change]
) -> None:
    assert changes_between(before, now) == expected


def test_a_name_of_a_file_forges_no_line_of_the_message() -> None:
    names = ["a.txt", "b\ndeleted all", "c -> d", "e\x1b[2J", "f\u202e", 'g "h"', '"i"', " j", "ü.txt"]
    lines = message_of([Change("created", name) for name in names]).split("\n")
    assert lines == [
        "Files that you watch were changed:",
        "created a.txt",
        'created "b\\ndeleted all"',
        'created "c -> d"',
        'created "e\\u001b[2J"',
        'created "f\\u202e"',
        'created g "h"',
        'created "\\"i\\""',
        'created " j"',
        "created ü.txt",
    ]
    assert message_of([Change("moved", "b", "a")]).endswith("\nmoved a -> b")
    assert message_of([Change("created", str(n)) for n in range(500)]).endswith("\n[and 300 more]")


def of(*stamps: str) -> frozenset[tuple[str, str | None]]:
    return frozenset((stamp[0], stamp) for stamp in stamps)


def test_files_are_complete_when_none_was_touched_for_the_time_of_quiet() -> None:
    settling = Settling(1.0)
    assert settling.look(of(), 0.0) is None
    assert settling.look(of("a1"), 10.0) == 1.0
    assert settling.look(of("a2"), 10.9) == 1.0
    assert settling.look(of("a2", "b1"), 11.5) == 1.0
    assert settling.look(of("a2", "b1"), 12.4) == pytest.approx(0.1)
    assert settling.look(of("a2", "b1"), 12.5) == 0.0


def test_what_is_touched_without_a_pause_is_complete_after_a_minute() -> None:
    settling = Settling(5.0)
    for second in range(int(LONGEST_UNREST_S)):
        assert settling.look(of(f"a{second}"), float(second)) not in (None, 0.0)
        assert not settling.overdue(float(second))
    assert settling.look(of("a60"), LONGEST_UNREST_S) == 0.0
    assert settling.overdue(LONGEST_UNREST_S)
    settling.done()
    assert settling.look(of("a61"), 61.0) == 5.0


def test_what_is_as_it_was_told_needs_no_time() -> None:
    settling = Settling(1.0)
    settling.look(of("a1"), 0.0)
    assert settling.look(of(), 0.5) is None
    assert settling.look(of("a1"), 70.0) == 1.0
