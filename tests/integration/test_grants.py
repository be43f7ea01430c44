"""Grants from the answer that gives them to the calls that they let run, in real executions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_md.errors import AnswerConflict, AnswerRefused
from agent_md.executions.execution import Claim
from agent_md.executions.grants import GrantEnd, GrantScope
from agent_md.executions.positions import Position
from agent_md.executions.requests import Request
from agent_md.executions.states import CallState, Decision, Status
from tests.support.clock import ManualClock
from tests.support.driving import Sink, Workspace, call, turn

ALWAYS: dict[str, Any] = {"approved": True, "remember": {}}
DANGER = "tools: [kit]\nconfirm: [danger]"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def work(tmp_path: Path, clock: ManualClock) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path / "ws", clock=clock)
    workspace.tools("")
    yield workspace
    workspace.close()


def always(**remember: str) -> dict[str, Any]:
    return {"approved": True, "remember": remember}


def two_times(work: Workspace, key: str = "A", settings: str = DANGER) -> Request:
    """An execution that makes the same guarded call in two messages, and asks about the first."""
    work.agent(settings)
    work.script(turn(call("danger", key=key)), turn(call("danger", key=key)), "Done.")
    work.start()
    return work.the_request()


class TestOneExecution:
    def test_the_next_call_that_is_the_same_runs_unasked(self, work: Workspace) -> None:
        asked = two_times(work)
        assert asked.offer is not None
        assert asked.offer.rule == "danger(key=A)"
        assert work.answer(asked, ALWAYS).status is Status.SUCCESS
        assert work.effects() == {"A": 2}
        first, second = work.calls()
        [grant] = work.app.store.grants.listed(ended=True)
        assert (first.decision, first.grant_id) == (Decision.ASK, None)
        assert (second.decision, second.grant_id) == (Decision.RUN, grant.id)
        assert (grant.given_by, grant.rule, grant.scope) == ("cli:ann", "danger(key=A)", GrantScope.EXECUTION)
        told = [event.data.get("grant") for event in work.events() if event.type == "tool_call"]
        assert told == [None, {"id": grant.id, "rule": "danger(key=A)", "given_by": "cli:ann"}]
        work.check_closed()

    def test_what_was_filled_in_is_kept_with_the_answer(self, work: Workspace) -> None:
        asked = two_times(work)
        work.answer(asked, ALWAYS)
        [request] = work.requests()
        assert request.answer is not None
        filled = {"rule": "danger(key=A)", "scope": "execution", "until": "8h"}
        assert request.answer.value == {"approved": True, "remember": filled}
        for same in (ALWAYS, always(scope="execution"), always(until="480m", rule=" danger(key=A) ")):
            work.record(request, same)
        for other in ({"approved": True}, always(until="never"), always(scope="agent")):
            with pytest.raises(AnswerConflict):
                work.record(request, other)
        assert len(work.app.store.grants.listed(ended=True)) == 1

    def test_another_call_asks(self, work: Workspace) -> None:
        work.agent(DANGER)
        work.script(turn(call("danger", key="A")), turn(call("danger", key="B")), "Done.")
        work.start()
        work.answer(response=ALWAYS)
        assert work.effects() == {"A": 1}
        assert work.the_request().tool_args == {"key": "B"}

    def test_a_denial_of_the_file_beats_it(self, work: Workspace) -> None:
        work.write("out/keep.txt")
        work.write("out/old.txt")
        work.agent("deny: ['file_delete(*keep*)']")
        calls = [call("file_delete", path=f"out/{name}.txt") for name in ("old", "keep")]
        work.script(*(turn(each) for each in calls), "Done.")
        work.start()
        work.answer(response=ALWAYS)
        work.check_succeeded()
        assert work.app.store.grants.listed(ended=True)[0].rule == "file_delete(out/*)"
        assert (work.folder / "out/keep.txt").exists()
        assert "not allowed" in work.result(turn=1)

    def test_what_the_tool_itself_asks_is_asked(self, work: Workspace) -> None:
        work.tools(
            '''
            @tool
            @tool_options(requires_approval=True)
            def pay(key: str) -> str:
                """Asks twice."""
                request_confirmation("Really?")
                return effect(key)
            '''
        )
        work.agent("tools: [kit]")
        work.script(turn(call("pay", key="A")), turn(call("pay", key="A")), "Done.")
        work.start()
        work.answer(response=ALWAYS)
        inner = work.the_request()
        assert (inner.source, inner.offer) == ("tool", None)
        with pytest.raises(AnswerRefused):
            work.record(inner, ALWAYS)
        work.answer(inner)
        second = work.the_request()
        assert (second.source, second.position) == ("tool", Position(1, 0))
        work.answer(second)
        work.check_succeeded()
        assert work.effects() == {"A": 2}

    def test_several_calls_of_one_message(self, work: Workspace) -> None:
        for name in "abcd":
            work.write(f"out/{name}.txt")
        work.agent("")
        calls = [call("file_delete", path=f"out/{name}.txt") for name in "abc"]
        work.script(turn(*calls), turn(call("file_delete", path="out/d.txt")), "Done.")
        work.start()
        first, second, third = work.open_requests()
        work.answer(first, ALWAYS)
        assert work.open_requests() == [second, third]  # they were asked before
        work.answer(second, ALWAYS)
        work.answer(third, {"approved": False})
        work.check_succeeded()
        assert [path.name for path in (work.folder / "out").iterdir()] == ["c.txt"]
        assert len(work.app.store.grants.listed(ended=True)) == 1


class TestRefused:
    @pytest.mark.parametrize(
        ("response", "says"),
        [
            ({"approved": False, "remember": {}}, 'cannot come with "approved": false'),
            ({"approved": True, "remember": {}, "args": {"key": "A"}}, 'cannot come with edited "args"'),
            ({"approved": True, "remember": "yes"}, "expected an object"),
            ({"approved": True, "remember": {"rule": 1}}, "expected an object of texts"),
            ({"approved": True, "remember": {"until": None}}, "expected an object of texts"),
            (always(rules="x"), "unknown keys: 'rules'"),
            (always(rule="danger"), "allows more than"),
            (always(rule="danger(key=*)"), "allows more than"),
            (always(rule="danger(key=A"), "no closing bracket"),
            (always(rule="plain"), "allows more than"),
            (always(rule="*"), "not a tool"),
            (always(scope="world"), "expected one of: execution, session, agent"),
            (always(scope="session"), "cannot have the scope session"),
            (always(until="8"), "the unit is missing"),
            (always(until="0s"), "no time at all"),
            (always(until=""), "expected a time"),
            (always(until="99999d"), "longer than"),
        ],
    )
    def test_what_cannot_be_remembered_answers_nothing(
        self, work: Workspace, response: dict[str, Any], says: str
    ) -> None:
        asked = two_times(work)
        with pytest.raises(AnswerRefused, match=says):
            work.record(asked, response)
        assert work.the_request() == asked
        assert work.app.store.grants.listed(ended=True) == []

    def test_a_call_that_no_rule_says_exactly(self, work: Workspace) -> None:
        asked = two_times(work, key="all *.txt")
        assert asked.offer is None
        with pytest.raises(AnswerRefused, match="no rule says exactly this call"):
            work.record(asked, ALWAYS)
        work.answer(asked)


def begin_next(work: Workspace, **options: Any) -> None:
    """Another execution of the agent, that asks or not."""
    work.script(turn(call("danger", key="A")), "Done.")
    work.start(**options)


class TestOtherExecutions:
    @pytest.mark.parametrize(
        ("scope", "runs_in"),
        [
            ("execution", []),
            ("session", ["s"]),
            ("agent", ["s", "t", None]),
        ],
    )
    def test_by_scope(self, work: Workspace, scope: str, runs_in: list[str | None]) -> None:
        work.agent(DANGER)
        begin_next(work, session_id="s")
        work.answer(response=always(scope=scope))
        for session_id in ("s", "t", None):
            begin_next(work, session_id=session_id)
            ended = work.execution.status is Status.SUCCESS
            assert ended == (session_id in runs_in)

    def test_in_a_session_it_is_for_the_session_if_nothing_is_said(self, work: Workspace) -> None:
        work.agent(DANGER)
        begin_next(work, session_id="s")
        work.answer(response=ALWAYS)
        assert [grant.scope for grant in work.app.store.grants.listed()] == [GrantScope.SESSION]

    def test_another_agent_asks(self, work: Workspace) -> None:
        work.agent(DANGER)
        begin_next(work)
        work.answer(response=always(scope="agent"))
        file = work.folder / "agents/worker.md"
        file.with_name("other.md").write_text(file.read_text().replace("name: worker", "name: other", 1))
        execution = work.app.starter.start("other")
        assert execution.worker is not None
        work.drive(Claim(execution.id, execution.worker, execution.epoch))
        assert work.execution.agent == "other"
        assert work.the_request().tool_name == "danger"

    def test_a_changed_agent_file_suspends_it_until_it_is_as_it_was(self, work: Workspace) -> None:
        work.agent(DANGER)
        begin_next(work)
        work.answer(response=always(scope="agent"))
        work.agent(DANGER + "\ndescription: other")
        begin_next(work)
        assert work.execution.status is Status.WAITING
        work.answer()
        work.agent(DANGER)
        begin_next(work)
        work.check_succeeded()

    def test_a_changed_tool_suspends_it_until_it_is_as_it_was(self, work: Workspace) -> None:
        work.agent(DANGER)
        begin_next(work)
        work.answer(response=always(scope="agent"))
        work.restart(meanwhile=lambda: work.tools("# other"))
        begin_next(work)
        assert work.execution.status is Status.WAITING
        work.answer()
        work.restart(meanwhile=lambda: work.tools(""))
        begin_next(work)
        work.check_succeeded()

    def test_its_end(self, work: Workspace, clock: ManualClock) -> None:
        work.agent(DANGER)
        begin_next(work)
        work.answer(response=always(scope="agent", until="2h"))
        clock.advance(7199)
        begin_next(work)
        assert work.execution.status is Status.SUCCESS
        clock.advance(1)
        begin_next(work)
        assert work.execution.status is Status.WAITING


class TestNotYetBegun:
    """A call that a grant let run, whose process died before it began."""

    @pytest.fixture
    def proposed(self, work: Workspace) -> Workspace:
        asked = two_times(work)
        work.record(asked, always(scope="agent"))
        claim = work.app.store.claim(work.execution.id, work.app.worker)
        assert claim is not None

        async def until_proposed() -> None:
            def look() -> None:
                if work.app.store.call(claim.execution_id, Position(1, 0)) is not None:
                    drive.cancel()

            drive = asyncio.create_task(work.advance(claim, Sink(look)))
            with pytest.raises(asyncio.CancelledError):
                await drive

        asyncio.run(until_proposed())
        found = work.app.store.call(claim.execution_id, Position(1, 0))
        assert found is not None
        assert (found.state, found.decision) == (CallState.PROPOSED, Decision.RUN)
        work.restart()
        return work

    def test_it_begins_later(self, proposed: Workspace) -> None:
        proposed.go_on()
        proposed.check_succeeded()
        assert proposed.effects() == {"A": 2}

    def test_also_after_the_end_of_the_grant(self, proposed: Workspace, clock: ManualClock) -> None:
        clock.advance(9 * 3600)
        proposed.app.store.settle_overdue()
        proposed.go_on()
        proposed.check_succeeded()

    @pytest.mark.parametrize("lose_checkpoints", [False, True])
    @pytest.mark.parametrize("approved", [True, False])
    def test_once_revoked_it_asks(self, proposed: Workspace, lose_checkpoints: bool, approved: bool) -> None:
        [grant] = proposed.app.store.grants.listed()
        assert proposed.app.store.grants.revoke(grant.id, by="cli:bob").ended is GrantEnd.REVOKED
        proposed.restart(lose_checkpoints=lose_checkpoints)
        proposed.go_on()
        assert proposed.effects() == {"A": 1}
        asked = proposed.the_request()
        assert asked.message == f'Confirm danger {{"key": "A"}} (grant {grant.id} was revoked by cli:bob)'
        proposed.restart(lose_checkpoints=lose_checkpoints)
        proposed.answer(asked, {"approved": approved})
        proposed.check_succeeded()
        assert proposed.effects() == {"A": 2 if approved else 1}

    def test_what_was_asked_instead_may_give_another_grant(self, proposed: Workspace) -> None:
        [grant] = proposed.app.store.grants.listed()
        proposed.app.store.grants.revoke(grant.id, by="cli:bob")
        proposed.go_on()
        proposed.answer(response=ALWAYS)
        proposed.check_succeeded()
        assert len(proposed.app.store.grants.listed(ended=True)) == 2

    def test_with_another_tool_it_asks(self, proposed: Workspace) -> None:
        proposed.restart(meanwhile=lambda: proposed.tools("# other"))
        proposed.go_on()
        assert proposed.effects() == {"A": 1}
        assert "danger was changed since grant 1 was given" in proposed.the_request().message
        proposed.answer()
        proposed.check_succeeded()
