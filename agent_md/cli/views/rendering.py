"""Renders Rich renderables to lines for a screen."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from agent_md.cli.views.screen import Screen

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["rendered"]

_UNLIMITED = 1 << 20
"""Columns of a pipe: what is printed there is not folded."""


def rendered(screen: Screen, *items: RenderableType) -> list[str]:
    """The lines of renderables on this screen, with the sequences for their looks. Nothing is parsed as markup."""
    from rich.console import Console  # only commands that print such things pay for it
    from rich.theme import Theme

    from agent_md.cli.views.styles import LOOKS

    lines = io.StringIO()
    console = Console(
        file=lines,
        width=screen.width or _UNLIMITED,
        height=screen.height or _UNLIMITED,
        color_system="standard" if screen.colour else None,
        force_terminal=screen.colour,
        legacy_windows=False,
        theme=Theme(LOOKS),
        markup=False,
        emoji=False,
        highlight=False,
    )
    for item in items:
        console.print(item, no_wrap=screen.width is None or None)
    return [line.rstrip() for line in lines.getvalue().split("\n")[:-1]]
