"""Shows a long text in the user's pager."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from agent_md.cli.terminal.foreground import command_in, run_on_terminal

__all__ = ["pager_command", "show_paged"]


def pager_command(environ: Mapping[str, str]) -> list[str] | None:
    """`$PAGER` as an argument list, `less` if it is unset; None for an empty one, a missing one, a dumb terminal."""
    return command_in(environ.get("PAGER", "" if environ.get("TERM", "dumb") == "dumb" else "less"), environ)


async def show_paged(text: str, command: Sequence[str], environ: Mapping[str, str], terminal: int, output: int) -> bool:
    """Whether the pager showed the text, and the user left it; False if it could not be run or failed. The text must be
    safe already; the rest as in `run_on_terminal`."""
    secure = {"LESS": "FRX"} | dict(environ) | {"LESSSECURE": "1"}
    return await run_on_terminal(command, secure, terminal, output, text=text) == 0
