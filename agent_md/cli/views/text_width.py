"""The width of visible text in terminal columns, and cutting to a width."""

from __future__ import annotations

__all__ = ["cut", "width_of"]


def width_of(text: str) -> int:
    """How many columns a line of visible text takes."""
    from rich.cells import cell_len  # only commands that lay out text pay for it

    return cell_len(text)


def cut(text: str, width: int) -> str:
    """The text in at most `width` columns, its end given up for `…` when it does not fit."""
    if width_of(text) <= width:
        return text
    if width <= 0:
        return ""
    from rich.cells import set_cell_size

    return set_cell_size(text, width - 1).rstrip() + "…"
