"""`respond --retract`: what it takes back, what it says, and which answers come after it."""

from __future__ import annotations

import json
import signal

import pytest

from agent_md.executions.states import Outcome, Status
from agent_md.ports.store import NewAnswer
from tests.support.agent_folder import AgentFolder, call
from tests.support.gates import GATES, open_gate, until_begun
from tests.support.processes import Finished

NAMED = ("--request", "1-0.0-again1")


def waiting(folder: AgentFolder, *calls: dict[str, object], settings: str = "") -> None:
    """Leaves execution 1 waiting with a request for each of the calls."""
    for name in ("a", "b"):
        folder.file(f"{name}.txt")
    folder.tools("gates", GATES)
    turns = [{"calls": list(calls)}, {"text": "Done."}]
    folder.agent("cleaner", turns, f"tools: [gates]\n{settings}")
    assert folder.cli("run", "cleaner").code == 3


def delete(name: str) -> dict[str, object]:
    return call("file_delete", path=f"{name}.txt")


def answered(folder: AgentFolder, *calls: dict[str, object]) -> None:
    waiting(folder, *(calls or (delete("a"),)))
    assert folder.cli("respond", "1", "--yes", "--all", "--no-wait").code == 0


def refused(folder: AgentFolder, ended: Finished, code: int) -> str:
    assert (ended.code, ended.out) == (code, ""), ended
    assert (folder.path / "a.txt").exists()
    return ended.err


def test_it_says_what_was_taken_back_and_what_is_asked_now(folder: AgentFolder) -> None:
    answered(folder)
    ended = folder.cli("respond", "1", "--retract")
    assert (ended.code, ended.err) == (0, "")
    first, second = ended.out.splitlines()
    assert first.startswith("Retracted by cli:")
    assert ': Confirm file_delete {"path": "a.txt"}: approved by cli:' in first
    assert second == "It is asked again: agentmd respond 1 --request 1-0.0-again1"
    assert folder.cli("respond", "1", "--retract").out == ended.out
    assert folder.execution().status is Status.WAITING
    [asked] = json.loads(folder.cli("pending", "--json").out)
    assert (asked["request_id"], asked["replaces"]) == ("1-0.0-again1", "1-0.0")
    assert "(the answer was retracted)" in folder.cli("pending").out
    assert folder.cli("respond", "1", *NAMED, "--yes").code == 0
    assert not (folder.path / "a.txt").exists()
    late = folder.cli("respond", "1", "--retract", *NAMED)
    assert (late.code, "cannot be retracted any more: its call went on with it" in late.err) == (6, True)


def test_as_json(folder: AgentFolder) -> None:
    answered(folder)
    ended = folder.cli("respond", "1", "--retract", "--json")
    shape = json.loads(ended.out)
    assert ended.code == 0
    assert (shape["status"], shape["request_id"], shape["replaced_by"]) == ("retracted", "1-0.0", "1-0.0-again1")
    driven = folder.cli("respond", "1", *NAMED, "--no", "--json")
    events = [json.loads(line)["event"] for line in driven.out.splitlines()]
    assert events == ["execution_started", "answered", "tool_result", "ai", "final_answer", "complete"]


@pytest.mark.parametrize("flags", [("--yes",), ("--no",), ("--yes", "--all"), ("--yes", "--request", "1-0.0")])
def test_the_old_answer_does_not_answer_the_new_question(folder: AgentFolder, flags: tuple[str, ...]) -> None:
    answered(folder)
    assert folder.cli("respond", "1", "--retract").code == 0
    message = refused(folder, folder.cli("respond", "1", *flags), 6)
    assert "was retracted by cli:" in message
    assert "request 1-0.0-again1" in message
    assert folder.requests()[1].open


def test_of_several_answers_one_is_named(folder: AgentFolder) -> None:
    answered(folder, delete("a"), delete("b"))
    message = refused(folder, folder.cli("respond", "1", "--retract"), 2)
    assert "1-0.0, 1-0.1" in message
    assert "--request" in message
    assert folder.cli("respond", "1", "--retract", "--request", "1-0.1").code == 0
    ended = folder.cli("resume", "1")
    assert (ended.code, (folder.path / "a.txt").exists(), (folder.path / "b.txt").exists()) == (3, False, True)
    assert "agentmd respond 1 --request 1-0.1-again1" in ended.err


def test_one_that_was_given_after_a_retraction_is_named(folder: AgentFolder) -> None:
    answered(folder)
    for prefix in ((), NAMED):
        assert folder.cli("respond", "1", "--retract", *prefix).code == 0
        again = "1-0.0-again2" if prefix else "1-0.0-again1"
        assert folder.cli("respond", "1", "--request", again, "--yes", "--no-wait").code == 0
        assert "1-0.0-again" in refused(folder, folder.cli("respond", "1", "--retract"), 2)


@pytest.mark.parametrize("flags", [("--yes",), ("--all",), ("--no-wait",), ("--text", ""), ("--reason", "x")])
def test_it_gives_no_answer(folder: AgentFolder, flags: tuple[str, ...]) -> None:
    answered(folder)
    assert "--retract takes an answer back" in refused(folder, folder.cli("respond", "1", "--retract", *flags), 2)
    assert folder.requests()[0].answer is not None


def test_what_cannot_be_taken_back(folder: AgentFolder) -> None:
    waiting(folder, delete("a"))
    assert "is open" in refused(folder, folder.cli("respond", "1", "--retract"), 2)
    assert "no request" in refused(folder, folder.cli("respond", "1", "--retract", "--request", "9"), 2)
    assert folder.cli("run", "cleaner", "--on-ask", "deny").code == 2  # one waits
    folder.agent("other", [{"calls": [delete("a")]}, {"text": "Done."}])
    assert folder.cli("run", "other", "--on-ask", "deny").code == 0
    assert "policy" in refused(folder, folder.cli("respond", "2", "--retract"), 6)
    folder.agent("silent", [{"text": "Done."}])
    assert folder.cli("run", "silent").code == 0
    assert "never asked" in refused(folder, folder.cli("respond", "3", "--retract"), 2)
    assert "there is no execution" in refused(folder, folder.cli("respond", "9", "--retract"), 2)


def test_while_another_call_of_the_message_runs(folder: AgentFolder) -> None:
    """The answered call has not started yet, as its driver is busy."""
    folder.tools("gates", GATES)
    folder.file("a.txt")
    turns = [{"calls": [call("gated"), delete("a")]}, {"text": "Done."}]
    folder.agent("cleaner", turns, "tools: [gates]")
    running = folder.cli.start("run", "cleaner")
    until_begun(folder.path)
    assert folder.cli("respond", "1", "--yes").code == 0
    assert folder.cli("respond", "1", "--retract").code == 0
    open_gate(folder.path)
    left = running.wait()
    assert (left.code, (folder.path / "a.txt").exists()) == (3, True), left
    assert "↩ cli:" in left.out
    assert "agentmd respond 1 --request 1-0.1-again1" in left.err
    assert folder.cli("respond", "1", "--request", "1-0.1-again1", "--no").code == 0
    story = folder.cli("logs", "-e", "1").out
    assert [sign for line in story.splitlines() for sign in ("❓", "👉", "↩") if f" {sign} " in line] == [
        *("❓", "👉", "↩", "❓", "👉")
    ]
    denied = folder.requests()[1].answer
    assert denied is not None
    assert denied.outcome is Outcome.DENIED


def test_a_prompt_is_withdrawn_and_the_question_put_again(folder: AgentFolder) -> None:
    folder.file("a.txt")
    folder.agent("cleaner", [{"calls": [delete("a")]}, {"text": "Done."}])
    with folder.terminal("run", "cleaner", columns=200) as terminal:
        terminal.expect("[y/N]: ")
        terminal.signal(signal.SIGSTOP)  # it sees the answer together with its retraction
        with folder.store() as store:
            [request] = store.open_requests()
            store.record_answers([NewAnswer(request.id, Outcome.APPROVED, {"approved": True})], by="http:ann")
            store.retract(request.id, by="http:bob")
        terminal.signal(signal.SIGCONT)
        terminal.expect("Withdrawn: answered elsewhere: approved by http:ann at ")
        terminal.expect("retracted by http:bob\n")
        terminal.expect("asked again: the answer was retracted\n")
        terminal.expect("[y/N]: ")
        terminal.send_line("n")
        assert terminal.exit_code() == 0
    assert (folder.path / "a.txt").exists()
    assert [request.open for request in folder.requests()] == [False, False]
