"""Middleware for every request: checks the key on TCP, and limits the size of bodies."""

from __future__ import annotations

import hmac
import re
from collections.abc import Callable

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

__all__ = ["BODY_LIMIT", "OPEN_PATHS", "PAGES", "SIGNED_PATH", "BodyLimit", "KeyGuard"]

OPEN_PATHS = frozenset({"/health", "/agents/{name}/health", "/openapi.json"})
"""Served without a key."""

SIGNED_PATH = "/agents/{name}/hooks"
"""Served without a key to those who sign what they send, and to nobody else."""

PAGES = "/ui"
"""The pages, and all below it: they know their visitors by a login."""

_OPEN = re.compile(
    "|".join(re.escape(path).replace(r"\{name\}", "[^/]+") for path in (*OPEN_PATHS, SIGNED_PATH)) + f"|{PAGES}(/.*)?"
)

BODY_LIMIT = 2**20
"""Bytes of a request body."""


class KeyGuard:
    """Lets requests of the Unix socket through, and those of TCP with the key; 401 for all others."""

    def __init__(self, app: ASGIApp, key: Callable[[], str | None]) -> None:
        """`key`: the one in effect now; with None or an empty one nobody comes in by TCP."""
        self._app = app
        self._key = key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _is_local(scope) or _OPEN.fullmatch(scope["path"]) or self._has_key(scope):
            await self._app(scope, receive, send)
            return
        refused = JSONResponse(
            {"detail": "a key is needed: send it as X-API-Key or as Authorization: Bearer"},
            401,
            {"WWW-Authenticate": "Bearer"},
        )
        await refused(scope, receive, send)

    def _has_key(self, scope: Scope) -> bool:
        headers = Headers(scope=scope)
        scheme, _, token = headers.get("authorization", "").partition(" ")
        given = headers.get("x-api-key") or (token.strip() if scheme.lower() == "bearer" else "")
        key = self._key() or ""
        return bool(key) and hmac.compare_digest(given.encode("latin-1"), key.encode())


def _is_local(scope: Scope) -> bool:
    """Whether the request came by the Unix socket: such a server address has no port."""
    server = scope.get("server")
    return server is not None and server[1] is None


class BodyLimit:
    """Refuses bodies over the limit with 413, whatever their headers say."""

    def __init__(self, app: ASGIApp, limit: int = BODY_LIMIT) -> None:
        self._app = app
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            body = await self._read(receive)
        except ClientDisconnect:  # half a body must not pass for a whole one
            return
        if body is None:
            refused = JSONResponse({"detail": f"the body is over {self._limit} bytes"}, 413)
            await refused(scope, receive, send)
            return
        await self._app(scope, _replay(body, receive), send)

    async def _read(self, receive: Receive) -> bytes | None:
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] != "http.request":
                raise ClientDisconnect
            body += message.get("body", b"")
            if len(body) > self._limit:
                return None
            if not message.get("more_body", False):
                return bytes(body)


def _replay(body: bytes, receive: Receive) -> Receive:
    given = False

    async def replay() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replay
