"""Rich styles: few, readable on dark and light backgrounds, with the terminal's own colours."""

from __future__ import annotations

__all__ = ["LOOKS"]

LOOKS = {
    "attention": "magenta",
    "failed": "red",
    "markdown.block_quote": "dim",
    "markdown.code": "bold",
    "markdown.code_block": "none",
    **{f"markdown.h{level}": "bold underline" if level < 3 else "bold" for level in range(1, 7)},
    "markdown.hr": "dim",
    "markdown.item.bullet": "bold",
    "markdown.item.number": "bold",
    "markdown.link": "underline",
    "markdown.link_url": "underline",
    "markdown.list": "none",
    "markdown.table.border": "dim",
    "markdown.table.header": "bold",
}
"""Over the default theme of Rich."""
