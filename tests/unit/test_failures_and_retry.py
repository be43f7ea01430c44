"""What errors mean, what they say, and when a model is asked again."""

from __future__ import annotations

import asyncio
import ssl
import time
from email.utils import formatdate
from typing import Any

import httpx
import pytest
from google.genai import errors as google
from langchain_core.exceptions import ModelRateLimitError
from langchain_google_genai.chat_models import ChatGoogleGenerativeAIError

from agent_md.agents.spec import ModelRef
from agent_md.errors import ClaimLost, ModelFailed
from agent_md.executions.error_text import LONGEST_ERROR
from agent_md.models.factory import remedy
from agent_md.models.failures import Failure, Permanent, ProviderFailure, Transient, Trouble, classify, mask
from agent_md.models.retry import RetryPolicy, call_with_retry

KEY = "AIzaSyD-this-is-a-key-of-a-test-0123456"


def api_error(code: int, message: str = "Sorry.", **options: Any) -> google.APIError:
    kind = google.ClientError if code < 500 else google.ServerError
    return kind(code, {"error": {"message": message, "status": "STATUS", **options}})


def raised_from(error: Exception, cause: Exception) -> Exception:
    try:
        raise error from cause
    except Exception as raised:
        return raised


@pytest.mark.parametrize("code", [408, 429, 500, 502, 503, 504])
def test_statuses_that_pass(code: int) -> None:
    assert classify(api_error(code)) == Transient(f"{code} STATUS: Sorry.")


@pytest.mark.parametrize("code", [400, 401, 403, 404, 409, 422])
def test_statuses_that_stay(code: int) -> None:
    assert classify(api_error(code)) == Permanent(f"{code} STATUS: Sorry.")


def test_the_cause_of_a_wrapped_error_decides() -> None:
    wrapped = raised_from(ChatGoogleGenerativeAIError("Error calling model: ..."), api_error(429))
    assert classify(wrapped) == Transient("429 STATUS: Sorry.")


def test_langchain_s_own_word_for_retryable_counts() -> None:
    assert classify(ModelRateLimitError("too fast")) == Transient("ModelRateLimitError: too fast")
    assert classify(ChatGoogleGenerativeAIError("odd")) == Permanent("ChatGoogleGenerativeAIError: odd")


@pytest.mark.parametrize(
    "error",
    [
        TimeoutError(),
        ConnectionResetError("reset"),
        OSError(101, "Network is unreachable"),
        httpx.ConnectError("refused"),
        httpx.ReadTimeout("late"),
        httpx.RemoteProtocolError("peer closed connection"),
        google.UnknownApiResponseError("Failed to parse response as JSON. Raw response: {"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_broken_connections_pass(error: Exception) -> None:
    assert isinstance(classify(error), Transient)
    assert classify(error).text.startswith(type(error).__name__)


class Numbered(Exception):
    """As the errors below a broken connection come from some HTTP libraries."""

    code = 400


def test_a_number_below_a_broken_connection_is_no_status() -> None:
    error = raised_from(httpx.ReadError("not enough data"), Numbered("not enough data"))
    assert classify(error) == Transient("ReadError: not enough data")
    assert classify(raised_from(RuntimeError("outer"), Numbered("inner"))) == Permanent("RuntimeError: outer")


@pytest.mark.parametrize(
    "error",
    [
        ValueError("x"),
        KeyError("x"),
        FileNotFoundError(2, "no certificate"),
        httpx.UnsupportedProtocol("ftp"),
        httpx.LocalProtocolError("Illegal header value"),
        raised_from(httpx.ConnectError("verify failed"), ssl.SSLCertVerificationError("self-signed")),
    ],
    ids=lambda error: type(error).__name__,
)
def test_mistakes_stay(error: Exception) -> None:
    assert isinstance(classify(error), Permanent)


@pytest.mark.parametrize(
    ("options", "seconds"),
    [
        ({"details": [{"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "13.5s"}]}, 13.5),
        ({"details": [{"retryDelay": "soon"}, "odd"]}, None),
        ({"details": "odd"}, None),
        ({}, None),
    ],
)
def test_the_wait_asked_for_in_the_body(options: dict[str, Any], seconds: float | None) -> None:
    assert classify(api_error(429, **options)) == Transient("429 STATUS: Sorry.", seconds)


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("7", 7.0),
        ("-1", None),
        ("nan", None),
        ("soon", None),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 17.0),
        ("Wednesday, 21-Oct-15 07:28:00 GMT", 17.0),
        ("Wed, 21 Oct 2015 07:00:00 GMT", 0.0),
        ("Wed, 99 Oct 2015 07:28:00 GMT", None),
    ],
)
def test_the_wait_asked_for_in_a_header(header: str, seconds: float | None) -> None:
    error = api_error(503)
    error.response = httpx.Response(503, headers={"Retry-After": header, "Date": "Wed, 21 Oct 2015 07:27:43 GMT"})
    assert classify(error) == Transient("503 STATUS: Sorry.", seconds)


def test_a_date_to_wait_for_is_counted_from_now_where_the_server_does_not_tell_its_own() -> None:
    error = api_error(503)
    error.response = httpx.Response(503, headers={"Retry-After": formatdate(time.time() + 60, usegmt=True)})
    failure = classify(error)
    assert isinstance(failure, Transient)
    assert failure.retry_after is not None
    assert 40 < failure.retry_after <= 60


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"bad key {KEY}", "bad key ***"),
        ("a secret-word b", "a *** b"),
        ("GET https://x.test/v1?key=abc&alt=sse failed", "GET https://x.test/v1?key=***&alt=sse failed"),
        ("GET https://x.test/?a=1&api_key=abc", "GET https://x.test/?a=1&api_key=***"),
        ("Authorization: Bearer abc.def", "Authorization: ***"),
        ("{'x-goog-api-key': 'abc', 'a': 'b'}", "{'x-goog-api-key': ***, 'a': 'b'}"),
        ("sent Bearer abc.def-_= now", "sent Bearer *** now"),
        ("the monkey=3 and key is fine", "the monkey=3 and key is fine"),
    ],
)
def test_keys_are_masked(text: str, shown: str) -> None:
    assert mask(text, ["secret-word", ""]) == shown
    assert classify(ValueError(text), ["secret-word"]).text == f"ValueError: {shown}"


def test_the_text_is_what_was_said_whole_within_reason() -> None:
    said = "a\n\tb\x1f\u2028 " + "x" * 50_000
    assert classify(ValueError(said)).text == f"ValueError: {said}"
    assert len(classify(ValueError("x" * 10**7)).text) < LONGEST_ERROR + 100
    assert classify(ValueError("x" * 480 + KEY + "y" * 100), [KEY]).text.count("AIza") == 0


# Retry


class Model:
    """Fails with the given errors, one a call, then answers."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)
        self.calls = 0

    async def __call__(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "answer"


class Waits(list[float]):
    async def __call__(self, seconds: float) -> None:
        self.append(seconds)


async def ask(model: Model, policy: RetryPolicy, sleep: Waits, chance: float = 0.5, **options: Any) -> str:
    return await call_with_retry(model, policy, model="google/g", sleep=sleep, chance=lambda: chance, **options)


async def test_waits_grow_to_their_limit() -> None:
    model, waits = Model(*[TimeoutError()] * 6), Waits()
    assert await ask(model, RetryPolicy(attempts=7, max_delay=10), waits) == "answer"
    assert waits == [1, 2, 4, 8, 10, 10]


@pytest.mark.parametrize(("chance", "first"), [(0.0, 0.8), (0.5, 1.0), (1.0, 1.2)])
async def test_jitter_moves_a_wait_either_way(chance: float, first: float) -> None:
    waits = Waits()
    await ask(Model(TimeoutError()), RetryPolicy(jitter=0.2), waits, chance)
    assert list(waits) == pytest.approx([first])


async def test_a_longer_wait_asked_for_is_kept_and_a_shorter_one_changes_nothing() -> None:
    def asked(delay: str) -> Exception:
        return api_error(429, details=[{"retryDelay": delay}])

    waits = Waits()
    await ask(Model(asked("40s"), asked("0.1s")), RetryPolicy(), waits)
    assert waits == [40, 2]


async def test_nobody_waits_for_an_hour() -> None:
    model, waits = Model(api_error(429, details=[{"retryDelay": "3600s"}])), Waits()
    with pytest.raises(ModelFailed, match=r"after 1 attempt: 429 STATUS: Sorry. \(it asks to wait 3600 s\)"):
        await ask(model, RetryPolicy(), waits)
    assert (model.calls, waits) == (1, [])


async def test_the_last_attempt_is_the_last() -> None:
    model, waits = Model(*[api_error(503, "Busy.")] * 9), Waits()
    with pytest.raises(ModelFailed) as caught:
        await ask(model, RetryPolicy(), waits)
    assert str(caught.value) == "google/g could not answer after 4 attempts: 503 STATUS: Busy."
    assert (model.calls, len(waits)) == (4, 3)


async def test_a_permanent_failure_is_told_at_once_without_secrets() -> None:
    model, waits = Model(api_error(400, f"no {KEY} secret")), Waits()
    with pytest.raises(ModelFailed) as caught:
        await ask(model, RetryPolicy(), waits, secrets=["secret"])
    assert str(caught.value) == "google/g could not answer: 400 STATUS: no *** ***"
    assert caught.value.__cause__ is caught.value.__context__ is None
    assert waits == []


@pytest.mark.parametrize("error", [ClaimLost("lost"), asyncio.CancelledError(), ModelFailed("script is exhausted")])
async def test_what_is_no_failure_of_the_provider_passes_through(error: BaseException) -> None:
    model, waits = Model(error), Waits()
    with pytest.raises(type(error)) as caught:
        await ask(model, RetryPolicy(), waits)
    assert caught.value is error
    assert model.calls == 1


async def test_a_model_of_ours_says_itself_whether_it_passes() -> None:
    assert await ask(Model(ProviderFailure("broke off", transient=True)), RetryPolicy(), Waits()) == "answer"
    with pytest.raises(ModelFailed, match="google/g could not answer: no more"):
        await ask(Model(ProviderFailure("no more", transient=False)), RetryPolicy(), Waits())


@pytest.mark.parametrize("short", ["a", "no", "test", "abcde"])
def test_a_key_of_less_than_six_characters_leaves_the_message_readable(short: str) -> None:
    assert mask("no test of abcde, a model", [short]) == "no test of abcde, a model"
    assert mask("https://x.test/?key=abcde&a=1", [short]) == "https://x.test/?key=***&a=1"
    assert mask("a key abcdef", ["abcdef"]) == "a key ***"


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (httpx.ConnectError("refused"), Trouble.NO_CONNECTION),
        (httpx.ConnectTimeout("late"), Trouble.NO_CONNECTION),
        (raised_from(RuntimeError("outer"), ConnectionRefusedError("no")), Trouble.NO_CONNECTION),
        (httpx.ReadError("cut"), None),
        (ConnectionResetError("cut"), None),
        (api_error(404), Trouble.OTHER_INTERFACE),
        (api_error(405), Trouble.OTHER_INTERFACE),
        (api_error(503), None),
        (ProviderFailure("nothing", transient=True, trouble=Trouble.OTHER_INTERFACE), Trouble.OTHER_INTERFACE),
    ],
)
async def test_what_may_be_wrong_with_the_address_is_told_behind_the_failure(
    error: Exception, trouble: Trouble | None
) -> None:
    assert classify(error).trouble is trouble
    with pytest.raises(ModelFailed) as caught:
        await ask(Model(*[error] * 4), RetryPolicy(), Waits(), remedy=lambda trouble: f"see {trouble.name}")
    told = "" if trouble is None else f" (see {trouble.name})"
    assert str(caught.value).endswith(classify(error).text + told)


HERE = "http://127.0.0.1:8000"


@pytest.mark.parametrize(
    ("ref", "trouble", "told"),
    [
        (ModelRef("local", "m", HERE), Trouble.OTHER_INTERFACE, f"{HERE}/v1: set `base_url` so"),
        (ModelRef("openai", "m", f"{HERE}/"), Trouble.OTHER_INTERFACE, f"{HERE}/v1: set `base_url` so"),
        (ModelRef("local", "m", f"{HERE}/v1"), Trouble.OTHER_INTERFACE, f"{HERE}/v1; see that `base_url`"),
        (ModelRef("anthropic", "m", HERE), Trouble.OTHER_INTERFACE, f"{HERE}; see that `base_url`"),
        (ModelRef("local", "m", "http://ann:pw@h:1/v1"), Trouble.NO_CONNECTION, "to http://h:1/v1; see that a server"),
        (ModelRef("ollama", "m"), Trouble.NO_CONNECTION, "http://127.0.0.1:11434; see that a server listens there"),
        (ModelRef("openai", "m"), Trouble.NO_CONNECTION, "https://api.openai.com/v1; see that this machine reaches it"),
    ],
)
def test_the_remedy_names_the_address_and_what_to_do(ref: ModelRef, trouble: Trouble, told: str) -> None:
    assert told in remedy(ref, trouble)
    assert "pw" not in remedy(ref, trouble)


def test_a_model_that_is_not_there_is_no_fault_of_the_providers_own_address() -> None:
    assert remedy(ModelRef("openai", "m"), Trouble.OTHER_INTERFACE) == ""


async def test_the_caller_hears_of_each_retry_before_its_wait() -> None:
    heard: list[tuple[int, Failure, float, int]] = []
    waits = Waits()

    def listen(failures: int, failure: Failure, delay: float) -> None:
        heard.append((failures, failure, delay, len(waits)))

    await ask(Model(TimeoutError("a"), api_error(500)), RetryPolicy(), waits, on_retry=listen)
    assert heard == [(1, Transient("TimeoutError: a"), 1.0, 0), (2, Transient("500 STATUS: Sorry."), 2.0, 1)]


class _Told(Exception):
    """An error as the clients of OpenAI and Anthropic raise it."""

    def __init__(self, status: int, kind: str, message: str = "Sorry.") -> None:
        super().__init__(f"Error code: {status} - {{...}}")
        self.status_code = status
        self.message = str(self)
        self.body = {"type": "error", "error": {"type": kind, "message": message}}


class APIError(_Told):
    """One that came in the middle of a stream has this very name."""


APIError.__module__ = "openai"


def test_what_the_provider_says_is_told_instead_of_the_whole_answer() -> None:
    assert classify(_Told(529, "overloaded_error")) == Transient("529 overloaded_error: Sorry.")
    assert classify(_Told(401, "authentication_error")) == Permanent("401 authentication_error: Sorry.")
    flat = _Told(400, "")
    flat.body = {"message": f"No, {KEY}.", "type": "invalid_request_error", "code": None}  # type: ignore[dict-item]
    assert classify(flat, [KEY]) == Permanent("400 invalid_request_error: No, ***.")


def test_an_account_without_money_does_not_pass() -> None:
    assert isinstance(classify(_Told(429, "requests")), Transient)
    assert isinstance(classify(_Told(429, "insufficient_quota")), Permanent)


@pytest.mark.parametrize(
    ("kind", "passes"),
    [
        ("server_error", True),
        ("overloaded_error", True),
        ("invalid_request_error", False),
        ("insufficient_quota", False),
    ],
)
def test_an_error_in_a_stream_that_began_well_is_known_by_its_words(kind: str, passes: bool) -> None:
    told = APIError(200, kind)
    assert classify(told) == (Transient if passes else Permanent)(f"{kind}: Sorry.")


def test_a_status_of_200_is_no_failure_to_try_again() -> None:
    assert isinstance(classify(_Told(200, "server_error")), Permanent)


def test_a_broken_connection_is_told_in_its_own_words() -> None:
    wrapped = raised_from(RuntimeError("Connection error."), httpx.ConnectError("refused"))
    assert classify(wrapped) == Transient("ConnectError: refused")
