"""What the model is given: the same messages in the same shape, whatever happened to the checkpoints in between."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.graph import StateGraph
from langgraph.types import interrupt

from agent_md.executions.execution import NewExecution
from agent_md.executions.states import CallOutcome, Status, TriggerKind
from agent_md.executions.thread_names import thread_id
from agent_md.graph.messages import from_stored, to_stored
from agent_md.graph.state import ThreadState
from agent_md.stores.checkpoints import Checkpoints
from tests.support.driving import Replies, Sink, Workspace, call, turn
from tests.support.provider_shape import shape_fault


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path / "ws")
    workspace.tools('@tool\ndef it() -> object:\n    """It."""\n    return request_input("Name?")\n')
    workspace.agent("tools: [kit]\nconfirm: [danger]")
    yield workspace
    workspace.close()


ALL = turn(call("danger", key="A"), call("plain", key="U"), call("it"), call("file_read", path="none"), text="Let me.")


def plainly(history: list[BaseMessage]) -> list[tuple[object, ...]]:
    """A history without what differs from run to run."""
    return [
        (
            m.type,
            m.content,
            getattr(m, "tool_calls", None),
            getattr(m, "tool_call_id", None),
            m.name,
            m.additional_kwargs,
        )
        for m in history
    ]


def answer_all(work: Workspace, before_each: Callable[[], None]) -> None:
    work.start()
    before_each()
    work.answer(work.open_requests()[1], {"text": "Ann"})
    before_each()
    work.answer(response={"approved": True, "reason": "fine"})
    before_each()
    if not work.execution.status.final:
        work.answer()
    work.check_succeeded()


def copy_store(work: Workspace) -> None:
    source, copy = work.folder / ".agentmd/agentmd.db", work.folder / "older.db"
    with closing(sqlite3.connect(source)) as now, closing(sqlite3.connect(copy)) as kept:
        now.backup(kept)


def put_back_store(work: Workspace) -> None:
    for file in (work.folder / ".agentmd").glob("agentmd.db*"):
        file.unlink()
    (work.folder / "older.db").rename(work.folder / ".agentmd/agentmd.db")


class TestOverPauses:
    @pytest.mark.parametrize("lose_checkpoints", [False, True])
    def test_every_history_is_the_same_as_without_a_restart(
        self, work: Workspace, tmp_path: Path, lose_checkpoints: bool
    ) -> None:
        script = [{**ALL, "additional_kwargs": {"signature": "c2ln"}}, {**ALL, "calls": ALL["calls"][:1]}, "Done."]
        other = Workspace(tmp_path / "other")
        for name in ("agents/worker.md", "agents/_config/tools/kit.py"):
            (other.folder / name).write_bytes((work.folder / name).read_bytes())
        for each in (work, other):
            each.script(*script)
        answer_all(other, lambda: None)
        answer_all(work, lambda: work.restart(lose_checkpoints=lose_checkpoints))
        other.close()
        assert [plainly(history) for history in work.histories] == [plainly(history) for history in other.histories]
        assert work.results_seen() == ["did A"]
        assert [m.additional_kwargs for m in work.histories[-1] if isinstance(m, AIMessage)] == [
            *({"signature": "c2ln"}, {})
        ]
        assert len(work.histories) == 3
        assert work.effects() == {"A": 2, "U": 1}

    @pytest.mark.parametrize("answered_before", [0, 1, 2])
    def test_an_older_copy_of_the_checkpoints_repeats_nothing(self, work: Workspace, answered_before: int) -> None:
        work.script(ALL, turn(call("plain", key="V"), call("danger", key="B")), "Done.")
        work.start()
        copy = work.folder / "copy.db"
        checkpoints = work.folder / ".agentmd/agentmd_checkpoints.db"
        for count in range(3):
            if count == answered_before:
                with closing(sqlite3.connect(checkpoints)) as source, closing(sqlite3.connect(copy)) as target:
                    source.backup(target)
            response = {"text": "Ann"} if work.open_requests()[0].kind == "input" else {"approved": True}
            work.answer(work.open_requests()[0], response)
            if count == 1:

                def put_back() -> None:
                    for file in work.checkpoint_files():
                        file.unlink()
                    if copy.exists():
                        copy.rename(checkpoints)

                work.restart(meanwhile=put_back)
        work.check_succeeded()
        assert work.effects() == {"A": 1, "U": 1, "V": 1, "B": 1}
        assert len(work.histories) == 3

    def test_checkpoints_that_cannot_be_read_are_made_again(
        self, work: Workspace, caplog: pytest.LogCaptureFixture
    ) -> None:
        work.script(ALL, "Done.")
        work.start()

        def spoil() -> None:
            with closing(sqlite3.connect(work.folder / ".agentmd/agentmd_checkpoints.db")) as database, database:
                database.execute("UPDATE checkpoints SET checkpoint = x'c1'")

        work.restart(meanwhile=spoil)
        for request in work.open_requests():
            work.record(request, {"approved": True} if request.kind == "confirm" else {"text": "Ann"})
        work.go_on()
        work.check_succeeded()
        assert "cannot be read; they are made again from the store" in caplog.text
        assert work.effects() == {"A": 1, "U": 1}

    @pytest.mark.parametrize("more_answers", [1, 2, 3])
    def test_a_store_that_is_an_older_copy_than_the_checkpoints_is_believed(
        self, work: Workspace, caplog: pytest.LogCaptureFixture, more_answers: int
    ) -> None:
        work.tools('@tool\ndef it() -> object:\n    """It."""\n    return [request_input(n) for n in "ab"]\n')
        work.script(turn(call("it")), turn(call("ask_user", question="c")), turn(call("plain", key="1")), "Done.")
        work.start()
        copy_store(work)
        for _ in range(more_answers):
            work.answer(response={"text": "before"})
        work.restart(meanwhile=lambda: put_back_store(work))
        for question in "abc":
            assert work.the_request().message == question
            work.answer(response={"text": f"answer {question}"})
        work.check_succeeded()
        assert "know more than the store" in caplog.text
        results = [m.content for m in work.histories[-1] if isinstance(m, ToolMessage)]
        assert results == ['["answer a", "answer b"]', "answer c", "did 1"]

    def test_also_about_the_result_of_one_call_of_two(self, work: Workspace) -> None:
        work.script(turn(call("danger", key="A"), call("danger", key="B")), "Done.")
        work.start()
        copy_store(work)
        work.answer(work.open_requests()[0])
        work.restart(meanwhile=lambda: put_back_store(work))
        first, second = work.open_requests()
        work.answer(first, {"approved": False})
        work.answer(second)
        work.check_succeeded()
        assert work.results_seen() == ["Action denied by user", "did B"]

    def test_also_about_the_last_answer(self, work: Workspace) -> None:
        work.script(turn(call("plain", key="1")), "Done.")

        def copy() -> None:
            if work.calls() and work.calls()[0].state.closed and not (work.folder / "older.db").exists():
                copy_store(work)

        work.start(Sink(copy))
        work.restart(meanwhile=lambda: put_back_store(work))
        assert work.execution.status is Status.RUNNING
        work.go_on()
        work.check_succeeded()
        assert [event.key for event in work.events() if event.key.startswith("ai:")] == ["ai:0", "ai:1"]
        assert work.effects() == {"1": 1}

    def test_checkpoints_of_a_graph_with_other_nodes_are_made_again(
        self, work: Workspace, caplog: pytest.LogCaptureFixture
    ) -> None:
        work.script(ALL, "Done.")
        work.start()
        execution = work.execution
        work.restart(lose_checkpoints=True)
        message = from_stored([work.app.store.model_step(execution.id, 0) or {}])
        seed = from_stored(work.app.store.seed(execution.id))
        graph = StateGraph(ThreadState)
        graph.add_node("assistant", lambda state: {"messages": message})
        graph.add_node("action", lambda state: interrupt("?"))
        graph.add_edge("__start__", "assistant")
        graph.add_edge("assistant", "action")
        with closing(Checkpoints(work.folder / ".agentmd/agentmd_checkpoints.db")) as checkpoints:
            config = {"configurable": {"thread_id": thread_id(execution)}}
            graph.compile(checkpointer=checkpoints).invoke({"messages": seed}, config, durability="sync")
        for request in work.open_requests():
            work.record(request, {"approved": True} if request.kind == "confirm" else {"text": "Ann"})
        work.go_on()
        work.check_succeeded()
        assert work.effects() == {"A": 1, "U": 1}


def test_a_history_with_gaps_is_closed_when_it_is_read(work: Workspace) -> None:
    """As it comes from a conversation whose last execution was cut."""
    asking = AIMessage("", id="a1", tool_calls=[{"name": "plain", "args": {"key": "old"}, "id": "call_0_0"}])
    seed = [HumanMessage("First.", id="h1"), asking, HumanMessage("Second.", id="h2")]
    work.script(turn(call("plain", key="new")), "Done.")
    spec = work.app.registry.get("worker").spec
    created = work.app.store.create(
        NewExecution("worker", TriggerKind.CHAT, tuple(to_stored(message) for message in seed)),
        spec=spec.to_json(),
        spec_digest=spec.digest,
        skip_if_waiting=False,
        worker=None,
    )
    assert created.status is Status.QUEUED
    work.go_on()
    work.check_succeeded()
    assert [m.content for m in work.histories[-1]] == [
        *("First.", "", "Not executed: the execution ended before this call", "Second.", "", "did new")
    ]


class TestMisbehaviour:
    def calls(self, *ids: str | None) -> AIMessage:
        made = [{"name": "plain", "args": {"key": str(n)}, "id": call_id} for n, call_id in enumerate(ids)]
        return AIMessage("", tool_calls=made)

    @pytest.mark.parametrize(
        "ids",
        [
            (None, None, None),
            ("", "", ""),
            ("same", "same", "same"),
            ("a", "a", None),
            ("call_0_1", None, "x"),
            (None, "call_0_0", "call_0_0"),
            ("call_0_2", "call_0_2", "call_0_2"),
        ],
    )
    def test_each_call_has_an_id_and_a_result_of_its_own(self, work: Workspace, ids: tuple[str | None, ...]) -> None:
        work.agent("tools: [kit]\nconfirm: [plain(key=1)]")
        work.model = Replies(self.calls(*ids), self.calls(*ids), AIMessage("Done."))
        work.start()
        work.restart(lose_checkpoints=True)
        work.answer()
        work.answer()
        work.check_succeeded()
        assert work.results_seen() == ["did 0", "did 1", "did 2"]
        assert work.effects() == {"0": 2, "1": 2, "2": 2}

    def test_arguments_that_are_no_json_are_told_and_run_nothing(self, work: Workspace) -> None:
        work.tools('@tool\ndef nothing() -> str:\n    """Needs none."""\n    return effect("nothing")\n')
        broken = [
            {"type": "invalid_tool_call", "name": "nothing", "args": '{"a": ', "id": "b1", "error": "cut"},
            {"type": "invalid_tool_call", "name": None, "args": None, "id": None, "error": None},
        ]
        good = {"name": "plain", "args": {"key": "U"}, "id": "a1"}
        work.model = Replies(AIMessage("", tool_calls=[good], invalid_tool_calls=broken), AIMessage("Done."))
        work.start()
        work.check_succeeded()
        assert work.effects() == {"U": 1}
        assert work.results_seen() == [
            "did U",
            "Error: the arguments of 'nothing' are not JSON; nothing was run",
            "Error: the arguments of 'unknown' are not JSON; nothing was run",
        ]
        assert work.calls()[1].outcome is CallOutcome.REFUSED

    def test_only_such_calls_are_no_answer_either(self, work: Workspace) -> None:
        broken = {"type": "invalid_tool_call", "name": "plain", "args": "{", "id": "b1", "error": "cut"}
        work.model = Replies(AIMessage("", invalid_tool_calls=[broken]), AIMessage("Done."))
        work.start()
        work.check_succeeded()
        assert len(work.histories) == 2

    def test_an_answer_that_cannot_be_stored_is_asked_for_once(self, work: Workspace) -> None:
        work.model = Replies(AIMessage("", tool_calls=[{"name": "plain", "args": {"key": float("nan")}, "id": "a"}]))
        ended = work.start()
        assert ended.status is Status.ERROR
        assert "the model's answer cannot be stored as JSON" in (ended.error or "")
        assert len(work.histories) == 1

    def test_halves_of_surrogates_and_blocks(self, work: Workspace) -> None:
        blocks = [{"type": "text", "text": "a\ud800"}, {"type": "thinking", "thinking": "hm", "signature": "c2ln"}]
        asking = {"name": "danger", "args": {"key": "\udfff"}, "id": "a\ud800"}
        work.model = Replies(AIMessage(blocks, tool_calls=[asking]), AIMessage("Done\ud800."))
        work.start()
        work.restart()
        work.answer()
        work.check_succeeded("Done\ufffd.")
        assert work.effects() == {"\ufffd": 1}
        (said,) = [m for m in work.histories[-1] if isinstance(m, AIMessage)]
        assert said.content == [{"type": "text", "text": "a\ufffd"}, blocks[1]]

    def test_many_calls_in_one_message(self, work: Workspace) -> None:
        work.agent("tools: [kit]\nconfirm: [plain(key=*7)]\nsettings: {max_tool_calls: 100}")
        work.model = Replies(self.calls(*(f"c{number}" for number in range(60))), AIMessage("Done."))
        work.start()
        for request in work.open_requests():
            work.record(request, {"approved": True})
        work.go_on()
        work.check_succeeded()
        assert work.results_seen() == [f"did {number}" for number in range(60)]


class TestTheValidator:
    CALL = AIMessage("", tool_calls=[{"name": "a", "args": {}, "id": "1"}, {"name": "b", "args": {}, "id": "2"}])
    A, B = ToolMessage("x", tool_call_id="1", name="a"), ToolMessage("x", tool_call_id="2", name="b")
    ASKED, SYSTEM = HumanMessage("Hello"), SystemMessage("Be brief.")

    @pytest.mark.parametrize(
        "history",
        [
            [],
            [SYSTEM],
            [CALL, A, B],
            [ASKED, SYSTEM],
            [ASKED, AIMessage("Hello")],
            [ASKED, A],
            [ASKED, CALL],
            [ASKED, CALL, A],
            [ASKED, CALL, B, A],
            [ASKED, CALL, A, A, B],
            [ASKED, CALL, A, B, B],
            [ASKED, CALL, A, ASKED, B],
            [ASKED, AIMessage("x"), CALL, A, B],
            [ASKED, AIMessage("", tool_calls=[{"name": "a", "args": {}, "id": None}]), A],
            [ASKED, CALL, A, B, CALL, A, B],
        ],
    )
    def test_refuses_what_a_provider_does(self, history: list[BaseMessage]) -> None:
        assert shape_fault(history) is not None

    @pytest.mark.parametrize("history", [[ASKED], [SYSTEM, ASKED, CALL, A, B], [ASKED, CALL, A, B, ASKED]])
    def test_takes_what_a_provider_takes(self, history: list[BaseMessage]) -> None:
        assert shape_fault(history) is None
