"""A loopback server that speaks OpenAI's chat completions, and is as strict as OpenAI about what it is sent."""

from __future__ import annotations

import json
import re
from typing import Any

from tests.support.provider_server import Answer, Failure, ProviderServer, Received, Wire

__all__ = ["LocalServer", "OpenAIPlace", "OpenAIServer", "in_parts", "openai_problem"]

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_PARAMETERS = {"model", "messages", "stream", "stream_options", "tools", "temperature"}
_MESSAGE_KEYS = {
    "system": {"role", "content"},
    "developer": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls"},
    "tool": {"role", "content", "tool_call_id"},
}


class OpenAIPlace(ProviderServer[Answer]):
    """What all of OpenAI's servers have: a version in their address, and a bearer's key."""

    @property
    def url(self) -> str:
        return f"{super().url}/v1"

    def key_of(self, headers: dict[str, str]) -> str | None:
        return headers.get("authorization", "").removeprefix("Bearer ") or None


class OpenAIServer(OpenAIPlace):
    """`https://api.openai.com/v1`; `url` has the version in it."""

    path = re.compile(r"/v1/chat/completions")
    parameters = frozenset({*_PARAMETERS, "max_completion_tokens"})
    usage_in_every_chunk = False

    def problem(self, received: Received) -> str | None:
        unknown = sorted(received.body.keys() - self.parameters)
        if unknown:
            return f"Unrecognized request argument supplied: {', '.join(unknown)}"
        if received.key is None:
            return "You didn't provide an API key"
        return openai_problem(received.body)

    def turn_of(self, body: dict[str, Any]) -> int:
        return sum(message["role"] == "assistant" for message in body["messages"])

    def wire(self, turn: Answer, number: int, received: Received) -> Wire:
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": "", "refusal": None}]
        deltas += [{"content": word} for word in turn.words]
        for index, ((name, _), args) in enumerate(zip(turn.calls, turn.args, strict=True)):
            function = {"name": name, "arguments": ""}
            call = {"index": index, "id": f"call_{number}x{index}", "type": "function", "function": function}
            deltas.append({"tool_calls": [call]})
            deltas += [{"tool_calls": [{"index": index, "function": {"arguments": part}}]} for part in in_parts(args)]
        choices = [[{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}] for delta in deltas]
        reason = turn.reason or ("tool_calls" if turn.calls else "stop")
        choices.append([{"index": 0, "delta": {}, "logprobs": None, "finish_reason": reason}])
        model = received.body["model"]
        counted = turn.counted and (received.body.get("stream_options") or {}).get("include_usage")
        bodies = [_chunk(number, model, choice) for choice in choices]
        for body in bodies if counted else ():
            body["usage"] = _usage(turn) if self.usage_in_every_chunk else None
        if counted:
            bodies.append({**_chunk(number, model, []), "usage": _usage(turn)})
        return Wire("text/event-stream", [_event(body) for body in bodies], b"data: [DONE]\n\n")

    def error(self, failure: Failure) -> Any:
        kind = failure.kind or _KINDS.get(failure.status or 500, "server_error")
        return {"error": {"message": failure.message, "type": kind, "param": None, "code": None}}

    def error_piece(self, failure: Failure) -> bytes:
        return _event(self.error(failure))


class LocalServer(OpenAIServer):
    """A server on the own machine that speaks like OpenAI: it knows the older parameter, needs no key, and tells the
    usage with every chunk."""

    parameters = frozenset({*_PARAMETERS, "max_tokens"})
    usage_in_every_chunk = True


def openai_problem(body: dict[str, Any]) -> str | None:
    """What OpenAI would say against a request, None if nothing."""
    messages, tools = body.get("messages"), body.get("tools", [])
    if not body.get("model") or body.get("stream") is not True or not messages:
        return "you must provide a model, messages and, to this server, stream: true"
    for tool in tools:
        function = tool["function"]
        if tool["type"] != "function" or not _NAME.fullmatch(function["name"]):
            return f"Invalid tool: {tool}"
        if function["parameters"].get("type") != "object":
            return f"Invalid schema for function {function['name']}"
    return _messages_problem(messages)


def _messages_problem(messages: list[dict[str, Any]]) -> str | None:
    due: list[str] = []
    for index, message in enumerate(messages):
        where, role = f"messages.[{index}]", message.get("role")
        if role not in _MESSAGE_KEYS or message.keys() - _MESSAGE_KEYS[role]:
            return f"{where} of role {role} has {sorted(message)}"
        if role == "tool":
            if message.get("tool_call_id") not in due:
                return f"messages with role 'tool' must be a response to a preceding message with 'tool_calls': {where}"
            due.remove(message["tool_call_id"])
        elif due:
            return (
                "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
                f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(due)}"
            )
        if problem := _content_problem(message):
            return f"Invalid {where}: {problem}"
        due = [call["id"] for call in message.get("tool_calls", ())] or due
    if due:
        return f"The following tool_call_ids did not have response messages: {', '.join(due)}"
    return None


def _content_problem(message: dict[str, Any]) -> str | None:
    content, calls = message.get("content"), message.get("tool_calls")
    if calls is not None and (not calls or len({call["id"] for call in calls}) != len(calls)):
        return "tool_calls is empty or has an id twice"
    for call in calls or ():
        function = call.get("function", {})
        if set(call) != {"id", "type", "function"} or set(function) != {"name", "arguments"}:
            return f"a tool call is {call}"
        if not call["id"] or len(call["id"]) > 40 or not _NAME.fullmatch(function["name"]):
            return f"id or name of the tool call {call} is out of bounds"
        if not isinstance(json.loads(function["arguments"]), dict):
            return "arguments are no object"
    if content is None and calls:
        return None
    if isinstance(content, list):
        if not content or not all(_is_part(part, message["role"]) for part in content):
            return f"content is {content}"
    elif not isinstance(content, str):
        return "content is neither a text nor parts"
    return None


def _is_part(part: dict[str, Any], role: str) -> bool:
    if part["type"] == "image_url":
        return (
            role == "user" and set(part) == {"type", "image_url"} and part["image_url"]["url"].startswith("data:image/")
        )
    return set(part) == {"type", "text"} and part["type"] == "text"


def in_parts(text: str) -> list[str]:
    """A text as it streams: seven characters at a time."""
    return [text[start : start + 7] for start in range(0, len(text), 7)]


def _chunk(number: int, model: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion.chunk",
        "created": 1_700_000_000,
        "model": f"{model}-2025-01-01",
        "service_tier": "default",
        "system_fingerprint": "fp_1",
        "choices": choices,
    }


def _usage(turn: Answer) -> dict[str, Any]:
    return {
        "prompt_tokens": turn.input_tokens,
        "completion_tokens": turn.output_tokens,
        "total_tokens": turn.input_tokens + turn.output_tokens,
        "prompt_tokens_details": {"cached_tokens": turn.cached_tokens, "audio_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": turn.reasoning_tokens, "audio_tokens": 0},
    }


def _event(body: dict[str, Any]) -> bytes:
    return b"data: " + json.dumps(body).encode() + b"\n\n"


_KINDS = {
    400: "invalid_request_error",
    401: "invalid_request_error",
    404: "invalid_request_error",
    429: "requests",
}
