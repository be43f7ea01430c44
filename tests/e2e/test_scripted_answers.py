"""Answers that stand in the script of a model: an agent file is tried with no human there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_md.executions.states import Outcome, Status
from tests.support.agent_folder import AgentFolder, call

DELETE = call("file_delete", path="a.txt")
TITLE = call("ask_user", question="Title?")
COLOR = call("ask_user", question="Which color?", kind="choice", options=["red", "blue"])
SCRIPTED = ("run", "tidy", "--answers-from-script")


def scripted(folder: AgentFolder, calls: list[dict[str, Any]], answers: list[dict[str, Any]] | None) -> None:
    script: dict[str, Any] = {"conversations": [{"turns": [{"calls": calls}, {"text": "Done."}]}]}
    folder.agent("tidy", json.dumps(script if answers is None else {**script, "answers": answers}))
    folder.file("a.txt")
    folder.file("b.txt")


def test_each_request_gets_the_first_answer_that_fits_by_tool_kind_and_message(folder: AgentFolder) -> None:
    answers = [
        {"match": {"tool": "file_write"}, "response": {"approved": False}},
        {"match": {"kind": "choice", "message": "(?i)color"}, "response": {"selected": ["blue"]}},
        {"match": {"message": "^Title"}, "response": {"text": "Birds"}},
        {"match": {"tool": "file_delete", "kind": "confirm"}, "response": {"approved": True}},
        {"response": {"approved": False}},
    ]
    scripted(folder, [DELETE, TITLE, COLOR], answers)
    ended = folder.cli(*SCRIPTED)
    assert ended.code == 0
    assert folder.results() == ["File deleted: a.txt", "Birds", "blue"]
    assert not (folder.path / "a.txt").exists()
    given = [request.answer for request in folder.requests()]
    assert [(answer.outcome, answer.answered_by) for answer in given if answer] == [
        (Outcome.APPROVED, "script"),
        (Outcome.ANSWERED, "script"),
        (Outcome.ANSWERED, "script"),
    ]
    assert "Confirm file_delete" in ended.out
    assert "approved by script" in ended.out


def test_a_no_holds_and_its_reason_is_told(folder: AgentFolder) -> None:
    scripted(folder, [DELETE], [{"response": {"approved": False, "reason": "still needed"}}])
    assert folder.cli(*SCRIPTED).code == 0
    assert folder.results() == ["Action denied by user: still needed"]
    assert (folder.path / "a.txt").exists()


def test_edited_arguments_are_checked_as_those_of_a_human(folder: AgentFolder) -> None:
    edit = {"approved": True, "args": {"path": "b.txt"}}
    scripted(folder, [DELETE], [{"match": {"tool": "file_delete"}, "response": edit}])
    assert folder.cli(*SCRIPTED).code == 0
    assert (folder.path / "a.txt").exists()
    assert not (folder.path / "b.txt").exists()


@pytest.mark.parametrize("response", [{"approved": "yes"}, {"approved": True, "args": {"path": "../x"}}])
def test_an_answer_that_its_request_refuses_is_named_with_file_and_line(folder: AgentFolder, response: Any) -> None:
    scripted(folder, [DELETE], [{"response": response}])
    ended = folder.cli(*SCRIPTED)
    assert ended.code == 2
    assert "scripts/tidy.yaml, line 1: " in ended.err
    (request,) = folder.requests()
    assert f"execution 1 waits for an answer: agentmd respond 1 --request {request.id}" in ended.err
    assert folder.execution().status is Status.WAITING
    assert (folder.path / "a.txt").exists()


def test_what_no_answer_fits_is_left_waiting_and_said(folder: AgentFolder) -> None:
    scripted(folder, [DELETE, TITLE], [{"match": {"tool": "file_delete"}, "response": {"approved": True}}])
    ended = folder.cli(*SCRIPTED)
    assert ended.code == 3
    assert "scripts/tidy.yaml fits: Title?" in ended.err
    assert not (folder.path / "a.txt").exists()
    assert folder.cli(*SCRIPTED, "--on-ask", "deny").code == 2  # the first one still waits


def test_a_question_of_the_policy_comes_after_the_script(folder: AgentFolder) -> None:
    scripted(folder, [DELETE, TITLE], [{"match": {"tool": "file_delete"}, "response": {"approved": True}}])
    assert folder.cli(*SCRIPTED, "--on-ask", "deny").code == 0
    assert [request.answer.answered_by for request in folder.requests() if request.answer] == ["script", "policy"]


def test_without_answers_nothing_starts(folder: AgentFolder) -> None:
    scripted(folder, [DELETE], None)
    ended = folder.cli(*SCRIPTED)
    assert (ended.code, ended.out) == (2, "")
    assert "tidy.yaml has no `answers`" in ended.err
    assert folder.cli(*SCRIPTED, "--detach").code == 2
    (folder.path / "agents/other.md").write_text("---\nmodel: {provider: ollama, name: llama}\n---\nWork.\n")
    refused = folder.cli("run", "other", "--answers-from-script")
    assert refused.code == 2
    assert "the model of other is ollama/llama" in refused.err
    assert not (folder.path / ".agentmd/agentmd.db").exists() or folder.cli("logs", "--json").out == "[]\n"
