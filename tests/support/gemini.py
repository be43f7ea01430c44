"""A loopback server that speaks Gemini's REST wire format from a list of turns.

The turn is the number of `model` contents in the request, so a repeated call gets the same answer. In a test:

    with GeminiServer([calls(("file_delete", {"path": "a"}, "c2ln")), text("Done.")]) as server:
        ModelRef("google", "gemini-2.5-flash", server.url)

For processes: `python -m tests.support.gemini --script FILE [--log FILE]` reads the turns as JSON, prints its port on
the first line, appends each request to the log as a line of JSON, and ends when its standard input does.
"""

from __future__ import annotations

import argparse
import json
import re
import socket
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

Part = dict[str, Any]

_PATH = re.compile(r"/(v1|v1beta)/models/([^/:]+):(generateContent|streamGenerateContent)(\?alt=sse)?")


@dataclass
class Failure:
    """What happens instead of an answer: an error status, or (status None) a cut after `cut` chunks.

    `tidy` ends the cut stream as if it were whole; else the connection is reset in the middle of the body.
    """

    status: int | None = None
    message: str = "the server says no"
    headers: dict[str, str] = field(default_factory=dict)
    details: list[dict[str, Any]] = field(default_factory=list)
    cut: int = 0
    tidy: bool = False


@dataclass
class Turn:
    """One answer as its chunks, each a list of parts. Usage is counted up over the chunks, as Gemini does."""

    chunks: list[list[Part]]
    prompt_tokens: int = 10
    output_tokens: int = 6
    thought_tokens: int = 0
    finish_reason: str = "STOP"
    model_version: str = "gemini-2.5-flash"
    failures: list[Failure] = field(default_factory=list)
    """Come first, one a request."""
    block_reason: str | None = None

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Turn:
        return cls(**{**data, "failures": [Failure(**failure) for failure in data.get("failures", ())]})


def text(words: str, **options: Any) -> Turn:
    """An answer of text, a chunk a word."""
    return Turn([[{"text": word}] for word in re.findall(r"\S+\s*", words)], **options)


def calls(*wanted: tuple[str, dict[str, Any], str | None], **options: Any) -> Turn:
    """An answer of function calls (name, args, thought signature in base64), a chunk each."""
    return Turn([[call_part(*one)] for one in wanted], **options)


def call_part(name: str, args: dict[str, Any], signature: str | None = None) -> Part:
    part: Part = {"functionCall": {"name": name, "args": args}}
    return part if signature is None else {**part, "thoughtSignature": signature}


@dataclass
class Received:
    """One request as it came."""

    path: str
    key: str | None
    body: dict[str, Any]


class GeminiServer:
    """Serves the turns on 127.0.0.1 at a free port while it is entered; `requests` holds what came, in order."""

    def __init__(self, turns: Iterable[Turn], on_request: Callable[[Received], None] | None = None) -> None:
        self.turns = list(turns)
        self.requests: list[Received] = []
        self._on_request = on_request
        self._signatures: dict[str, set[str]] = {}
        self._failed: dict[int, int] = {}
        self._lock = threading.Lock()
        self._http = _Http(self)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    @property
    def port(self) -> int:
        return int(self._http.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> GeminiServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def receive(self, received: Received) -> tuple[Turn | None, Failure | None]:
        """The turn to serve, and the failure to have instead, if one is due."""
        with self._lock:
            self.requests.append(received)
            if self._on_request is not None:
                self._on_request(received)
            contents = received.body.get("contents", [])
            if problem := shape_problem(contents) or self._signature_problem(contents):
                return None, Failure(400, problem)
            number = sum(content.get("role") == "model" for content in contents)
            if number >= len(self.turns):
                return None, Failure(400, f"the script of this server has {len(self.turns)} turns")
            turn, failed = self.turns[number], self._failed.get(number, 0)
            if failed < len(turn.failures):
                self._failed[number] = failed + 1
                return turn, turn.failures[failed]
            for part in (part for chunk in turn.chunks for part in chunk):
                if "functionCall" in part and "thoughtSignature" in part:
                    self._signatures.setdefault(_call_key(part), set()).add(part["thoughtSignature"])
            return turn, None

    def _signature_problem(self, contents: list[dict[str, Any]]) -> str | None:
        for part in (part for content in contents for part in content.get("parts", ())):
            if "functionCall" not in part:
                continue
            sent = self._signatures.get(_call_key(part))
            if sent is not None and part.get("thoughtSignature") not in sent:
                return f"Function call {part['functionCall']['name']} is missing its thought_signature"
        return None


def shape_problem(contents: list[dict[str, Any]]) -> str | None:
    """What Gemini would say against the order of turns, None if nothing."""
    if not contents:
        return "contents is not specified"
    asked: list[str] = []
    for index, content in enumerate(contents):
        parts = content.get("parts") or []
        role = content.get("role")
        if not parts or role not in ("user", "model", "function"):
            return f"contents[{index}] has role {role} and {len(parts)} parts"
        answered = [part["functionResponse"]["name"] for part in parts if "functionResponse" in part]
        if answered != asked:
            return (
                "Please ensure that function response turn comes immediately after a function call turn and that the "
                f"number of function response parts equals it: contents[{index}] answers {answered}, asked {asked}"
            )
        asked = [part["functionCall"]["name"] for part in parts if "functionCall" in part]
        if asked and (role != "model" or index == 0 or contents[index - 1].get("role") == "model"):
            return "Please ensure that function call turn comes immediately after a user or function response turn"
    return None if not asked else f"the calls {asked} have no response"


def _call_key(part: Part) -> str:
    call = part["functionCall"]
    return json.dumps([call["name"], call.get("args", {})], sort_keys=True)


def _responses(turn: Turn) -> list[dict[str, Any]]:
    """The bodies of the chunks, usage counted up and the reason to finish in the last."""
    if turn.block_reason is not None:
        return [{"promptFeedback": {"blockReason": turn.block_reason}, "modelVersion": turn.model_version}]
    bodies = []
    for number, parts in enumerate(turn.chunks, 1):
        output = turn.output_tokens * number // len(turn.chunks)
        usage = {
            "promptTokenCount": turn.prompt_tokens,
            "candidatesTokenCount": output,
            "totalTokenCount": turn.prompt_tokens + output + turn.thought_tokens,
        }
        if turn.thought_tokens:
            usage["thoughtsTokenCount"] = turn.thought_tokens
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
        if number == len(turn.chunks):
            candidate["finishReason"] = turn.finish_reason
            candidate["safetyRatings"] = [{"category": "HARM_CATEGORY_HARASSMENT", "probability": "NEGLIGIBLE"}]
        bodies.append({"candidates": [candidate], "usageMetadata": usage, "modelVersion": turn.model_version})
    return bodies


def _merged(bodies: list[dict[str, Any]]) -> dict[str, Any]:
    whole = dict(bodies[-1])
    if "candidates" in whole:
        parts = [part for body in bodies for part in body["candidates"][0]["content"]["parts"]]
        whole["candidates"] = [{**whole["candidates"][0], "content": {"role": "model", "parts": parts}}]
    return whole


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, gemini: GeminiServer) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.gemini = gemini


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.close_connection = True
        found = _PATH.fullmatch(self.path)
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if found is None:
            self._error(Failure(404, f"there is no {self.path}"))
            return
        assert isinstance(self.server, _Http)
        turn, failure = self.server.gemini.receive(Received(self.path, self.headers.get("x-goog-api-key"), body))
        if failure is not None and failure.status is not None:
            self._error(failure)
            return
        assert turn is not None
        if found[3] == "generateContent":
            self._whole(turn, failure)
        else:
            self._stream(turn, failure)

    def _error(self, failure: Failure) -> None:
        assert failure.status is not None
        message = failure.message.replace("{key}", self.headers.get("x-goog-api-key") or "")
        error = {
            "code": failure.status,
            "message": message,
            "status": _STATUSES.get(failure.status, "UNKNOWN"),
            "details": failure.details,
        }
        self._send(failure.status, json.dumps({"error": error}).encode(), failure.headers)

    def _whole(self, turn: Turn, failure: Failure | None) -> None:
        if failure is None:
            self._send(200, json.dumps(_merged(_responses(turn))).encode(), {})
        else:
            self._reset()

    def _send(self, status: int, body: bytes, headers: dict[str, str]) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, turn: Turn, failure: Failure | None) -> None:
        if failure is not None and failure.cut == 0 and not failure.tidy:
            self._reset()
            return
        bodies = _responses(turn)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.send_header("Connection", "close")
        self.end_headers()
        for body in bodies if failure is None else bodies[: failure.cut]:
            data = b"data: " + json.dumps(body).encode() + b"\r\n\r\n"
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()
        if failure is None or failure.tidy:
            self.wfile.write(b"0\r\n\r\n")
        else:
            self._reset()

    def _reset(self) -> None:
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet: what came is in `requests`."""


_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
}


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--script", type=Path, required=True)
    parser.add_argument("--log", type=Path)
    options = parser.parse_args()

    def note(received: Received) -> None:
        if options.log is not None:
            with options.log.open("a") as log:
                log.write(json.dumps({"path": received.path, "body": received.body}) + "\n")

    turns = [Turn.from_json(turn) for turn in json.loads(options.script.read_text())]
    with GeminiServer(turns, note) as server:
        print(server.port, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    _main()
