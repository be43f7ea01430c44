"""Listings, exactly, and in any width."""

from dataclasses import replace
from datetime import UTC

import pytest

from agent_md.agents.spec import AgentSpec, ModelRef, Trigger
from agent_md.cli.views.tables import (
    AgentRow,
    PendingRow,
    agents_table,
    executions_table,
    pending_table,
    request_prefixes,
    trigger_text,
)
from agent_md.cli.views.text_width import width_of
from agent_md.executions.execution import Usage
from agent_md.executions.ids import ExecutionId, RequestId
from agent_md.executions.requests import PathStep
from agent_md.executions.states import Drift, RequestKind, Status
from tests.support.rendering import lines_of
from tests.support.samples import NOON, an_execution, ask, guard

FIRST = PendingRow(guard())
SECOND = PendingRow(
    replace(ask(RequestKind.INPUT, "Enter the report title:"), execution_id=ExecutionId(51), agent="reporter")
)
SPEC = AgentSpec(
    name="cleaner", body="", model=ModelRef("script", "x"), icon="🧹", trigger=Trigger("schedule", every=300)
)


def test_pending_requests() -> None:
    assert lines_of(pending_table([FIRST, SECOND], now=NOON)) == [
        " #   Agent      Question",
        " ───────────────────────────────────────────────────────────────",
        ' 42  cleaner    Confirm file_delete {"path": "output/stale.log"}',
        " 51  reporter   Enter the report title:",
    ]


def test_notes_stand_behind_a_question() -> None:
    row = PendingRow(replace(FIRST.request, expires_at=NOON + 42), drift=(Drift.AGENT_FILE,))
    assert lines_of(pending_table([row], now=NOON))[2].endswith('stale.log"} (drifted: agent file) (expires in 42 s)')


def test_a_question_is_folded_in_its_column() -> None:
    row = PendingRow(replace(FIRST.request, expires_at=NOON + 42), drift=(Drift.AGENT_FILE,))
    assert lines_of(pending_table([row, SECOND], now=NOON), width=50) == [
        " #   Agent      Question",
        f" {'─' * 49}",
        ' 42  cleaner    Confirm file_delete {"path":',
        '                "output/stale.log"} (drifted:',
        "                agent file) (expires in 42 s)",
        " 51  reporter   Enter the report title:",
    ]


def test_a_table_that_does_not_fit_becomes_records() -> None:
    execution = an_execution(id=ExecutionId(7), agent="お掃除 of everything in here", usage=Usage(0, 0, None))
    assert lines_of(*executions_table([execution, an_execution()], zone=UTC), width=30)[:11] == [
        " #        7",
        " Agent",
        "    お掃除 of everything in",
        "    here",
        " Status   running",
        " Trigger  manual",
        " Started  2026-03-08 12:00:00",
        " Work     0.0 s",
        " Tokens   0",
        " Cost     unknown",
        "",
    ]


def test_some_rows_of_a_table_are_as_wide_as_in_the_whole_and_have_no_titles() -> None:
    rows = [an_execution(agent="a-long-name"), an_execution(id=ExecutionId(7))]
    whole = lines_of(*executions_table(rows))
    assert lines_of(*executions_table(rows, only=[ExecutionId(7)])) == whole[3:]
    assert lines_of(*executions_table(rows, only=[])) == []


def test_an_execution_whose_process_died_says_so_and_how_to_go_on() -> None:
    lines = lines_of(*executions_table([an_execution(), an_execution(id=ExecutionId(7))], left=[ExecutionId(42)]))
    assert [line.split()[2:4] for line in lines[2:4]] == [["died", "manual"], ["running", "manual"]]
    assert lines[4:] == ["The process that drove 42 died: agentmd resume 42"]


def test_executions_fit_a_usual_terminal_and_then_the_time_gives_way_before_the_name() -> None:
    usage = Usage(100_000, 34_000, None)
    died = an_execution(agent="reporter", work_ms=1_234_500, usage=usage)
    rows = [died, an_execution(id=ExecutionId(7), status=Status.SUCCESS, usage=usage)]
    assert lines_of(*executions_table(rows, zone=UTC, left=[died.id]), width=80)[:4] == [
        " #   Agent     Status   Trigger  Started              Work      Tokens   Cost",
        " ───────────────────────────────────────────────────────────────────────────────",
        " 42  reporter  died     manual   2026-03-08 12:00:00  1234.5 s  134,000  unknown",
        " 7   cleaner   success  manual   2026-03-08 12:00:00  0.0 s     134,000  unknown",
    ]
    named = an_execution(agent="night-reporter", usage=usage)
    assert lines_of(*executions_table([named], zone=UTC), width=80)[2:] == [
        " 42  night-reporter  running  manual   2026-03-08        0.0 s  134,000  unknown",
        "                                       12:00:00",
    ]


def test_several_requests_of_one_execution_show_what_names_them() -> None:
    rows = [PendingRow(replace(FIRST.request, id=RequestId(name))) for name in ("aaaaaaaa1111", "aaaaaaaa2222")]
    lines = lines_of(pending_table([*rows, SECOND], now=NOON))
    assert [line.rpartition(" (")[2] for line in lines[2:4]] == ["request aaaaaaaa1)", "request aaaaaaaa2)"]
    assert lines[4] == " 51  reporter   Enter the report title:"


def test_a_childs_request_is_listed_under_its_root() -> None:
    row = PendingRow(guard(path=(PathStep(ExecutionId(7), "boss"), PathStep(ExecutionId(42), "cleaner"))))
    assert lines_of(pending_table([row], now=NOON))[2].startswith(" 7   boss > cleaner  Confirm")


def test_a_prefix_names_one_request() -> None:
    ids = [RequestId(name) for name in ("abcdefgh", "abcdefghij", "zzzzzzzzzzzz")]
    assert request_prefixes(ids) == dict(zip(ids, ("abcdefgh", "abcdefghi", "zzzzzzzz"), strict=True))
    assert request_prefixes(ids[:1]) == {ids[0]: "abcdefgh"}
    assert request_prefixes([]) == {}


def test_executions() -> None:
    one = an_execution(status=Status.SUCCESS, started_at=NOON, work_ms=1500, usage=Usage(1200, 34, 0.0123))
    other = an_execution(id=ExecutionId(7), agent="日本", usage=Usage(0, 0, None))
    assert lines_of(*executions_table([one, other], zone=UTC)) == [
        " #   Agent    Status   Trigger  Started              Work   Tokens  Cost",
        " ──────────────────────────────────────────────────────────────────────────",
        " 42  cleaner  success  manual   2026-03-08 12:00:00  1.5 s  1,234   $0.0123",
        " 7   日本     running  manual   2026-03-08 12:00:00  0.0 s  0       unknown",
    ]


def test_agents_and_files_that_are_none() -> None:
    done = an_execution(status=Status.SUCCESS, started_at=NOON)
    rows = [
        AgentRow(SPEC, next_run=NOON + 300, last=done),
        AgentRow(replace(SPEC, name="off", icon="🌙", enabled=False, trigger=Trigger()), last=done),
        AgentRow(replace(SPEC, name="asks", icon="❓", enabled=False), last=an_execution(status=Status.WAITING)),
        AgentRow(replace(SPEC, name="new", icon="🌱", trigger=Trigger())),
        AgentRow(replace(SPEC, name="held", icon="⏸"), paused=True),
    ]
    invalid = [("agents/bad\x1b.md", "line 3: no such key\nline 4: a tab\n")]
    assert lines_of(*agents_table(rows, invalid, zone=UTC)) == [
        "    Agent    Trigger   Next run             Last run             Status",
        f" {82 * '─'}",
        " 🧹 cleaner  every 5m  2026-03-08 12:05:00  2026-03-08 12:00:00  success",
        " 🌙 off      manual    –                    2026-03-08 12:00:00  disabled",
        " ❓ asks     every 5m  –                    2026-03-08 12:00:00  waiting (disabled)",
        " 🌱 new      manual    –                    never                –",
        " ⏸  held     every 5m  paused               never                –",
        "",
        "Files that cannot be used:",
        r"  agents/bad\x1b.md",
        "    line 3: no such key",
        "    line 4: a tab",
    ]


def test_a_description_stands_below_its_agent() -> None:
    row = AgentRow(replace(SPEC, trigger=Trigger(), description="Keeps the notes\x1b of the day."))
    assert lines_of(*agents_table([row], zone=UTC), width=50)[2:] == [
        " 🧹 cleaner  manual   –         never     –",
        r"    Keeps the notes\x1b of the day.",
    ]
    assert lines_of(*agents_table([row], zone=UTC), width=20)[-3:] == [
        "    Keeps the",
        r"    notes\x1b of the",
        "    day.",
    ]


def test_empty_listings_say_so() -> None:
    assert lines_of(pending_table([], now=NOON)) == ["Nothing waits for an answer."]
    assert lines_of(*executions_table([])) == ["No executions yet."]
    assert lines_of(*agents_table([])) == ["No agents."]


@pytest.mark.parametrize(
    ("trigger", "text"),
    [
        (Trigger(), "manual"),
        (Trigger("schedule", every=90), "every 90s"),
        (
            Trigger("schedule", cron="0 8 * * 1", timezone="Europe/Berlin"),
            "cron 0 8 * * 1 (Europe/Berlin)",
        ),
        (Trigger("watch", paths=("in/*", "b\x1b")), r"watch in/*, b\x1b"),
    ],
)
def test_triggers_in_the_words_of_the_file(trigger: Trigger, text: str) -> None:
    assert trigger_text(trigger) == text


@pytest.mark.parametrize("width", range(20, 201, 9))
def test_no_line_is_wider_than_the_screen(width: int) -> None:
    long = "日本 [b]\x1b\u202e" * 20
    many = [
        PendingRow(guard(args={"path": long}, expires_at=NOON + 9), drift=(Drift.AGENT_FILE,)),
        PendingRow(replace(guard(args={"path": "x"}), agent=long)),
        SECOND,
    ]
    executions = [an_execution(agent=long, usage=Usage(10**9, 1, None)), an_execution()]
    agents = [AgentRow(replace(SPEC, name=long, trigger=Trigger("watch", paths=(long,)))), AgentRow(SPEC)]
    tables = [
        [pending_table(many, now=NOON)],
        executions_table(executions),
        agents_table(agents),
    ]
    for table in tables:
        lines = lines_of(*table, width=width)
        assert max(width_of(line) for line in lines) <= width
        assert "…" not in "".join(lines)
        assert not any(character in "".join(lines) for character in "\x1b\u202e\n")
