"""A server that is reached over streamable HTTP: only at its own address, with answers of bounded size."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import httpx

from agent_md.tools.mcp.messages import LONGEST_MESSAGE, MOST_VALUES, ValueCount

__all__ = ["http_client_factory"]

_BEFORE = 3
"""Bytes of the piece before that may begin the end of an event."""


def http_client_factory(url: str, died: Callable[[str], None]) -> Callable[..., httpx.AsyncClient]:
    """Makes the clients for this address; `died` is called with what a server did that it is done with for.

    Proxies of the environment are not used, and redirects that leave the address's origin are not followed: its headers
    hold keys.
    """

    def make(
        headers: dict[str, str] | None = None, timeout: httpx.Timeout | None = None, auth: httpx.Auth | None = None
    ) -> httpx.AsyncClient:
        return httpx.AsyncClient(
            headers={**(headers or {}), "Accept-Encoding": "identity"},
            timeout=timeout,
            auth=auth,
            transport=_OwnOrigin(httpx.URL(url), died),
            follow_redirects=False,
            trust_env=False,
        )

    return make


class _OwnOrigin(httpx.AsyncBaseTransport):
    def __init__(self, url: httpx.URL, died: Callable[[str], None]) -> None:
        self._url = url
        self._died = died
        self._inner = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if (request.url.host, request.url.port) != (self._url.host, self._url.port):
            raise httpx.UnsupportedProtocol(f"it sends on to {request.url.host}, which is not asked", request=request)
        response = await self._inner.handle_async_request(request)
        if "content-encoding" in response.headers:
            await response.aclose()
            raise self._fault("it answered with an encoding that was not asked for")
        assert isinstance(response.stream, httpx.AsyncByteStream)
        of_events = response.headers.get("content-type", "").lower().startswith("text/event-stream")
        response.stream = _Bounded(response.stream, self._fault, of_events=of_events)
        return response

    def _fault(self, text: str) -> httpx.ReadError:
        self._died(text)
        return httpx.ReadError(text)

    async def aclose(self) -> None:
        await self._inner.aclose()


class _Bounded(httpx.AsyncByteStream):
    """The body of an answer, as long as it, or each event of a stream, is of a size that a message may have."""

    def __init__(self, inner: httpx.AsyncByteStream, fault: Callable[[str], Exception], *, of_events: bool) -> None:
        self._inner = inner
        self._fault = fault
        self._of_events = of_events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        size, values, before = 0, ValueCount(), b""
        async for chunk in self._inner:
            begun = chunk
            if self._of_events and (end := _end_of_event(before + chunk)) is not None:
                begun, size, values = (before + chunk)[end:], 0, ValueCount()
            before = chunk[-_BEFORE:]
            size += len(begun)
            if size > LONGEST_MESSAGE:
                raise self._fault(f"it sent a message of more than {LONGEST_MESSAGE >> 20} MiB")
            if values.add(begun) > MOST_VALUES:
                raise self._fault(f"it sent a message of more than {MOST_VALUES} values")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


def _end_of_event(data: bytes) -> int | None:
    """Where the last event in it ends; None if none does."""
    ends = [data.rfind(blank) + len(blank) for blank in (b"\n\n", b"\r\n\r\n") if blank in data]
    return max(ends, default=None)
