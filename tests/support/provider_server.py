"""The loopback server that all providers' servers are made of: turns, failures, cuts, and what was received.

A provider's server says where requests come, what is wrong with one, and how a turn looks on its wire. The turn is the
number of the model's messages in the request, so a repeated call gets the same answer.
"""

from __future__ import annotations

import json
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

__all__ = ["Answer", "Failure", "ProviderServer", "Received", "Wire", "calling", "containing"]


@dataclass
class Failure:
    """What happens instead of an answer: an error status, or (status None) a cut after `cut` pieces.

    `tidy` ends the cut stream as if it were whole; `torn` the same after half of the next piece; `told` ends it with an
    error of the provider, in its own form; else the connection is reset in the middle of the body. `{key}` in the
    message becomes the key that came.
    """

    status: int | None = None
    message: str = "the server says no"
    kind: str | None = None
    """The provider's word for it; None = the one that goes with the status."""
    headers: dict[str, str] = field(default_factory=dict)
    details: list[dict[str, Any]] = field(default_factory=list)
    cut: int = 0
    tidy: bool = False
    torn: bool = False
    told: bool = False


@dataclass
class Answer:
    """One answer in no provider's words. `reason` None = the provider's word for how such an answer ends."""

    text: str = ""
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    thinking: str = ""
    input_tokens: int = 10
    output_tokens: int = 6
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    """Of the output tokens."""
    counted: bool = True
    """Whether a server that speaks like OpenAI tells the usage."""
    reason: str | None = None
    raw_args: list[str] | None = None
    """The arguments of the calls as texts, instead of those in `calls`."""
    failures: list[Failure] = field(default_factory=list)
    """Come first, one a request."""

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Answer:
        return cls(**{**data, "calls": [(name, args) for name, args in data.get("calls", ())]})

    @property
    def words(self) -> list[str]:
        return re.findall(r"\S+\s*", self.text)

    @property
    def args(self) -> list[str]:
        return [json.dumps(args) for _, args in self.calls] if self.raw_args is None else self.raw_args


def containing(text: str, **more: Any) -> Answer:
    """An answer of text, a piece a word."""
    return Answer(text, **more)


def calling(*calls: tuple[str, dict[str, Any]], **more: Any) -> Answer:
    """An answer of tool calls."""
    return Answer(calls=list(calls), **more)


@dataclass
class Received:
    """One request as it came; names of headers are in lower case."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]
    key: str | None = None


@dataclass
class Wire:
    """The body of one response: pieces, and what ends them when they are whole."""

    content_type: str
    pieces: list[bytes]
    end: bytes = b""


class _Turn(Protocol):
    failures: list[Failure]


T = TypeVar("T", bound=_Turn)


class ProviderServer(Generic[T]):
    """Serves the turns on 127.0.0.1 at a free port while it is entered; `requests` holds what came, in order."""

    path: ClassVar[re.Pattern[str]]

    def __init__(self, turns: Iterable[T], on_request: Callable[[Received], None] | None = None) -> None:
        self.turns = list(turns)
        self.requests: list[Received] = []
        self._on_request = on_request
        self._failed: dict[int, int] = {}
        self._lock = threading.Lock()
        self._http = _Http(self)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    # What a provider says

    def key_of(self, headers: dict[str, str]) -> str | None:
        """The key that came."""
        raise NotImplementedError

    def problem(self, received: Received) -> str | None:
        """What the provider would say against the request; None if nothing."""
        raise NotImplementedError

    def turn_of(self, body: dict[str, Any]) -> int:
        """How many messages of the model are in the request."""
        raise NotImplementedError

    def wire(self, turn: T, number: int, received: Received) -> Wire:
        """The response; also the place to remember what was given away."""
        raise NotImplementedError

    def error(self, failure: Failure) -> Any:
        """The JSON body of an error response."""
        raise NotImplementedError

    def error_piece(self, failure: Failure) -> bytes:
        """The piece that tells of an error in the middle of a stream."""
        raise NotImplementedError

    # The server

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [received.body for received in self.requests]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def receive(self, received: Received) -> tuple[Wire | None, Failure | None]:
        """The response to give, and the failure to have instead, if one is due."""
        with self._lock:
            received.key = self.key_of(received.headers)
            self.requests.append(received)
            if self._on_request is not None:
                self._on_request(received)
            if problem := self.problem(received):
                return None, Failure(400, problem)
            number = self.turn_of(received.body)
            if number >= len(self.turns):
                return None, Failure(400, f"the script of this server has {len(self.turns)} turns")
            turn, failed = self.turns[number], self._failed.get(number, 0)
            failure = turn.failures[failed] if failed < len(turn.failures) else None
            self._failed[number] = failed + (failure is not None)
            return self.wire(turn, number, received), failure


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, provider: ProviderServer[Any]) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.provider = provider

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients may hang up in the middle of an answer."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.close_connection = True
        assert isinstance(self.server, _Http)
        self.provider = self.server.provider
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.received = Received(self.path, {name.lower(): value for name, value in self.headers.items()}, body)
        if self.provider.path.fullmatch(self.path) is None:
            self._error(Failure(404, f"there is no {self.path}"))
            return
        wire, failure = self.provider.receive(self.received)
        if failure is not None and failure.status is not None:
            self._error(failure)
            return
        assert wire is not None
        self._stream(wire, failure)

    def _error(self, failure: Failure) -> None:
        assert failure.status is not None
        failure = Failure(**{**vars(failure), "message": failure.message.replace("{key}", self.received.key or "")})
        data = json.dumps(self.provider.error(failure)).encode()
        self.send_response(failure.status or 500)
        for name, value in {
            "Content-Type": "application/json",
            "Content-Length": str(len(data)),
            "Connection": "close",
            **failure.headers,
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, wire: Wire, failure: Failure | None) -> None:
        orderly = failure is None or failure.tidy or failure.torn or failure.told
        if not orderly and failure is not None and failure.cut == 0:
            self._reset()
            return
        self.send_response(200)
        self.send_header("Content-Type", wire.content_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Connection", "close")
        self.end_headers()
        for piece in wire.pieces if failure is None else wire.pieces[: failure.cut]:
            self._piece(piece)
        if last := self._last_piece(wire, failure):
            self._piece(last)
        if orderly:
            self.wfile.write(b"0\r\n\r\n")
        else:
            self._reset()

    def _last_piece(self, wire: Wire, failure: Failure | None) -> bytes:
        if failure is None:
            return wire.end
        if failure.told:
            return self.provider.error_piece(failure)
        return wire.pieces[failure.cut].rstrip()[:-9] + b"\n\n" if failure.torn else b""

    def _piece(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def _reset(self) -> None:
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet: what came is in `requests`."""
