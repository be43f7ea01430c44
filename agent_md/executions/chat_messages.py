"""Messages in the form of chat clients: a role, a text, and additional fields.

A chat message is `{"role", "content"}` with, where it has them, `tool_calls`, `tool_call_id`, `name`, `base64_image`,
`user_params`;
the calls have the form that chat clients share: `{"id", "type": "function", "function": {"name", "arguments"}}`, the
arguments as JSON text. What a client says beside the text of its own messages is kept with them, out of the sight of
model providers.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from agent_md.executions.images import image_block, image_of
from agent_md.executions.json_values import MAX_DEPTH, is_too_deep, json_size, parse_strictly

__all__ = ["beside_text", "chat_message", "human_message", "read_arguments", "reply", "shown_text", "stored_message"]

_ROLES = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool"}
_TYPES = {role: kind for kind, role in _ROLES.items()}
_BESIDE = "chat"
"""Where it is in the metadata of a message: as one text, so that whatever JSON it is survives every store."""
_FROM_SYSTEM = "This message comes from the system, not from the user:"


def chat_message(stored: Mapping[str, Any]) -> dict[str, Any]:
    """A message in stored form as clients see it: its text without thoughts, the image that a client gave, and no field
    that it lacks."""
    data = stored["data"]
    message: dict[str, Any] = {"role": _ROLES[stored["type"]], "content": _text(data.get("content"))}
    if data.get("tool_calls"):
        message["tool_calls"] = [_chat_call(call) for call in data["tool_calls"]]
    if stored["type"] == "tool":
        message |= {name: data[name] for name in ("tool_call_id", "name") if data.get(name) is not None}
    if stored["type"] == "human" and (image := image_of(data.get("content"))) is not None:
        message["base64_image"] = image["base64"]
    beside = (data.get("response_metadata") or {}).get(_BESIDE)
    return message | json.loads(beside) if beside else message


def stored_message(message: Mapping[str, Any], message_id: str) -> dict[str, Any]:
    """A chat message in stored form; its calls have arguments that `read_arguments` takes."""
    kind = _TYPES[message["role"]]
    content = _content(message.get("content") or "", message.get("base64_image"))
    data: dict[str, Any] = {**beside_text(message), "content": content, "id": message_id}
    if kind == "tool":
        data |= {"tool_call_id": message["tool_call_id"], "name": message.get("name")}
    if message.get("tool_calls"):
        data["tool_calls"] = [_stored_call(call) for call in message["tool_calls"]]
    return {"type": kind, "data": data}


def human_message(message: Mapping[str, Any], text: str, message_id: str) -> dict[str, Any]:
    """The stored form of the message that starts a turn; `text` is what the model is told. A message of the role
    `system` is stored as a human one that names its origin, because models accept system messages only at the
    beginning."""
    if message.get("role") == "system":
        said: dict[str, Any] = {"role": "system", "content": text}
        return {"type": "human", "data": {**_beside(said), "content": f"{_FROM_SYSTEM}\n{text}", "id": message_id}}
    content = _content(text, message.get("base64_image"))
    return {"type": "human", "data": {**beside_text(message), "content": content, "id": message_id}}


def shown_text(content: Any) -> str:
    """The content of a message as text for people, images named."""
    image = image_of(content)
    texts = [_text(content), *([] if image is None else [f"[{image['mime_type']}]"])]
    return "\n".join(text for text in texts if text)


def _content(text: str, image: str | None) -> Any:
    """A text alone is one; with an image, the blocks that models know."""
    if image is None:
        return text
    return [*([{"type": "text", "text": text}] if text else []), image_block(image)]


def beside_text(message: Mapping[str, Any]) -> dict[str, Any]:
    """What a chat message says beside its text, as fields of its stored form."""
    names = ("user_params",) if message.get("role") == "tool" else ("name", "user_params")
    return _beside({name: message[name] for name in names if message.get(name) is not None})


def _beside(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Fields that the chat form of a message has in place of what its stored form says."""
    return {"response_metadata": {_BESIDE: json.dumps(fields)}} if fields else {}


def reply(text: str) -> dict[str, Any]:
    """A final answer as a chat message."""
    return {"role": "assistant", "content": text}


def read_arguments(text: str) -> dict[str, Any]:
    """The arguments of a call. Raises ValueError for what is no JSON object, or one that could not be given out again:
    nested too deeply, or with half a surrogate pair."""
    value = parse_strictly(text)
    if not isinstance(value, dict):
        raise ValueError("the arguments of a call are a JSON object")
    if is_too_deep(value):
        raise ValueError(f"the arguments of a call are nested deeper than {MAX_DEPTH}")
    json_size(value)
    return value


def _text(content: Any) -> str:
    if not isinstance(content, list):
        return content or ""
    return "".join(block if isinstance(block, str) else _text_of(block) for block in content)


def _text_of(block: Mapping[str, Any]) -> str:
    text = block.get("text")
    return text if block.get("type") == "text" and isinstance(text, str) else ""


def _chat_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = {"name": call["name"], "arguments": json.dumps(call["args"], ensure_ascii=False)}
    return {"id": call["id"], "type": "function", "function": function}


def _stored_call(call: Mapping[str, Any]) -> dict[str, Any]:
    function = call["function"]
    args = read_arguments(function["arguments"])
    return {"type": "tool_call", "id": call["id"], "name": function["name"], "args": args}
