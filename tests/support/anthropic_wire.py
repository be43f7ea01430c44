"""A loopback server that speaks Anthropic's Messages API, and is as strict as Anthropic about what it is sent."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from tests.support.provider_server import Answer, Failure, ProviderServer, Received, Wire

__all__ = ["AnthropicServer", "anthropic_problem"]

_ID = re.compile(r"[a-zA-Z0-9_-]+")
_PARAMETERS = {"model", "max_tokens", "messages", "stream", "system", "tools", "temperature"}
_BLOCK_KEYS = {
    "text": {"type", "text"},
    "image": {"type", "source"},
    "tool_use": {"type", "id", "name", "input"},
    "tool_result": {"type", "tool_use_id", "content", "is_error"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
}
_ROLES = {"text": {"user", "assistant"}, "image": {"user"}, "tool_result": {"user"}}


class AnthropicServer(ProviderServer[Answer]):
    """Also insists on the thoughts that it gave, as it gave them, before the calls that came with them."""

    path = re.compile(r"/v1/messages")

    def __init__(self, turns: Iterable[Answer], on_request: Callable[[Received], None] | None = None) -> None:
        super().__init__(turns, on_request)
        self._thoughts: dict[str, list[dict[str, Any]]] = {}

    def key_of(self, headers: dict[str, str]) -> str | None:
        return headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer ") or None

    def problem(self, received: Received) -> str | None:
        if received.key is None or "anthropic-version" not in received.headers:
            return "a key and the header anthropic-version are required"
        return anthropic_problem(received.body) or self._thought_problem(received.body["messages"])

    def _thought_problem(self, messages: list[dict[str, Any]]) -> str | None:
        for message in messages:
            blocks = message["content"] if isinstance(message["content"], list) else []
            thoughts = [block for block in blocks if "thinking" in block["type"]]
            for block in blocks:
                given = self._thoughts.get(block.get("id", ""), thoughts)
                if given != thoughts or blocks[: len(given)] != given:
                    return "`thinking` or `redacted_thinking` blocks in an assistant message cannot be modified"
        return None

    def turn_of(self, body: dict[str, Any]) -> int:
        return sum(message["role"] == "assistant" for message in body["messages"])

    def wire(self, turn: Answer, number: int, received: Received) -> Wire:
        blocks: list[tuple[dict[str, Any], list[dict[str, Any]]]] = []
        if turn.thinking:
            signature = f"c2ln{number}"
            deltas = [{"type": "thinking_delta", "thinking": word} for word in re.findall(r"\S+\s*", turn.thinking)]
            deltas.append({"type": "signature_delta", "signature": signature})
            blocks.append(({"type": "thinking", "thinking": "", "signature": ""}, deltas))
            blocks.append(({"type": "redacted_thinking", "data": f"cmVk{number}"}, []))
        if turn.text:
            texts = [{"type": "text_delta", "text": word} for word in turn.words]
            blocks.append(({"type": "text", "text": ""}, texts))
        for index, ((name, _), args) in enumerate(zip(turn.calls, turn.args, strict=True)):
            call_id = f"toolu_{number}x{index}"
            inputs = [{"type": "input_json_delta", "partial_json": part} for part in _parts(args)]
            blocks.append(({"type": "tool_use", "id": call_id, "name": name, "input": {}}, inputs))
            self._thoughts[call_id] = _thoughts(turn, number)
        events = [_event("message_start", message=_message(number, received.body["model"], turn)), _event("ping")]
        for index, (block, deltas) in enumerate(blocks):
            events.append(_event("content_block_start", index=index, content_block=block))
            events += [_event("content_block_delta", index=index, delta=delta) for delta in deltas]
            events.append(_event("content_block_stop", index=index))
        reason = turn.reason or ("tool_use" if turn.calls else "end_turn")
        delta = {"stop_reason": reason, "stop_sequence": None}
        events.append(_event("message_delta", delta=delta, usage=_usage(turn)))
        return Wire("text/event-stream; charset=utf-8", events, _event("message_stop"))

    def error(self, failure: Failure) -> Any:
        kind = failure.kind or _KINDS.get(failure.status or 500, "api_error")
        return {"type": "error", "error": {"type": kind, "message": failure.message}, "request_id": "req_1"}

    def error_piece(self, failure: Failure) -> bytes:
        return b"event: error\ndata: " + json.dumps(self.error(failure)).encode() + b"\n\n"


def anthropic_problem(body: dict[str, Any]) -> str | None:
    """What Anthropic would say against a request, None if nothing."""
    if extra := sorted(body.keys() - _PARAMETERS):
        return f"{extra[0]}: Extra inputs are not permitted"
    if not body.get("model") or not isinstance(body.get("max_tokens"), int) or body.get("stream") is not True:
        return "model, max_tokens: Field required, and stream: true by this server"
    for tool in body.get("tools", []):
        if not {"name", "input_schema"} <= tool.keys() or tool.keys() - {"name", "input_schema", "description"}:
            return f"tools: Extra inputs are not permitted: {sorted(tool)}"
    messages = body.get("messages") or []
    if not messages or messages[0]["role"] != "user" or messages[-1]["role"] != "user":
        return "messages: the first and the last must be of the user"
    due: set[str] = set()
    for index, message in enumerate(messages):
        if message["role"] != ("user", "assistant")[index % 2]:
            return f"messages.{index}: roles must alternate between user and assistant"
        problem = _blocks_problem(message, due)
        if problem is not None:
            return f"messages.{index}.{problem}"
        due = {block["id"] for block in _blocks(message) if block["type"] == "tool_use"}
    return None


def _blocks(message: dict[str, Any]) -> list[dict[str, Any]]:
    content = message["content"]
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def _blocks_problem(message: dict[str, Any], due: set[str]) -> str | None:
    blocks = _blocks(message)
    if not blocks:
        return "content: must be non-empty"
    results = [block for block in blocks if block["type"] == "tool_result"]
    answered = [block["tool_use_id"] for block in results]
    if sorted(answered) != sorted(due):
        return (
            f"`tool_use` ids were found without `tool_result` blocks immediately after, or the other way: asked "
            f"{sorted(due)}, answered {answered}"
        )
    if blocks[: len(results)] != results:
        return "content: `tool_result` blocks must come first"
    ids = [block["id"] for block in blocks if block["type"] == "tool_use"]
    if len(set(ids)) != len(ids):
        return "content: `tool_use` ids must be unique"
    for index, block in enumerate(blocks):
        if problem := _block_problem(block, message["role"]):
            return f"content.{index}.{problem}"
    return None


def _block_problem(block: dict[str, Any], role: str) -> str | None:
    kind = block["type"]
    if kind not in _BLOCK_KEYS or role not in _ROLES.get(kind, {"assistant"}):
        return f"type: {kind} is not one of {role}"
    if extra := sorted(block.keys() - _BLOCK_KEYS[kind]):
        return f"{kind}.{extra[0]}: Extra inputs are not permitted"
    if kind == "text" and not block["text"].strip():
        return "text: text content blocks must be non-empty"
    if kind == "image" and (
        set(block["source"]) != {"type", "media_type", "data"} or block["source"]["type"] != "base64"
    ):
        return f"image.source: {block['source']} is not one of base64"
    if kind == "tool_use" and not (_ID.fullmatch(block["id"]) and isinstance(block["input"], dict)):
        return f"tool_use: id or input of {block} is out of bounds"
    return None


def _thoughts(turn: Answer, number: int) -> list[dict[str, Any]]:
    if not turn.thinking:
        return []
    thought = {"type": "thinking", "thinking": turn.thinking, "signature": f"c2ln{number}"}
    return [thought, {"type": "redacted_thinking", "data": f"cmVk{number}"}]


def _message(number: int, model: str, turn: Answer) -> dict[str, Any]:
    return {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**_usage(turn), "output_tokens": 1},
    }


def _usage(turn: Answer) -> dict[str, Any]:
    return {
        "input_tokens": turn.input_tokens - turn.cached_tokens,
        "cache_read_input_tokens": turn.cached_tokens,
        "cache_creation_input_tokens": 0,
        "output_tokens": turn.output_tokens,
    }


def _parts(text: str) -> list[str]:
    return ["", *(text[start : start + 7] for start in range(0, len(text), 7))]


def _event(kind: str, **data: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **data})}\n\n".encode()


_KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    429: "rate_limit_error",
    529: "overloaded_error",
}
