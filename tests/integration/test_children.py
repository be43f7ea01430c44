"""Agents that call others: what each is told, whose limits count, and what a cancellation or a restart does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_md import Workspace
from agent_md.executions.states import EventType, Status
from agent_md.webhooks.derive import Deriver
from tests.support.driving import call, turn
from tests.support.families import Families, calls_agent
from tests.support.trusting import UNTRUSTED
from tests.support.waiting import until


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Families]:
    workspace = Families(tmp_path / "ws")
    yield workspace
    workspace.close()


def test_a_child_is_told_its_arguments_and_its_answer_is_the_result(work: Families) -> None:
    work.agent("coordinator", turn(calls_agent("helper", "the old files")), "Thanks.", settings="agents: [helper]")
    work.agent(
        "helper",
        turn(call("file_glob", pattern="*.txt"), usage={"input": 7, "output": 3}),
        "Found none.",
        body="Look for $ARGUMENTS.",
    )
    root = work.start("coordinator")
    assert (root.status, root.output) == (Status.SUCCESS, "Thanks.")
    assert work.results(root) == ["Found none."]
    child = work.app.store.family(root.id)[1]
    assert (child.agent, child.trigger, child.parent_id) == ("helper", "agent", root.id)
    system, human = work.app.store.seed(child.id)
    assert system["data"]["content"] == "Look for the old files.\n"
    assert human["data"]["content"] == "Begin."
    types = [event.type for event in work.app.store.events(root.id)]
    assert [t for t in types if "child" in t] == [EventType.CHILD_STARTED, EventType.CHILD_ENDED]
    assert (root.usage.total_tokens, work.app.store.spent_by(root.id).usage.total_tokens) == (0, 10)


def test_two_children_ask_at_once_and_each_effect_happens_once(work: Families) -> None:
    work.two_helpers()
    root = work.start("coordinator")
    assert root.status is Status.WAITING
    requests = work.open_requests(root)
    assert sorted(" > ".join(step.agent for step in r.path) or r.agent for r in requests) == [
        "coordinator",
        "coordinator > left",
        "coordinator > right",
    ]
    by_agent = {request.agent: request for request in requests}
    work.answer(root, by_agent["left"], approved=True)
    work.restart(lose_checkpoints=True)
    assert len(work.open_requests(root)) == 2
    work.answer(root, by_agent["coordinator"], approved=True)
    work.restart(lose_checkpoints=True)
    ended = work.answer(root, by_agent["right"], approved=False)
    assert (ended.status, ended.output) == (Status.SUCCESS, "All done.")
    assert work.results(root) == ["left did it.", "right did it.", "did own"]
    assert work.effects() == {"left-plain": 1, "right-plain": 1, "left": 1, "own": 1}
    work.check_ended(root)


def test_children_of_children_answer_upwards(work: Families) -> None:
    work.agent("top", turn(calls_agent("middle")), "Top.", settings="agents: [middle]")
    work.agent("middle", turn(calls_agent("deep")), "Middle.", settings="agents: [deep]")
    work.agent("deep", turn(call("danger", key="deep")), "Deep.", settings="tools: [kit]\nconfirm: [danger]")
    root = work.start("top")
    (request,) = work.open_requests(root)
    assert [step.agent for step in request.path] == ["top", "middle", "deep"]
    ended = work.answer(root, request, approved=True)
    assert (ended.status, work.effects()) == (Status.SUCCESS, {"deep": 1})
    assert [work.results(member) for member in work.app.store.family(root.id)] == [["Middle."], ["Deep."], ["did deep"]]


def test_an_agent_that_calls_nobody_has_no_such_tool(work: Families) -> None:
    work.agent("alone", turn(calls_agent("helper")), "So be it.")
    work.agent("helper", "Hi.")
    root = work.start("alone")
    assert root.status is Status.ERROR, "the script model is not bound to it"
    assert len(work.app.store.family(root.id)) == 1


@pytest.mark.parametrize(
    ("child", "settings", "said"),
    [
        ([turn(error={"kind": "bad_request", "message": "no such model"})], "", "(execution 2) failed: script/helper could not answer: 400 no such model"),
        (["Never."], "enabled: false", "is disabled"),
        ([turn(call("plain", key="x")), "Never."], "tools: [kit]\nsettings: {max_execution_tokens: 1}", "max_execution_tokens is 1"),
        ([turn(call("plain", key="x")), turn(call("plain", key="y")), "Never."], "tools: [kit]\nsettings: {max_tool_calls: 0}", "max_tool_calls is 0"),
        ([turn(call("plain", key="x")), "Never."], "tools: [kit]\nsettings: {max_cost_usd: 0.0000001}", "max_cost_usd is"),
        (["Never."], "model: {provider: google, name: gemini-x}", "cannot be run"),
    ],
)  # fmt: skip
def test_a_child_that_fails_is_a_tool_error_that_says_why(
    work: Families, child: list[str], settings: str, said: str
) -> None:
    work.agent("coordinator", turn(calls_agent("helper")), "I know.", settings="agents: [helper]")
    spent = {"usage": {"input": 5, "output": 5, "cost": 0.01}}
    turns = [{**each, **spent} if isinstance(each, dict) and "error" not in each else each for each in child]
    work.agent("helper", *turns, settings=settings)
    if "model:" in settings:
        file = work.folder / "agents/helper.md"
        file.write_text(file.read_text().replace("model: {provider: script, name: helper}\n", "", 1))
    root = work.start("coordinator")
    assert (root.status, root.output) == (Status.SUCCESS, "I know.")
    (result,) = work.results(root)
    assert result.startswith("Error: helper")
    assert said in result
    work.check_ended(root)


def test_the_budget_of_the_root_is_that_of_all_it_calls(work: Families) -> None:
    work.agent(
        "coordinator",
        turn(calls_agent("helper"), usage={"input": 10, "output": 0}),
        "Never.",
        settings="agents: [helper]\nsettings: {max_execution_tokens: 25}",
    )
    work.agent(
        "helper",
        turn(call("plain", key="x"), usage={"input": 20, "output": 0}),
        "Never.",
        settings="tools: [kit]",
    )
    root = work.start("coordinator")
    assert work.results(root) == [
        f"Error: helper (execution {root.id + 1}) was stopped: max_execution_tokens of coordinator (execution {root.id}) "
        "is 25, and 30 are used"
    ]
    assert (root.status, root.error) == (Status.ABORTED, "max_execution_tokens is 25, and 30 are used")


def test_tool_calls_of_children_count_for_the_root(work: Families) -> None:
    work.agent(
        "coordinator",
        turn(calls_agent("helper")),
        "Enough.",
        settings="agents: [helper]\nsettings: {max_tool_calls: 2}",
    )
    work.agent("helper", turn(call("plain", key="1"), call("plain", key="2")), "One of two.", settings="tools: [kit]")
    root = work.start("coordinator")
    assert work.effects() == {"1": 1}
    assert "max_tool_calls" in work.results(work.app.store.family(root.id)[1])[1]


def test_depth_and_cycles_are_refused_with_the_reason(work: Families) -> None:
    work.config("defaults: {max_agent_depth: 1}\n")
    work.agent("a", turn(calls_agent("b")), "Back.", settings="agents: [b]")
    work.agent("b", turn(calls_agent("c"), calls_agent("a")), "Refused.", settings="agents: [c, a]")
    work.agent("c", "Never.")
    root = work.start("a")
    assert root.status is Status.SUCCESS
    deep, cycle = work.results(work.app.store.family(root.id)[1])
    assert "c cannot be called here: it would be 2 levels below a, and defaults.max_agent_depth is 1" in deep
    assert "a cannot be called here: it is at work above this call (a > b > a)" in cycle
    assert len(work.app.store.family(root.id)) == 2


def test_an_agent_that_is_not_listed_is_refused(work: Families) -> None:
    work.agent("coordinator", turn(calls_agent("other")), "I see.", settings="agents: [helper]")
    work.agent("helper", "Never.")
    work.agent("other", "Never.")
    root = work.start("coordinator")
    assert "'other' is none of the agents, which are: helper" in work.results(root)[0]


def test_rules_name_the_agent_that_is_called(work: Families) -> None:
    work.agent(
        "coordinator",
        turn(calls_agent("left"), calls_agent("right"), calls_agent("third")),
        "Done.",
        settings="agents: [left, right, third]\nconfirm: ['run_agent(r*)']\ndeny: ['run_agent(third)']",
    )
    for name in ("left", "right", "third"):
        work.agent(name, f"{name}.")
    root = work.start("coordinator")
    (request,) = work.open_requests(root)
    assert request.tool_args == {"agent_name": "right", "arguments": []}
    assert request.preview is not None
    assert request.preview.resolved == "agents/right.md"
    ended = work.answer(root, request, approved=False)
    assert ended.status is Status.SUCCESS
    left, right, third = work.results(root)
    assert (left, right) == ("left.", "Action denied by user")
    assert "not allowed by this agent's rules" in third


def test_an_approval_is_for_the_agent_as_it_was_shown(work: Families) -> None:
    work.agent("coordinator", turn(calls_agent("helper")), "Done.", settings="agents: [helper]\nconfirm: [run_agent]")
    work.agent("helper", "Harmless.")
    root = work.start("coordinator")
    (request,) = work.open_requests(root)
    work.agent("helper", "Harmful.", settings="tools: [kit]")
    work.restart()
    waiting = work.answer(root, request, approved=True)
    assert waiting.status is Status.WAITING
    (again,) = work.open_requests(root)
    assert "agents/helper.md was changed since this was approved" in again.message
    assert work.answer(root, again, approved=True).status is Status.SUCCESS


def test_a_child_that_has_begun_ends_whatever_became_of_its_file(work: Families) -> None:
    work.two_helpers()
    root = work.start("coordinator")
    (work.folder / "agents/left.md").unlink()
    (work.folder / "agents/right.md").write_text("nonsense")
    work.restart()
    for request in work.open_requests(root):
        work.record(request, {"approved": True})
    assert work.drive(root.id).status is Status.SUCCESS
    assert work.results(root) == ["left did it.", "right did it.", "did own"]


def test_a_cancellation_goes_down_and_that_of_a_child_is_told(work: Families) -> None:
    work.two_helpers()
    root = work.start("coordinator")
    left = work.app.store.family(root.id)[1]
    work.app.store.request_cancel(left.id, "cli:ann")
    work.drive(root.id)
    assert work.results(root)[0] == f"Error: left (execution {left.id}) was cancelled: cancelled by cli:ann"
    work.app.store.request_cancel(root.id, "cli:ann")
    ended = work.drive(root.id)
    assert [member.status for member in work.app.store.family(root.id)] == [Status.ABORTED] * 3
    assert ended.error == "cancelled by cli:ann"
    work.check_ended(root)


def test_the_end_of_a_parent_ends_its_children(work: Families) -> None:
    work.agent(
        "coordinator",
        turn(calls_agent("left"), call("plain", key="own")),
        "Never.",
        settings="agents: [left]\ntools: [kit]\nsettings: {timeout: 1}",
    )
    work.agent("left", turn(call("plain", key="x"), delay="30s"), "Never.", settings="tools: [kit]")
    root = work.start("coordinator")
    assert root.status is Status.TIMEOUT
    assert work.app.store.family(root.id)[1].status in (Status.TIMEOUT, Status.ABORTED)
    work.check_ended(root)


def test_grants_of_the_root_are_none_of_its_children(work: Families) -> None:
    twice = turn(call("danger", key="own")), turn(calls_agent("left")), "Done."
    work.agent("coordinator", *twice, settings="agents: [left]\ntools: [kit]\nconfirm: [danger]")
    work.agent("left", turn(call("danger", key="own")), "Left.", settings="tools: [kit]\nconfirm: [danger]")
    root = work.start("coordinator", session_id="s")
    (own,) = work.open_requests(root)
    work.record(own, {"approved": True, "remember": {"scope": "session"}})
    work.drive(root.id)
    (request,) = work.open_requests(root)
    assert request.agent == "left"


def test_a_long_answer_of_a_child_is_read_on(work: Families) -> None:
    work.agent(
        "coordinator",
        turn(calls_agent("helper")),
        "Long.",
        settings="agents: [helper]\nsettings: {max_tool_result_bytes: 4000}",
    )
    work.agent("helper", "word " * 2000)
    root = work.start("coordinator")
    (told,) = [message for message in work.app.store.said(root.id) if message["type"] == "tool"]
    assert "Read on with result_read" in told["data"]["content"]


def test_a_question_of_a_child_expires_and_its_parent_goes_on(work: Families) -> None:
    work.agent("coordinator", turn(calls_agent("left")), "Done.", settings="agents: [left]")
    settings = "tools: [kit]\nconfirm: [danger]\nconfirm_timeout: 1s"
    work.agent("left", turn(call("danger", key="left")), "Nobody came.", settings=settings)
    root = work.start("coordinator")
    (request,) = work.open_requests(root)
    assert request.expires_at is not None
    until(lambda: work.app.store.settle_overdue())
    assert work.drive(root.id).status is Status.SUCCESS
    assert work.results(root) == ["Nobody came."]
    assert not work.effects()


def test_an_answer_to_a_child_is_retracted_and_given_again(work: Families) -> None:
    work.two_helpers()
    root = work.start("coordinator")
    left = next(request for request in work.open_requests(root) if request.agent == "left")
    work.record(left, {"approved": True})
    again = work.app.store.retract(left.id, by="cli:ann").replaced_by
    assert work.app.store.execution(root.id).status is Status.WAITING
    assert again in [request.id for request in work.open_requests(root)]
    assert work.drive(root.id).status is Status.WAITING
    assert work.effects()["left"] == 0


def test_a_failed_child_can_be_run_anew_by_itself(work: Families) -> None:
    work.agent("coordinator", turn(calls_agent("helper", "X")), "I know.", settings="agents: [helper]")
    work.agent("helper", turn(error={"kind": "bad_request", "message": "no"}), body="Do $1.")
    root = work.start("coordinator")
    failed = work.app.store.family(root.id)[1]
    work.agent("helper", "It works now.", body="Do $1.")
    anew = work.app.starter.retry(failed)
    assert (anew.parent_id, anew.root) == (None, anew.id)
    assert work.app.store.seed(anew.id)[0]["data"]["content"] == "Do X.\n"


def test_children_are_removed_with_their_root(work: Families) -> None:
    work.agent("coordinator", turn(calls_agent("helper")), "Done.", settings="agents: [helper]\nhistory: off")
    work.agent("helper", "Done.")
    root = work.start("coordinator")
    work.agent("coordinator", "Done.", settings="history: off", body="Work alone.")
    work.start("coordinator")
    assert work.app.retention.remove_executions(0) >= 2
    assert {each.id for each in work.app.store.executions()}.isdisjoint({root.id, root.id + 1})


def test_from_python_a_family_is_run_answered_and_cancelled(work: Families) -> None:
    work.two_helpers()
    work.close()
    told: list[Any] = []
    with Workspace(work.folder) as workspace:
        root = workspace.run("coordinator", on_event=told.append)
        assert root.status is Status.WAITING
        requests = workspace.requests(root.id)
        assert len(requests) == 3
        for request in requests:
            workspace.answer(request, {"approved": True})
        assert workspace.resume(root.id).status is Status.SUCCESS
        left = workspace.run("coordinator")
        assert workspace.cancel(left.id).status is Status.ABORTED
        assert workspace.requests() == []
    assert "child_started" in [str(event.type) for event in told if hasattr(event, "type")]
    work.restart()
    assert work.effects()["own"] == 1


def test_a_receiver_is_told_of_a_question_of_a_child_by_its_root(work: Families) -> None:
    notify = "agents: [left]\nnotify: [{url: 'https://example.com/in', events: [interrupt.requested]}]"
    work.agent("coordinator", turn(calls_agent("left")), "Done.", settings=notify)
    work.agent("left", turn(call("danger", key="left")), "Left.", settings="tools: [kit]\nconfirm: [danger]")
    root = work.start("coordinator")
    store = work.app.store
    Deriver(store, store.outbox, interrupt_delay=lambda: 0).catch_up()
    due = store.outbox.claim(work.app.worker, mine=(), full=())
    assert due is not None
    (request,) = work.open_requests(root)
    assert (due.execution_id, due.request_id) == (root.id, request.id)


def test_an_agent_that_nobody_trusted_is_not_run_by_one_that_needs_no_trust(tmp_path: Path) -> None:
    work = Families(tmp_path / "ws", UNTRUSTED)
    try:
        work.agent("coordinator", turn(calls_agent("helper")), "I see.", settings="agents: [helper]")
        work.agent("helper", turn(call("plain", key="x")), "Never.", settings="tools: [kit]")
        root = work.start("coordinator")
        (result,) = work.results(root)
        assert result.startswith("Error: helper cannot be run: helper is not trusted with tools")
        assert len(work.app.store.family(root.id)) == 1
        assert not work.effects()
    finally:
        work.close()
