"""The root command, which imports each command when it is used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from agent_md.cli.commands import COMMANDS

__all__ = ["CommandGroup"]


class CommandGroup(TyperGroup):
    """The commands of `COMMANDS`. The help lists them without importing any."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": _Commands()})

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, place.summary) for name, place in COMMANDS.items()])


class _Commands(Mapping[str, Any]):
    def __getitem__(self, name: str) -> Any:
        return _imported(name)

    def __iter__(self) -> Iterator[str]:
        return iter(COMMANDS)

    def __len__(self) -> int:
        return len(COMMANDS)


@cache
def _imported(name: str) -> Any:
    """A command. Raises KeyError if there is none of this name."""
    place = COMMANDS[name]
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    alone.command(name)(getattr(import_module(f"agent_md.cli.commands.{place.module}"), place.function))
    return typer.main.get_command(alone)
