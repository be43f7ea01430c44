"""What the model is given of a conversation: exactly its window, in the shape that providers insist on."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage

from agent_md.errors import ConversationBusy, ConversationWaiting
from agent_md.executions.execution import Execution
from agent_md.executions.history import LONGEST_RESULT
from agent_md.executions.states import CallState, Status, TriggerKind
from agent_md.graph.message_order import provider_order
from agent_md.graph.messages import from_stored
from tests.support.clock import ManualClock
from tests.support.driving import Replies, Turn, Workspace, call, turn
from tests.support.gemini import GeminiServer, calls, text
from tests.support.provider_shape import check_provider_shape
from tests.support.waiting import eventually

DAY = 86_400.0
SIZES = {"off": 0, "low": 10, "medium": 50, "high": 200}

Said = tuple[str, str]


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path / "ws", clock=ManualClock())
    workspace.tools(
        '@tool\ndef long(size: int) -> str:\n    """Long."""\n    return "x" * size\n'
        '@tool\nasync def forever() -> str:\n    """Never ends."""\n    effect("begun")\n'
        "    import asyncio\n    await asyncio.sleep(60)\n"
    )
    settings(workspace)
    yield workspace
    workspace.close()


def settings(work: Workspace, history: str = "high", more: str = "") -> None:
    work.agent(f"tools: [kit]\nconfirm: [danger]\nhistory: {history}\n{more}")


def say(work: Workspace, text: str, *turns: Turn | str, session: str | None = "s") -> Execution:
    """One turn of the conversation, until it ends or waits."""
    work.script(*(turns or ("Yes.",)))
    work.start(message=text, session_id=session, trigger=TriggerKind.CHAT, exclusive=session is not None)
    return work.execution


def finished(work: Workspace) -> int:
    """How many calls of the execution have ended."""
    return [call.state for call in work.calls()].count(CallState.FINISHED)


def exchange(number: int) -> list[Turn | str]:
    three = [call("plain", key=f"{number}{letter}") for letter in "abc"]
    return [turn(*three, text=f"Trying {number}."), f"Did {number}."]


def told(number: int) -> list[Said]:
    """What the model is given later of a turn of `exchange`."""
    results = [("tool", f"did {number}{letter}") for letter in "abc"]
    return [("human", f"Do {number}."), ("ai", f"Trying {number}."), *results, ("ai", f"Did {number}.")]


def plainly(history: list[BaseMessage]) -> list[Said]:
    """Kinds and texts, without the system prompt."""
    assert history[0].type == "system"
    return [(message.type, str(message.content)) for message in history[1:]]


def given_for(work: Workspace, text: str) -> list[Said]:
    """What the model is given for a new message, without that message."""
    work.histories.clear()
    assert say(work, text).status is Status.SUCCESS
    *before, last = plainly(work.histories[0])
    assert last == ("human", text)
    return before


def window_of(talk: list[Said], size: int) -> list[Said]:
    """The last `size` messages without what stands before the first human one."""
    tail = talk[-size:] if size else []
    return list(itertools.dropwhile(lambda message: message[0] != "human", tail))


def test_each_size_of_history_is_exactly_that(work: Workspace) -> None:
    settings(work, "off")
    talk: list[Said] = []
    for number in range(35):
        say(work, f"Do {number}.", *exchange(number))
        assert plainly(work.histories[-2]) == [("human", f"Do {number}.")]
        talk += told(number)
    lengths = []
    for name in ("high", "medium", "low", "off"):
        settings(work, name)
        given = given_for(work, "And?")
        assert given == window_of(talk, SIZES[name])
        lengths.append(len(given))
        talk += [("human", "And?"), ("ai", "Yes.")]
    assert lengths == [198, 50, 10, 0]


def test_the_window_never_begins_inside_an_exchange(work: Workspace) -> None:
    settings(work, "low")
    say(work, "Do 0.", *exchange(0))
    say(work, "Many.", turn(*(call("plain", key=str(n)) for n in range(8))), turn(call("plain", key="8")), "Done.")
    assert given_for(work, "And?") == []
    assert given_for(work, "And then?") == [("human", "And?"), ("ai", "Yes.")]


@pytest.mark.parametrize("count", [6, pytest.param(60, marks=pytest.mark.stress)])
def test_a_long_chat_with_pauses_new_processes_and_a_day_between(work: Workspace, count: int) -> None:
    settings(work, "low")
    talk: list[Said] = []
    for number in range(count):
        work.histories.clear()
        say(work, f"Message {number}.", turn(call("danger", key=f"{number}"), text="May I?"), f"End {number}.")
        work.restart(lose_checkpoints=number % 2 == 0)
        approved = number % 3 != 0
        work.answer(response={"approved": approved})
        work.check_succeeded(f"End {number}.")
        result = f"did {number}" if approved else "Action denied by user"
        own = [("human", f"Message {number}."), ("ai", "May I?"), ("tool", result)]
        before = window_of(talk, 10)
        assert [plainly(history) for history in work.histories] == [[*before, own[0]], [*before, *own]]
        talk += [*own, ("ai", f"End {number}.")]
        if number == count // 2:
            work.restart(meanwhile=lambda: tomorrow(work))
    assert set(work.effects().values()) == {1}


def tomorrow(work: Workspace) -> None:
    assert isinstance(work.clock, ManualClock)
    work.clock.advance(DAY)


def test_checkpoints_are_believed_whatever_the_history_holds(work: Workspace, caplog: pytest.LogCaptureFixture) -> None:
    say(work, "Do 0.", *exchange(0))
    say(work, "Danger.", turn(call("danger", key="A")), "Done.")
    with caplog.at_level(logging.WARNING):
        work.restart()
        work.answer()
    work.check_succeeded()
    assert caplog.text == ""


def test_a_long_result_is_whole_in_its_turn_and_short_in_the_history(work: Workspace) -> None:
    say(work, "Read.", turn(call("long", size=LONGEST_RESULT + 1000), call("long", size=LONGEST_RESULT)), "Done.")
    assert [len(result) for result in work.results_seen()] == [LONGEST_RESULT + 1000, LONGEST_RESULT]
    _, _, long, short, _ = given_for(work, "And?")
    assert "1000 characters of this result are left out of the history" in long[1]
    assert len(long[1]) < LONGEST_RESULT + 100
    assert short == ("tool", "x" * LONGEST_RESULT)


class TestTurnsThatWereCut:
    def cancelled(self, work: Workspace, *wanted: Turn) -> None:
        """A turn that is cancelled while one of its calls never ends."""
        work.script(turn(*wanted, text="Trying."), "Never.")
        claim = work.create(message="Try.", session_id="s", trigger=TriggerKind.CHAT)

        async def cancel() -> Execution:
            driving = asyncio.create_task(work.advance(claim))
            others = [one for one in wanted if one["name"] == "plain"]
            await eventually(lambda: work.effects()["begun"] and finished(work) == len(others))
            work.app.store.request_cancel(claim.execution_id, "cli:ann")
            return await driving

        assert asyncio.run(cancel()).status is Status.ABORTED

    def test_calls_of_a_cancelled_turn_are_closed_in_their_order(self, work: Workspace) -> None:
        self.cancelled(work, call("danger", key="A"), call("forever"), call("plain", key="U"))
        human, said, waited, cut, ran = given_for(work, "And?")
        assert (human, said, ran) == (("human", "Try."), ("ai", "Trying."), ("tool", "did U"))
        assert waited[1].startswith("Not executed")
        assert "may have run" in cut[1]
        assert work.effects() == {"begun": 1, "U": 1}

    def test_a_turn_that_was_cancelled_at_its_question_is_left_out(self, work: Workspace) -> None:
        say(work, "First.")
        waiting = say(work, "Danger.", turn(call("danger", key="A")), "Never.")
        assert waiting.status is Status.WAITING
        work.app.store.request_cancel(waiting.id, "cli:ann")
        claim = work.app.store.claim_to_cancel(waiting.id, work.app.worker)
        assert claim is not None
        assert work.drive(claim).status is Status.ABORTED
        assert given_for(work, "And?") == [("human", "First."), ("ai", "Yes.")]

    def test_a_model_that_fails_after_a_call_leaves_what_was_done(self, work: Workspace) -> None:
        broken = {"error": {"kind": "bad_request", "message": "no"}}
        assert say(work, "Try.", turn(call("plain", key="U")), broken).status is Status.ERROR
        assert say(work, "Again.", broken).status is Status.ERROR
        assert given_for(work, "And?") == [("human", "Try."), ("ai", ""), ("tool", "did U")]

    def test_calls_that_a_limit_kept_from_running(self, work: Workspace) -> None:
        settings(work, more="settings: {max_tool_calls: 1}")
        ended = say(work, "Try.", turn(call("plain", key="U"), call("plain", key="V")), "Never.")
        assert ended.status is Status.ABORTED
        not_run = "Error: not executed: max_tool_calls (1) is reached"
        assert given_for(work, "And?") == [("human", "Try."), ("ai", ""), ("tool", "did U"), ("tool", not_run)]


@pytest.mark.parametrize(("policy", "why"), [("skip", ConversationWaiting), ("parallel", ConversationBusy)])
def test_a_turn_under_way_keeps_others_out(work: Workspace, policy: str, why: type[Exception]) -> None:
    settings(work, more=f"on_pending: {policy}")
    say(work, "Danger.", turn(call("danger", key="A")), "Done.")
    with pytest.raises(why) as refused:
        say(work, "Me too.")
    assert "parallel" not in str(refused.value)  # it would not help: a session takes one turn at a time
    say(work, "Elsewhere.", session="other")
    say(work, "Without.", session=None)


KEPT: dict[str, Any] = {"additional_kwargs": {"signature": "c2ln", "deep": {"ä": [1, None]}}}


class TestProviderData:
    def asking(self) -> AIMessage:
        """Two calls with ids that come again in every turn, as some models count them."""
        wanted = [{"name": "plain", "args": {"key": key}, "id": key} for key in ("0", "1")]
        return AIMessage([{"type": "thinking", "thinking": "hm", "signature": "c2ln"}], tool_calls=wanted, **KEPT)

    def test_messages_come_back_as_they_were_said(self, work: Workspace) -> None:
        work.model = Replies(self.asking(), AIMessage("Done.", **KEPT))
        for number in range(3):
            say(work, f"Message {number}.")
            work.restart(lose_checkpoints=True)
        *seen, _ = [message for message in work.histories[-1] if isinstance(message, AIMessage)]
        assert [m.content for m in seen] == [self.asking().content, "Done."] * 2
        assert all(m.additional_kwargs == KEPT["additional_kwargs"] for m in seen)
        ids = [c["id"] for m in work.histories[-1] if isinstance(m, AIMessage) for c in m.tool_calls]
        assert ids == ["0", "1", "0_2", "1_2", "0_3", "1_3"]
        stored = work.app.store.sessions.messages("worker", "s")
        check_provider_shape(provider_order(from_stored(stored))[:-1])

    @pytest.mark.parametrize("lose_checkpoints", [False, True])
    def test_gemini_gets_every_part_again_byte_by_byte(self, tmp_path: Path, lose_checkpoints: bool) -> None:
        said = []
        for number in range(4):
            wanted = [("danger", {"key": f"{number}A"}, f"c2ln{number}A=="), ("plain", {"key": f"{number}B"}, None)]
            said += [calls(*wanted), text(f"End {number}.")]
        with GeminiServer(said) as server:
            work = Workspace(tmp_path / "ws", environ={"GOOGLE_API_KEY": "test-key"})
            work.tools("")
            model = f"{{provider: google, name: gemini-2.5-flash, base_url: '{server.url}'}}"
            work.agent("tools: [kit]\nconfirm: [danger]\nhistory: high", model=model)
            for number in range(4):
                say(work, f"Message {number}.")
                work.restart(lose_checkpoints=lose_checkpoints)
                work.answer()
                work.check_succeeded(f"End {number}.")
            work.close()
        contents = [request.body["contents"] for request in server.requests]
        assert len(contents) == 8
        for before, after in itertools.pairwise(contents):
            assert after[: len(before)] == before
        signed = [p["thoughtSignature"] for c in contents[-1] for p in c["parts"] if "thoughtSignature" in p]
        assert signed == [f"c2ln{number}A==" for number in range(4)]
