"""The JSON shapes that every face gives out: names, types, times and what is null."""

import json
from pathlib import Path
from typing import Any

from agent_md.agents.spec import AgentSpec, ModelRef, PathMount, Trigger
from agent_md.executions.execution import Usage
from agent_md.executions.ids import ExecutionId, RequestId
from agent_md.executions.requests import PathStep, Preview, Retraction
from agent_md.executions.sessions import Session, SessionStatus
from agent_md.executions.states import Drift, EventType, Outcome, RequestKind, Status
from agent_md.serialization import (
    agent_detail,
    agent_json,
    duration_text,
    event_json,
    execution_detail,
    execution_json,
    invalid_json,
    iso_time,
    request_json,
    run_event_line,
    session_json,
)
from tests.support.samples import NOON, an_event, an_execution, answered, ask, guard


def test_times_are_utc_with_milliseconds() -> None:
    assert iso_time(NOON) == "2026-03-08T12:00:00.000Z"
    assert iso_time(NOON + 0.1239) == "2026-03-08T12:00:00.123Z"
    assert iso_time(None) is None


def test_durations_are_in_the_largest_exact_unit() -> None:
    durations = [0, 1, 0.5, 59, 60, 90, 3600, 5400, 86_400, 172_800]
    texts = ["0s", "1s", "0.5s", "59s", "1m", "90s", "1h", "90m", "1d", "2d"]
    assert [duration_text(seconds) for seconds in durations] == texts
    assert duration_text(None) is None


def test_an_open_confirmation() -> None:
    request = guard(preview=Preview(resolved="/ws/output/stale.log", size=12), expires_at=NOON + 60)
    assert request_json(request, drift=[Drift.AGENT_FILE, Drift.TOOL]) == {
        "execution_id": 42,
        "agent_id": "cleaner",
        "request_id": "r1",
        "kind": "confirm",
        "message": "",
        "tool_name": "file_delete",
        "tool_args": {"path": "output/stale.log"},
        "options": None,
        "multi": None,
        "questions": None,
        "payload": None,
        "response_schema": None,
        "preview": {"resolved": "/ws/output/stale.log", "size": 12},
        "rule": None,
        "digest": "d1",
        "proposed_rule": None,
        "drifted": True,
        "drift": [{"what": "agent_file"}, {"what": "tool"}],
        "created_at": "2026-03-08T12:00:00.000Z",
        "expires_at": "2026-03-08T12:01:00.000Z",
        "path": [{"execution_id": 42, "agent_id": "cleaner"}],
        "outcome": None,
        "answer": None,
        "answered_by": None,
        "answered_at": None,
        "recorded_at": None,
        "grant_id": None,
        "retracted_by": None,
        "retracted_at": None,
        "replaced_by": None,
        "replaces": None,
    }


def test_a_retracted_answer() -> None:
    given = answered(Outcome.APPROVED, {"approved": True}, by="api")
    shape = request_json(guard(retraction=Retraction(given, "cli:bob", NOON + 90, RequestId("r2"))), drift=())
    assert (shape["outcome"], shape["answer"], shape["answered_by"]) == ("retracted", {"approved": True}, "api")
    assert (shape["retracted_by"], shape["retracted_at"]) == ("cli:bob", "2026-03-08T12:01:30.000Z")
    assert (shape["replaced_by"], shape["replaces"]) == ("r2", None)
    assert request_json(guard(id=RequestId("r2"), replaces=RequestId("r1")), drift=())["replaces"] == "r1"


def test_a_decided_choice() -> None:
    answer = answered(Outcome.ANSWERED, {"selected": ["a"]}, by="api")
    shape = request_json(ask(RequestKind.CHOICE, options=("a", "b"), multi=False, answer=answer), drift=())
    assert (shape["options"], shape["multi"]) == (["a", "b"], False)
    assert (shape["outcome"], shape["answer"], shape["answered_by"]) == ("answered", {"selected": ["a"]}, "api")
    assert shape["answered_at"] == "2026-03-08T12:01:00.000Z"


def test_a_childs_request_is_listed_under_its_root() -> None:
    shape = request_json(guard(path=(PathStep(ExecutionId(7), "boss"), PathStep(ExecutionId(42), "cleaner"))), drift=())
    assert (shape["execution_id"], shape["agent_id"]) == (7, "boss")
    assert shape["path"] == [{"execution_id": 7, "agent_id": "boss"}, {"execution_id": 42, "agent_id": "cleaner"}]


def test_an_execution() -> None:
    execution = an_execution(
        status=Status.SUCCESS,
        started_at=NOON,
        finished_at=NOON + 3600,
        work_ms=1500,
        usage=Usage(40, 12, None),
        parent_id=ExecutionId(7),
        output="Done.",
    )
    shape = execution_json(execution)
    assert shape == {
        "id": 42,
        "agent_id": "cleaner",
        "status": "success",
        "trigger": "manual",
        "session_id": None,
        "created_at": "2026-03-08T12:00:00.000Z",
        "started_at": "2026-03-08T12:00:00.000Z",
        "finished_at": "2026-03-08T13:00:00.000Z",
        "duration_ms": 1500,
        "input_tokens": 40,
        "output_tokens": 12,
        "total_tokens": 52,
        "cost_usd": None,
        "error": None,
        "cut": None,
        "parent_execution_id": 7,
        "unknown_calls": 0,
    }
    assert execution_detail(execution, [{"request_id": "r1"}], []) == shape | {
        "output_data": "Done.",
        "pending": [{"request_id": "r1"}],
        "may_have_run": [],
    }


def test_what_has_not_started_has_no_duration_and_the_time_of_its_creation() -> None:
    shape = execution_json(an_execution(status=Status.QUEUED))
    assert (shape["duration_ms"], shape["started_at"]) == (None, "2026-03-08T12:00:00.000Z")


def test_the_text_of_a_call_and_of_its_result_name_the_tool() -> None:
    call = an_event(EventType.TOOL_CALL, 'file_delete → {"path": "a"}', tool_name="file_delete")
    result = an_event(EventType.TOOL_RESULT, "File deleted: a", tool_name="file_delete", outcome="done")
    for event, said in ((call, 'file_delete → {"path": "a"}'), (result, "file_delete ← File deleted: a")):
        assert event_json(event)["message"] == said
        assert run_event_line(event, an_execution())["message"] == said


def test_an_event_has_its_data_as_a_json_string() -> None:
    event = an_event(EventType.TOOL_CALL, "file_delete → {}", seq=9, tool_name="file_delete", args={"path": "\u202e"})
    shape = event_json(event)
    assert json.loads(shape.pop("metadata")) == {"tool_name": "file_delete", "args": {"path": "\u202e"}}
    assert shape == {
        "id": 9,
        "execution_id": 42,
        "timestamp": "2026-03-08T12:00:00.000Z",
        "event_type": "tool_call",
        "message": "file_delete → {}",
    }


def test_a_run_begins_with_execution_started() -> None:
    event = an_event(EventType.SYSTEM, "Started", agent="cleaner", model={"provider": "script", "name": "x"})
    assert run_event_line(event, an_execution()) == {
        "event": "execution_started",
        "execution_id": 42,
        "id": 1,
        "timestamp": "2026-03-08T12:00:00.000Z",
        "message": "Started",
        "agent_name": "cleaner",
        "trigger": "manual",
        "agent": "cleaner",
        "model": {"provider": "script", "name": "x"},
    }


def test_a_line_of_a_run_has_its_events_data_but_not_the_provider_message() -> None:
    event = an_event(EventType.AI, "Hello", usage={"input_tokens": 1})
    event.data["message"] = {"type": "ai", "data": {}}
    line = run_event_line(event, an_execution())
    assert (line["event"], line["message"], line["usage"]) == ("ai", "Hello", {"input_tokens": 1})


def test_an_interrupt_line_has_all_that_its_request_has() -> None:
    event = an_event(EventType.INTERRUPT, "", request_id="r1", kind="confirm", position="0.0", tool_name="file_delete")
    shape = request_json(guard(), drift=())
    line = run_event_line(event, an_execution(), [shape])
    assert {name: line[name] for name in shape} == shape
    assert (line["event"], line["id"], line["position"]) == ("interrupt", 1, "0.0")


def test_a_waiting_line_carries_the_open_requests() -> None:
    event = an_event(EventType.WAITING, "Waiting for an answer", request_ids=["r1"])
    line = run_event_line(event, an_execution(), [request_json(guard(), drift=())])
    assert (line["event"], line["requests"][0]["request_id"]) == ("waiting", "r1")


SPEC = AgentSpec(
    name="cleaner",
    body="",
    model=ModelRef("google", "gemini-2.5-flash"),
    icon="🧹",
    trigger=Trigger(type="schedule", every=300),
    auto_approve=("*",),
    confirm_timeout=3600,
    paths=(PathMount("out", "output", mode="ro"),),
    source_path="agents/cleaner.md",
)


def test_an_agent_in_a_listing() -> None:
    assert agent_json(SPEC, next_run=NOON) == {
        "name": "cleaner",
        "description": "",
        "icon": "🧹",
        "enabled": True,
        "trigger_type": "schedule",
        "model_provider": "google",
        "model_name": "gemini-2.5-flash",
        "source_path": "agents/cleaner.md",
        "last_run": None,
        "next_run": "2026-03-08T12:00:00.000Z",
    }


def test_the_file_of_an_agent_is_below_its_workspace() -> None:
    folder = Path("/home/ann/garden")
    assert agent_json(SPEC, folder)["source_path"] == "/home/ann/garden/agents/cleaner.md"
    assert agent_detail(SPEC, folder)["source_path"] == "/home/ann/garden/agents/cleaner.md"


def test_an_agent_by_itself() -> None:
    shape = agent_detail(SPEC)
    assert agent_json(SPEC).items() <= shape.items()
    assert (shape["history"], shape["trigger_every"], shape["trigger_cron"]) == ("low", "5m", None)
    assert (shape["auto_approve"], shape["confirm_timeout"], shape["on_pending"]) == (["*"], "1h", "skip")
    assert shape["paths"] == {"out": "output"}
    assert shape["path_details"] == {"out": {"path": "output", "description": "", "mode": "ro"}}
    assert shape["settings"]["timeout"] == 1800
    json.dumps(shape)


def test_an_invalid_file() -> None:
    assert invalid_json("agents/x.md", "no delimiter") == {
        "file": "agents/x.md",
        "error": "no delimiter",
        "last_good": None,
    }


def test_a_session_says_of_its_answer_that_it_was_cut_and_nothing_otherwise() -> None:
    def shape(cut: str | None) -> dict[str, Any]:
        turn = an_execution(status=Status.SUCCESS, output="Once", cut=cut)
        return session_json(Session("writer", "s", SessionStatus.IDLE, NOON, NOON, turn), [])

    assert shape("length") == {**shape(None), "cut": "length"}
    assert "cut" not in shape(None)
