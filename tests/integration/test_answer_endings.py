"""Every word of every provider for how an answer ended: none runs a call that it must not, and what is cut says so."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage
from langchain_core.messages.tool import tool_call

from agent_md.agents.spec import RunSettings
from agent_md.errors import ModelFailed
from agent_md.executions.states import CallOutcome, Decision, EventType, Status
from agent_md.models.chunk_merging import assemble
from agent_md.models.factory import close_model, make_chat_model
from agent_md.models.failures import ProviderFailure
from agent_md.models.finish_reasons import REASONS, EndKind, cut_reason
from agent_md.models.streaming import stream_answer
from tests.support.driving import Replies, Workspace, call, turn
from tests.support.gemini import Turn
from tests.support.provider_server import Answer, calling, containing
from tests.support.providers import KEY, KEYS, model_at, provider_server

CLIENTS = {
    "google": "google_genai",
    "openai": "openai",
    "responses": "openai responses",
    "anthropic": "anthropic",
    "ollama": "ollama",
}


def reasons_of(provider: str) -> list[tuple[str, EndKind]]:
    """The table of a provider, and a word that is not in it."""
    table = [*REASONS[CLIENTS[provider]].items(), ("a_new_reason", EndKind.CUT)]
    # The first is no reason of an answer that is not complete, the other one of an answer that is none.
    return [(reason, kind) for reason, kind in table if reason not in ("completed", "load")]


SCHEMA = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}
TOOLS = [{"type": "function", "function": {"name": "plain", "description": "A tool.", "parameters": SCHEMA}}]


@asynccontextmanager
async def asking(provider: str) -> AsyncIterator[Callable[[Answer], Awaitable[AIMessage]]]:
    """The real client of a provider: what it makes of an answer that its server gives."""
    with provider_server(provider, [containing("")]) as server:
        ref = model_at(provider, server.url)
        model = make_chat_model(ref, RunSettings(), environ={KEYS[provider]: KEY}, scripts_dir=Path("none"))
        bound = model.bind_tools(TOOLS)

        async def ask(answer: Answer) -> AIMessage:
            server.turns[0] = Turn.of(answer) if provider == "google" else answer
            return await stream_answer(bound, [HumanMessage("Go.")], lambda text: None)

        try:
            yield ask
        finally:
            await close_model(model)


@pytest.mark.filterwarnings("ignore:a_new_reason is not a valid FinishReason")
@pytest.mark.parametrize("provider", CLIENTS)
async def test_a_reason_says_what_may_be_done_with_the_calls(provider: str) -> None:
    async with asking(provider) as ask:
        for reason, kind in reasons_of(provider):
            answer = calling(("plain", {"key": "A"}), text="Let me see.", reason=reason)
            if kind in (EndKind.BLOCKED, EndKind.FAILED):
                with pytest.raises(ProviderFailure) as caught:
                    await ask(answer)
                assert reason in str(caught.value) or "refused" in str(caught.value), reason
                assert not (caught.value.transient and kind is EndKind.BLOCKED), reason
                continue
            message = await ask(answer)
            assert (cut_reason(message) is None) is (kind is EndKind.WHOLE), reason
            assert [call["args"] for call in message.tool_calls] == [{"key": "A"}], reason


@pytest.mark.filterwarnings("ignore:a_new_reason is not a valid FinishReason")
@pytest.mark.parametrize("provider", CLIENTS)
async def test_an_answer_that_was_cut_before_it_said_anything_is_a_failure(provider: str) -> None:
    async with asking(provider) as ask:
        for reason in [reason for reason, kind in reasons_of(provider) if kind is EndKind.CUT]:
            words = f"cut before there was anything in it, finish reason {reason}"
            with pytest.raises(ProviderFailure, match=words) as caught:
                await ask(containing("", thinking="Hmm." if provider != "google" else "", reason=reason))
            assert not caught.value.transient


def told(provider: str, reason: str) -> dict[str, Any]:
    """The metadata of a message of this provider that ended so."""
    if provider == "openai responses":
        return {"model_provider": "openai", "object": "response", "incomplete_details": {"reason": reason}}
    key = {"anthropic": "stop_reason", "ollama": "done_reason"}.get(provider, "finish_reason")
    return {"model_provider": provider, key: reason}


class TestAStream:
    def test_that_tells_its_reason_twice_has_it_once(self) -> None:
        chunk = AIMessageChunk("Hi.", response_metadata=told("openai", "stop"))
        message = assemble([chunk, chunk.model_copy()])
        assert message.response_metadata["finish_reason"] == "stop"
        assert cut_reason(message) is None

    def test_that_tells_several_reasons_is_taken_by_the_worst(self) -> None:
        whole, blocked = (AIMessageChunk("a", response_metadata=told("openai", w)) for w in ("stop", "content_filter"))
        with pytest.raises(ProviderFailure, match="blocked"):
            assemble([blocked, whole])

    def test_with_a_refusal_beside_a_call_is_refused(self) -> None:
        said = AIMessageChunk("Well.", additional_kwargs={"refusal": "I will not."})
        with pytest.raises(ProviderFailure, match=r"refused to answer: I will not\."):
            assemble([said, AIMessageChunk("", response_metadata=told("openai", "tool_calls"))])


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path / "ws")
    workspace.tools("")
    workspace.agent("tools: [kit]")
    yield workspace
    workspace.close()


ALL = [(name, reason, kind) for name, table in REASONS.items() for reason, kind in table.items()]


@pytest.mark.parametrize("kind", [EndKind.CUT, EndKind.WHOLE])
def test_calls_run_only_of_whole_answers(work: Workspace, kind: EndKind) -> None:
    for provider, reason, _ in [one for one in ALL if one[2] is kind]:
        work.model = Replies(
            AIMessage(
                "See.",
                tool_calls=[tool_call(name="plain", args={"key": f"{provider}-{reason}"}, id="c")],
                response_metadata=told(provider, reason),
            ),
            AIMessage("Done.", response_metadata=told("script", "stop")),
        )
        assert work.start().status is Status.SUCCESS
        (made,) = work.calls()
        assert made.decision is (Decision.RUN if kind is EndKind.WHOLE else Decision.REFUSE)
        assert made.outcome is (CallOutcome.DONE if kind is EndKind.WHOLE else CallOutcome.REFUSED)
        assert work.effects()[f"{provider}-{reason}"] == (kind is EndKind.WHOLE)


class TestAnExecution:
    def test_tells_the_model_that_calls_of_a_cut_answer_did_not_run(self, work: Workspace) -> None:
        work.script(turn(call("plain", key="A"), call("plain", key="B"), finish="length"), "Done.")
        work.start()
        work.check_succeeded()
        assert work.effects() == {}
        assert work.results_seen() == [work.result(0), work.result(1)]
        assert (
            "nothing was run: the answer with this call was cut before its end (finish reason length)" in work.result()
        )

    def test_asks_nobody_about_a_call_of_a_cut_answer(self, work: Workspace) -> None:
        work.agent("tools: [kit]\nconfirm: [danger]")
        work.script(turn(call("danger", key="A"), finish="unknown"), "Done.")
        work.start()
        work.check_succeeded()
        assert work.requests() == []

    def test_ends_when_answers_are_cut_again_and_again(self, work: Workspace) -> None:
        work.script(*(turn(call("plain", key=str(n)), finish="length") for n in range(9)))
        execution = work.start()
        assert execution.status is Status.ABORTED
        assert execution.error is not None
        assert execution.error.startswith("3 answers of the model in a row were cut before the end of their calls")
        assert len(work.histories) == 3

    def test_goes_on_when_cut_answers_are_not_in_a_row(self, work: Workspace) -> None:
        cut, whole = (lambda n: turn(call("plain", key=n), finish="length")), (lambda n: turn(call("plain", key=n)))
        work.script(cut("1"), cut("2"), whole("3"), cut("4"), cut("5"), "Done.")
        work.start()
        work.check_succeeded()
        assert work.effects() == {"3": 1}

    def test_keeps_and_marks_a_text_that_was_cut(self, work: Workspace) -> None:
        work.script({"text": "One two", "finish": "length"})
        execution = work.start()
        assert (execution.status, execution.output, execution.cut) == (Status.SUCCESS, "One two", "length")
        marked = {event.type for event in work.events() if event.data.get("cut") == "length"}
        assert marked == {EventType.AI, EventType.FINAL_ANSWER, EventType.COMPLETE}

    def test_marks_no_whole_text(self, work: Workspace) -> None:
        work.script("One two.")
        assert work.start().cut is None
        assert not [event for event in work.events() if "cut" in event.data]

    @pytest.mark.parametrize("answer", [{"text": "Half a"}, turn(call("plain", key="A")), {}])
    def test_of_a_blocked_answer_is_an_error_and_nothing_ran(self, work: Workspace, answer: dict[str, Any]) -> None:
        work.script({**answer, "finish": "blocked"})
        execution = work.start()
        assert (execution.status, execution.output) == (Status.ERROR, None)
        assert execution.error is not None
        assert execution.error.endswith("could not answer: the answer was blocked, finish reason blocked")
        assert (work.effects(), work.calls()) == ({}, [])

    def test_of_an_answer_that_was_cut_at_once_is_an_error(self, work: Workspace) -> None:
        work.script({"finish": "length"})
        execution = work.start()
        assert execution.status is Status.ERROR
        assert execution.error is not None
        assert "raise settings.max_tokens" in execution.error


def test_a_script_model_that_is_called_at_once_says_the_same_as_one_that_streams(work: Workspace) -> None:
    work.script({"text": "One two", "finish": "length"})
    ref = model_at("script", None)
    model = make_chat_model(
        type(ref)("script", "worker"), RunSettings(), environ={}, scripts_dir=work.app.assembly.scripts_dir
    )
    assert cut_reason(model.invoke([HumanMessage("Go.")])) == "length"
    with pytest.raises(ModelFailed):
        assemble([AIMessageChunk("", response_metadata=told("script", "length"))])
