"""Images in messages: the base64 form of chat clients, and the stored form."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

__all__ = ["image_block", "image_of"]

_DATA_URL = re.compile(r"data:[\w.+-]+/[\w.+-]+;base64,", re.ASCII)


def image_block(text: str) -> dict[str, Any]:
    """The stored form of an image that is given in base64, also as a data URL: what it is, is read from its first bytes.

    Raises ValueError for what is no base64, and for other formats than PNG, JPEG, GIF and WebP.
    """
    found = _DATA_URL.match(text)
    encoded = re.sub(r"\s+", "", text[found.end() :] if found else text)
    try:
        data = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("it is not an image in base64") from None
    kind = _kind(data)
    if kind is None:
        raise ValueError("it is no image that models take: PNG, JPEG, GIF and WebP are")
    return {"type": "image", "base64": encoded, "mime_type": kind}


def image_of(content: Any) -> dict[str, Any] | None:
    """The first image in the content of a stored message, if it has one."""
    blocks = content if isinstance(content, list) else ()
    images = (block for block in blocks if isinstance(block, dict) and block.get("type") == "image")
    return next((image for image in images if isinstance(image.get("base64"), str)), None)


def _kind(data: bytes) -> str | None:
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if data[:4] == b"RIFF" and data[8:12] == b"WEBP" else None
