"""The real Gemini client from the factory against a loopback server that speaks Gemini's wire format."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    HumanMessage,
    SystemMessage,
    ToolMessage,
    messages_from_dict,
    messages_to_dict,
)

from agent_md.agents.spec import ModelRef, RunSettings
from agent_md.errors import MissingKey, ModelFailed, UsageError
from agent_md.executions.execution import Usage
from agent_md.models.factory import close_model, key_values, make_chat_model
from agent_md.models.failures import Failure, ProviderFailure
from agent_md.models.pricing import Prices
from agent_md.models.retry import RetryPolicy, call_with_retry
from agent_md.models.streaming import stream_answer
from agent_md.models.usage import usage_of
from tests.support.gemini import Failure as ServerFailure
from tests.support.gemini import GeminiServer, Turn, call_part, calls, text

KEY = "AIzaSyD-this-is-a-key-of-a-test-0123456"
ENVIRON = {"GOOGLE_API_KEY": KEY}
NAME = "gemini-2.5-flash"
SIGNATURE = "c2lnbmF0dXJlLTE="
UNPRICED = Prices({}, dict)
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "A tool.",
            "parameters": {"type": "object", "properties": {"path": {"type": "string"}}},
        },
    }
    for name in ("file_read", "file_delete")
]
HELLO: list[BaseMessage] = [SystemMessage("Be brief."), HumanMessage("Hello")]


Ask = Callable[[list[BaseMessage]], Awaitable[AIMessage]]


@asynccontextmanager
async def gemini(
    url: str, settings: RunSettings | None = None, on_text: Callable[[str], None] = lambda text: None
) -> AsyncIterator[Ask]:
    """Asks once, without retries."""
    ref = ModelRef("google", NAME, url)
    model = make_chat_model(ref, settings or RunSettings(), environ=ENVIRON, scripts_dir=Path("none"))
    bound = model.bind_tools(TOOLS)
    try:
        yield lambda messages: stream_answer(bound, messages, on_text)
    finally:
        await close_model(model)


async def ask_patiently(
    url: str, on_text: Callable[[str], None] = lambda text: None, on_retry: Any = None
) -> tuple[AIMessage, list[float]]:
    """The answer after retries, and the waits before each."""
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    async with gemini(url, on_text=on_text) as ask:
        answer = await call_with_retry(
            lambda: ask(HELLO),
            RetryPolicy(jitter=0),
            model=f"google/{NAME}",
            secrets=key_values(ENVIRON),
            sleep=wait,
            on_retry=on_retry,
        )
    return answer, waits


def stored(messages: list[BaseMessage]) -> list[BaseMessage]:
    """The messages as they come back after a pause in another process."""
    return messages_from_dict(json.loads(json.dumps(messages_to_dict(messages))))


async def test_text_streams_word_by_word_and_usage_is_counted_once() -> None:
    pieces: list[str] = []
    with GeminiServer([text("One two three.", prompt_tokens=40, output_tokens=9, thought_tokens=5)]) as server:
        async with gemini(server.url, on_text=pieces.append) as ask:
            answer = await ask(HELLO)
    assert pieces == ["One ", "two ", "three."]
    assert type(answer) is AIMessage
    assert answer.text == "One two three."
    assert usage_of(answer, ModelRef("google", NAME), UNPRICED) == Usage(40, 14, None)


async def test_calls_of_one_message_come_whole_in_order_with_ids_of_their_own() -> None:
    turn = calls(("file_read", {"path": "a", "limit": 2}, SIGNATURE), ("file_read", {"path": "b"}, None))
    with GeminiServer([turn]) as server:
        async with gemini(server.url) as ask:
            answer = await ask(HELLO)
    assert [(call["name"], call["args"]) for call in answer.tool_calls] == [
        ("file_read", {"path": "a", "limit": 2}),
        ("file_read", {"path": "b"}),
    ]
    assert len({call["id"] for call in answer.tool_calls}) == 2
    assert answer.invalid_tool_calls == []
    assert "function_call" not in answer.additional_kwargs


async def test_calls_in_one_chunk_are_told_apart() -> None:
    turn = Turn([[call_part("file_read", {"path": "a"}), call_part("file_delete", {"path": "b"})]])
    with GeminiServer([turn]) as server:
        async with gemini(server.url) as ask:
            answer = await ask(HELLO)
    assert [(call["name"], call["args"]) for call in answer.tool_calls] == [
        ("file_read", {"path": "a"}),
        ("file_delete", {"path": "b"}),
    ]


async def test_an_answer_equals_its_stored_form() -> None:
    with GeminiServer([calls(("file_read", {"path": "a"}, SIGNATURE))]) as server:
        async with gemini(server.url) as ask:
            answer = await ask(HELLO)
    assert stored([answer]) == [answer]


@pytest.mark.parametrize("model_version", ["gemini-2.5-flash", "gemini-3-pro-preview"])
async def test_a_thought_signature_survives_a_restart_and_goes_back_on_its_call(model_version: str) -> None:
    first = Turn(
        [[{"text": "Looking. "}], [call_part("file_read", {"path": "a"}, SIGNATURE)], [call_part("file_delete", {})]],
        model_version=model_version,
    )
    with GeminiServer([first, text("Done.", model_version=model_version)]) as server:
        async with gemini(server.url) as ask:
            answer = await ask(HELLO)
        results = [ToolMessage("ok", tool_call_id=str(call["id"])) for call in answer.tool_calls]
        async with gemini(server.url) as ask:
            final = await ask(stored([*HELLO, answer, *results]))
        parts = server.requests[-1].body["contents"][1]["parts"]
    assert final.text == "Done."
    assert [part.get("text") or part["functionCall"]["name"] for part in parts] == [
        "Looking. ",
        "file_read",
        "file_delete",
    ]
    assert [part.get("thoughtSignature") for part in parts] == [None, SIGNATURE, None]


async def test_the_server_notices_a_lost_signature() -> None:
    with GeminiServer([calls(("file_read", {"path": "a"}, SIGNATURE)), text("Done.")]) as server:
        async with gemini(server.url) as ask:
            answer = await ask(HELLO)
            answer.additional_kwargs.clear()
            result = ToolMessage("ok", tool_call_id=str(answer.tool_calls[0]["id"]))
            with pytest.raises(Exception, match="thought_signature"):
                await ask([*HELLO, answer, result])


async def test_the_server_notices_a_call_without_its_result() -> None:
    with GeminiServer([calls(("file_read", {}, None), ("file_delete", {}, None)), text("Done.")]) as server:
        async with gemini(server.url) as ask:
            answer = await ask(HELLO)
            result = ToolMessage("ok", tool_call_id=str(answer.tool_calls[0]["id"]))
            with pytest.raises(Exception, match="function response"):
                await ask([*HELLO, answer, result])


@pytest.mark.parametrize("result", ['{"a": 1.10, "a": 2}', "NaN", "[1]", "plain", "", '"quoted"\n'])
async def test_a_tool_result_is_sent_as_the_text_it_is(result: str) -> None:
    with GeminiServer([calls(("file_read", {}, None)), text("Done.")]) as server:
        async with gemini(server.url) as ask:
            answer = await ask(HELLO)
            await ask([*HELLO, answer, ToolMessage(result, tool_call_id=str(answer.tool_calls[0]["id"]))])
        part = server.requests[-1].body["contents"][-1]["parts"][0]
    assert part["functionResponse"]["response"] == {"output": result}


async def test_parameters_are_sent_only_where_set() -> None:
    with GeminiServer([text("Hi.")]) as server:
        async with gemini(server.url) as ask:
            await ask(HELLO)
        async with gemini(server.url, RunSettings(temperature=0.3, max_tokens=77)) as ask:
            await ask(HELLO)
        unset, given = (request.body["generationConfig"] for request in server.requests)
    assert not {"temperature", "maxOutputTokens"} & unset.keys()
    assert (given["temperature"], given["maxOutputTokens"]) == (0.3, 77)


@pytest.mark.parametrize(
    ("suffix", "version"),
    [("", "v1(beta)?"), ("/", "v1(beta)?"), ("/v1beta", "v1beta"), ("/v1", "v1"), ("/v1/", "v1")],
)
async def test_base_url_may_carry_the_api_version(suffix: str, version: str) -> None:
    with GeminiServer([text("Hi.")]) as server:
        async with gemini(server.url + suffix) as ask:
            await ask(HELLO)
        assert re.fullmatch(rf"/{version}/models/{NAME}:streamGenerateContent\?alt=sse", server.requests[0].path)
        assert server.requests[0].key == KEY


@pytest.mark.parametrize(
    "failure",
    [
        ServerFailure(503, "The model is overloaded."),
        ServerFailure(500),
        ServerFailure(429, "Slow down."),
        ServerFailure(cut=0),
        ServerFailure(cut=2),
        ServerFailure(cut=2, tidy=True),
        ServerFailure(cut=0, tidy=True),
    ],
    ids=["503", "500", "429", "cut before the answer", "cut in the stream", "ended early", "empty stream"],
)
async def test_a_transient_failure_is_tried_again_and_nothing_is_counted_twice(failure: ServerFailure) -> None:
    pieces: list[str] = []

    def forget(failures: int, failure: Failure, delay: float) -> None:
        pieces.clear()

    with GeminiServer([text("One two three.", failures=[failure, failure])]) as server:
        answer, waits = await ask_patiently(server.url, on_text=pieces.append, on_retry=forget)
        assert len(server.requests) == 3
    assert waits == [1.0, 2.0]
    assert "".join(pieces) == answer.text == "One two three."
    assert usage_of(answer, ModelRef("google", NAME), UNPRICED) == Usage(10, 6, None)


@pytest.mark.parametrize(
    "failure",
    [
        ServerFailure(429, headers={"Retry-After": "17"}),
        ServerFailure(429, details=[{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "17s"}]),
    ],
    ids=["header", "RetryInfo"],
)
async def test_the_wait_that_the_provider_asks_for_is_kept(failure: ServerFailure) -> None:
    with GeminiServer([text("Hi.", failures=[failure])]) as server:
        _, waits = await ask_patiently(server.url)
    assert waits == [17.0]


async def test_the_last_attempt_says_what_failed() -> None:
    failures = [ServerFailure(503, "The model is overloaded.")] * 4
    with GeminiServer([text("Hi.", failures=failures)]) as server:
        with pytest.raises(ModelFailed) as caught:
            await ask_patiently(server.url)
        assert len(server.requests) == 4
    assert str(caught.value) == (
        "google/gemini-2.5-flash could not answer after 4 attempts: 503 UNAVAILABLE: The model is overloaded."
    )


@pytest.mark.parametrize(("status", "name"), [(400, "INVALID_ARGUMENT"), (403, "PERMISSION_DENIED")])
async def test_a_refusal_is_final_and_does_not_tell_the_key(status: int, name: str) -> None:
    failure = ServerFailure(status, "The key {key} is not valid, see https://x.test/?key={key}&a=1")
    with GeminiServer([text("Hi.", failures=[failure])]) as server:
        with pytest.raises(ModelFailed) as caught:
            await ask_patiently(server.url)
        assert len(server.requests) == 1
    assert str(caught.value) == (
        f"google/gemini-2.5-flash could not answer: {status} {name}: "
        "The key *** is not valid, see https://x.test/?key=***&a=1"
    )
    assert caught.value.__context__ is None


async def test_nobody_listens() -> None:
    with GeminiServer([]) as server:
        url = server.url
    with pytest.raises(ModelFailed, match=r"could not answer after 4 attempts: \w*Connect\w*Error: "):
        await ask_patiently(url)


async def test_a_blocked_prompt_is_final() -> None:
    with GeminiServer([Turn([], block_reason="SAFETY")]) as server:
        async with gemini(server.url) as ask:
            with pytest.raises(ProviderFailure, match="the prompt was blocked: SAFETY") as caught:
                await ask(HELLO)
    assert not caught.value.transient


@pytest.mark.parametrize(
    ("reason", "words", "transient"),
    [
        ("MALFORMED_FUNCTION_CALL", "no answer, finish reason MALFORMED_FUNCTION_CALL", True),
        ("SAFETY", "the answer was blocked, finish reason SAFETY", False),
    ],
)
async def test_an_answer_that_holds_nothing_is_a_failure(reason: str, words: str, transient: bool) -> None:
    with GeminiServer([Turn([[]], finish_reason=reason)]) as server:
        async with gemini(server.url) as ask:
            with pytest.raises(ProviderFailure, match=words) as caught:
                await ask(HELLO)
    assert caught.value.transient is transient


async def test_a_text_cut_by_the_token_limit_is_an_answer() -> None:
    with GeminiServer([text("One two", finish_reason="MAX_TOKENS")]) as server:
        async with gemini(server.url) as ask:
            assert (await ask(HELLO)).text == "One two"


async def test_a_cancelled_stream_leaves_nothing_behind() -> None:
    started = asyncio.Event()
    with GeminiServer([text("One two three.")]) as server:
        async with gemini(server.url, on_text=lambda piece: started.set()) as ask:
            task = asyncio.ensure_future(ask(HELLO))
            task.add_done_callback(lambda _: started.set())
            await started.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task


def test_a_missing_key_is_told_before_anything_starts() -> None:
    for environ in ({}, {"GOOGLE_API_KEY": " "}):
        with pytest.raises(MissingKey, match=r"google/gemini-2.5-flash needs a key: set GOOGLE_API_KEY"):
            make_chat_model(ModelRef("google", NAME), RunSettings(), environ=environ, scripts_dir=Path("none"))


async def test_the_second_variable_is_a_key_too() -> None:
    ref = ModelRef("google", NAME)
    environ = {"GEMINI_API_KEY": f"{KEY}\n"}
    model = make_chat_model(ref, RunSettings(), environ=environ, scripts_dir=Path("none"))
    await close_model(model)
    assert key_values(environ) == (KEY,)


async def test_vertex_variables_do_not_steer_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", "true")
    with pytest.raises(UsageError, match="unset them"):
        make_chat_model(ModelRef("google", NAME), RunSettings(), environ=ENVIRON, scripts_dir=Path("none"))


@pytest.mark.parametrize("variable", ["GOOGLE_GEMINI_BASE_URL", "LANGSMITH_GATEWAY"])
async def test_other_variables_do_not_move_the_address(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "https://elsewhere.test")
    ref = ModelRef("google", NAME)
    model: Any = make_chat_model(ref, RunSettings(), environ=ENVIRON, scripts_dir=Path("none"))
    await close_model(model)
    assert model.base_url == "https://generativelanguage.googleapis.com"


def test_the_server_runs_as_a_process(tmp_path: Path) -> None:
    script, log = tmp_path / "turns.json", tmp_path / "log.jsonl"
    turns = [{"chunks": [[{"text": "From afar."}]], "failures": [{"status": 503}]}]
    script.write_text(json.dumps(turns))
    command = [sys.executable, "-m", "tests.support.gemini", "--script", str(script), "--log", str(log)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        answer, waits = asyncio.run(ask_patiently(f"http://127.0.0.1:{port}"))
        process.communicate()
    assert (answer.text, waits, process.returncode) == ("From afar.", [1.0], 0)
    assert [json.loads(line)["body"]["contents"][0]["role"] for line in log.read_text().splitlines()] == ["user"] * 2
