"""Guarded calls from the proposal to the effect: asked once, answered in any order, run as approved or not at all."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage

from agent_md.errors import AnswerConflict, AnswerRefused
from agent_md.executions.states import CallOutcome, Decision, EventType, Outcome, RequestKind, RequestSource, Status
from agent_md.ports.store import NewAnswer
from tests.support.driving import Replies, Sink, Workspace, call, turn

GUARDED = "tools: [kit]\nconfirm: [danger]"


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path / "ws")
    yield workspace
    workspace.close()


class TestOneMessage:
    """Three guarded calls and an unguarded one."""

    @pytest.fixture
    def asked(self, work: Workspace) -> Workspace:
        work.tools("")
        work.agent(GUARDED)
        calls = [call("danger", key="A"), call("danger", key="B"), call("plain", key="U"), call("danger", key="C")]
        work.script(turn(*calls, text="Let me."), "Done.")
        work.start()
        return work

    def test_all_requests_are_open_at_once_and_only_the_unguarded_call_has_run(self, asked: Workspace) -> None:
        assert asked.execution.status is Status.WAITING
        requests = asked.open_requests()
        assert [(r.tool_name, r.tool_args) for r in requests] == [("danger", {"key": key}) for key in "ABC"]
        assert {(r.kind, r.source) for r in requests} == {(RequestKind.CONFIRM, RequestSource.GATE)}
        assert len({r.id for r in requests}) == 3
        assert asked.effects() == {"U": 1}
        assert asked.result(index=2) == "did U"
        waiting = [event for event in asked.events() if event.type is EventType.WAITING]
        assert [event.data["request_ids"] for event in waiting] == [[r.id for r in requests]]

    @pytest.mark.parametrize("lose_checkpoints", [False, True], ids=["restart", "loss"])
    @pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
    def test_any_order_of_answers(self, asked: Workspace, order: tuple[int, ...], lose_checkpoints: bool) -> None:
        ids = [request.id for request in asked.open_requests()]
        for count, index in enumerate(order, 1):
            asked.restart(lose_checkpoints=lose_checkpoints)
            by_id = {request.id: request for request in asked.requests()}
            assert list(by_id) == ids
            asked.answer(by_id[ids[index]], {"approved": index != 1, "reason": "not this one"})
            allowed = [("A", "B", "C")[i] for i in order[:count] if i != 1]
            assert asked.effects() == Counter(["U", *allowed])
            assert [r.id for r in asked.open_requests()] == [ids[i] for i in sorted(order[count:])]
        asked.check_succeeded()
        assert asked.results_seen() == ["did A", "Action denied by user: not this one", "did U", "did C"]
        assert [c.outcome for c in asked.calls()] == [
            *(CallOutcome.DONE, CallOutcome.DENIED, CallOutcome.DONE, CallOutcome.DONE)
        ]
        assert len(asked.histories) == 2

    def test_all_answers_before_anybody_drives_on(self, asked: Workspace) -> None:
        for request in reversed(asked.open_requests()):
            asked.record(request, {"approved": True})
        asked.restart()
        asked.go_on()
        asked.check_succeeded()
        assert asked.effects() == Counter("ABCU")

    def test_the_same_answer_again_changes_nothing_and_another_one_loses(self, asked: Workspace) -> None:
        first = asked.open_requests()[0]
        asked.answer(first)
        asked.record(first, {"approved": True})
        with pytest.raises(AnswerConflict, match="approved by cli:ann"):
            asked.record(first, {"approved": False})
        assert asked.effects() == {"U": 1, "A": 1}

    @pytest.mark.parametrize(
        "response",
        [
            None,
            {},
            [],
            "yes",
            True,
            {"approved": "false"},
            {"approved": 1},
            {"approved": None},
            {"approved": True, "x": 1},
        ],
        ids=repr,
    )
    def test_what_is_no_answer_changes_nothing(self, asked: Workspace, response: object) -> None:
        before = asked.events()
        with pytest.raises(AnswerRefused):
            asked.record(asked.open_requests()[0], response)
        assert asked.execution.status is Status.WAITING
        assert asked.events() == before

    def test_answers_given_while_it_still_runs_are_taken_in_the_same_drive(self, work: Workspace) -> None:
        work.tools("")
        work.agent(GUARDED)
        work.script(turn(call("danger", key="A"), call("danger", key="B")), "Done.")

        def answer() -> None:
            for request in work.open_requests():
                work.record(request, {"approved": request.position.index == 0})

        work.start(Sink(answer))
        work.check_succeeded()
        assert work.execution.epoch == 1
        assert work.results_seen() == ["did A", "Action denied by user"]
        assert not [event for event in work.events() if event.type is EventType.WAITING]


class TestDenied:
    @pytest.fixture
    def denied(self, work: Workspace) -> Workspace:
        work.tools("")
        work.agent(GUARDED)
        work.script(turn(call("danger", key="A")), "Done.")
        work.start()
        return work

    @pytest.mark.parametrize("change", ["auto_approve", "unguarded", "no tools", "no agent", "no module"])
    @pytest.mark.parametrize("when", ["before", "after"])
    def test_never_runs_whatever_changes_meanwhile(self, denied: Workspace, change: str, when: str) -> None:
        request = denied.the_request()
        if when == "after":
            denied.record(request, {"approved": False})
        if change == "auto_approve":
            denied.agent(f'{GUARDED}\nauto_approve: "*"')
        elif change == "unguarded":
            denied.agent("tools: [kit]")
        elif change == "no tools":
            denied.agent("")
        elif change == "no agent":
            (denied.folder / "agents/worker.md").unlink()
        else:
            (denied.folder / "agents/_config/tools/kit.py").unlink()
        denied.restart(lose_checkpoints=when == "after")
        if when == "before":
            denied.record(request, {"approved": False})
        denied.go_on()
        denied.check_succeeded()
        assert denied.result() == "Action denied by user"
        assert denied.calls()[0].outcome is CallOutcome.DENIED
        assert denied.effects() == {}

    @pytest.mark.parametrize("change", ["no tools", "no agent", "auto_approve"])
    def test_an_approval_runs_with_the_spec_that_was_started(self, denied: Workspace, change: str) -> None:
        if change == "no agent":
            (denied.folder / "agents/worker.md").unlink()
        else:
            denied.agent("" if change == "no tools" else f'{GUARDED}\nauto_approve: "*"')
        denied.restart()
        denied.answer()
        denied.check_succeeded()
        assert denied.effects() == {"A": 1}


class TestRules:
    def test_deny_wins_over_approving_everything_and_is_never_asked(self, work: Workspace) -> None:
        work.write("a.txt")
        work.agent('auto_approve: "*"\ndeny: [file_delete]')
        work.script(turn(call("file_delete", path="a.txt"), call("file_write", path="b.txt", content="new")), "Done.")
        work.start()
        work.check_succeeded()
        assert work.requests() == []
        assert work.result() == "Error: file_delete is not allowed by this agent's rules"
        assert work.calls()[0].outcome is CallOutcome.REFUSED
        assert (work.folder / "a.txt").exists()
        assert (work.folder / "b.txt").read_text() == "new"

    def test_approving_everything_touches_no_question(self, work: Workspace) -> None:
        work.tools('@tool\ndef it() -> bool:\n    """It."""\n    return request_confirmation("Sure?")\n')
        work.agent('tools: [kit]\nauto_approve: "*"')
        work.script(
            turn(call("ask_user", question="Which?"), call("it"), call("file_write", path="a", content="")), "Done."
        )
        work.start()
        assert [request.message for request in work.open_requests()] == ["Which?", "Sure?"]
        assert (work.folder / "a").exists()

    def test_patterns_are_of_the_resolved_path(self, work: Workspace) -> None:
        work.write("reports/x.md")
        work.write("secret/x.md")
        (work.folder / "reports/link").symlink_to(work.folder / "secret")
        work.agent("auto_approve: [file_delete(reports/*)]")
        ways = ["secret/../reports/x.md", "reports/link/x.md", "reports/../secret/x.md"]
        work.script(turn(*(call("file_delete", path=way) for way in ways)), "Done.")
        work.start()
        assert not (work.folder / "reports/x.md").exists()
        assert (work.folder / "secret/x.md").exists()
        previews = [request.preview.resolved for request in work.open_requests() if request.preview]
        assert previews == [str(work.folder.resolve() / "secret/x.md")] * 2

    def test_a_pattern_on_arguments(self, work: Workspace) -> None:
        work.tools("")
        work.agent("tools: [kit]\nconfirm: [plain(key=prod*)]\ndeny: [plain(key=*-root)]")
        work.script(turn(*(call("plain", key=key) for key in ("dev", "prod-1", "prod-root"))), "Done.")
        work.start()
        assert work.effects() == {"dev": 1}
        assert work.the_request().tool_args == {"key": "prod-1"}
        assert "not allowed" in work.result(index=2)

    @pytest.mark.parametrize("way", ["../out.txt", "/etc/passwd", ".env", "agents/worker.md", "a\0b"])
    def test_what_the_sandbox_refuses_is_not_asked(self, work: Workspace, way: str) -> None:
        work.agent()
        work.script(turn(call("file_write", path=way, content="x")), "Done.")
        work.start()
        work.check_succeeded()
        assert work.requests() == []
        assert "is not a path that this agent may use" in work.result()


class TestEdited:
    @pytest.fixture
    def asked(self, work: Workspace) -> Workspace:
        work.tools("")
        work.agent(f"{GUARDED}\ndeny: [danger(key=root*), file_write(secret/*)]")
        work.script(
            turn(call("danger", key="A"), call("file_write", path="a.txt", content="first")), turn(text="Done.")
        )
        work.start()
        return work

    def test_exactly_the_edited_action_runs_and_the_model_is_told(self, asked: Workspace) -> None:
        custom, write = asked.open_requests()
        asked.answer(custom, {"approved": True, "args": {"key": "B"}})
        asked.restart(lose_checkpoints=True)
        asked.answer(write, {"approved": True, "args": {"path": "b.txt", "content": "second"}})
        asked.check_succeeded()
        assert asked.effects() == {"B": 1}
        assert not (asked.folder / "a.txt").exists()
        assert (asked.folder / "b.txt").read_text() == "second"
        told = "The user edited the arguments of this call before approving it."
        assert asked.results_seen() == [f"{told} did B", f"{told} File written: b.txt"]
        assert [c.args for c in asked.calls()] == [{"key": "B"}, {"path": "b.txt", "content": "second"}]

    @pytest.mark.parametrize(
        ("index", "args", "why"),
        [
            (0, {"key": "root-1"}, "not allowed"),
            (0, {}, "key: "),
            (0, {"key": "B", "more": 1}, "more: unknown argument"),
            (1, {"path": "secret/x", "content": ""}, "not allowed"),
            (1, {"path": "../x", "content": ""}, "not a path"),
            (1, {"path": 1, "content": ""}, "path: "),
        ],
    )
    def test_what_may_not_be_approved_is_refused_and_still_waits(
        self, asked: Workspace, index: int, args: dict[str, object], why: str
    ) -> None:
        with pytest.raises(AnswerRefused, match=why):
            asked.record(asked.open_requests()[index], {"approved": True, "args": args})
        assert asked.execution.status is Status.WAITING
        assert len(asked.open_requests()) == 2

    def test_arguments_that_are_effectively_those_that_were_shown_are_not_edited(self, work: Workspace) -> None:
        work.tools(
            '''
@tool
def ship(key: str, to: str = "home") -> str:
    """Guarded."""
    return f"{effect(key)} to {to}"
'''
        )
        work.agent("tools: [kit]\nconfirm: [ship]")
        work.script(turn(call("ship", key="A")), "Done.")
        work.start()
        request = work.the_request()
        for given in ({"key": "A"}, {"to": "home", "key": "A"}):
            answer = work.app.responder.new_answer(work.execution, request, {"approved": True, "args": given})
            assert (answer.value, answer.digest) == ({"approved": True}, None)
        work.answer(request, {"approved": True, "args": {"to": "home", "key": "A"}})
        assert work.results_seen() == ["A to home"]  # the model is told of no edit
        for again in ({"approved": True}, {"approved": True, "args": {"key": "A"}}):
            work.record(work.requests()[0], again)
        for other in ({"approved": True, "args": {"key": "A", "to": "away"}}, {"approved": True, "reason": "x"}):
            with pytest.raises(AnswerConflict):
                work.record(work.requests()[0], other)

    def test_the_same_edit_again_is_the_same_answer(self, asked: Workspace) -> None:
        custom, write = asked.open_requests()
        edit = {"approved": True, "args": {"path": "b.txt", "content": "second"}}
        asked.record(custom, {"approved": False})
        asked.answer(write, edit)
        asked.check_succeeded()
        asked.record(asked.requests()[1], edit)
        with pytest.raises(AnswerConflict):
            asked.record(asked.requests()[1], {"approved": True})

    def test_an_approval_of_other_arguments_without_their_digest_runs_nothing(self, asked: Workspace) -> None:
        custom = asked.open_requests()[0]
        value = {"approved": True, "args": {"key": "B"}}
        asked.app.store.record_answers([NewAnswer(custom.id, Outcome.APPROVED, value)], by="api")
        asked.go_on()
        assert asked.effects() == {}
        assert [r.tool_args for r in asked.open_requests() if r.tool_name == "danger"] == [{"key": "B"}]


class TestBoundToADigest:
    """What changed between approval and effect is not done; a new request says what changed."""

    CALLS = (
        call("file_write", path="a.txt", content="new"),
        call("file_edit", path="a.txt", old_text="old", new_text="new"),
        call("file_delete", path="a.txt"),
        call("file_move", source="a.txt", destination="b.txt"),
    )

    def asked(self, work: Workspace, action: dict[str, object]) -> Workspace:
        work.write("a.txt", "old")
        work.write("other.txt", "old but other")
        work.agent("confirm: [file_edit, file_move]")
        work.script(turn(action), "Done.")
        work.start()
        return work

    @pytest.mark.parametrize("action", CALLS, ids=lambda action: action["name"])
    @pytest.mark.parametrize("when", ["before the answer", "after the answer"])
    def test_changed_content_is_asked_again(self, work: Workspace, action: dict[str, object], when: str) -> None:
        self.asked(work, action)
        first = work.the_request()
        if when == "after the answer":
            work.record(first, {"approved": True})
        work.write("a.txt", "old, by somebody else")
        work.restart()
        if when == "before the answer":
            work.record(first, {"approved": True})
        work.go_on()
        again = work.the_request()
        assert (work.folder / "a.txt").read_text() == "old, by somebody else"
        assert again.id != first.id
        assert again.digest != first.digest
        assert f"{work.folder.resolve()}/a.txt" in again.message
        assert "was changed since this was approved" in again.message
        assert again.tool_args == first.tool_args
        if action["name"] in ("file_write", "file_edit"):
            assert again.preview is not None
            assert "-old, by somebody else" in (again.preview.diff or "")
        work.restart(lose_checkpoints=True)
        work.answer()
        work.check_succeeded()
        content = {"file_write": "new", "file_edit": "new, by somebody else"}.get(str(action["name"]))
        assert ((work.folder / "a.txt").read_text() if content else None) == content
        assert (work.folder / "a.txt").exists() == (content is not None)
        if action["name"] == "file_move":
            assert (work.folder / "b.txt").read_text() == "old, by somebody else"

    def test_asked_as_often_as_it_changes(self, work: Workspace) -> None:
        self.asked(work, self.CALLS[0])
        for number in range(3):
            work.record(work.the_request(), {"approved": True})
            work.write("a.txt", f"change {number}")
            work.go_on()
        assert len({request.id for request in work.requests()}) == 4
        work.answer(response={"approved": False})
        work.check_succeeded()
        assert work.result() == "Action denied by user"
        assert (work.folder / "a.txt").read_text() == "change 2"

    @pytest.mark.parametrize("action", CALLS, ids=lambda action: action["name"])
    def test_replaced_by_a_link_is_asked_again_with_where_it_leads(
        self, work: Workspace, action: dict[str, object]
    ) -> None:
        self.asked(work, action)
        (work.folder / "a.txt").unlink()
        (work.folder / "a.txt").symlink_to("other.txt")
        work.answer()
        again = work.the_request()
        assert (work.folder / "other.txt").read_text() == "old but other"
        assert again.preview is not None
        assert f"{work.folder.resolve()}/other.txt" in (again.preview.resolved or "")

    @pytest.mark.parametrize("action", CALLS, ids=lambda action: action["name"])
    def test_replaced_by_a_link_to_the_outside_is_an_error(self, work: Workspace, action: dict[str, object]) -> None:
        self.asked(work, action)
        outside = work.folder.parent / "outside.txt"
        outside.write_text("old")
        (work.folder / "a.txt").unlink()
        (work.folder / "a.txt").symlink_to(outside)
        work.answer()
        work.check_succeeded()
        assert "is not a path that this agent may use" in work.result()
        assert outside.read_text() == "old"

    @pytest.mark.parametrize("action", CALLS[1:], ids=lambda action: action["name"])
    def test_gone_is_an_error_for_the_model(self, work: Workspace, action: dict[str, object]) -> None:
        self.asked(work, action)
        (work.folder / "a.txt").unlink()
        work.answer()
        work.check_succeeded()
        assert work.result() == "Error: a.txt does not exist"
        assert work.calls()[0].outcome is CallOutcome.FAILED

    def test_gone_before_a_write_is_asked_again(self, work: Workspace) -> None:
        self.asked(work, self.CALLS[0])
        (work.folder / "a.txt").unlink()
        work.answer()
        assert not (work.folder / "a.txt").exists()
        work.answer()
        work.check_succeeded()
        assert (work.folder / "a.txt").read_text() == "new"

    def test_a_destination_that_appeared_is_never_overwritten(self, work: Workspace) -> None:
        self.asked(work, self.CALLS[3])
        work.write("b.txt", "precious")
        work.answer()
        work.check_succeeded()
        assert "never overwrites" in work.result()
        assert (work.folder / "b.txt").read_text() == "precious"

    @pytest.mark.parametrize("lose_checkpoints", [False, True])
    def test_an_edited_module_is_asked_again(self, work: Workspace, lose_checkpoints: bool) -> None:
        module = work.tools("")
        work.agent(GUARDED)
        work.script(turn(call("danger", key="A")), "Done.")
        work.start()
        work.record(work.the_request(), {"approved": True})
        module.write_text(module.read_text().replace("did", "really did"))
        work.restart(lose_checkpoints=lose_checkpoints)
        work.go_on()
        assert work.effects() == {}
        assert "its source was changed since this was approved" in work.the_request().message
        work.answer()
        work.check_succeeded()
        assert work.result() == "really did A"
        assert work.effects() == {"A": 1}

    def test_a_deleted_module_is_an_error_for_the_model(self, work: Workspace) -> None:
        module = work.tools("")
        work.agent(GUARDED)
        work.script(turn(call("danger", key="A")), "Done.")
        work.start()
        module.unlink()
        work.restart()
        work.answer()
        work.check_succeeded()
        assert work.result() == "Error: the tool danger is gone"

    def test_a_module_deleted_in_the_same_process_too(self, work: Workspace) -> None:
        module = work.tools("")
        work.agent(GUARDED)
        work.script(turn(call("danger", key="A")), "Done.")
        work.start()
        work.record(work.the_request(), {"approved": True})
        module.unlink()
        work.go_on()
        work.check_succeeded()
        assert work.result() == "Error: the tool danger is gone"
        assert work.effects() == {}

    def test_edited_arguments_that_are_asked_again_stay_edited(self, work: Workspace) -> None:
        self.asked(work, self.CALLS[0])
        edited = {"path": "a.txt", "content": "edited"}
        work.record(work.the_request(), {"approved": True, "args": edited})
        work.write("a.txt", "meanwhile")
        work.go_on()
        assert work.the_request().tool_args == edited
        work.answer()
        work.check_succeeded()
        assert (work.folder / "a.txt").read_text() == "edited"
        assert work.result().startswith("The user edited the arguments")


def test_arguments_nested_without_end_are_an_error_for_the_model(work: Workspace) -> None:
    work.tools("")
    work.agent(GUARDED)
    deep = json.loads("[" * 450 + "]" * 450)
    work.model = Replies(
        AIMessage("", tool_calls=[{"name": "danger", "args": {"key": deep}, "id": "a"}]), AIMessage("Done.")
    )
    work.start()
    work.check_succeeded()
    assert work.result() == "Error: the arguments of 'danger' are nested deeper than 64; nothing was run"
    assert work.requests() == []


@pytest.mark.parametrize("lifted", ["", '\nauto_approve: ["*"]'], ids=["asked", "everything lifted"])
def test_a_denied_an_asked_and_a_free_call_of_one_message(work: Workspace, lifted: str) -> None:
    work.tools(
        '@tool\n@tool_options(writes="path")\ndef put(path: str) -> str:\n    "Puts."\n    return "put " + effect(path)\n'
    )
    work.agent(f'tools: [kit]\nconfirm: ["write(asked/*)"]\ndeny: ["write(no/*)"]{lifted}')
    calls = [call("put", path="free/a"), call("put", path="no/a"), call("put", path="asked/a"), call("plain", key="U")]
    work.script(turn(*calls), "Done.")
    work.start()
    decisions = [found.decision for found in work.calls()]
    if lifted:
        assert decisions == [Decision.RUN, Decision.REFUSE, Decision.RUN, Decision.ASK], (
            "an undeclared tool may be denied"
        )
    else:
        assert decisions == [Decision.RUN, Decision.REFUSE, Decision.ASK, Decision.ASK]
    assert work.effects() == ({"free/a": 1, "asked/a": 1} if lifted else {"free/a": 1})
    while work.open_requests():
        work.answer(work.open_requests()[0])
    work.check_succeeded()
    refused = "Error: put is not allowed by this agent's rules"
    assert work.results_seen() == ["put free/a", refused, "put asked/a", "did U"]
    assert work.effects() == {"free/a": 1, "asked/a": 1, "U": 1}
