"""Edits a text with the user's editor."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from agent_md.cli.terminal.foreground import command_in, run_on_terminal

__all__ = ["EditorFailed", "edited_outside", "editor_command"]


class EditorFailed(Exception):
    """The editor could not be run, or says that it failed; nothing was edited."""


def editor_command(environ: Mapping[str, str]) -> list[str] | None:
    """`$VISUAL`, on a dumb terminal never, or `$EDITOR` as an argument list; None if there is no such program."""
    visual = "" if environ.get("TERM", "dumb") == "dumb" else environ.get("VISUAL", "")
    return command_in(visual or environ.get("EDITOR", ""), environ)


async def edited_outside(
    text: str, name: str, command: Sequence[str], environ: Mapping[str, str], terminal: int, output: int
) -> str:
    """The text as it is when the editor has ended. It is in a file `name` meanwhile, which only this user can read; the
    rest as in `run_on_terminal`. Raises EditorFailed."""
    with tempfile.TemporaryDirectory(prefix="agentmd-") as folder:
        file = Path(folder) / name
        file.touch(0o600)
        ended = text if not text or text.endswith("\n") else f"{text}\n"
        file.write_bytes(ended.encode(errors="surrogatepass"))
        code = await run_on_terminal([*command, str(file)], environ, terminal, output)
        if code is None:
            raise EditorFailed(f"{command[0]} cannot be run")
        if code != 0:
            raise EditorFailed(f"{command[0]} ended with {code}")
        try:
            return file.read_bytes().decode()
        except (OSError, UnicodeDecodeError) as error:
            raise EditorFailed(f"what {command[0]} left cannot be read: {error}") from None
