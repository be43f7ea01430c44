"""Shortens a JSON value to a given width: keeps keys as long as possible, and marks shortened parts."""

from __future__ import annotations

import json
from typing import Any

from agent_md.cli.views.text_width import cut, width_of
from agent_md.visible_text import one_line

__all__ = ["short_json"]

_TEXT = 40
"""Characters of a text inside."""
_ITEMS = 3
_DEPTH = 3


def short_json(value: Any, cells: int) -> str:
    """The value on one visible line. Text that does not fit into `cells` is cut and followed by its length."""
    whole = json.dumps(value, ensure_ascii=False)
    shown = one_line(whole)
    if width_of(shown) <= cells:
        return shown
    return (
        f"{cut(one_line(json.dumps(_shortened(value, _DEPTH), ensure_ascii=False)), cells)} ({len(whole):,} characters)"
    )


def _shortened(value: Any, depth: int) -> Any:
    match value:
        case str(text):
            return text if len(text) <= _TEXT else f"{text[:_TEXT]}…"
        case dict(entries) if entries:
            return {key: _shortened(item, depth - 1) for key, item in entries.items()} if depth else "{…}"
        case list(items) if items:
            kept = [_shortened(item, depth - 1) for item in items[:_ITEMS]] if depth else []
            return [*kept, "…"] if len(kept) < len(items) else kept
        case _:
            return value
