"""A loopback server that speaks OpenAI's Responses API without stored state, and is as strict about what it is sent."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from typing import Any

from tests.support.openai_wire import OpenAIPlace, in_parts
from tests.support.provider_server import Answer, Failure, Received, Wire

__all__ = ["ResponsesServer", "responses_problem"]

_PARAMETERS = {"model", "input", "stream", "store", "include", "tools", "temperature", "max_output_tokens"}
_ITEM_KEYS = {
    "message": {"type", "role", "content"},
    "reasoning": {"type", "id", "summary", "encrypted_content"},
    "function_call": {"type", "id", "call_id", "name", "arguments"},
    "function_call_output": {"type", "call_id", "output"},
}


class ResponsesServer(OpenAIPlace):
    """Also insists on the thoughts that it gave, before the calls that came with them."""

    path = re.compile(r"/v1/responses")

    def __init__(self, turns: Iterable[Answer], on_request: Callable[[Received], None] | None = None) -> None:
        super().__init__(turns, on_request)
        self._thoughts: dict[str, str] = {}

    def problem(self, received: Received) -> str | None:
        if received.key is None:
            return "You didn't provide an API key"
        return responses_problem(received.body) or self._thought_problem(received.body["input"])

    def _thought_problem(self, items: list[dict[str, Any]]) -> str | None:
        seen: set[str] = set()
        for item in items:
            if item["type"] == "reasoning":
                seen.add(item["encrypted_content"])
            elif item["type"] == "function_call" and not {self._thoughts.get(item["call_id"], "")} <= {*seen, ""}:
                return f"Item {item.get('id')} of type 'function_call' was provided without its 'reasoning' item"
        return None

    def turn_of(self, body: dict[str, Any]) -> int:
        said = [_is_models(item) for item in body["input"]]
        return sum(now and not before for before, now in zip([False, *said], said, strict=False))

    def wire(self, turn: Answer, number: int, received: Received) -> Wire:
        items: list[tuple[dict[str, Any], list[dict[str, Any]], dict[str, Any]]] = []
        if turn.thinking:
            thought = {"type": "reasoning", "id": f"rs_{number}", "summary": []}
            items.append((thought, [], {**thought, "encrypted_content": f"ZW5j{number}"}))
        if turn.text:
            part = {"type": "output_text", "text": turn.text, "annotations": []}
            head = {
                "type": "message",
                "id": f"msg_{number}",
                "role": "assistant",
                "status": "in_progress",
                "content": [],
            }
            place = {"item_id": head["id"], "content_index": 0}
            deltas = [{"type": "response.output_text.delta", **place, "delta": word} for word in turn.words]
            deltas.append({"type": "response.output_text.done", **place, "text": turn.text})
            items.append((head, deltas, {**head, "status": "completed", "content": [part]}))
        for index, ((name, _), args) in enumerate(zip(turn.calls, turn.args, strict=True)):
            call = {
                "type": "function_call",
                "id": f"fc_{number}x{index}",
                "call_id": f"call_{number}x{index}",
                "name": name,
            }
            if turn.thinking:
                self._thoughts[call["call_id"]] = f"ZW5j{number}"
            deltas = [
                {"type": "response.function_call_arguments.delta", "item_id": call["id"], "delta": part}
                for part in in_parts(args)
            ]
            items.append(({**call, "arguments": ""}, deltas, {**call, "arguments": args, "status": "completed"}))
        response = _response(number, received.body["model"], [item for _, _, item in items], turn)
        events: list[dict[str, Any]] = [
            {"type": "response.created", "response": {**response, "status": "in_progress", "output": [], "usage": None}}
        ]
        for index, (head, deltas, whole) in enumerate(items):
            events.append({"type": "response.output_item.added", "output_index": index, "item": head})
            events += [{**delta, "output_index": index} for delta in deltas]
            events.append({"type": "response.output_item.done", "output_index": index, "item": whole})
        events.append({"type": f"response.{response['status']}", "response": response})
        return Wire("text/event-stream", [_event(event, place) for place, event in enumerate(events)])

    def error(self, failure: Failure) -> Any:
        kind = failure.kind or ("server_error" if (failure.status or 500) >= 500 else "invalid_request_error")
        return {"error": {"message": failure.message, "type": kind, "param": None, "code": None}}

    def error_piece(self, failure: Failure) -> bytes:
        event = {"type": "error", "code": failure.kind or "server_error", "message": failure.message, "param": None}
        return _event(event, 99)


def responses_problem(body: dict[str, Any]) -> str | None:
    """What OpenAI would say against a request, None if nothing."""
    if extra := sorted(body.keys() - _PARAMETERS):
        return f"Unknown parameter: {extra[0]}"
    if body.get("store") is not False or body.get("include") != ["reasoning.encrypted_content"]:
        return "this server keeps nothing"
    if not body.get("model") or body.get("stream") is not True or not body.get("input"):
        return "model, input and, to this server, stream: true are required"
    for tool in body.get("tools", []):
        if tool["type"] != "function" or tool.keys() - {"type", "name", "description", "parameters", "strict"}:
            return f"Invalid tool: {tool}"
    return _items_problem(body["input"])


def _items_problem(items: list[dict[str, Any]]) -> str | None:
    due: list[str] = []
    for index, item in enumerate(items):
        kind = item.get("type")
        if kind not in _ITEM_KEYS or item.keys() - _ITEM_KEYS[kind]:
            return f"Invalid input[{index}]: {sorted(item)} of type {kind}"
        if kind == "function_call_output":
            if item["call_id"] not in due:
                return f"No tool call found for function call output with call_id {item['call_id']}"
            due.remove(item["call_id"])
        elif kind == "function_call":
            if not isinstance(json.loads(item["arguments"]), dict):
                return f"Invalid arguments in input[{index}]"
            due.append(item["call_id"])
        elif due:
            return f"No tool output found for function call {due[0]}, the result is missing"
    return f"No tool output found for function call {due[0]}, the result is missing" if due else None


def _is_models(item: dict[str, Any]) -> bool:
    return item["type"] in ("reasoning", "function_call") or item.get("role") == "assistant"


def _response(number: int, model: str, output: list[dict[str, Any]], turn: Answer) -> dict[str, Any]:
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": 1_700_000_000,
        "status": "incomplete" if turn.reason else "completed",
        "error": None,
        "incomplete_details": {"reason": turn.reason} if turn.reason else None,
        "model": f"{model}-2026-01-01",
        "output": output,
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "service_tier": "default",
        "usage": {
            "input_tokens": turn.input_tokens,
            "input_tokens_details": {"cached_tokens": turn.cached_tokens},
            "output_tokens": turn.output_tokens,
            "output_tokens_details": {"reasoning_tokens": turn.reasoning_tokens},
            "total_tokens": turn.input_tokens + turn.output_tokens,
        },
    }


def _event(event: dict[str, Any], number: int) -> bytes:
    return f"event: {event['type']}\ndata: {json.dumps({**event, 'sequence_number': number})}\n\n".encode()
