"""Whatever a tool does, the model is told and the execution goes on; and how calls end when an execution does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from agent_md.errors import AnswerConflict
from agent_md.executions.error_text import LONGEST_ERROR
from agent_md.executions.states import CallOutcome, CallState, EventType, Outcome, RequestKind, Status
from agent_md.graph.run_context import RunContext
from agent_md.ports.store import NewAnswer
from agent_md.runner.loop import Runner
from tests.support.clock import ManualClock
from tests.support.driving import Replies, Sink, Workspace, call, turn
from tests.support.waiting import eventually


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path / "ws", clock=ManualClock())
    yield workspace
    workspace.close()


def one_tool(work: Workspace, body: str, way: str = "def", args: str = "") -> None:
    work.tools(
        f'import asyncio, threading\ndef deep():\n    return deep()\n@tool\n{way} it({args}) -> object:\n    """It."""\n    {body}\n'
    )
    work.agent("tools: [kit]")


class TestWhatToolsRaise:
    RAISED = (
        "raise ValueError('wrong')",
        "raise SystemExit(3)",
        "raise KeyboardInterrupt",
        "raise asyncio.CancelledError",
        "raise StopIteration(1)",
        "raise StopAsyncIteration",
        "raise GeneratorExit",
        "raise TimeoutError('slow')",
        "raise ExceptionGroup('many', [ValueError('a'), OSError('b')])",
        "deep()",
        "raise type('Odd', (Exception,), {'__str__': lambda self: 1 / 0})",
        "raise ValueError('x' * 5_000_000 + chr(0xd800) + chr(0))",
        "assert False",
    )

    @pytest.mark.parametrize("way", ["def", "async def"])
    @pytest.mark.parametrize("raised", RAISED, ids=lambda raised: raised[:30])
    def test_is_told_and_its_siblings_run(self, work: Workspace, way: str, raised: str) -> None:
        one_tool(work, raised, way)
        work.script(turn(call("it"), call("plain", key="U")), "Done.")
        work.start()
        work.check_succeeded()
        assert work.result().startswith("Error: it failed: ")
        assert len(work.result()) < LONGEST_ERROR + 100
        assert work.calls()[0].outcome is CallOutcome.FAILED
        assert work.results_seen() == [work.result(), "did U"]
        assert work.execution.attempts == 0

    @pytest.mark.parametrize("raised", ["KeyError('x')", "SystemExit(2)", "RuntimeError('odd')"])
    def test_a_validator_of_arguments_may_raise_anything(self, work: Workspace, raised: str) -> None:
        work.tools(f'''
            from typing import Annotated
            from pydantic import AfterValidator
            def check(n: int) -> int:
                raise {raised}
            @tool
            def it(n: Annotated[int, AfterValidator(check)]) -> str:
                """It."""
                return effect("ran")
            ''')
        work.agent("tools: [kit]\nconfirm: [it(n=1)]")
        work.script(turn(call("it", n=1), call("it", n=2)), "Done.")
        work.start()
        work.check_succeeded()
        assert work.result().startswith("Error: it failed: ")
        assert work.requests() == []
        assert work.effects() == {}

    def test_bad_arguments_and_unknown_tools(self, work: Workspace) -> None:
        work.tools("")
        work.agent("tools: [kit]\nconfirm: [danger]")
        wanted = [
            ({"name": "danger", "args": {}}, "Error: Invalid arguments for danger: key: Field required"),
            ({"name": "danger", "args": {"key": [1]}}, "Error: Invalid arguments for danger: key: "),
            ({"name": "danger", "args": {"key": "a", "no": 1}}, "Error: Invalid arguments for danger: no: unknown"),
            ({"name": "file_read", "args": {"path": 7}}, "Error: Invalid arguments for file_read: path: "),
            ({"name": "file_reed", "args": {}}, "Error: there is no tool 'file_reed'; the tools are: ask_user, "),
            ({"name": "", "args": {}}, "Error: there is no tool 'unknown'; the tools are: "),
            ({"name": "a b\n", "args": {"x": "\ud800"}}, "Error: there is no tool 'a b\\n'; the tools are: "),
        ]
        calls = [{**each, "id": f"c{index}"} for index, (each, _) in enumerate(wanted)]
        work.model = Replies(AIMessage("", tool_calls=calls), AIMessage("Done."))
        work.start()
        work.check_succeeded()
        assert work.requests() == []
        for text, (_, beginning) in zip(work.results_seen(), wanted, strict=True):
            assert text.startswith(beginning)
        assert {found.outcome for found in work.calls()} == {CallOutcome.REFUSED}

    @pytest.mark.parametrize(
        ("args", "why"),
        [
            ({"question": "Which?", "kind": "choice"}, "needs at least one option"),
            ({"question": "Which?", "kind": "choice", "options": []}, "needs at least one option"),
            ({"question": "Which?", "kind": "choice", "options": ["a", ""]}, "an option is empty"),
            ({"question": "Which?", "kind": "choice", "options": ["a", "a "]}, "two options are equal"),
            ({"question": "  "}, "question: is empty"),
            ({"question": "Which?", "options": ["a"]}, "only kind choice has options"),
            ({"question": "Which?", "kind": "slider"}, "kind: "),
        ],
    )
    def test_a_bad_question_is_refused_back_to_the_model(
        self, work: Workspace, args: dict[str, object], why: str
    ) -> None:
        work.agent()
        work.script(turn(call("ask_user", **args)), "Done.")
        work.start()
        work.check_succeeded()
        assert why in work.result()
        assert work.requests() == []

    def test_questions_of_the_model(self, work: Workspace) -> None:
        work.agent()
        options = ["red", "blue", "green"]
        asked = [
            call("ask_user", question="Name?"),
            call("ask_user", question="Sure?", kind="confirm"),
            call("ask_user", question="Which?", kind="choice", options=options),
            call("ask_user", question="Some?", kind="choice", options=options, multi=True),
        ]
        work.script(turn(*asked), "Done.")
        work.start()
        answers = [{"text": "Ann"}, {"approved": False}, {"selected": ["blue"]}, {"selected": ["green", "red"]}]
        for request, answer in zip(work.open_requests(), answers, strict=True):
            work.restart()
            work.answer(request, answer)
        work.check_succeeded()
        assert work.results_seen() == ["Ann", "No", "blue", '["red", "green"]']


class TestWhatToolsGive:
    @pytest.mark.parametrize("way", ["def", "async def"])
    @pytest.mark.parametrize(
        ("value", "told"),
        [
            ("Path('a/b')", "a/b"),
            ("b'bytes'", "bytes"),
            ("b'\\xff'", "base64:/w=="),
            ("{3, 1, 2}", "[1, 2, 3]"),
            ("D(1, Path('a'))", '{"a": 1, "b": "a"}'),
            ("{'a': {1: None}}", '{"a": {"1": null}}'),
            ("chr(0xd800) + 'x' + chr(0)", "\ufffdx\0"),
            ("float('nan')", "nan"),
            ("None", "null"),
            ("datetime(2026, 1, 2)", "2026-01-02T00:00:00"),
        ],
    )
    def test_is_told_as_text(self, work: Workspace, way: str, value: str, told: str) -> None:
        work.tools(f'''
            from dataclasses import dataclass
            from datetime import datetime
            @dataclass
            class D:
                a: int
                b: Path
            @tool
            {way} it() -> object:
                """It."""
                return {value}
            ''')
        work.agent("tools: [kit]")
        work.script(turn(call("it")), "Done.")
        work.start()
        work.check_succeeded()
        assert work.results_seen() == [told]
        assert work.result() == told

    def test_what_has_no_text(self, work: Workspace) -> None:
        one_tool(work, "return lambda: 1")
        work.script(turn(call("it")), "Done.")
        work.start()
        work.check_succeeded()
        assert "lambda" in work.result()

    def test_a_text_of_5_mb(self, work: Workspace) -> None:
        one_tool(work, "return 'ä' * 2_500_000")
        work.script(turn(call("it")), turn(call("ask_user", question="Go on?", kind="confirm")), "Done.")
        work.start()
        work.restart(lose_checkpoints=True)
        work.answer()
        work.check_succeeded()
        assert work.result() == "ä" * 2_500_000

    def test_a_tool_error_with_halves_of_surrogates(self, work: Workspace) -> None:
        one_tool(work, "from agent_md.errors import ToolError; raise ToolError(chr(0xd800) + chr(0))")
        work.script(turn(call("it")), "Done.")
        work.start()
        work.check_succeeded()
        assert work.results_seen() == ["Error: \ufffd\0"]

    def test_text_that_only_looks_like_a_denial(self, work: Workspace) -> None:
        one_tool(work, "from agent_md.errors import ToolError; raise ToolError('Action denied by user')")
        work.script(turn(call("it")), "Done.")
        work.start()
        work.check_succeeded()
        assert work.calls()[0].outcome is CallOutcome.FAILED


class TestExpiry:
    @pytest.fixture
    def asked(self, work: Workspace) -> Workspace:
        work.tools('@tool\ndef it() -> object:\n    """It."""\n    return request_input("Name?")\n')
        work.agent("tools: [kit]\nconfirm: [danger]\nconfirm_timeout: 30s")
        asked = [call("danger", key="A"), call("ask_user", question="Which?"), call("it"), call("danger", key="B")]
        work.script(turn(*asked), "Done.")
        work.start()
        assert len(work.open_requests()) == 4
        return work

    def later(self, work: Workspace, seconds: float) -> None:
        assert isinstance(work.clock, ManualClock)
        work.clock.advance(seconds)

    @pytest.mark.parametrize("lose_checkpoints", [False, True])
    def test_is_told_as_a_timeout_and_nothing_runs(self, asked: Workspace, lose_checkpoints: bool) -> None:
        self.later(asked, 29)
        asked.restart()
        assert len(asked.open_requests()) == 4
        self.later(asked, 1)
        asked.restart(lose_checkpoints=lose_checkpoints)
        assert asked.execution.status is Status.QUEUED
        asked.go_on()
        asked.check_succeeded()
        assert asked.results_seen() == ["Action denied by user (timeout)"] * 4
        assert asked.effects() == {}
        answers = [request.answer for request in asked.requests()]
        assert {(a.outcome, a.answered_by) for a in answers if a} == {(Outcome.EXPIRED, "timeout")}

    def test_an_answer_in_time_counts_and_only_the_others_expire(self, asked: Workspace) -> None:
        self.later(asked, 29.9)
        asked.answer(asked.open_requests()[0])
        self.later(asked, 0.1)
        asked.restart()
        asked.go_on()
        asked.check_succeeded()
        assert asked.effects() == {"A": 1}
        assert asked.results_seen() == ["did A", *["Action denied by user (timeout)"] * 3]

    def test_an_answer_too_late_loses_and_never_reaches_another_request(self, asked: Workspace) -> None:
        self.later(asked, 30)
        first = asked.open_requests()[0]
        with pytest.raises(AnswerConflict, match=r"expired at .*nobody answered in time"):
            asked.record(first, {"approved": True})
        asked.restart()
        asked.go_on()
        asked.check_succeeded()
        assert asked.effects() == {}

    def test_a_new_request_has_a_deadline_of_its_own(self, work: Workspace) -> None:
        work.tools('@tool\ndef it() -> object:\n    """It."""\n    return [request_input("a"), request_input("b")]\n')
        work.agent("tools: [kit]\nconfirm_timeout: 30s")
        work.script(turn(call("it")), "Done.")
        work.start()
        self.later(work, 29)
        work.answer(response={"text": "x"})
        self.later(work, 29)
        work.restart()
        assert work.the_request().message == "b"
        self.later(work, 1)
        work.restart()
        work.go_on()
        work.check_succeeded()
        assert work.result() == "Action denied by user (timeout)"


class TestPolicy:
    def test_a_denial_by_policy_is_told_as_one_and_not_as_the_users(self, work: Workspace) -> None:
        work.tools('@tool\ndef it() -> object:\n    """It."""\n    return request_input("Name?")\n')
        work.agent("tools: [kit]\nconfirm: [danger]")
        work.script(turn(call("danger", key="A"), call("it"), call("ask_user", question="Which?")), "Done.")
        work.start()
        denials = [
            NewAnswer(r.id, Outcome.DENIED, {"approved": False} if r.kind is RequestKind.CONFIRM else None)
            for r in work.open_requests()
        ]
        work.app.store.record_answers(denials, by="policy")
        work.go_on()
        work.check_succeeded()
        assert work.results_seen() == ["Action denied by policy: nobody was asked"] * 3
        assert [c.outcome for c in work.calls()] == [CallOutcome.DENIED, CallOutcome.DENIED, CallOutcome.DONE]


class TestCancel:
    def cancelled(self, work: Workspace) -> None:
        """Cancels what waits, as another process does."""
        work.app.store.request_cancel(work.execution.id, "cli:ann")
        claim = work.app.store.claim_to_cancel(work.execution.id, work.app.worker)
        assert claim is not None
        work.drive(claim)

    def check_aborted(self, work: Workspace) -> None:
        execution = work.execution
        assert (execution.status, execution.error) == (Status.ABORTED, "cancelled by cli:ann")
        work.check_closed()
        ends = [event for event in work.events() if event.type is EventType.COMPLETE]
        assert [event.data["status"] for event in ends] == ["aborted"]

    @pytest.mark.parametrize("lose_checkpoints", [False, True])
    def test_while_waiting(self, work: Workspace, lose_checkpoints: bool) -> None:
        work.tools('@tool\ndef it() -> object:\n    """It."""\n    return request_input("Name?")\n')
        work.agent("tools: [kit]\nconfirm: [danger]")
        work.script(turn(call("danger", key="A"), call("plain", key="U"), call("it")), "Done.")
        work.start()
        work.restart(lose_checkpoints=lose_checkpoints)
        self.cancelled(work)
        self.check_aborted(work)
        assert [c.outcome for c in work.calls()] == [CallOutcome.NOT_RUN, CallOutcome.DONE, CallOutcome.FAILED]
        assert work.result(2) == "Not finished: the execution ended while this call waited for an answer"
        answers = [request.answer for request in work.requests()]
        assert [(a.outcome, a.answered_by) for a in answers if a] == [(Outcome.CANCELLED, "cli:ann")] * 2
        assert work.effects() == {"U": 1}

    @pytest.mark.parametrize("way", ["def", "async def"])
    def test_while_a_tool_runs(self, work: Workspace, way: str) -> None:
        wait = "await asyncio.Event().wait()" if way != "def" else "threading.Event().wait(30)"
        one_tool(work, f"effect('ran'); {wait}", way)
        work.agent("tools: [kit]\nconfirm: [danger]")
        work.script(turn(call("it"), call("danger", key="A")), "Done.")

        async def run() -> None:
            driving = asyncio.create_task(work.advance(work.create()))
            await eventually(lambda: work.effects())
            work.app.store.request_cancel(work.execution.id, "cli:ann")
            await driving

        asyncio.run(run())
        self.check_aborted(work)
        (ran, asked) = work.calls()
        assert (ran.state, ran.outcome) == (CallState.UNKNOWN, CallOutcome.UNKNOWN)
        assert "may have run" in work.result()
        assert asked.outcome is CallOutcome.NOT_RUN

    def test_while_the_model_is_asked(self, work: Workspace) -> None:
        work.agent()
        work.script({"text": "Late.", "delay": "60s"})

        async def run() -> None:
            driving = asyncio.create_task(work.advance(work.create()))
            await eventually(lambda: work.histories)
            work.app.store.request_cancel(work.execution.id, "cli:ann")
            await driving

        asyncio.run(run())
        self.check_aborted(work)

    def test_before_its_driver_has_begun(self, work: Workspace) -> None:
        work.agent()
        work.script({"text": "Late.", "delay": "60s"})
        claim = work.create()
        work.app.store.request_cancel(claim.execution_id, "cli:ann")
        work.drive(claim)
        self.check_aborted(work)
        assert work.histories == []

    def test_while_its_parts_are_made(self, work: Workspace) -> None:
        work.agent()
        work.script({"text": "Late.", "delay": "60s"})
        app = work.app

        def make(*parts: Any) -> RunContext:
            app.store.request_cancel(work.execution.id, "cli:ann")
            return app._run_context(*parts)

        runner = Runner(app.store, app._checkpointer, make, aside=app.assembly.tool_threads.aside)
        for _ in range(3):
            app.store.version()  # which is looked at for the first time by now
        asyncio.run(asyncio.wait_for(runner.advance(work.create(), Sink()), 20))
        self.check_aborted(work)
        assert work.execution.epoch == 1

    def test_at_the_moment_it_begins_to_wait(self, work: Workspace) -> None:
        """The driver looks for a cancellation only now and then; whoever cancels finds a live driver and leaves it."""
        work.tools('@tool\ndef it() -> object:\n    """It."""\n    return request_input("Name?")\n')
        work.agent("tools: [kit]")
        work.script(turn(call("it")), "Done.")

        def cancel() -> None:
            if work.requests():
                work.app.store.request_cancel(work.execution.id, "cli:ann")
                assert work.app.store.claim_to_cancel(work.execution.id, work.app.worker) is None

        self.drive_without_looking(work, Sink(cancel))
        self.check_aborted(work)

    def test_at_the_moment_of_its_last_call(self, work: Workspace) -> None:
        """What was asked before the end was stored is obeyed, however soon the rest was done."""
        work.tools('@tool\ndef it() -> object:\n    """It."""\n    return "did it"\n')
        work.agent("tools: [kit]")
        work.script(turn(call("it")), "Done.")

        def cancel() -> None:
            if any(event.type is EventType.TOOL_RESULT for event in work.events()):
                work.app.store.request_cancel(work.execution.id, "cli:ann")

        self.drive_without_looking(work, Sink(cancel))
        self.check_aborted(work)

    def drive_without_looking(self, work: Workspace, sink: Sink) -> None:
        """Drives with a runner that looks for a cancellation only when something has ended."""
        app = work.app
        runner = Runner(app.store, app._checkpointer, app._run_context, aside=app.assembly.tool_threads.aside, poll=60)
        asyncio.run(runner.advance(work.create(), sink))

    def test_no_call_begins_after_it_is_stored(self, work: Workspace) -> None:
        work.tools("")
        work.agent("tools: [kit]")
        work.script(turn(call("plain", key="A"), call("plain", key="B")), "Done.")

        def cancel() -> None:
            if work.calls():
                work.app.store.request_cancel(work.execution.id, "cli:ann")

        self.drive_without_looking(work, Sink(cancel))
        self.check_aborted(work)
        assert [c.outcome for c in work.calls()] == [CallOutcome.NOT_RUN] * 2
        assert work.effects() == {}

    @pytest.mark.parametrize("way", ["def", "async def"])
    def test_nor_a_step_of_one_that_runs(self, work: Workspace, way: str) -> None:
        work.tools(f"""
            import sqlite3

            @tool
            {way} it() -> str:
                \"\"\"It.\"\"\"
                step(effect, "before")
                store = sqlite3.connect(context().workspace / ".agentmd/agentmd.db")
                with store:
                    store.execute("UPDATE executions SET cancelled_by = 'cli:ann'")
                store.close()
                try:
                    step(effect, "after")
                except Exception:
                    effect("swallowed")
            """)
        work.agent("tools: [kit]")
        work.script(turn(call("it")), "Done.")
        self.drive_without_looking(work, Sink())
        self.check_aborted(work)
        assert work.effects() == {"before": 1}
        assert "These steps of it are done: kit.effect" in work.result()

    def test_a_final_status_never_changes(self, work: Workspace) -> None:
        work.agent()
        work.script("Done.")
        work.start()
        before = (work.execution, work.events())
        assert work.app.store.request_cancel(work.execution.id, "cli:ann").cancelled_by is None
        assert work.app.store.claim_to_cancel(work.execution.id, work.app.worker) is None
        assert work.app.store.claim(work.execution.id, work.app.worker) is None
        assert (work.execution, work.events()) == before

    def test_what_was_cancelled_cannot_be_answered(self, work: Workspace) -> None:
        work.agent()
        work.write("a.txt")
        work.script(turn(call("file_delete", path="a.txt")), "Done.")
        work.start()
        request = work.the_request()
        self.cancelled(work)
        with pytest.raises(AnswerConflict, match="cancelled by cli:ann"):
            work.record(request, {"approved": True})
        assert (work.folder / "a.txt").exists()


class TestLeft:
    def test_a_drive_that_is_stopped_goes_on_later(self, work: Workspace) -> None:
        one_tool(work, "effect('ran'); await asyncio.Event().wait()", "async def")
        work.script(turn(call("it"), call("plain", key="U")), "Done.")

        async def run() -> None:
            driving = asyncio.create_task(work.advance(work.create()))
            await eventually(lambda: work.effects().get("ran") and work.calls()[1].state is CallState.FINISHED)
            driving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await driving

        asyncio.run(run())
        assert (work.execution.status, work.execution.attempts) == (Status.QUEUED, 0)
        work.restart(lose_checkpoints=True)
        work.go_on()
        work.check_succeeded()
        assert work.effects() == {"ran": 1, "U": 1}
        assert work.calls()[0].outcome is CallOutcome.UNKNOWN
        assert "may have run" in work.results_seen()[0]

    def test_a_tool_that_swallows_its_cancellation_does_not_hold_it(self, work: Workspace) -> None:
        work.tools('''
            import asyncio
            over = asyncio.Event()
            @tool
            async def it() -> str:
                """It."""
                effect("ran")
                while not over.is_set():
                    try:
                        await over.wait()
                    except asyncio.CancelledError:
                        effect("swallowed")
                return "fine"
            ''')
        work.agent("tools: [kit]")
        work.script(turn(call("it")), "Done.")

        async def run() -> None:
            driving = asyncio.create_task(work.advance(work.create()))
            await eventually(lambda: work.effects())
            work.app.store.request_cancel(work.execution.id, "cli:ann")
            ended = await asyncio.wait_for(driving, 10)
            assert ended.status is Status.ABORTED
            work.module().over.set()

        asyncio.run(run())
        assert "may have run" in work.result()

    def test_a_stored_result_is_json(self, work: Workspace) -> None:
        one_tool(work, "return 'x'")
        work.script(turn(call("it")), "Done.")
        work.start()
        assert all(json.dumps(event.data) for event in work.events())
