"""`agent_md.Workspace`: the product from a Python program, in its own process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import aclosing
from pathlib import Path

import pytest

import agent_md
from agent_md import Event, EventType, Outcome, Request, Status, TextDelta, Workspace
from agent_md.errors import (
    AnswerConflict,
    AnswerRefused,
    ConversationBusy,
    ConversationWaiting,
    UnknownAgent,
    UnknownExecution,
    UnknownRequest,
    UsageError,
)
from tests.support.agent_folder import AgentFolder, call
from tests.support.gates import GATES, open_gate, until_begun

DELETE = call("file_delete", path="a.txt")


@pytest.fixture
def folder(tmp_path: Path) -> AgentFolder:
    made = AgentFolder(tmp_path / "ws")
    made.agent("tidy", [{"text": "One is old.", "calls": [DELETE]}, {"text": "All is done."}])
    made.file("a.txt")
    return made


@pytest.fixture
def workspace(folder: AgentFolder) -> Iterator[Workspace]:
    with Workspace(folder.path) as opened:
        yield opened


def asked(workspace: Workspace) -> Request:
    (request,) = workspace.requests()
    return request


def test_the_public_names_are_there_and_load_nothing_heavy_until_used() -> None:
    assert all(getattr(agent_md, name) is not None for name in agent_md.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Workspce'"):
        getattr(agent_md, "Workspce")  # noqa: B009


def test_a_run_that_asks_is_answered_and_resumed(folder: AgentFolder, workspace: Workspace) -> None:
    before = Path.cwd()
    execution = workspace.run("tidy", "Clean")
    assert execution.status is Status.WAITING
    request = asked(workspace)
    assert request.execution_id == execution.id
    assert workspace.requests(execution.id) == [request]
    assert workspace.answer(request, {"approved": True}, by="ann").status is Status.QUEUED
    ended = workspace.resume(execution.id)
    assert (ended.status, ended.output) == (Status.SUCCESS, "All is done.")
    assert not (folder.path / "a.txt").exists()
    answer = folder.requests()[0].answer
    assert answer is not None
    assert (answer.outcome, answer.answered_by) == (Outcome.APPROVED, "python:ann")
    assert Path.cwd() == before
    assert workspace.events(execution.id)[-1].type is EventType.COMPLETE
    assert workspace.resume(execution.id) == ended


def test_a_no_holds(folder: AgentFolder, workspace: Workspace) -> None:
    execution = workspace.run("tidy")
    workspace.answer(asked(workspace).id, {"approved": False, "reason": "mine"})
    assert workspace.resume(execution.id).status is Status.SUCCESS
    assert (folder.path / "a.txt").exists()
    assert folder.results() == ["Action denied by user: mine"]


def test_answers_that_do_not_count(workspace: Workspace) -> None:
    execution = workspace.run("tidy")
    request = asked(workspace)
    with pytest.raises(AnswerRefused):
        workspace.answer(request, {"approved": "true"})
    workspace.answer(request, {"approved": True})
    workspace.answer(request, {"approved": True})
    with pytest.raises(AnswerConflict):
        workspace.answer(request, {"approved": False})
    with pytest.raises(UnknownRequest):
        workspace.answer("nonsense", {"approved": True})
    assert workspace.execution(execution.id).status is Status.QUEUED


@pytest.mark.parametrize("name", ["cli:ann", "policy", "CLI\u200b:ann", " "])
def test_the_name_of_who_answers_is_none_of_agentmds_own(workspace: Workspace, name: str) -> None:
    workspace.run("tidy")
    with pytest.raises(AnswerRefused, match="`by` is"):
        workspace.answer(asked(workspace), {"approved": True}, by=name)
    assert asked(workspace).open


def test_another_process_goes_on(folder: AgentFolder, workspace: Workspace) -> None:
    execution = workspace.run("tidy")
    assert folder.cli("respond", "1", "--yes").code == 0
    assert workspace.resume(execution.id).output == "All is done."


async def test_the_asynchronous_way(folder: AgentFolder) -> None:
    async with Workspace(folder.path) as workspace:
        execution = await workspace.arun("tidy")
        workspace.answer(asked(workspace), {"approved": True})
        assert (await workspace.aresume(execution.id)).status is Status.SUCCESS
        for refused in (lambda: workspace.run("tidy"), lambda: workspace.resume(1), lambda: workspace.cancel(1)):
            with pytest.raises(UsageError, match="await the method"):
                refused()


def test_events_come_once_and_in_order_with_the_text_between(workspace: Workspace) -> None:
    came = list(workspace.stream("tidy"))
    stored = [event for event in came if isinstance(event, Event)]
    assert stored == workspace.events(1)
    assert stored[-1].type is EventType.WAITING
    before_the_message = came[: came.index(next(event for event in stored if event.type is EventType.AI))]
    pieces = [piece.text for piece in before_the_message if isinstance(piece, TextDelta)]
    assert "".join(piece or "" for piece in pieces) == "One is old."
    workspace.answer(asked(workspace), {"approved": True})
    rest: list[Event | TextDelta] = []
    workspace.resume(1, on_event=rest.append)
    assert [*stored, *(e for e in rest if isinstance(e, Event))] == [
        event for event in workspace.events(1) if event.type is not EventType.RESUMED
    ]


async def test_events_for_a_program_with_a_loop(folder: AgentFolder) -> None:
    async with Workspace(folder.path) as workspace, aclosing(workspace.astream("tidy")) as events:
        types = [event.type async for event in events if isinstance(event, Event)]
    assert types[0] is EventType.SYSTEM
    assert types[-1] is EventType.WAITING


def gated(folder: AgentFolder) -> None:
    folder.tools("gates", GATES)
    folder.agent("slow", [{"calls": [call("gated")]}, {"text": "Through."}], "tools: [gates]")


def test_a_stream_that_is_left_leaves_the_execution_queued(folder: AgentFolder, workspace: Workspace) -> None:
    gated(folder)
    events = workspace.stream("slow")
    assert next(events)
    until_begun(folder.path)
    assert isinstance(events, Iterator)
    events.close()  # type: ignore[attr-defined]
    assert workspace.execution(1).status is Status.QUEUED
    open_gate(folder.path)
    assert workspace.resume(1).status is Status.SUCCESS


def test_an_exception_of_the_receiver_leaves_the_execution_queued(workspace: Workspace) -> None:
    def fail(event: Event | TextDelta) -> None:
        if isinstance(event, Event) and event.type is EventType.HUMAN:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        workspace.run("tidy", on_event=fail)
    assert workspace.execution(1).status is Status.QUEUED
    assert workspace.resume(1).status is Status.WAITING


async def test_a_cancelled_task_leaves_the_execution_queued(folder: AgentFolder) -> None:
    gated(folder)
    async with Workspace(folder.path) as workspace:
        running = asyncio.create_task(workspace.arun("slow"))
        while not (folder.path / "begun").exists():
            await asyncio.sleep(0.01)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert workspace.execution(1).status is Status.QUEUED


async def test_several_at_once(folder: AgentFolder) -> None:
    folder.agent("tidy", [{"text": "Nothing to do."}])
    async with Workspace(folder.path) as workspace:
        ended = await asyncio.gather(*(workspace.arun("tidy") for _ in range(10)))
    assert {execution.status for execution in ended} == {Status.SUCCESS}
    assert len({execution.id for execution in ended}) == 10


def test_several_threads(folder: AgentFolder, workspace: Workspace) -> None:
    folder.agent("tidy", [{"text": "Nothing to do."}])
    ended: list[Status] = []
    threads = [threading.Thread(target=lambda: ended.append(workspace.run("tidy").status)) for _ in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ended == [Status.SUCCESS] * 5


def test_resume_waits_for_the_process_that_drives(folder: AgentFolder, workspace: Workspace) -> None:
    gated(folder)
    other = folder.cli.start("run", "slow")
    until_begun(folder.path)
    with Workspace(folder.path) as second:
        waiting = threading.Thread(target=lambda: ended.append(second.resume(1).output))
        ended: list[str | None] = []
        waiting.start()
        open_gate(folder.path)
        waiting.join(30)
    assert ended == ["Through."]
    assert other.wait().code == 0


def test_turns_of_a_session(folder: AgentFolder, workspace: Workspace) -> None:
    folder.agent("tidy", [{"text": "Nothing to do."}])
    assert workspace.run("tidy", "One", session="s").session_id == "s"
    workspace.run("tidy", "Two", session="s")
    with folder.store() as store:
        said = [message["data"]["content"] for message in store.sessions.messages("tidy", "s")]
    assert said == ["One", "Nothing to do.", "Two", "Nothing to do."]


def test_a_turn_beside_another_is_refused(workspace: Workspace) -> None:
    workspace.run("tidy", session="s")
    with pytest.raises((ConversationBusy, ConversationWaiting)):
        workspace.run("tidy", session="s")


def test_cancel(folder: AgentFolder, workspace: Workspace) -> None:
    workspace.run("tidy")
    assert workspace.cancel(1).status is Status.ABORTED
    assert workspace.requests() == []
    assert (folder.path / "a.txt").exists()


def test_what_is_not_there(folder: AgentFolder, workspace: Workspace) -> None:
    assert workspace.requests() == []
    for look in (workspace.execution, workspace.events, workspace.resume, workspace.cancel, workspace.requests):
        with pytest.raises(UnknownExecution):
            look(7)
    with pytest.raises(UnknownRequest):
        workspace.answer("7-0.0", {"approved": True})
    assert not (folder.path / ".agentmd").exists()
    with pytest.raises(UnknownAgent):
        workspace.run("tdy")


def test_closing_again_does_nothing(folder: AgentFolder) -> None:
    with Workspace(folder.path) as workspace:
        workspace.run("tidy")
        workspace.close()
    workspace.close()
    assert workspace.folder == folder.path


async def test_a_closed_workspace_says_that_it_is_closed(folder: AgentFolder) -> None:
    workspace = Workspace(folder.path)
    workspace.close()
    for use in (workspace.requests, lambda: workspace.execution(1), lambda: workspace.events(1)):
        with pytest.raises(UsageError, match="is closed"):
            use()
    with pytest.raises(UsageError, match="is closed"):
        await workspace.arun("tidy")
