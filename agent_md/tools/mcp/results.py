"""What an MCP tool gave back, as text: what is no text is told as what it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agent_md.tools.results import storable

if TYPE_CHECKING:
    from mcp import types

__all__ = ["LARGEST", "text_of"]

LARGEST = 1 << 20
"""Characters that are kept of a result."""
_LONGEST_NAME = 500


Redact = Callable[[str], str]


def text_of(result: types.CallToolResult, redacted: Redact = str) -> str:
    """The texts of a result, one below the other, and what else there is in brackets, such as
    `[image image/png, 2048 bytes]`. Structured content is added unless one of the texts says the same. What is cut is
    `redacted` before, so that no part of a secret is left at the end."""
    parts = [_block(block, redacted) for block in result.content]
    structured = result.structuredContent
    if structured is not None and not any(_says_the_same(part, structured) for part in parts):
        parts.append(f"[structured content]\n{json.dumps(structured, ensure_ascii=False)}")
    text = storable("\n".join(parts))
    if len(text) <= LARGEST:
        return text
    return f"{redacted(text)[:LARGEST]}\n[The result has {len(text)} characters; what came after this was thrown away.]"


def _says_the_same(text: str, structured: dict[str, Any]) -> bool:
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        said = text
    return said == structured or {"result": said} == structured or structured == {"result": text}


def _block(block: types.ContentBlock, redacted: Redact) -> str:
    match block.type:
        case "text":
            return block.text
        case "image" | "audio":
            return f"[{block.type} {_name(block.mimeType, redacted)}, {_size(block.data)} bytes]"
        case "resource_link":
            about = ", ".join(_name(text, redacted) for text in (block.name, block.mimeType, block.description) if text)
            return f"[link to the resource {_name(block.uri, redacted)}: {about}]"
        case "resource":
            return _resource(block.resource, redacted)


def _resource(resource: types.TextResourceContents | types.BlobResourceContents, redacted: Redact) -> str:
    kind = f", {_name(resource.mimeType, redacted)}" if resource.mimeType else ""
    if hasattr(resource, "text"):
        return f"[resource {_name(resource.uri, redacted)}{kind}]\n{resource.text}"
    return f"[resource {_name(resource.uri, redacted)}{kind}, {_size(resource.blob)} bytes]"


def _size(base64: str) -> int:
    return len(base64.rstrip("=")) * 3 // 4


def _name(value: Any, redacted: Redact) -> str:
    text = redacted(" ".join(str(value).split()))
    return text if len(text) <= _LONGEST_NAME else f"{text[:_LONGEST_NAME]}…"
