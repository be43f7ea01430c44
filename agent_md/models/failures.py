"""Classifies errors of models: whether to retry, and the message for people.

Errors of providers are known by their class names and HTTP codes, so that nothing of a provider is imported here.
"""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from enum import Enum, auto
from typing import Any

from agent_md.errors import ModelFailed
from agent_md.executions.error_text import bounded

__all__ = [
    "Failure",
    "Permanent",
    "ProviderFailure",
    "Transient",
    "Trouble",
    "classify",
    "mask",
]


class Trouble(Enum):
    """What may be wrong with the address that was asked."""

    NO_CONNECTION = auto()
    """Nobody listens there."""
    OTHER_INTERFACE = auto()
    """Somebody does, who knows nothing of what was asked."""


@dataclass(frozen=True, slots=True)
class Transient:
    """Another attempt may succeed. `retry_after` is what the provider asked to wait, in seconds, if it did."""

    text: str
    retry_after: float | None = None
    trouble: Trouble | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Permanent:
    """The same call would fail again."""

    text: str
    trouble: Trouble | None = field(default=None, compare=False)


Failure = Transient | Permanent


class ProviderFailure(ModelFailed):
    """A failure that we found ourselves; `transient` says whether another attempt may succeed."""

    def __init__(self, message: str, *, transient: bool, trouble: Trouble | None = None) -> None:
        super().__init__(message)
        self.transient = transient
        self.trouble = trouble


def classify(error: BaseException, secrets: Collection[str] = ()) -> Failure:
    """Transient for 408, 429, 5xx, timeouts and broken connections; Permanent for everything else.

    The text is what was said, whole unless it has more than 120,000 characters, without any of `secrets` and without
    what looks like a key.
    """
    if isinstance(error, ProviderFailure):
        words = bounded(mask(str(error), secrets))
        return Transient(words, None, error.trouble) if error.transient else Permanent(words, error.trouble)
    chain = list(_chain(error))
    broken = _broken_connection(chain)
    status = None if broken is not None else next(filter(None, map(_status, chain)), None)
    kind, message = _told(chain) if broken is None else (None, None)
    words = _text(chain, status, kind, message) if broken is None else _named(broken)
    text = bounded(mask(words, secrets))
    transient = broken is not None or (
        _passes(status, kind) if status is not None else _says_so(chain) or _in_stream(chain, kind)
    )
    trouble = _trouble(chain, status)
    return Transient(text, _retry_after(chain), trouble) if transient else Permanent(text, trouble)


_NO_CONNECTION = {
    *("ConnectError", "ConnectTimeout", "ConnectionRefusedError", "ConnectionError", "gaierror"),
    *("ClientConnectorError", "ClientConnectorDNSError", "ClientConnectorCertificateError", "ClientConnectorSSLError"),
}
"""Names of errors of the transport that say that there was no connection at all."""


def _trouble(chain: list[BaseException], status: int | None) -> Trouble | None:
    if status in (404, 405):
        return Trouble.OTHER_INTERFACE
    return Trouble.NO_CONNECTION if any(type(error).__name__ in _NO_CONNECTION for error in chain) else None


_KEY_SHAPES = (
    (re.compile(r"(?i)((?:authorization|x-goog-api-key|x-api-key)['\"]?\s*[:=]\s*)[^\r\n,}]+"), r"\1***"),
    (re.compile(r"(?i)([?&](?:api_?|access_?)?(?:key|token)=)[^\s&#'\"]+"), r"\1***"),
    (re.compile(r"(?i)(\bbearer\s+)[\w.~+/=-]+"), r"\1***"),
    (re.compile(r"\bAIza[\w-]{20,}|\bsk-[\w-]{16,}"), "***"),
)


_SHORTEST_SECRET = 6
"""A shorter key is no secret, and in any text there are its letters."""


def mask(text: str, secrets: Collection[str] = ()) -> str:
    """The text with `***` in place of the given secrets (from 6 characters on), of `key=` values, of authorization
    headers and of key shapes."""
    for secret in sorted((one for one in secrets if len(one) >= _SHORTEST_SECRET), key=len, reverse=True):
        text = text.replace(secret, "***")
    for shape, replacement in _KEY_SHAPES:
        text = shape.sub(replacement, text)
    return text


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and what it was raised from, outermost first."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or (None if current.__suppress_context__ else current.__context__)


def _status(error: BaseException) -> int | None:
    """The HTTP status an error carries as `status`, `code` or `status_code`, whichever is a number. That of a stream
    that began well and then told of an error says nothing."""
    for name in ("status", "code", "status_code"):
        value = getattr(error, name, None)
        if isinstance(value, int) and 300 <= value < 600:
            return value
    return None


def _passes(status: int, kind: str | None) -> bool:
    # OpenAI's 429 for an account without money.
    return (status in (408, 429) and kind != "insufficient_quota") or status >= 500


_MISTAKES = {
    "authentication_error",
    "billing_error",
    "insufficient_quota",
    "invalid_request_error",
    "not_found_error",
    "permission_error",
    "request_too_large",
}
"""What providers call failures that the same request would meet again."""


def _in_stream(chain: list[BaseException], kind: str | None) -> bool:
    """Whether a server told of a failure of its own in the middle of an answer."""
    told = any(
        type(error).__module__.split(".")[0] in ("openai", "anthropic", "ollama")
        and (type(error).__name__ in ("APIError", "ResponseError") or getattr(error, "status_code", None) == 200)
        for error in chain
    )
    return told and kind not in _MISTAKES


def _told(chain: list[BaseException]) -> tuple[str | None, str | None]:
    """What the provider's answer calls the failure, and says of it, as OpenAI, Anthropic and Ollama put it."""
    for error in chain:
        body, words = getattr(error, "body", None), getattr(error, "error", None)
        inner = body.get("error", body) if isinstance(body, Mapping) else None
        if isinstance(inner, Mapping) and isinstance(inner.get("message"), str):
            kind = inner.get("type")
            return kind if isinstance(kind, str) else None, inner["message"]
        if isinstance(words, str) and words:
            return None, words
    return None, None


def _says_so(chain: list[BaseException]) -> bool:
    """langchain's own mark of errors that another attempt may not meet."""
    return any(getattr(error, "is_retryable", False) is True for error in chain)


_TRANSPORT = {
    "httpx": {"TransportError"},
    "httpx2": {"TransportError"},
    "aiohttp": {"ClientConnectionError", "ClientPayloadError"},
    "requests": {"ConnectionError", "Timeout"},
    # The API's answer was cut in the middle of a line.
    "google": {"UnknownApiResponseError", "TransportError"},
}
_OWN_MISTAKES = {"UnsupportedProtocol", "LocalProtocolError"}
_LOCAL_FILES = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError, ssl.SSLCertVerificationError)


def _broken_connection(chain: list[BaseException]) -> BaseException | None:
    """The outermost informative error, if it is one of the transport. Causes of a transport error may contain numbers
    that look like a status but are not."""
    if any(isinstance(error, _LOCAL_FILES) or type(error).__name__ in _OWN_MISTAKES for error in chain):
        return None
    telling = next((error for error in chain if _is_transport(error) or _status(error) is not None), None)
    return telling if telling is not None and _is_transport(telling) else None


def _is_transport(error: BaseException) -> bool:
    if isinstance(error, OSError):
        return True
    return any(kind.__name__ in _TRANSPORT.get(kind.__module__.split(".")[0], ()) for kind in type(error).__mro__)


def _text(chain: list[BaseException], status: int | None, kind: str | None, told: str | None) -> str:
    """`503 UNAVAILABLE: The model is overloaded.` where the parts are known, else the error's own words."""
    if status is not None and status < 400:
        return f"{status}: the server sends elsewhere, which is not followed; give the address itself as base_url"
    if told is not None:
        return f"{' '.join(str(part) for part in (status, kind) if part)}: {told}".removeprefix(": ")
    for error in chain:
        message, name = getattr(error, "message", None), getattr(error, "status", None)
        if status is not None and isinstance(message, str) and message:
            return f"{status} {name}: {message}" if isinstance(name, str) else f"{status}: {message}"
    return _named(chain[0], str(chain[-1]))


def _named(error: BaseException, otherwise: str = "") -> str:
    words = str(error) or otherwise
    return f"{type(error).__name__}: {words}" if words else type(error).__name__


def _retry_after(chain: list[BaseException]) -> float | None:
    for error in chain:
        headers = getattr(getattr(error, "response", None), "headers", None)
        seconds = _header_seconds(headers) if isinstance(headers, Mapping) else None
        if seconds is None:
            seconds = _retry_info(getattr(error, "details", None))
        if seconds is not None:
            return seconds
    return None


def _header_seconds(headers: Mapping[str, str]) -> float | None:
    """A `Retry-After` in seconds, or until its date. The server's own clock counts, where it tells it."""
    value = headers.get("retry-after")
    if (seconds := _seconds(value)) is not None:
        return seconds
    until = _moment(value)
    if until is None:
        return None
    return max(0.0, until - (_moment(headers.get("date")) or time.time()))


def _moment(value: str | None) -> float | None:
    """A date of HTTP in seconds since 1970."""
    try:
        return None if value is None else parsedate_to_datetime(value).timestamp()
    except (ValueError, OverflowError):
        return None


def _retry_info(body: Any) -> float | None:
    """The `retryDelay` of a google.rpc.RetryInfo in an error's body, such as `13s`."""
    error = body.get("error") if isinstance(body, Mapping) else None
    details = error.get("details") if isinstance(error, Mapping) else None
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, Mapping) else None
        if isinstance(delay, str) and delay.endswith("s"):
            return _seconds(delay[:-1])
    return None


def _seconds(value: Any) -> float | None:
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        return None
    return seconds if 0 <= seconds < float("inf") else None
