"""What the model is told of an answer: status, address, a few headers, and the body as text, cut where it is too long."""

from __future__ import annotations

import json
import re
from http import HTTPStatus

from agent_md.errors import ToolError
from agent_md.outbound.bodies import Body, media_type, read_body
from agent_md.outbound.fetch import Fetched
from agent_md.redaction import Redactor
from agent_md.tools.html_markdown import markdown_of

__all__ = ["result_text"]

_TOLD = ("Content-Type", "Location", "Retry-After", "Link")
_LONGEST_HEADER = 2000
_HTML = ("text/html", "application/xhtml+xml")
_HTML_BEGINNING = re.compile(r"\s*<(!doctype html|html|head|body)\b", re.IGNORECASE)
_NOTES = 1000
"""Bytes that are kept for the notes in brackets."""


def result_text(fetched: Fetched, shown_as: str, redactor: Redactor, most: int, unpacked: int) -> str:
    """The result in about `most` bytes, without secrets. A body is unpacked to at most `unpacked` bytes. Raises ToolError if
    it cannot be shown as it was asked for.

    Secrets are taken out before anything is cut, so that no part of one is left at the end.
    """
    head = [f"HTTP {fetched.status} {_phrase(fetched.status)}".rstrip(), fetched.url]
    head += [
        f"{name}: {redactor.text(fetched.headers[name])[:_LONGEST_HEADER]}" for name in _TOLD if name in fetched.headers
    ]
    if fetched.not_followed is not None:
        head.append(f"[The redirect was not followed: {fetched.not_followed}.]")
    body = read_body(fetched.body, fetched.headers, unpacked, fetched.broken)
    kind = media_type({"Content-Type": redactor.text(fetched.headers.get("Content-Type", ""))})
    text, notes = _shown(body, kind, shown_as)
    if body.broken is not None:
        notes.append(f"Not the whole body: {body.broken}.")
    begin = redactor.text("\n".join(head))
    text = _without_secrets(text, redactor, whole=body.broken is None)
    text, cut = _cut(text, max(most - len(begin.encode()) - _NOTES, 0))
    if cut:
        notes.append(cut)
    return "\n".join([begin, *(["", text] if text else []), *(f"[{note}]" for note in notes)])


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""


def _shown(body: Body, kind: str, shown_as: str) -> tuple[str, list[str]]:
    """The body as it was asked for, and what is to be said of that."""
    if body.text is None:
        return "", [f"The body is binary: {body.size} bytes{f' of {kind[:100]}' if kind else ''}, not shown."]
    if not body.text:
        return "", ["The body is empty."]
    if shown_as == "json":
        return _as_json(body.text)
    if shown_as == "markdown":
        return _as_markdown(body.text, kind)
    return body.text, []


def _as_json(text: str) -> tuple[str, list[str]]:
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=1), []
    except (ValueError, RecursionError):
        return text, ["The body is no JSON; it is shown as text."]


def _as_markdown(text: str, kind: str) -> tuple[str, list[str]]:
    if kind not in _HTML and not (kind == "" and _HTML_BEGINNING.match(text)):
        return text, ["The body is no HTML; it is shown as text."]
    try:
        markdown = markdown_of(text)
    except ToolError as error:
        return text, [f"Shown as text: {error}."]
    if markdown is None or not markdown.strip():
        return text, ["The page cannot be shown as markdown; it is shown as text."]
    return markdown, []


def _without_secrets(text: str, redactor: Redactor, *, whole: bool) -> str:
    stream = redactor.stream()
    shown = stream.feed(text)
    return shown + stream.rest() if whole else shown


def _cut(text: str, most: int) -> tuple[str, str | None]:
    data = text.encode("utf-8", "replace")
    if len(data) <= most:
        return text, None
    return data[:most].decode("utf-8", "ignore"), f"Cut: {len(data)} bytes, of which the first {most} are shown."
