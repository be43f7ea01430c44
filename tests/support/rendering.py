"""What is printed of renderables, line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_md.cli.views.rendering import rendered
from agent_md.cli.views.screen import Screen

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["lines_of"]


def lines_of(*items: RenderableType, width: int | None = None) -> list[str]:
    """The lines of these items in so many columns, None = in a pipe, without looks."""
    return rendered(Screen(width), *items)
