"""Renders a long text of a call's arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING

from agent_md.cli.views.hanging_indent import indented, paragraph
from agent_md.visible_text import one_line
from agent_md.wording.call_text import LongText

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["text_block"]


def text_block(long: LongText) -> list[RenderableType]:
    """A long text under its name, visible and whole, each line under ours."""
    return [paragraph(f"  {one_line(long.name)}:"), indented(long.text.removesuffix("\n"), "    ")]
