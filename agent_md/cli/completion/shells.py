"""Answers the scripts that Typer installs in shells (`--install-completion`, `--show-completion`).

Typer's own answers are not used: zsh evaluates them, bash puts them into the line as they are, and a candidate may be the
text of a model.
"""

from __future__ import annotations

import logging
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agent_md.cli.completion.candidates import Candidate, candidates
from agent_md.cli.terminal.output import say

__all__ = ["complete"]

_VARIABLE = "_AGENTMD_COMPLETE"
"""What a script sets to `complete_bash`, `complete_zsh` or `complete_fish`."""
_FISH_ASKS_WHETHER = "is-args"


def complete(commands: Callable[[], Any], environ: Mapping[str, str] = os.environ) -> int | None:
    """Answers a script, and gives the exit code; None if this is no question of one that is known here.

    This goes around the parsing of arguments, which takes longer than all the rest; `commands` gives the root command.
    """
    asked = _READERS.get(environ.get(_VARIABLE, ""))
    if asked is None:
        return None
    read, written = asked
    unfinished = ""
    try:
        words, unfinished = read(environ)
        found = candidates(commands(), words)
    except Exception:  # whatever is wrong with the workspace: nobody wants to read it while typing
        logging.getLogger(__name__).debug("no completion", exc_info=True)
        found = []
    if environ.get("_TYPER_COMPLETE_FISH_ACTION") == _FISH_ASKS_WHETHER:
        return 0 if found else 1
    say(*written([item for item in found if "\n" not in item.value], unfinished))
    return 0


def _words_of_bash(environ: Mapping[str, str]) -> tuple[list[str], str]:
    """Bash gives words as they were typed, quotes included, and takes an `=` for a word of its own."""
    typed = environ.get("COMP_WORDS", "").split("\n")[1 : int(environ.get("COMP_CWORD", "0")) + 1] or [""]
    *before, last = ["" if word == "=" else _plain(word) for word in typed]
    return [*(word for word, raw in zip(before, typed, strict=False) if raw != "="), last], typed[-1]


def _words_of_line(environ: Mapping[str, str]) -> tuple[list[str], str]:
    """Zsh and fish give the line up to the cursor."""
    line = environ.get("_TYPER_COMPLETE_ARGS", "")
    words = _split(line)[1:]
    return (words if words and not line.endswith(" ") else [*words, ""]), ""


def _split(line: str) -> list[str]:
    """The words of a line, whose last quote may still be open."""
    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    words: list[str] = []
    try:
        words += lexer
    except ValueError:
        words.append(lexer.token)
    return words


def _plain(word: str) -> str:
    return re.sub(r"\\(.)|[\"']", lambda found: found[1] or "", word)


def _for_bash(found: Sequence[Candidate], unfinished: str) -> list[str]:
    """Values so that bash takes them for nothing else in the quotes that were opened, or without any."""
    match _open_quote(unfinished):
        case "'":
            return [item.value.replace("'", "'\\''") for item in found]
        case '"':
            # Of a `!` bash makes history also here, whatever stands before it.
            return [re.sub(r'([$`"\\])', r"\\\1", item.value).replace("!", "\"'!'\"") for item in found]
        case _:
            return [re.sub(r"([^\w./:=@%+,-])", r"\\\1", item.value) for item in found]


def _open_quote(word: str) -> str:
    """The quote in which a word ends; empty if in none."""
    quote, escaped = "", False
    for character in word:
        if escaped:
            escaped = False
        elif character == "\\" and quote != "'":
            escaped = True
        elif character in "'\"" and quote in ("", character):
            quote = "" if quote else character
    return quote


def _for_zsh(found: Sequence[Candidate], unfinished: str) -> list[str]:
    """A command to evaluate: signs and blanks stand in it as the codes of their characters."""
    if not found:
        return ["_files"]
    described = [":".join(filter(None, (item.value.replace(":", r"\:"), item.help))) for item in found]
    return [f"local -a found; found=({' '.join(map(_quoted_for_zsh, described))}); _describe agentmd found"]


def _quoted_for_zsh(text: str) -> str:
    coded = re.sub(r"[^a-zA-Z0-9\x80-\U0010ffff]", lambda found: f"\\U{ord(found[0]):08x}", text)
    return f"$'{coded}'"


def _for_fish(found: Sequence[Candidate], unfinished: str) -> list[str]:
    return ["\t".join(filter(None, (item.value, item.help))) for item in found]


_READERS = {
    "complete_bash": (_words_of_bash, _for_bash),
    "complete_zsh": (_words_of_line, _for_zsh),
    "complete_fish": (_words_of_line, _for_fish),
}
