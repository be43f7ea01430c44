"""An HTTP client of the sessions interface: one method per route, typed results, errors that say what to do.

It takes what any server of this interface answers: unknown fields are ignored, missing ones are none.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import httpx

from agent_md.errors import RequestRefused, ServerUnreachable, UnknownSession, UsageError
from agent_md.executions.json_values import is_too_deep, parse_strictly
from agent_md.executions.sessions import SessionStatus
from agent_md.visible_text import one_line

__all__ = ["Interrupt", "Place", "RemoteSession", "SessionMessage", "SessionsClient", "place_of", "server_of"]

_CONNECT_S = 10.0
_ANSWER_S = 30.0
_LARGEST = 64_000_000
"""Bytes of an answer."""
_BRIEF = 300
_TRY_AGAIN = frozenset({408, 425, 429})
_KEY = re.compile(r"[!-~]+")
_IN_AGENT_PATH = re.compile(r".*/agents/(?P<name>[^/]+)")


@dataclass(frozen=True, slots=True)
class Place:
    """Where sessions are: `base` + `/sessions`. `name` is what to call who is talked to: the agent, or the host."""

    base: str
    name: str
    encrypted: bool
    local: bool


@dataclass(frozen=True, slots=True)
class Interrupt:
    """What a human is asked. `id` is as the server gave it; what has no type here may be any JSON value."""

    id: str | int
    type: str
    payload: Any
    preview: Any = None
    kind: Any = None
    response_schema: Any = None
    proposed_rule: Any = None
    rule: Any = None
    digest: Any = None
    editable: Any = None
    path: Any = None


@dataclass(frozen=True, slots=True)
class RemoteSession:
    """A session as its server shows it. `interrupts` oldest first; `response` is the text of the last answer."""

    id: str
    status: SessionStatus
    response: str | None = None
    error: str | None = None
    interrupts: tuple[Interrupt, ...] = ()
    cut: str | None = None
    """Why `response` is not whole."""


@dataclass(frozen=True, slots=True)
class SessionMessage:
    """A message of the conversation; of one that is no text, its JSON."""

    role: str
    text: str


def place_of(url: str, agent: str | None = None) -> Place:
    """The place that an address names, of one agent if it ends in `/agents/NAME` or `agent` is given.

    Raises UsageError for an address that is none of http or https, has a key or a query in it, or names another agent.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        httpx.URL(url)
    except (ValueError, httpx.InvalidURL):
        raise UsageError(f"{one_line(url)} is no address of a server; give one such as http://127.0.0.1:8000") from None
    if parts.scheme not in ("http", "https") or not host:
        raise UsageError(f"{one_line(url)} is no address of http or https; give one such as http://127.0.0.1:8000")
    if parts.username is not None or parts.password is not None:
        raise UsageError("the address has a name or a password in it; give a key with AGENTMD_API_KEY instead")
    if parts.query or parts.fragment:
        raise UsageError(f"{one_line(url)} has a part after `?` or `#`; give the address without it")
    authority = f"[{host}]" if ":" in host else host
    path = quote(parts.path.rstrip("/").removesuffix("/sessions"), safe="/%:@!$&'()*+,;=~")
    found = _IN_AGENT_PATH.fullmatch(path)
    named = None if found is None else unquote(found["name"])
    if agent is not None and named is None:
        path += f"/agents/{quote(agent, safe='')}"
    elif agent is not None and named is not None and agent.casefold() != named.casefold():
        raise UsageError(f"the address names the agent {one_line(named)}, the command {one_line(agent)}; give one")
    base = f"{parts.scheme}://{authority}{'' if port is None else f':{port}'}{path}"
    local = host == "localhost" or host == "::1" or host.startswith("127.")
    return Place(base, agent or named or host, parts.scheme == "https", local)


def server_of(base: str) -> tuple[str, str | None]:
    """The address of the server that has the sessions of `base`, and the agent that they are with, if it is named."""
    server, named, agent = base.rpartition("/agents/")
    return (server, unquote(agent)) if named else (base, None)


class SessionsClient:
    """The sessions of one place.

    Every method raises ServerUnreachable when there is no answer of use (none at all, a 5xx, no JSON): the same may
    work later; and RequestRefused for an answer of 3xx or 4xx. Redirects are not followed, certificates are checked.
    Each request has a connection of its own, so none goes to one that is about to be closed.
    """

    def __init__(self, base: str, key: str | None = None) -> None:
        """`key` is sent as a bearer token. Raises UsageError for one that no header can hold."""
        self._base = base
        self.key = key
        try:
            self._http = httpx.AsyncClient(limits=httpx.Limits(max_keepalive_connections=0), follow_redirects=False)
        except (ValueError, ImportError, OSError) as error:
            raise UsageError(
                f"the proxy or the certificates that the environment names are of no use: {error}"
            ) from error

    @property
    def key(self) -> str | None:
        return self._key

    @key.setter
    def key(self, key: str | None) -> None:
        if key is not None and _KEY.fullmatch(key) is None:
            raise UsageError("the key has characters that no key has: blanks, or others than those of ASCII")
        self._key = key

    async def create(self) -> RemoteSession:
        """A new session."""
        return await self._new("POST", "/sessions")

    async def create_as(self, session_id: str) -> RemoteSession:
        """A new session of this id."""
        return await self._new("PUT", _path(session_id))

    async def get(self, session_id: str, *, wait: float | None = None) -> RemoteSession:
        """The session; with `wait` as it is when it is not `running` any more, or after so many seconds.

        Raises UnknownSession too, as all that follow do."""
        query = "" if wait is None else f"?wait=true&timeout={wait:g}"
        return _session(await self._of_session(session_id, "GET", query, patience=_ANSWER_S + (wait or 0)))

    async def messages(self, session_id: str) -> list[SessionMessage]:
        """The whole conversation."""
        found = await self._of_session(session_id, "GET", "/messages")
        if not isinstance(found, list) or not all(isinstance(message, dict) for message in found):
            raise _foreign(found)
        return [
            SessionMessage(str(message.get("role", "user")), _text(message.get("content")) or "") for message in found
        ]

    async def post_message(self, session_id: str, text: str) -> None:
        """Begins a turn."""
        await self._of_session(session_id, "POST", "/messages", {"role": "user", "content": text})

    async def delete(self, session_id: str) -> None:
        """Deletes the session."""
        await self._of_session(session_id, "DELETE")

    async def resume(self, session_id: str, interrupt_id: str | int, value: Any) -> None:
        """Answers an interrupt. Unlike the others, raises RequestRefused with 404 for a session that is unknown."""
        await self._request("POST", f"{_path(session_id)}/resume", {"interrupt_id": interrupt_id, "value": value})

    async def beside(self, path: str) -> Any:
        """The response of the agentmd server for a path outside of sessions. Raises RequestRefused with 404 for other
        servers."""
        return await self._request("GET", path, base=server_of(self._base)[0])

    async def close(self) -> None:
        await self._http.aclose()

    async def _new(self, method: str, path: str) -> RemoteSession:
        try:
            return _session(await self._request(method, path, {}))
        except RequestRefused as refused:
            if refused.status == 401 or refused.status < 400:
                raise
            hint = ""
            if refused.status in (404, 422) and _IN_AGENT_PATH.fullmatch(self._base) is None:
                hint = f"; name the agent: agentmd chat NAME --url {self._base}"
            raise RequestRefused(f"no session was begun at {self._base}: {refused}{hint}", refused.status) from refused

    async def _of_session(
        self, session_id: str, method: str, below: str = "", body: Any = None, *, patience: float = _ANSWER_S
    ) -> Any:
        try:
            return await self._request(method, f"{_path(session_id)}{below}", body, patience)
        except RequestRefused as refused:
            if refused.status != 404:
                raise
            raise UnknownSession(f"there is no session {session_id} at {self._base}, or it was deleted") from refused

    async def _request(
        self, method: str, path: str, body: Any = None, patience: float = _ANSWER_S, base: str | None = None
    ) -> Any:
        headers = {"Accept": "application/json"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        if self._key is not None:
            headers["Authorization"] = f"Bearer {self._key}"
        content = None if body is None else json.dumps(body).encode()
        limits = httpx.Timeout(patience, connect=_CONNECT_S)
        try:
            async with (
                asyncio.timeout(patience + _CONNECT_S),
                self._http.stream(
                    method, (base or self._base) + path, content=content, headers=headers, timeout=limits
                ) as answer,
            ):
                data = await _read(answer)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise self._no_answer(error, may_be_done=False) from error
        except (httpx.HTTPError, TimeoutError) as error:
            raise self._no_answer(error, may_be_done=True) from error
        return self._taken(answer, data)

    def _no_answer(self, error: Exception, *, may_be_done: bool) -> ServerUnreachable:
        if _is_refused(error):
            port = urlsplit(self._base).port
            start = f"`agentmd start{'' if port is None else f' --port {port}'}`"
            text = f"nothing answers at {self._base}; is the server started there? {start}"
            return ServerUnreachable(text, may_be_done=may_be_done)
        why = one_line(str(error)) or ("it took too long" if "imeout" in type(error).__name__ else type(error).__name__)
        return ServerUnreachable(f"no answer from {self._base} ({why})", may_be_done=may_be_done)

    def _taken(self, answer: httpx.Response, data: bytes) -> Any:
        """The JSON of a good answer; None of one without a body."""
        status = answer.status_code
        if status >= 500 or status in _TRY_AGAIN:
            raise ServerUnreachable(f"{self._base} answered {status}: {_detail(answer, data)}", may_be_done=True)
        if status == 401:
            given = "no key was given" if self._key is None else "it does not take the one that was given"
            raise RequestRefused(
                f"{self._base} wants a key, and {given}; set AGENTMD_API_KEY, or use --api-key", status
            )
        if 300 <= status < 400:
            where = one_line(answer.headers.get("Location", "nowhere")[:_BRIEF])
            raise RequestRefused(
                f"{self._base} sends to {where}, which is not followed; give the final address", status
            )
        if status >= 400:
            raise RequestRefused(_detail(answer, data), status)
        if not data:
            return None
        try:
            return parse_strictly(data.decode())
        except ValueError:
            raise _foreign(data[:_BRIEF]) from None


def _is_refused(error: BaseException | None) -> bool:
    """Whether nobody listens there; httpx says only that it could not connect."""
    while error is not None:
        each = error.exceptions if isinstance(error, BaseExceptionGroup) else (error,)
        if all(isinstance(one, ConnectionRefusedError) for one in each):
            return True
        error = error.__cause__ or error.__context__
    return False


def _path(session_id: str) -> str:
    """Raises UsageError for an id that has another meaning in a path."""
    if session_id in ("", ".", ".."):
        raise UsageError(f"{session_id!r} is no id of a session")
    return f"/sessions/{quote(session_id, safe='', errors='surrogateescape')}"


async def _read(answer: httpx.Response) -> bytes:
    data = bytearray()
    async for piece in answer.aiter_bytes():
        data += piece
        if len(data) > _LARGEST:
            raise httpx.ReadError(f"the answer is over {_LARGEST:,} bytes")
    return bytes(data)


def _detail(answer: httpx.Response, data: bytes) -> str:
    """What an answer says of why, in one visible line: FastAPI's `detail`, which is a text or a list, else the beginning of
    what it is."""
    return one_line(_said(answer, data))


def _said(answer: httpx.Response, data: bytes) -> str:
    text = data.decode(errors="replace").strip()
    try:
        said = parse_strictly(text)
    except ValueError:
        return (text.partition("\n")[0] if not text.startswith("<") else "")[:_BRIEF] or answer.reason_phrase or "error"
    detail = said.get("detail", said) if isinstance(said, dict) else said
    if isinstance(detail, list) and all(isinstance(item, dict) and "msg" in item for item in detail):
        return "; ".join(
            f"{'.'.join(map(str, _listed(item.get('loc'))))}: {str(item['msg']).removeprefix('Value error, ')}"
            for item in detail
        )
    return detail if isinstance(detail, str) else (_text(detail) or "error")[:_BRIEF]


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _session(data: Any) -> RemoteSession:
    found = data if isinstance(data, dict) else {}
    try:
        status = SessionStatus(str(found.get("status")))
        session_id = found["session_id"]
    except (ValueError, KeyError):
        raise _foreign(data) from None
    if not isinstance(session_id, str):
        raise _foreign(data)
    response = found.get("response")
    content = response.get("content") if isinstance(response, dict) else response
    interrupts = tuple(map(_interrupt, _listed(found.get("interrupts"))))
    error, cut = _text(found.get("error")), _text(found.get("cut"))
    return RemoteSession(session_id, status, _text(content), error, interrupts, cut)


def _interrupt(data: Any) -> Interrupt:
    found = data if isinstance(data, dict) else {}
    interrupt_id = found.get("interrupt_id")
    names = ("payload", "preview", "kind", "response_schema", "proposed_rule", "rule", "digest", "editable", "path")
    payload, *beside = (found.get(name) for name in names)
    if not isinstance(interrupt_id, str | int) or is_too_deep([payload, *beside]):
        raise _foreign(data)
    types = (found.get("type"), payload.get("type") if isinstance(payload, dict) else None, "custom")
    return Interrupt(interrupt_id, next(kind for kind in types if isinstance(kind, str)), payload, *beside)


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return "(nested too deeply)" if is_too_deep(value) else json.dumps(value, ensure_ascii=False)


def _foreign(data: Any) -> ServerUnreachable:
    shown = data.decode(errors="replace") if isinstance(data, bytes) else _text(data) or "nothing"
    return ServerUnreachable(
        f"this is no answer of the sessions interface: {one_line(shown[:_BRIEF])}", may_be_done=True
    )
