"""The limits of an execution hold over pauses, restarts and lost checkpoints, and name themselves when they end it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from agent_md.errors import BudgetSpent, MissingKey, UsageError
from agent_md.executions.execution import Execution
from agent_md.executions.states import CallOutcome, Status
from tests.support.driving import Sink, Turn, Workspace, call, turn
from tests.support.forks import in_processes

QUESTION = turn(call("ask_user", question="Go on?", kind="confirm"))


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path / "ws")
    workspace.tools("")
    yield workspace
    workspace.close()


def plain(*keys: str, **more: object) -> Turn:
    return turn(*(call("plain", key=key) for key in keys), **more)


def check_aborted(execution: Execution, reason: str) -> None:
    assert (execution.status, execution.error) == (Status.ABORTED, reason)


class TestToolCalls:
    @pytest.mark.parametrize("lose_checkpoints", [False, True])
    def test_what_was_used_before_a_pause_counts(self, work: Workspace, lose_checkpoints: bool) -> None:
        work.agent("tools: [kit]\nsettings: {max_tool_calls: 5}")
        work.script(plain("1", "2"), QUESTION, plain("4", "5", "6"), "Done.")
        work.start()
        work.restart(lose_checkpoints=lose_checkpoints)
        check_aborted(work.answer(), "max_tool_calls is 5, and the agent asked for 6")
        work.check_closed()
        assert work.effects() == {"1": 1, "2": 1, "4": 1, "5": 1}
        assert work.result(2, turn=2) == "Error: not executed: max_tool_calls (5) is reached"
        assert work.calls()[-1].outcome is CallOutcome.REFUSED
        assert len(work.histories) == 3

    def test_a_call_beyond_the_limit_is_not_asked(self, work: Workspace) -> None:
        work.agent("tools: [kit]\nconfirm: [danger]\nsettings: {max_tool_calls: 2}")
        work.script(turn(*(call("danger", key=key) for key in "ABC")), "Done.")
        work.start()
        assert [request.tool_args for request in work.open_requests()] == [{"key": "A"}, {"key": "B"}]

    def test_as_many_as_allowed_are_fine(self, work: Workspace) -> None:
        work.agent("tools: [kit]\nsettings: {max_tool_calls: 3}")
        work.script(plain("1", "2", "3"), "Done.")
        work.start()
        work.check_succeeded()

    def test_refused_and_failed_calls_count(self, work: Workspace) -> None:
        work.agent("tools: [kit]\ndeny: [danger]\nsettings: {max_tool_calls: 3}")
        work.script(turn(call("danger", key="A"), call("file_read", path="none")), plain("1", "2"), "Done.")
        check_aborted(work.start(), "max_tool_calls is 3, and the agent asked for 4")
        assert work.effects() == {"1": 1}


class TestSpending:
    def test_tokens_add_up_over_pauses(self, work: Workspace) -> None:
        work.agent("tools: [kit]\nsettings: {max_execution_tokens: 100}")
        used = {"input": 30, "output": 20}
        work.script({**QUESTION, "usage": used}, {**plain("1"), "usage": used}, "Done.")
        work.start()
        work.restart(lose_checkpoints=True)
        check_aborted(work.answer(), "max_execution_tokens is 100, and 100 are used")
        work.check_closed()
        assert work.execution.usage.total_tokens == 100
        assert work.effects() == {"1": 1}

    def test_money_adds_up_over_pauses(self, work: Workspace) -> None:
        work.agent("tools: [kit]\nsettings: {max_cost_usd: 0.5}")
        used = {"input": 3, "cost": 0.25}
        work.script({**QUESTION, "usage": used}, {**QUESTION, "usage": used}, "Done.")
        work.start()
        work.restart()
        work.answer()
        assert work.execution.status is Status.WAITING
        work.restart(lose_checkpoints=True)
        check_aborted(work.answer(), "max_cost_usd is $0.5, and $0.5 are spent")

    def test_money_of_the_day_adds_up_over_executions(self, work: Workspace) -> None:
        work.agent("settings: {max_cost_usd_per_day: 0.5}")
        work.script({"text": "Done.", "usage": {"input": 3, "cost": 0.25}})
        for _ in range(2):
            work.start()
            work.check_succeeded()
        with pytest.raises(BudgetSpent, match=r"not started: max_cost_usd_per_day is \$0.5, and \$0.5 are spent today"):
            work.start()
        assert len(work.app.store.executions()) == 2

    def test_the_last_answer_may_reach_the_limit(self, work: Workspace) -> None:
        work.agent("settings: {max_execution_tokens: 10}")
        work.script({"text": "Done.", "usage": {"input": 50}})
        work.start()
        work.check_succeeded()

    @pytest.mark.parametrize("limit", ["max_cost_usd", "max_cost_usd_per_day"])
    def test_money_of_a_model_without_a_price_is_refused_before_anything_starts(
        self, tmp_path: Path, limit: str
    ) -> None:
        work = Workspace(tmp_path / "priced", environ={"GOOGLE_API_KEY": "key"})
        work.agent(f"settings: {{{limit}: 1}}", model="{provider: google, name: gemini-0.5-huge}")
        with pytest.raises(UsageError, match=f"{limit} is set, but the price of google/gemini-0.5-huge is unknown"):
            work.create()
        assert work.app.store.executions() == []
        work.close()


class TestTime:
    SLOW = """
    import time
    @tool
    def slow(seconds: float) -> str:
        \"\"\"Works.\"\"\"
        effect("slow")
        time.sleep(seconds)
        return "worked"
    """

    def test_work_adds_up_over_pauses_and_waiting_is_none(self, work: Workspace) -> None:
        work.tools(self.SLOW)
        work.agent("tools: [kit]\nsettings: {timeout: 1}")
        work.script(turn(call("slow", seconds=0.3)), QUESTION, {"text": "Late.", "delay": "60s"})
        work.start()
        before = work.execution.work_ms
        assert before >= 300
        assert work.execution.status is Status.WAITING
        work.restart(lose_checkpoints=True)
        ended = work.answer()
        assert (ended.status, ended.error) == (Status.TIMEOUT, "settings.timeout: 1 s of work are used up")
        assert ended.work_ms >= 950
        assert ended.work_ms - before < 900  # it had what was left of its second, not a second of its own
        work.check_closed()

    def test_the_time_of_a_stopped_process_is_none_of_work(self, tmp_path: Path) -> None:
        assert in_processes(lambda: self.work_and_be_stopped(tmp_path / "stopped")) == [0]

    def work_and_be_stopped(self, folder: Path) -> None:
        work = Workspace(folder)
        work.tools("""
            import subprocess
            @tool
            def stopped() -> str:
                \"\"\"Stops its process for longer than it may work.\"\"\"
                pid = os.getpid()
                subprocess.run(["sh", "-c", f"kill -STOP {pid}; sleep 3; kill -CONT {pid}"], check=True)
                return effect("went on")
            """)
        work.agent("tools: [kit]\nsettings: {timeout: 2}")
        work.script(turn(call("stopped")), "Done.")
        work.start()
        work.check_succeeded()
        assert work.effects() == {"went on": 1}

    @pytest.mark.parametrize("way", ["def", "async def"])
    def test_a_call_that_runs_may_have_run_and_the_others_did_not(self, work: Workspace, way: str) -> None:
        wait = "threading.Event().wait(30)" if way == "def" else "await asyncio.Event().wait()"
        work.tools(f'''
            import asyncio, threading
            @tool
            {way} endless() -> str:
                """Works."""
                effect("endless")
                {wait}
            ''')
        work.agent("tools: [kit]\nconfirm: [danger]\nsettings: {timeout: 1}")
        work.script(turn(call("endless"), call("danger", key="A"), call("plain", key="U")), "Done.")
        ended = work.start()
        assert ended.status is Status.TIMEOUT
        work.check_closed()
        assert [c.outcome for c in work.calls()] == [CallOutcome.UNKNOWN, CallOutcome.NOT_RUN, CallOutcome.DONE]
        assert work.effects() == {"endless": 1, "U": 1}

    def test_nothing_more_is_begun_when_no_time_is_left(self, work: Workspace) -> None:
        work.tools(self.SLOW)
        work.agent("tools: [kit]\nconfirm: [danger]\nsettings: {timeout: 1}")
        work.script(turn(call("danger", key="A"), call("slow", seconds=0.2)), "Done.")
        work.start()
        journal_of_a_driver_that_worked_on(work, seconds=1.0)
        ended = work.answer()
        assert ended.status is Status.TIMEOUT
        assert work.effects() == {"slow": 1}


def journal_of_a_driver_that_worked_on(work: Workspace, seconds: float) -> None:
    """Lets the time of work of the waiting execution pass, as a driver does that is woken and finds nothing to do."""
    import time

    claim = work.app.store.claim_to_cancel(work.execution.id, work.app.worker)
    assert claim is not None
    journal = work.app.store.journal(claim)
    time.sleep(seconds)
    assert journal.park([frozenset({work.the_request().id})])


class TestLoops:
    def failing(self, *args: object, **more: object) -> Turn:
        return turn(*(call("file_read", path=path) for path in args), **more)

    def test_the_same_call_with_the_same_error_three_times(self, work: Workspace) -> None:
        work.agent()
        work.script(self.failing("none"), self.failing("none"), QUESTION, self.failing("none"), "Done.")
        work.start()
        work.answer()
        work.check_succeeded()
        work.script(self.failing("none"), self.failing("none"), self.failing("none"), "Done.")
        check_aborted(
            work.start(),
            "loop_detection: file_read failed 3 times in a row in the same way: Error: none does not exist",
        )
        work.check_closed()

    def test_over_a_restart(self, work: Workspace) -> None:
        work.tools('@tool\ndef it() -> object:\n    """It."""\n    request_input("?")\n    raise ValueError("no")\n')
        work.agent("tools: [kit]")
        work.script(*[turn(call("it"))] * 3, "Done.")
        work.start()
        for _ in range(2):
            work.restart(lose_checkpoints=True)
            work.answer(response={"text": ""})
        check_aborted(
            work.answer(response={"text": ""}),
            "loop_detection: it failed 3 times in a row in the same way: Error: it failed: ValueError: no",
        )

    def test_other_arguments_are_no_loop(self, work: Workspace) -> None:
        work.agent()
        work.script(*(self.failing(f"none-{number}") for number in range(5)), "Done.")
        work.start()
        work.check_succeeded()

    def test_other_errors_are_no_loop(self, work: Workspace) -> None:
        work.tools('''
            from itertools import count
            numbers = count()
            @tool
            def it() -> str:
                """It."""
                raise ValueError(next(numbers) // 2)
            ''')
        work.agent("tools: [kit]")
        work.script(*[turn(call("it"))] * 6, "Done.")
        work.start()
        work.check_succeeded()

    def test_the_same_result_again_and_again_is_no_loop(self, work: Workspace) -> None:
        work.write("there.txt")
        work.agent()
        work.script(*[self.failing("there.txt")] * 5, "Done.")
        work.start()
        work.check_succeeded()

    def test_it_can_be_turned_off(self, work: Workspace) -> None:
        work.agent("settings: {loop_detection: false}")
        work.script(*[self.failing("none")] * 5, "Done.")
        work.start()
        work.check_succeeded()


class TestModelErrors:
    def test_transient_ones_are_tried_again(self, work: Workspace) -> None:
        work.agent()
        work.script(
            {"text": "x", "error": {"kind": "rate_limit", "message": "slow down", "times": 1}, **QUESTION}, "Done."
        )
        sink = Sink()
        work.start(sink)
        assert work.execution.status is Status.WAITING
        work.script(QUESTION, {"text": "Done.", "error": {"kind": "transport", "times": 1}})
        work.restart()
        work.answer()
        work.check_succeeded()
        assert [len(history) for history in work.histories] == [2, 4]

    def test_a_permanent_one_ends_it_as_an_error(self, work: Workspace) -> None:
        work.agent("tools: [kit]")
        work.script(plain("1"), {"text": "x", "error": {"kind": "bad_request", "message": "too long"}})
        ended = work.start()
        assert (ended.status, ended.error) == (Status.ERROR, "script/worker could not answer: 400 too long")
        work.check_closed()
        assert len(work.histories) == 2

    def test_a_script_that_does_not_fit_ends_it_as_an_error(self, work: Workspace) -> None:
        work.agent("tools: [kit]")
        work.script(plain("1"), {"text": "x", "expect": {"tool": "plain", "result": "something else"}})
        ended = work.start()
        assert ended.status is Status.ERROR
        assert "expects a result of plain" in (ended.error or "")

    def test_a_missing_key_leaves_it_queued(self, tmp_path: Path) -> None:
        work = Workspace(tmp_path / "keyless", environ={"GOOGLE_API_KEY": "key"})
        work.agent(model="{provider: google, name: gemini-2.5-flash, base_url: 'http://127.0.0.1:9'}")
        claim = work.create()
        del work.environ["GOOGLE_API_KEY"]
        queued = work.app.store.journal(claim)
        queued.release()
        work.restart()
        with pytest.raises(MissingKey, match="GOOGLE_API_KEY"):
            work.go_on()
        assert (work.execution.status, work.execution.attempts, work.execution.error) == (Status.QUEUED, 0, None)
        work.close()

    def test_a_missing_script_leaves_it_queued(self, work: Workspace) -> None:
        work.agent()
        work.script(QUESTION, "Done.")
        work.start()
        script = work.folder / "agents/_config/scripts/worker.yaml"
        kept = script.read_text()
        script.unlink()
        work.restart()
        with pytest.raises(UsageError, match="there is no script"):
            work.answer()
        assert work.execution.status is Status.QUEUED
        script.write_text(kept)
        work.go_on()
        work.check_succeeded()


class TestAttempts:
    def test_three_that_raise_end_it_as_an_error_that_names_the_place(
        self, work: Workspace, caplog: pytest.LogCaptureFixture
    ) -> None:
        work.agent()

        class Broken:
            async def __call__(self, *_: object) -> object:
                raise ZeroDivisionError("odd")

        work.model = Broken()  # type: ignore[assignment]
        ended = work.start()
        assert ended.status is Status.ERROR
        assert ended.error == (
            "ZeroDivisionError: odd (model call 0, 3 times in a row). "
            "When its cause is mended, `agentmd retry 1` begins it anew"
        )
        assert len(work.histories) == 3

    def test_a_spec_that_cannot_be_read_does_too(self, work: Workspace) -> None:
        work.agent()
        work.script(QUESTION, "Done.")
        work.start()
        work.record(work.the_request(), {"approved": True})

        def written_by_a_newer_one() -> None:
            with closing(sqlite3.connect(work.folder / ".agentmd/agentmd.db")) as database, database:
                database.execute("""UPDATE specs SET body = replace(body, '"format":1', '"format":99')""")

        work.restart(meanwhile=written_by_a_newer_one)
        ended = work.go_on()
        assert ended.status is Status.ERROR
        assert "the spec has format 99" in (ended.error or "")
        work.check_closed()


def test_several_executions_on_one_loop(work: Workspace) -> None:
    work.agent("tools: [kit]\non_pending: parallel")
    work.script(turn(call("plain", key="1"), delay="0.1s"), QUESTION, "Done.")

    async def all_at_once() -> list[Execution]:
        return await asyncio.gather(*(work.advance(work.create()) for _ in range(5)))

    ended = asyncio.run(all_at_once())
    assert {execution.status for execution in ended} == {Status.WAITING}
    assert work.effects() == {"1": 5}
