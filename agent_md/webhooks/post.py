"""Sends one HTTP request to a receiver."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Protocol

import httpx

from agent_md import __version__
from agent_md.errors import AddressRefused

__all__ = ["HttpPost", "NotAllowed", "NotSent", "Post", "Reply"]

_CONNECT_S = 5.0
_TOTAL_S = 15.0


@dataclass(frozen=True, slots=True)
class Reply:
    """How a receiver answered. `retry_after` in seconds, if it asked for that."""

    status: int
    retry_after: float | None = None


class NotSent(Exception):
    """There was no answer, or nothing could be sent; the text says why, and shows no part of the request."""


class NotAllowed(NotSent):
    """The address must not be reached; it is refused again until the settings or the address change."""


class Post(Protocol):
    """Sends one body. Raises NotSent; NotAllowed if it never goes there."""

    async def __call__(self, url: str, headers: Mapping[str, str], body: bytes) -> Reply: ...


class HttpPost:
    """`Post` by HTTP. Redirects are not followed, and of the answer nothing but status and headers is read.

    No client of httpx is used: it logs whole addresses, and with them what is secret in their paths.
    """

    def __init__(
        self, transport: httpx.AsyncBaseTransport, *, connect: float = _CONNECT_S, total: float = _TOTAL_S
    ) -> None:
        """`connect` and `total` are seconds for one address to connect, and for all until the headers are here."""
        self._transport = transport
        self._timeout = httpx.Timeout(total, connect=connect)
        self._total = total

    async def __call__(self, url: str, headers: Mapping[str, str], body: bytes) -> Reply:
        try:
            request = httpx.Request(
                "POST",
                url,
                headers={"Content-Type": "application/json", "User-Agent": f"agentmd/{__version__}", **headers},
                content=body,
                extensions={"timeout": self._timeout.as_dict()},
            )
            async with asyncio.timeout(self._total):
                response = await self._transport.handle_async_request(request)
                await response.aclose()
        except AddressRefused as error:
            raise NotAllowed(str(error)) from None
        except TimeoutError:
            raise NotSent(f"no answer within {self._total:g} s") from None
        except (httpx.TransportError, httpx.InvalidURL, OSError) as error:
            raise NotSent(f"the connection failed ({type(error).__name__})") from None
        return Reply(response.status_code, _seconds(response.headers.get("Retry-After", "")))


def _seconds(retry_after: str) -> float | None:
    """Seconds, from a number of them or a date; None for anything else."""
    text = retry_after.strip()
    if text.isascii() and text.isdigit():
        return float(text[:9])
    try:
        return max(0.0, parsedate_to_datetime(text).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None
