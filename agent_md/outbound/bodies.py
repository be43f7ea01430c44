"""The body of an answer as text, or told as what it is: bounded, and never more than decoded."""

from __future__ import annotations

import codecs
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message

__all__ = ["Body", "media_type", "read_body"]

_ZIPPED = {"gzip", "x-gzip", "deflate"}
_CHARSETS = re.compile(
    r"(us-?)?ascii|utf-?(8|16|32)(-?[lb]e)?|(iso-?)?8859-?\d+|iso-?8859-?\d+|latin-?\d+|(cp|windows-?)\d+|koi8-?[rut]"
    r"|shift_?jis|sjis|euc-?(jp|kr)|iso-?2022-?(jp|kr)|gb(k|2312|18030)|big5(-?hkscs)?|mac-?roman|tis-?620"
)
"""Those that pages are written in; Python knows others under such names, which unpack, or take long."""


@dataclass(frozen=True, slots=True)
class Body:
    """What an answer holds: `text`, None if it is binary; `size` is that of the bytes. `broken` says why it is not whole."""

    text: str | None
    size: int
    broken: str | None = None


def media_type(headers: Mapping[str, str]) -> str:
    """What the sender calls the body, such as `text/html`; an empty text if it does not say."""
    return headers.get("Content-Type", "").partition(";")[0].strip().lower()


def read_body(data: bytes, headers: Mapping[str, str], limit: int, broken: str | None = None) -> Body:
    """The body, unpacked to at most `limit` bytes. What is in no charset that it could be is binary."""
    encoding = headers.get("Content-Encoding", "identity").strip().lower()
    if encoding not in ("", "identity"):
        if encoding not in _ZIPPED:
            return Body(None, len(data), broken)
        unpacked = _unpacked(data, limit)
        if unpacked is None:
            return Body(None, len(data), broken or "it cannot be unpacked")
        data, whole = unpacked
        if not whole:
            broken = broken or f"the body is longer than {limit} bytes"
    return Body(_decoded(data, headers, cut=broken is not None), len(data), broken)


def _unpacked(data: bytes, limit: int) -> tuple[bytes, bool] | None:
    """What is in the packed data, and whether that is all of it; None if nothing can be read."""
    for window in (47, -15):  # gzip or zlib; some send deflate without its header
        unpacker = zlib.decompressobj(window)
        try:
            return unpacker.decompress(data, limit), unpacker.eof
        except zlib.error:
            continue
    return None


def _decoded(data: bytes, headers: Mapping[str, str], *, cut: bool) -> str | None:
    for charset in _charsets(data, headers):
        try:
            text = codecs.getincrementaldecoder(charset)("strict").decode(data, final=not cut)
        except (LookupError, UnicodeError):
            continue
        if "\0" not in text:
            return text.removeprefix("\ufeff")
    if media_type(headers).startswith("text/") and b"\0" not in data:
        return data.decode("utf-8", "replace")
    return None


def _charsets(data: bytes, headers: Mapping[str, str]) -> list[str]:
    said = Message()
    said["Content-Type"] = headers.get("Content-Type", "")
    named = str(said.get_content_charset() or "").lower()
    found = [named] if _CHARSETS.fullmatch(named) else []
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        found.append("utf-16")
    return [*found, "utf-8"]
