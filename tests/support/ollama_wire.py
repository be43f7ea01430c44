"""A loopback server that speaks Ollama's /api/chat, and is stricter than Ollama about what it is sent."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.support.provider_server import Answer, Failure, ProviderServer, Received, Wire

__all__ = ["OllamaServer", "ollama_problem"]

_PARAMETERS = {"model", "messages", "stream", "tools", "options"}
_MESSAGE_KEYS = {
    "system": {"role", "content"},
    "user": {"role", "content", "images"},
    "assistant": {"role", "content", "thinking", "tool_calls"},
    "tool": {"role", "content", "tool_name", "tool_call_id"},
}


class OllamaServer(ProviderServer[Answer]):
    """Gives calls without ids, each in a line of its own."""

    path = re.compile(r"/api/chat")

    def key_of(self, headers: dict[str, str]) -> str | None:
        return headers.get("authorization", "").removeprefix("Bearer ") or None

    def problem(self, received: Received) -> str | None:
        return ollama_problem(received.body)

    def turn_of(self, body: dict[str, Any]) -> int:
        return sum(message["role"] == "assistant" for message in body["messages"])

    def wire(self, turn: Answer, number: int, received: Received) -> Wire:
        parts: list[dict[str, Any]] = [{"thinking": word} for word in re.findall(r"\S+\s*", turn.thinking)]
        parts += [{"content": word} for word in turn.words]
        parts += [{"tool_calls": [{"function": {"name": name, "arguments": args}}]} for name, args in turn.calls]
        head = {"model": received.body["model"], "created_at": "2025-01-01T00:00:00.000000Z"}
        lines = [{**head, "message": {"role": "assistant", "content": "", **part}, "done": False} for part in parts]
        lines.append(
            {
                **head,
                "message": {"role": "assistant", "content": ""},
                "done": True,
                "done_reason": turn.reason or "stop",
                "total_duration": 5,
                "load_duration": 1,
                "prompt_eval_count": turn.input_tokens,
                "prompt_eval_duration": 1,
                "eval_count": turn.output_tokens,
                "eval_duration": 1,
            }
        )
        return Wire("application/x-ndjson", [json.dumps(line).encode() + b"\n" for line in lines])

    def error(self, failure: Failure) -> Any:
        return {"error": failure.message}

    def error_piece(self, failure: Failure) -> bytes:
        return json.dumps(self.error(failure)).encode() + b"\n"


def ollama_problem(body: dict[str, Any]) -> str | None:
    """What is wrong with a request, None if nothing. Results are known by their order, and have the tool's name."""
    if extra := sorted(body.keys() - _PARAMETERS):
        return f"unknown parameters {extra}"
    messages = body.get("messages") or []
    if not body.get("model") or body.get("stream") is not True or not messages:
        return "model, messages and stream: true are required"
    return _messages_problem(messages)


def _messages_problem(messages: list[dict[str, Any]]) -> str | None:
    due: list[str] = []
    for index, message in enumerate(messages):
        role = message.get("role")
        if role not in _MESSAGE_KEYS or message.keys() - _MESSAGE_KEYS[role] or (role == "system" and index):
            return f"message {index} of role {role} has {sorted(message)}"
        if not isinstance(message.get("content", ""), str):
            return f"message {index} has content that is no text"
        if role == "tool":
            if not due or due.pop(0) != message.get("tool_name"):
                return f"message {index} answers {message.get('tool_name')}, which is not the call that is due"
        elif due:
            return f"message {index} comes before the results of {due}"
        for call in message.get("tool_calls", ()):
            if not isinstance(call["function"]["arguments"], dict):
                return f"message {index} calls with arguments that are no object"
            due.append(call["function"]["name"])
    return f"the calls {due} have no results" if due else None
