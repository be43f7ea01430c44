"""Calls of file tools whose driver died: settled by a look at the target, never "may have run"."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage

from agent_md.executions.execution import Usage
from agent_md.executions.positions import Position
from agent_md.executions.states import CallOutcome, Decision, Status
from agent_md.graph.gate import propose
from agent_md.graph.messages import ai_id, to_stored
from agent_md.ports.journal import Journal
from tests.support.driving import Turn, Workspace, call, turn

WRITE = call("file_write", path="a.txt", content="new")
EDIT = call("file_edit", path="a.txt", old_text="old", new_text="new")
DELETE = call("file_delete", path="a.txt")
MOVE = call("file_move", source="a.txt", destination="b.txt")

ALL = pytest.mark.parametrize("action", [WRITE, EDIT, DELETE, MOVE], ids=lambda action: action["name"])
GUARDED = pytest.mark.parametrize("guarded", [False, True], ids=["unguarded", "approved"])


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path / "ws")
    workspace.tools("")
    workspace.write("a.txt", "old")
    yield workspace
    workspace.close()


def begun(work: Workspace, action: Turn, guarded: bool) -> Journal:
    """A driver that has stored that the call starts, as planned now, and does nothing more."""
    rules = "confirm: [file_edit, file_move]" if guarded else 'auto_approve: "*"'
    work.agent(f"tools: [kit]\n{rules}")
    work.script("The first turn is in the journal.", "Done.")
    claim = work.create()
    journal = work.app.store.journal(claim)
    spec = work.app.spec_of(work.execution)
    tools = work.app.assembly.tools(spec)
    message = AIMessage("", id=ai_id(claim.execution_id, 0), tool_calls=[{**action, "id": "c1"}])
    proposals = propose(spec, tools, claim.execution_id, 0, message.tool_calls, 50, {})
    assert proposals[0].decision is (Decision.ASK if guarded else Decision.RUN)
    journal.record_model_step(0, to_stored(message), "", Usage(), proposals)
    if guarded:
        work.record(work.the_request(), {"approved": True})
    tool = tools[action["name"]]
    journal.start_call(Position(0, 0), action["args"], tool.plan(tool.validate(action["args"])).effect)
    return journal


def dies(work: Workspace, journal: Journal) -> None:
    journal.release()
    work.restart()


def do(folder: Path, action: Turn) -> None:
    """What the call would have done."""
    match action["name"]:
        case "file_write" | "file_edit":
            (folder / "a.txt").write_text("new")
        case "file_delete":
            (folder / "a.txt").unlink()
        case "file_move":
            (folder / "a.txt").rename(folder / "b.txt")


def files(folder: Path) -> dict[str, tuple[int, int]]:
    """What shows that a file was touched."""
    found = {file.name: file.stat() for file in folder.glob("*.txt")}
    return {name: (state.st_ino, state.st_mtime_ns) for name, state in found.items()}


def is_done(folder: Path, action: Turn) -> bool:
    target = folder / "a.txt"
    if action["name"] == "file_move":
        return not target.exists() and (folder / "b.txt").read_text() == "old"
    return not target.exists() if action["name"] == "file_delete" else target.read_text() == "new"


RESULTS = {
    "file_write": "File written: a.txt",
    "file_edit": "File edited: a.txt",
    "file_delete": "File deleted: a.txt",
    "file_move": "File moved: a.txt → b.txt",
}


@ALL
@GUARDED
class TestADeadDriver:
    def test_had_done_it(self, work: Workspace, action: Turn, guarded: bool) -> None:
        journal = begun(work, action, guarded)
        do(work.folder, action)
        before = files(work.folder)
        dies(work, journal)
        work.go_on()
        work.check_succeeded()
        assert work.results_seen() == [RESULTS[action["name"]]]
        assert work.calls()[0].outcome is CallOutcome.DONE
        assert files(work.folder) == before
        assert len(work.histories) == 1

    def test_had_not_done_it(self, work: Workspace, action: Turn, guarded: bool) -> None:
        dies(work, begun(work, action, guarded))
        work.go_on()
        work.check_succeeded()
        assert work.results_seen() == [RESULTS[action["name"]]]
        assert is_done(work.folder, action)
        assert len(work.requests()) == guarded

    def test_and_somebody_else_changed_the_target(self, work: Workspace, action: Turn, guarded: bool) -> None:
        dies(work, begun(work, action, guarded))
        work.write("a.txt", "old, changed by somebody else")
        work.go_on()
        again = work.the_request()
        assert "was changed by someone else while the call ran" in again.message
        assert (work.folder / "a.txt").read_text() == "old, changed by somebody else"
        assert len(work.requests()) == guarded + 1
        work.restart(lose_checkpoints=True)
        work.answer()
        work.check_succeeded()
        assert work.results_seen() == [RESULTS[action["name"]]]

    def test_and_the_new_request_is_denied(self, work: Workspace, action: Turn, guarded: bool) -> None:
        dies(work, begun(work, action, guarded))
        work.write("a.txt", "changed")
        work.write("a.txt", "old, changed")
        work.go_on()
        work.answer(response={"approved": False})
        work.check_succeeded()
        assert work.results_seen() == ["Action denied by user"]
        assert (work.folder / "a.txt").read_text() == "old, changed"


@ALL
class TestAnEnd:
    """The execution is cancelled after its driver died in the call."""

    def ended(self, work: Workspace, action: Turn, meanwhile: Callable[[], Any]) -> tuple[CallOutcome | None, str]:
        journal = begun(work, action, guarded=False)
        meanwhile()
        dies(work, journal)
        work.app.store.request_cancel(work.execution.id, "cli:ann")
        assert work.go_on().status is Status.ABORTED
        work.check_closed()
        return work.calls()[0].outcome, work.result()

    def test_of_one_that_was_done(self, work: Workspace, action: Turn) -> None:
        ended = self.ended(work, action, lambda: do(work.folder, action))
        assert ended == (CallOutcome.DONE, RESULTS[action["name"]])

    def test_of_one_that_was_not(self, work: Workspace, action: Turn) -> None:
        ended = self.ended(work, action, lambda: None)
        assert ended == (CallOutcome.NOT_RUN, "Not executed: the execution ended during this call")
        assert (work.folder / "a.txt").read_text() == "old"

    def test_of_one_whose_target_was_changed(self, work: Workspace, action: Turn) -> None:
        outcome, text = self.ended(work, action, lambda: work.write("a.txt", "changed"))
        assert outcome is CallOutcome.FAILED
        assert "changed by someone else" in text


def test_a_target_that_is_gone_is_an_error(work: Workspace) -> None:
    journal = begun(work, EDIT, guarded=True)
    (work.folder / "a.txt").unlink()
    dies(work, journal)
    work.go_on()
    work.check_succeeded()
    assert work.results_seen() == ["Error: a.txt does not exist"]


@pytest.mark.parametrize("action", [EDIT, DELETE, MOVE], ids=lambda action: action["name"])
def test_an_approved_call_whose_target_is_gone_is_an_error(work: Workspace, action: Turn) -> None:
    asked_for(work, action)
    (work.folder / "a.txt").unlink()
    work.answer(work.the_request(), {"approved": True})
    work.check_succeeded()
    assert work.results_seen() == ["Error: a.txt does not exist"]
    assert list(files(work.folder)) == []


def test_an_approved_write_whose_target_is_gone_is_asked_again_as_a_new_file(work: Workspace) -> None:
    asked_for(work, WRITE)
    (work.folder / "a.txt").unlink()
    work.answer(work.the_request(), {"approved": True})
    again = work.the_request()
    assert "is gone, and would be made as a new file: it was removed since this was approved" in again.message
    assert again.preview is not None
    assert (again.preview.diff or "").startswith("--- /dev/null\n")
    assert not (work.folder / "a.txt").exists()
    work.answer(again, {"approved": True})
    work.check_succeeded()
    assert (work.folder / "a.txt").read_text() == "new"


def asked_for(work: Workspace, action: Turn) -> None:
    """An execution that waits for a yes to this call."""
    work.agent("confirm: [file_edit, file_move]")
    work.script(turn(action), "Done.")
    work.start()


def test_a_move_cut_between_its_halves_is_completed(work: Workspace) -> None:
    journal = begun(work, MOVE, guarded=True)
    (work.folder / "b.txt").hardlink_to(work.folder / "a.txt")
    dies(work, journal)
    work.go_on()
    work.check_succeeded()
    assert is_done(work.folder, MOVE)
    assert len(work.requests()) == 1


def test_edited_arguments_are_those_that_are_looked_for(work: Workspace) -> None:
    journal = begun(work, WRITE, guarded=False)
    edited = {"path": "c.txt", "content": "edited"}
    tool = work.app.assembly.tools(work.app.spec_of(work.execution))["file_write"]
    journal.start_call(Position(0, 0), edited, tool.plan(tool.validate(edited)).effect)
    work.write("c.txt", "edited")
    dies(work, journal)
    work.go_on()
    work.check_succeeded()
    assert work.results_seen() == ["File written: c.txt"]
    assert (work.folder / "a.txt").read_text() == "old"


def test_reading_is_done_again(work: Workspace) -> None:
    journal = begun(work, call("file_read", path="a.txt"), guarded=False)
    dies(work, journal)
    work.go_on()
    work.check_succeeded()
    assert work.results_seen() == ["old"]


@pytest.mark.parametrize("declared", ["", "read_only=True", "idempotent=True"])
def test_a_custom_tool_runs_again_only_if_it_says_that_it_may(work: Workspace, declared: str) -> None:
    work.tools(f'@tool\n@tool_options({declared})\ndef it() -> object:\n    """It."""\n    return effect("ran")\n')
    journal = begun(work, call("it"), guarded=False)
    dies(work, journal)
    work.go_on()
    work.check_succeeded()
    assert work.effects() == ({"ran": 1} if declared else {})
    assert ("may have run" in work.result()) == (not declared)
