"""Each provider's real client from the factory, against a loopback server that speaks its wire format strictly."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
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
from agent_md.errors import ModelFailed
from agent_md.models.factory import close_model, key_values, make_chat_model
from agent_md.models.failures import ProviderFailure
from agent_md.models.history_format import for_model
from agent_md.models.retry import RetryPolicy, call_with_retry
from agent_md.models.streaming import stream_answer
from tests.support.provider_server import Failure, Received, calling, containing
from tests.support.providers import KEY, KEYS, PROVIDERS, model_at, provider_server

pytestmark = pytest.mark.xdist_group("providers")  # their clients take seconds to import: once, in one process

NEW = tuple(provider for provider in PROVIDERS if provider != "google")
"""Gemini has tests of its own."""
CLIENTS = tuple(provider for provider in NEW if provider != "local")
"""A `local` server has the client of `openai`."""

SCHEMA = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "limit": {"anyOf": [{"type": "integer", "minimum": 1}, {"type": "null"}], "default": None},
    },
    "required": ["path"],
}
TOOLS = [
    {"type": "function", "function": {"name": name, "description": "A tool.", "parameters": SCHEMA}}
    for name in ("file_read", "file_delete")
]
HELLO: list[BaseMessage] = [SystemMessage("Be brief."), HumanMessage("Hello")]
TWO = calling(
    ("file_read", {"path": '{"a": 1.10}', "limit": 2}),
    ("file_delete", {"path": "ü\n"}),
    text="Let me see. ",
    thinking="Hmm, well then.",
)

Ask = Callable[[list[BaseMessage]], Awaitable[AIMessage]]


@asynccontextmanager
async def client(
    provider: str, url: str, settings: RunSettings | None = None, on_text: Callable[[str], None] = lambda text: None
) -> AsyncIterator[Ask]:
    """Asks once, without retries."""
    ref = model_at(provider, url)
    model = make_chat_model(ref, settings or RunSettings(), environ={KEYS[provider]: KEY}, scripts_dir=Path("none"))
    bound = model.bind_tools(TOOLS)
    try:
        yield lambda messages: stream_answer(bound, for_model(messages, ref), on_text)
    finally:
        await close_model(model)


async def ask_patiently(
    provider: str, url: str, on_text: Callable[[str], None] = lambda text: None, on_retry: Any = None
) -> tuple[AIMessage, list[float]]:
    """The answer after retries, and the waits before each."""
    waits: list[float] = []

    async def wait(seconds: float) -> None:
        waits.append(seconds)

    async with client(provider, url, on_text=on_text) as ask:
        answer = await call_with_retry(
            lambda: ask(HELLO),
            RetryPolicy(jitter=0),
            model=str(model_at(provider, url)),
            secrets=key_values({KEYS[provider]: KEY}),
            sleep=wait,
            on_retry=on_retry,
        )
    return answer, waits


def stored(messages: list[BaseMessage]) -> list[BaseMessage]:
    """The messages as they come back after a pause in another process."""
    return messages_from_dict(json.loads(json.dumps(messages_to_dict(messages))))


def results(answer: AIMessage) -> list[ToolMessage]:
    return [ToolMessage("ok", tool_call_id=str(call["id"]), name=call["name"]) for call in answer.tool_calls]


@pytest.mark.parametrize("provider", NEW)
class TestAnAnswer:
    async def test_streams_and_is_counted_once(self, provider: str) -> None:
        pieces: list[str] = []
        spoken = containing("One two three.", input_tokens=40, output_tokens=9)
        with provider_server(provider, [spoken]) as server:
            async with client(provider, server.url, on_text=pieces.append) as ask:
                answer = await ask(HELLO)
        assert pieces == ["One ", "two ", "three."]
        assert type(answer) is AIMessage
        assert answer.text == "One two three."
        assert answer.tool_calls == answer.invalid_tool_calls == []
        assert answer.usage_metadata is not None
        assert (answer.usage_metadata["input_tokens"], answer.usage_metadata["output_tokens"]) == (40, 9)

    async def test_has_its_calls_whole_in_order_with_ids_of_their_own(self, provider: str) -> None:
        with provider_server(provider, [TWO]) as server:
            async with client(provider, server.url) as ask:
                answer = await ask(HELLO)
        assert [(call["name"], call["args"]) for call in answer.tool_calls] == TWO.calls
        assert len({call["id"] for call in answer.tool_calls} - {None, ""}) == 2
        assert answer.invalid_tool_calls == []
        assert answer.text == "Let me see. "

    async def test_equals_its_stored_form_and_is_taken_back_by_the_provider(self, provider: str) -> None:
        with provider_server(provider, [TWO, containing("Done.")]) as server:
            async with client(provider, server.url) as ask:
                answer = await ask(HELLO)
            assert stored([answer]) == [answer]
            async with client(provider, server.url) as ask:
                final = await ask(stored([*HELLO, answer, *results(answer)]))
        assert final.text == "Done."

    async def test_without_arguments_is_a_call_too(self, provider: str) -> None:
        with provider_server(provider, [calling(("file_read", {}), raw_args=[""])]) as server:
            async with client(provider, server.url) as ask:
                answer = await ask(HELLO)
        assert [call["args"] for call in answer.tool_calls] == [{}]

    @pytest.mark.parametrize("nothing", ["null", " ", "\n"])
    async def test_with_null_or_blank_arguments_is_a_call_without_any(self, provider: str, nothing: str) -> None:
        if provider == "ollama":  # its arguments are an object, or nothing
            nothing = ""
        with provider_server(provider, [calling(("file_read", {}), raw_args=[nothing]), containing("Done.")]) as server:
            async with client(provider, server.url) as ask:
                answer = await ask(HELLO)
                assert [call["args"] for call in answer.tool_calls] == [{}]
                assert (await ask([*HELLO, answer, *results(answer)])).text == "Done."

    async def test_of_another_provider_is_sent_as_text_and_calls(self, provider: str) -> None:
        other = "anthropic" if provider != "anthropic" else "google"
        with provider_server(other, [TWO]) as server:
            async with client(other, server.url) as ask:
                answer = await ask(HELLO)
        with provider_server(provider, [TWO, containing("Done.")]) as server:
            async with client(provider, server.url) as ask:
                final = await ask([*HELLO, answer, *results(answer)])
            assert "Hmm, well then." not in json.dumps(server.bodies[0])
        assert final.text == "Done."

    async def test_empty_is_an_answer(self, provider: str) -> None:
        with provider_server(provider, [containing("")]) as server:
            async with client(provider, server.url) as ask:
                answer = await ask(HELLO)
        assert (answer.text, answer.tool_calls) == ("", [])

    async def test_a_call_without_its_result_is_noticed_by_the_server(self, provider: str) -> None:
        with provider_server(provider, [TWO, containing("Done.")]) as server:
            async with client(provider, server.url) as ask:
                answer = await ask(HELLO)
                with pytest.raises(Exception, match=r"result|response|call that is due"):
                    await ask([*HELLO, answer, results(answer)[0], HumanMessage("And?")])

    async def test_schemas_of_tools_are_sent_whole(self, provider: str) -> None:
        with provider_server(provider, [containing("Hi.")]) as server:
            async with client(provider, server.url) as ask:
                await ask(HELLO)
            tools = server.bodies[0]["tools"]
        found = [tool.get("function", tool) for tool in tools]
        sent = [tool.get("input_schema") or tool["parameters"] for tool in found]
        assert sent == [SCHEMA, SCHEMA]

    async def test_parameters_are_sent_only_where_set(self, provider: str) -> None:
        with provider_server(provider, [containing("Hi.")]) as server:
            async with client(provider, server.url) as ask:
                await ask(HELLO)
            async with client(provider, server.url, RunSettings(temperature=0.3, max_tokens=77)) as ask:
                await ask(HELLO)
            unset, given = server.bodies
        names = {"openai": "max_completion_tokens", "ollama": "num_predict", "responses": "max_output_tokens"}
        name = names.get(provider, "max_tokens")
        unset, given = (body.get("options", body) for body in (unset, given))
        assert (given["temperature"], given[name]) == (0.3, 77)
        assert "temperature" not in unset
        # Anthropic insists on a limit.
        assert unset.get(name) == (4096 if provider == "anthropic" else None)

    async def test_cancelled_leaves_nothing_behind(self, provider: str) -> None:
        started = asyncio.Event()
        with provider_server(provider, [containing("One two three.")]) as server:
            async with client(provider, server.url, on_text=lambda piece: started.set()) as ask:
                task = asyncio.ensure_future(ask(HELLO))
                task.add_done_callback(lambda _: started.set())
                await started.wait()
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task

    async def test_can_be_had_again_by_a_new_client_after_one_was_closed(self, provider: str) -> None:
        with provider_server(provider, [containing("Hi.")]) as server:
            for _ in range(2):
                async with client(provider, server.url) as ask:
                    assert (await ask(HELLO)).text == "Hi."


FAILURES = {
    "500": Failure(500),
    "503": Failure(503, "The model is overloaded."),
    "429": Failure(429, "Slow down."),
    "408": Failure(408),
    "cut before the answer": Failure(),
    "cut in the stream": Failure(cut=3),
    "ended early": Failure(cut=3, tidy=True),
    "ended in a line": Failure(cut=3, torn=True),
    "empty stream": Failure(tidy=True),
    "told in the stream": Failure(message="Overloaded", kind="overloaded_error", cut=3, told=True),
}


@pytest.mark.parametrize("provider", CLIENTS)
class TestAFailure:
    @pytest.mark.parametrize("failure", FAILURES.values(), ids=FAILURES.keys())
    async def test_that_may_pass_is_tried_again_and_nothing_is_counted_twice(
        self, provider: str, failure: Failure
    ) -> None:
        pieces: list[str] = []
        answers = [containing("One two three.", failures=[failure])]
        with provider_server(provider, answers) as server:
            answer, waits = await ask_patiently(
                provider, server.url, on_text=pieces.append, on_retry=lambda *_: pieces.clear()
            )
            assert len(server.requests) == 2
        assert waits == [1.0]
        assert "".join(pieces) == answer.text == "One two three."
        assert answer.usage_metadata is not None
        assert answer.usage_metadata["total_tokens"] == 16

    async def test_in_the_middle_of_calls_leaves_none_of_them(self, provider: str) -> None:
        for cut in (3, 5):
            with provider_server(
                provider, [replace(TWO, thinking="", failures=[Failure(cut=cut, tidy=True)])]
            ) as server:
                async with client(provider, server.url) as ask:
                    with pytest.raises(ProviderFailure, match="broke off") as caught:
                        await ask(HELLO)
            assert caught.value.transient

    async def test_with_a_time_to_wait_is_waited_for(self, provider: str) -> None:
        failure = Failure(429, headers={"Retry-After": "17"})
        with provider_server(provider, [containing("Hi.", failures=[failure])]) as server:
            _, waits = await ask_patiently(provider, server.url)
        # Ollama's client keeps no headers of an error.
        assert waits == ([1.0] if provider == "ollama" else [17.0])

    @pytest.mark.parametrize("status", [400, 401, 403, 404])
    async def test_that_will_not_pass_is_final_and_does_not_tell_the_key(self, provider: str, status: int) -> None:
        failure = Failure(status, "The key {key} is not valid, see https://x.test/?key={key}&a=1")
        with provider_server(provider, [containing("Hi.", failures=[failure])]) as server:
            with pytest.raises(ModelFailed) as caught:
                await ask_patiently(provider, server.url)
            assert len(server.requests) == 1
        assert str(caught.value).startswith(f"{model_at(provider, None)} could not answer: {status}")
        assert str(caught.value).endswith(": The key *** is not valid, see https://x.test/?key=***&a=1")
        assert caught.value.__context__ is None

    async def test_the_last_attempt_says_what_failed(self, provider: str) -> None:
        failures = [Failure(503, "The model is overloaded.", "overloaded_error")] * 4
        with provider_server(provider, [containing("Hi.", failures=failures)]) as server:
            with pytest.raises(ModelFailed) as caught:
                await ask_patiently(provider, server.url)
            assert len(server.requests) == 4
        kind = "" if provider == "ollama" else " overloaded_error"
        assert str(caught.value) == (
            f"{model_at(provider, None)} could not answer after 4 attempts: 503{kind}: The model is overloaded."
        )

    async def test_nobody_listens(self, provider: str) -> None:
        with provider_server(provider, []) as server:
            url = server.url
        with pytest.raises(ModelFailed, match=r"could not answer after 4 attempts: Connect\w*Error: \w"):
            await ask_patiently(provider, url)

    async def test_words_of_a_wrong_request_in_a_stream_are_final(self, provider: str) -> None:
        if provider == "ollama":  # it has no words for kinds
            return
        failure = Failure(message="No.", kind="invalid_request_error", cut=2, told=True)
        with provider_server(provider, [containing("Hi.", failures=[failure])]) as server:
            with pytest.raises(ModelFailed, match="invalid_request_error: No"):
                await ask_patiently(provider, server.url)
            assert len(server.requests) == 1


FULL = {
    "openai": "length",
    "local": "length",
    "anthropic": "max_tokens",
    "ollama": "length",
    "responses": "max_output_tokens",
}


@pytest.mark.parametrize("provider", NEW)
async def test_a_text_cut_by_the_token_limit_is_an_answer(provider: str) -> None:
    with provider_server(provider, [containing("One two", reason=FULL[provider])]) as server:
        async with client(provider, server.url) as ask:
            assert (await ask(HELLO)).text == "One two"


@pytest.mark.parametrize("provider", ["openai", "local", "anthropic", "responses"])
@pytest.mark.parametrize("half", ['{"path": "/data/rep', '{"path": "a", "limit": 2', "", '["a"]', '{"path": NaN}'])
async def test_half_the_arguments_are_no_arguments(provider: str, half: str) -> None:
    if (provider, half) == ("responses", '["a"]'):
        return
    answer = calling(("file_read", {}), ("file_delete", {}), raw_args=['{"path": "a"}', half], reason=FULL[provider])
    with provider_server(provider, [answer, containing("Done.")]) as server:
        async with client(provider, server.url) as ask:
            got = await ask(HELLO)
    assert [(call["name"], call["args"]) for call in got.tool_calls] == [("file_read", {"path": "a"})]
    assert [call["name"] for call in got.invalid_tool_calls] == ["file_delete"]
    assert stored([got]) == [got]


async def test_arguments_that_are_no_object_are_asked_for_again_in_a_response() -> None:
    """Its client cannot give such a call away at all."""
    with provider_server("responses", [calling(("file_read", {}), raw_args=['["a"]'])]) as server:
        async with client("responses", server.url) as ask:
            with pytest.raises(ProviderFailure, match="a call whose arguments are no object") as caught:
                await ask(HELLO)
    assert caught.value.transient


async def test_line_breaks_in_arguments_are_understood() -> None:
    answer = calling(("file_read", {}), raw_args=['{"path": "a\nb"}'])
    with provider_server("openai", [answer]) as server:
        async with client("openai", server.url) as ask:
            assert (await ask(HELLO)).tool_calls[0]["args"] == {"path": "a\nb"}


@pytest.mark.parametrize(
    ("provider", "reason", "words", "transient"),
    [
        ("openai", "content_filter", "the answer was blocked, finish reason content_filter", False),
        ("local", "tool_calls", "the answer is to call tools, and names none", True),
        ("anthropic", "refusal", "the model refused to answer", False),
        ("responses", "content_filter", "the answer was blocked, finish reason content_filter", False),
    ],
)
async def test_an_answer_that_holds_nothing_is_a_failure(
    provider: str, reason: str, words: str, transient: bool
) -> None:
    with provider_server(provider, [containing("", reason=reason)]) as server:
        async with client(provider, server.url) as ask:
            with pytest.raises(ProviderFailure, match=words) as caught:
                await ask(HELLO)
    assert caught.value.transient is transient


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_nothing_goes_where_a_server_sends_us(provider: str, status: int) -> None:
    sending = Failure(status)

    def there(received: Received) -> None:
        sending.headers["Location"] = elsewhere.url + received.path

    with (
        provider_server(provider, [containing("Hi.")]) as elsewhere,
        provider_server(provider, [containing("Hi.", failures=[sending])], there) as server,
    ):
        with pytest.raises(ModelFailed, match=f"could not answer: {status}: the server sends elsewhere"):
            await ask_patiently(provider, server.url)
        assert len(server.requests) == 1
        assert elsewhere.requests == []


@pytest.mark.parametrize("provider", PROVIDERS)
async def test_odd_turns_of_others_are_taken(provider: str) -> None:
    """Answers without a text, and ids and names of calls that only some servers give."""
    call = {"name": "functions.file read", "args": {}, "id": "functions.file_read:0", "type": "tool_call"}
    history = [
        *HELLO,
        AIMessage(""),
        HumanMessage("And?"),
        AIMessage("", tool_calls=[call]),
        ToolMessage("ok", tool_call_id="functions.file_read:0", name="functions.file read"),
        AIMessage(" \n "),
        HumanMessage("Once more."),
    ]
    with provider_server(provider, [containing("Hi.")] * 4) as server:
        async with client(provider, server.url) as ask:
            assert (await ask(history)).text == "Hi."


@pytest.mark.parametrize("provider", NEW)
async def test_an_empty_answer_is_taken_back(provider: str) -> None:
    with provider_server(provider, [containing(""), containing("Hi.")]) as server:
        async with client(provider, server.url) as ask:
            empty = await ask(HELLO)
            assert (await ask(stored([*HELLO, empty, HumanMessage("Well?")]))).text == "Hi."


async def test_an_account_without_money_is_not_asked_again() -> None:
    failure = Failure(429, "You exceeded your current quota.", "insufficient_quota")
    with provider_server("openai", [containing("Hi.", failures=[failure])]) as server:
        with pytest.raises(ModelFailed, match="could not answer: 429 insufficient_quota: You exceeded"):
            await ask_patiently("openai", server.url)
        assert len(server.requests) == 1


async def test_claude_gets_its_thoughts_back_and_the_server_would_notice() -> None:
    with provider_server("anthropic", [TWO, containing("Done.")]) as server:
        async with client("anthropic", server.url) as ask:
            answer = await ask(HELLO)
            await ask(stored([*HELLO, answer, *results(answer)]))
            kinds = [block["type"] for block in server.bodies[1]["messages"][1]["content"]]
            assert kinds == ["thinking", "redacted_thinking", "text", "tool_use", "tool_use"]
            assert isinstance(answer.content, list)
            answer.content.pop(0)
            with pytest.raises(Exception, match="cannot be modified"):
                await ask([*HELLO, answer, *results(answer)])


async def test_a_call_of_claude_under_another_id_is_sent_once() -> None:
    with provider_server("anthropic", [replace(TWO, thinking=""), containing("Done.")]) as server:
        async with client("anthropic", server.url) as ask:
            answer = await ask(HELLO)
            answer.tool_calls[0]["id"] = "call_0_0"
            assert (await ask([*HELLO, answer, *results(answer)])).text == "Done."


async def test_openai_gets_its_encrypted_thoughts_back_and_the_server_would_notice() -> None:
    with provider_server("responses", [TWO, containing("Done.")]) as server:
        async with client("responses", server.url) as ask:
            answer = await ask(HELLO)
            await ask(stored([*HELLO, answer, *results(answer)]))
            kinds = [item["type"] for item in server.bodies[1]["input"][2:]]
            output = ["function_call_output"] * 2
            assert kinds == ["reasoning", "message", "function_call", "function_call", *output]
            assert isinstance(answer.content, list)
            answer.content.pop(0)
            with pytest.raises(Exception, match="without its 'reasoning' item"):
                await ask([*HELLO, answer, *results(answer)])


@pytest.mark.parametrize(("first", "second"), [("openai", "responses"), ("responses", "openai")])
async def test_a_history_may_go_on_with_another_model_of_openai(first: str, second: str) -> None:
    with provider_server(first, [TWO]) as server:
        async with client(first, server.url) as ask:
            answer = await ask(HELLO)
    with provider_server(second, [TWO, containing("Done.")]) as server:
        async with client(second, server.url) as ask:
            assert (await ask([*HELLO, answer, *results(answer)])).text == "Done."


async def test_what_ollama_thought_is_kept_and_sent_back() -> None:
    with provider_server("ollama", [TWO, containing("Done.")]) as server:
        async with client("ollama", server.url) as ask:
            answer = await ask(HELLO)
            await ask(stored([*HELLO, answer, *results(answer)]))
        said = server.bodies[1]["messages"][2]
        assert "think" not in server.bodies[0]
    assert (said["content"], said["thinking"]) == ("Let me see. ", "Hmm, well then.")


@pytest.mark.parametrize(
    ("provider", "suffix"), [("openai", "/"), ("anthropic", "/"), ("anthropic", "/v1"), ("ollama", "/"), ("local", "/")]
)
async def test_an_address_may_be_written_in_the_usual_ways(provider: str, suffix: str) -> None:
    with provider_server(provider, [containing("Hi.")]) as server:
        async with client(provider, server.url + suffix) as ask:
            assert (await ask(HELLO)).text == "Hi."


@pytest.mark.parametrize(("provider", "sent"), [("ollama", None), ("local", "none")])
async def test_a_server_without_keys_is_sent_none(
    provider: str, sent: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in KEYS.values():
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-openai-and-nobody-else")
    with provider_server(provider, [containing("Hi.")]) as server:
        environ = {"OPENAI_API_KEY": "sk-of-openai-and-nobody-else"}
        ref = ModelRef(provider, "some-model", server.url)
        model = make_chat_model(ref, RunSettings(), environ=environ, scripts_dir=Path("none"))
        await stream_answer(model, HELLO, lambda text: None)
        await close_model(model)
        assert server.requests[0].key == sent


STEERING = {
    "openai": {
        "OPENAI_BASE_URL": "http://127.0.0.1:9/v1",
        "OPENAI_API_BASE": "http://127.0.0.1:9/v1",
        "OPENAI_API_KEY": "another-key",
        "OPENAI_ORG_ID": "another-organisation",
        "OPENAI_ORGANIZATION": "another-organisation",
        "OPENAI_PROJECT_ID": "another-project",
        "OPENAI_PROXY": "http://127.0.0.1:9",
        "OPENAI_CUSTOM_HEADERS": "x-another: another-header",
    },
    "anthropic": {
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
        "ANTHROPIC_API_URL": "http://127.0.0.1:9",
        "ANTHROPIC_API_KEY": "another-key",
        "ANTHROPIC_AUTH_TOKEN": "another-token",
        "ANTHROPIC_PROXY": "http://127.0.0.1:9",
        "ANTHROPIC_CUSTOM_HEADERS": "x-another: another-header",
    },
    "ollama": {"OLLAMA_HOST": "http://127.0.0.1:9", "OLLAMA_API_KEY": "another-key"},
    "local": {},
    "responses": {},
}
EVERYWHERE = {"LANGSMITH_GATEWAY": "http://127.0.0.1:9", "LANGSMITH_API_KEY": "another-key", "LC_OUTPUT_VERSION": "v1"}


@pytest.mark.parametrize("provider", NEW)
async def test_variables_of_the_clients_do_not_steer_them(provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {
        **EVERYWHERE,
        **STEERING[provider],
        **(STEERING["openai"] if provider in ("local", "responses") else {}),
    }
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with provider_server(provider, [TWO, containing("Done.")]) as server:
        async with client(provider, server.url) as ask:
            answer = await ask(HELLO)
            await ask([*HELLO, answer, *results(answer)])
        assert all(received.key == KEY for received in server.requests)
        assert "another" not in json.dumps([received.headers for received in server.requests])
    assert "output_version" not in answer.response_metadata


@pytest.mark.parametrize(
    ("provider", "address"),
    [
        ("openai", "https://api.openai.com/v1/"),
        ("anthropic", "https://api.anthropic.com"),
        ("ollama", "http://127.0.0.1:11434"),
    ],
)
async def test_without_an_address_it_is_the_providers(
    provider: str, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {**EVERYWHERE, **STEERING[provider]}.items():
        monkeypatch.setenv(name, value)
    ref = ModelRef(provider, "some-model")
    model: Any = make_chat_model(ref, RunSettings(), environ={KEYS[provider]: KEY}, scripts_dir=Path("none"))
    inner = model.root_async_client if provider == "openai" else model._async_client
    found = inner._client if provider == "ollama" else inner
    await close_model(model)
    assert str(found.base_url).rstrip("/") == address.rstrip("/")
