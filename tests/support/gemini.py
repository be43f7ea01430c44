"""A loopback server that speaks Gemini's REST wire format from a list of turns. In a test:

    with GeminiServer([calls(("file_delete", {"path": "a"}, "c2ln")), text("Done.")]) as server:
        ModelRef("google", "gemini-2.5-flash", server.url)

For processes: `python -m tests.support.gemini --script FILE [--log FILE]` reads the turns as JSON, prints its port on
the first line, appends each request to the log as a line of JSON, and ends when its standard input does.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.provider_server import Answer, Failure, ProviderServer, Received, Wire

__all__ = ["Failure", "GeminiServer", "Turn", "call_part", "calls", "shape_problem", "text"]

Part = dict[str, Any]


@dataclass
class Turn:
    """One answer as its chunks, each a list of parts. Usage is counted up over the chunks, as Gemini does."""

    chunks: list[list[Part]]
    prompt_tokens: int = 10
    output_tokens: int = 6
    thought_tokens: int = 0
    cached_tokens: int = 0
    finish_reason: str = "STOP"
    model_version: str = "gemini-2.5-flash"
    failures: list[Failure] = field(default_factory=list)
    """Come first, one a request."""
    block_reason: str | None = None

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Turn:
        return cls(**{**data, "failures": [Failure(**failure) for failure in data.get("failures", ())]})

    @classmethod
    def of(cls, answer: Answer) -> Turn:
        """A neutral answer; the first of its calls carries a thought signature."""
        parts = [{"text": word} for word in answer.words]
        signatures = ["c2lnbmF0dXJl", *[None] * len(answer.calls)]
        parts += [
            call_part(name, args, signature) for (name, args), signature in zip(answer.calls, signatures, strict=False)
        ]
        return cls(
            [[part] for part in parts] or [[]],
            prompt_tokens=answer.input_tokens,
            output_tokens=answer.output_tokens - answer.reasoning_tokens,
            thought_tokens=answer.reasoning_tokens,
            cached_tokens=answer.cached_tokens,
            failures=answer.failures,
            finish_reason=answer.reason or "STOP",
        )


def text(words: str, **options: Any) -> Turn:
    """An answer of text, a chunk a word."""
    return Turn([[{"text": word}] for word in re.findall(r"\S+\s*", words)], **options)


def calls(*wanted: tuple[str, dict[str, Any], str | None], **options: Any) -> Turn:
    """An answer of function calls (name, args, thought signature in base64), a chunk each."""
    return Turn([[call_part(*one)] for one in wanted], **options)


def call_part(name: str, args: dict[str, Any], signature: str | None = None) -> Part:
    part: Part = {"functionCall": {"name": name, "args": args}}
    return part if signature is None else {**part, "thoughtSignature": signature}


class GeminiServer(ProviderServer[Turn]):
    """Also insists on the thought signatures that it gave."""

    path = re.compile(r"/(v1|v1beta)/models/([^/:]+):(generateContent|streamGenerateContent)(\?alt=sse)?")

    def __init__(self, turns: Iterable[Turn], on_request: Callable[[Received], None] | None = None) -> None:
        super().__init__(turns, on_request)
        self._signatures: dict[str, set[str]] = {}

    def key_of(self, headers: dict[str, str]) -> str | None:
        return headers.get("x-goog-api-key")

    def problem(self, received: Received) -> str | None:
        contents = received.body.get("contents", [])
        return shape_problem(contents) or self._signature_problem(contents)

    def _signature_problem(self, contents: list[dict[str, Any]]) -> str | None:
        for part in (part for content in contents for part in content.get("parts", ())):
            if "functionCall" not in part:
                continue
            sent = self._signatures.get(_call_key(part))
            if sent is not None and part.get("thoughtSignature") not in sent:
                return f"Function call {part['functionCall']['name']} is missing its thought_signature"
        return None

    def turn_of(self, body: dict[str, Any]) -> int:
        return sum(content.get("role") == "model" for content in body["contents"])

    def wire(self, turn: Turn, number: int, received: Received) -> Wire:
        for part in (part for chunk in turn.chunks for part in chunk):
            if "functionCall" in part and "thoughtSignature" in part:
                self._signatures.setdefault(_call_key(part), set()).add(part["thoughtSignature"])
        bodies = _responses(turn)
        if ":generateContent" in received.path:
            return Wire("application/json", [json.dumps(_merged(bodies)).encode()])
        return Wire("text/event-stream", [_event(body) for body in bodies])

    def error(self, failure: Failure) -> Any:
        status = failure.status or 500
        name = failure.kind or _STATUSES.get(status, "UNKNOWN")
        return {"error": {"code": status, "message": failure.message, "status": name, "details": failure.details}}

    def error_piece(self, failure: Failure) -> bytes:
        return _event(self.error(failure))


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


def _event(body: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\r\n\r\n"


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
        if turn.cached_tokens:
            usage["cachedContentTokenCount"] = turn.cached_tokens
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
