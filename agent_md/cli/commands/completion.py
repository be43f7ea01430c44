"""`completion`: the script by which a shell completes our command lines, and what that script asks for."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer

from agent_md.cli.commands.completion_candidates import Candidate, candidates
from agent_md.cli.terminal.output import say

__all__ = ["Shell", "complete", "completion"]


class Shell(StrEnum):
    """The shells that there is a script for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


_SCRIPTS = {
    Shell.BASH: r"""
_agentmd() {
    case "${COMP_WORDS[COMP_CWORD-1]}" in
        -w|--workspace) compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- "$2"); return ;;
    esac
    mapfile -t COMPREPLY < <("$1" completion bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -F _agentmd agentmd
""",
    Shell.ZSH: r"""
#compdef agentmd
_agentmd() {
    local -a found
    if [[ ${words[CURRENT-1]} == (-w|--workspace) ]]; then _files -/; return; fi
    found=("${(@f)$(${words[1]} completion zsh -- "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
    [[ -n "$found" ]] && _describe agentmd found
}
compdef _agentmd agentmd
""",
    Shell.FISH: r"""
function __agentmd_complete
    set -l words (commandline -opc) (commandline -ct)
    command agentmd completion fish -- $words[2..-1] 2>/dev/null
end
complete -c agentmd -f -a '(__agentmd_complete)'
complete -c agentmd -s w -l workspace -x -a '(__fish_complete_directories (commandline -ct))'
""",
}


def completion(
    shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.", show_default=False)],
) -> None:
    """Print the script that completes commands in your shell.

    Example: agentmd completion bash >> ~/.bashrc
    """
    say(_SCRIPTS[shell].strip("\n"))


def complete(arguments: Sequence[str], commands: Callable[[], Any]) -> bool:
    """Answers a shell's script, which asks with `completion SHELL -- WORDS`, and says whether that was it.

    This goes around the parsing of arguments, which takes longer than all the rest; `commands` gives the root command.
    """
    if len(arguments) < 4 or (arguments[0], arguments[2]) != ("completion", "--") or arguments[1] not in set(Shell):
        return False
    shell, words = Shell(arguments[1]), arguments[3:]
    try:
        found = candidates(commands(), _dequoted(words) if shell is Shell.BASH else words)
    except Exception:  # whatever is wrong with the workspace: nobody wants to read it while typing
        logging.getLogger(__name__).debug("no completion", exc_info=True)
        found = []
    say(*_lines(found, shell, words[-1]))
    return True


def _lines(found: Sequence[Candidate], shell: Shell, unfinished: str) -> list[str]:
    """The candidates in the form that the shell's script reads, one a line."""
    single = [item for item in found if "\n" not in item.value]
    match shell:
        case Shell.BASH:
            return [_for_bash(item.value, unfinished) for item in single]
        case Shell.ZSH:
            return [":".join(filter(None, (item.value.replace(":", r"\:"), item.help))) for item in single]
        case Shell.FISH:
            return ["\t".join(filter(None, (item.value, item.help))) for item in single]


def _for_bash(value: str, unfinished: str) -> str:
    """The value so that bash takes it for nothing else in the quotes that were opened, or without any: bash puts what it
    is given into the line as it is, and a value may be the text of a model."""
    match _open_quote(unfinished):
        case "'":
            return value.replace("'", "'\\''")
        case '"':
            # Of a `!` bash makes history also here, whatever stands before it.
            return re.sub(r'([$`"\\])', r"\\\1", value).replace("!", "\"'!'\"")
        case _:
            return re.sub(r"([^\w./:=@%+,-])", r"\\\1", value)


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


def _dequoted(words: Sequence[str]) -> list[str]:
    """Bash gives words as they were typed, quotes and backslashes included, and takes an `=` for a word of its own."""
    plain = [re.sub(r"\\(.)|[\"']", lambda found: found[1] or "", word) for word in words]
    kept = [word for word in plain[:-1] if word != "="]
    return [*kept, "" if plain[-1] == "=" else plain[-1]]
