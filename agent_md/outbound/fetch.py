"""One HTTP request for somebody else, with its redirects: bounded in size and time, and nothing of the answer is trusted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urljoin

import httpx

from agent_md import __version__
from agent_md.errors import AddressRefused
from agent_md.outbound.urls import normalised_url, origin_of
from agent_md.redaction import Redactor

__all__ = ["Fetched", "Limits", "MayFollow", "NoAnswer", "NothingSent", "Outgoing", "fetch"]

MayFollow = Callable[[str, str], str | None]
"""Why a redirect to a method and an address is not followed; None = it is."""

_KEPT_ELSEWHERE = frozenset({"accept", "accept-language", "content-type", "user-agent"})
"""Headers that go along to another origin."""
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


class NothingSent(Exception):
    """The request did not leave; the text says why."""


class NoAnswer(Exception):
    """The request was sent, perhaps in part, and no answer came; the text says why."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds for one address to connect, and for everything together; bytes of a body, as it comes and unpacked; and how
    many redirects are followed."""

    connect: float = 10.0
    total: float = 60.0
    body: int = 5 * 1024 * 1024
    redirects: int = 5


_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A request. `url` is normalised; `sent_url` is the same with secrets in it, and so are those `headers` whose names are
    `secret_headers`. `secrets` finds them in texts."""

    method: str
    url: str
    sent_url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    secret_headers: frozenset[str] = frozenset()
    body: bytes = b""
    secrets: Redactor = field(default_factory=Redactor, repr=False)


@dataclass(frozen=True, slots=True)
class Fetched:
    """The last answer. `url` is where it came from; `broken` says why its body is not whole, `not_followed` why a redirect
    was not followed."""

    status: int
    url: str
    headers: httpx.Headers
    body: bytes
    broken: str | None = None
    not_followed: str | None = None


async def fetch(
    transport: httpx.AsyncBaseTransport, request: Outgoing, may_follow: MayFollow, limits: Limits = _LIMITS
) -> Fetched:
    """The answer to a request, after the redirects that may be followed.

    The next request of a redirect has the method that browsers use. On the way to another origin it loses all headers but
    a few harmless ones, and one whose address holds a secret is not made. What fails behind a redirect is told in
    `not_followed` of the redirect itself. No client of httpx is used: it logs whole addresses. Raises NothingSent and
    NoAnswer.
    """
    deadline = asyncio.get_running_loop().time() + limits.total
    fetched = await _exchange(transport, request, limits, deadline)
    for _ in range(limits.redirects):
        following = _redirected(request, fetched, may_follow)
        if following is None:
            return fetched
        if isinstance(following, str):
            return replace(fetched, not_followed=following)
        try:
            request, fetched = following, await _exchange(transport, following, limits, deadline)
        except (NothingSent, NoAnswer) as error:
            return replace(fetched, not_followed=str(error))
    if _redirected(request, fetched, may_follow) is not None:
        return replace(fetched, not_followed=f"there were more than {limits.redirects} redirects")
    return fetched


async def _exchange(transport: httpx.AsyncBaseTransport, request: Outgoing, limits: Limits, deadline: float) -> Fetched:
    """One request and its answer."""
    try:
        async with asyncio.timeout_at(deadline):
            response = await transport.handle_async_request(_on_the_wire(request, limits))
    except AddressRefused as error:
        raise NothingSent(str(error)) from None
    except (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol, httpx.LocalProtocolError) as error:
        raise NothingSent(f"no connection ({_said(request, error)})") from None
    except (TimeoutError, httpx.TimeoutException):
        raise NoAnswer(f"no answer within {limits.total:g} s") from None
    except (httpx.TransportError, OSError) as error:
        raise NoAnswer(f"the connection ended before an answer ({_said(request, error)})") from None
    try:
        body, broken = await _body(response, limits, deadline)
    finally:
        await response.aclose()
    return Fetched(response.status_code, request.url, response.headers, body, broken)


def _on_the_wire(request: Outgoing, limits: Limits) -> httpx.Request:
    own = {
        "Accept": "*/*",
        "Accept-Encoding": "identity",  # so that no small answer becomes a large one
        "User-Agent": f"agentmd/{__version__}",
    }
    given = {name.lower() for name in request.headers}
    headers = {**{name: value for name, value in own.items() if name.lower() not in given}, **request.headers}
    timeout = httpx.Timeout(limits.total, connect=limits.connect)
    try:
        return httpx.Request(
            request.method,
            request.sent_url,
            headers=[(name.encode(), value.encode()) for name, value in headers.items()],
            content=request.body or None,
            extensions={"timeout": timeout.as_dict()},
        )
    except (httpx.InvalidURL, ValueError):
        raise NothingSent("the address cannot be used") from None


def _said(request: Outgoing, error: Exception) -> str:
    text = request.secrets.text(str(error))
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


async def _body(response: httpx.Response, limits: Limits, deadline: float) -> tuple[bytes, str | None]:
    """What came of the body within the limits, and why that is not all of it."""
    body = bytearray()
    try:
        async with asyncio.timeout_at(deadline):
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > limits.body:
                    return bytes(body[: limits.body]), f"the body is longer than {limits.body} bytes"
    except (TimeoutError, httpx.TimeoutException):
        return bytes(body), f"the body did not end within {limits.total:g} s"
    except (httpx.TransportError, OSError) as error:
        return bytes(body), f"the connection ended within the body ({type(error).__name__})"
    return bytes(body), None


def _redirected(request: Outgoing, fetched: Fetched, may_follow: MayFollow) -> Outgoing | str | None:
    """The request of a redirect, or why it is not made; None if it is no redirect."""
    location = fetched.headers.get("Location")
    if fetched.status not in _REDIRECTS or location is None:
        return None
    try:
        url = normalised_url(urljoin(request.sent_url, location))
    except ValueError as error:
        return f"its address is not usable: {error}"
    method = _method(request.method, fetched.status)
    if (why := may_follow(method, url)) is not None:
        return why
    same_origin = origin_of(url) == origin_of(request.url)
    if not same_origin and request.secrets.text(url) is not url:
        return "its address holds a secret, which is not sent to another host"
    body = request.body if method == request.method else b""
    kept = [name for name in request.headers if body or name.lower() != "content-type"]
    if not same_origin:
        kept = [name for name in kept if name.lower() in _KEPT_ELSEWHERE and name not in request.secret_headers]
    headers = {name: request.headers[name] for name in kept}
    return replace(request, method=method, url=url, sent_url=url, headers=headers, body=body)


def _method(method: str, status: int) -> str:
    if (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST"):
        return "GET"
    return method
