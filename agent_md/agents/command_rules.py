"""Rules with a pattern for `run_command`: the pattern is matched with the words of the command, one by one.

`git status` fits exactly this command; `*` in a word stands for any text within that word, `?` for one character, and `**`,
as the last word, for any number of words. Quotes group words as in a shell. What a rule lifts has to fit from the first
word to the last. A guard or a denial fits wherever its command stands in the words, by the name of its program alone, and
cannot be applied for sure (it asks) where the program may start others, or where its words stand in another order.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from posixpath import basename

from agent_md.agents.effects import Match
from agent_md.agents.globs import glob_fits

__all__ = ["COMMAND_TOOL", "CommandPattern", "command_subject", "match_command", "parse_command_pattern"]

COMMAND_TOOL = "run_command"

_ANY_NUMBER = "**"
_TOKEN = re.compile(r"[^\s=;&|'\"`$(){}\[\]<>,:!\\]+")

_STARTERS = frozenset(
    """
    ash at awk bash bat batch bb bpython bun busybox bwrap cargo chroot chrt cmake composer coproc crontab csh cscope dash
    deno docker doas ed elvish emacs env entr ex expect fakeroot find firejail fish flock forfiles ftp fzf gawk gcc gdb git
    go gradle guile ionice ipython irb java jshell just ksh ld lftp less ln lua luajit m4 mail make man mawk more mvn nano
    nawk nc ncat newgrp nice node nohup npm npx nsenter numactl ocaml oksh parallel pdksh perl php pip pipx pkexec pnpm
    podman poetry prlimit proot ps psql pwsh python qemu r rake rbash reset rlwrap rsync ruby run-parts runcon runuser
    runscript sash scp screen script sed setarch setpriv setsid sftp sg sh socat sqlite3 ssh stdbuf strace su sudo swipl
    systemd-run tar taskset tclsh tcsh time timeout tini tmux toybox tox unshare uv uvx valgrind vi view vim vimdiff watch
    wish xargs xterm yarn yash zip zsh
    """.split()  # noqa: SIM905 - a list of a hundred quoted words is harder to read
)
"""Programs that can start others: what these do cannot be read from the first words of a command."""


@dataclass(frozen=True, slots=True)
class CommandPattern:
    """The words of a pattern; `open_ended` if any number of words may follow."""

    words: tuple[str, ...]
    open_ended: bool

    def fits(self, words: Sequence[str]) -> bool:
        """Whether the words are those of the pattern, from the first to the last."""
        enough = len(words) >= len(self.words) if self.open_ended else len(words) == len(self.words)
        return enough and all(map(glob_fits, self.words, words))


def parse_command_pattern(text: str) -> CommandPattern:
    """The pattern of a rule. Raises ValueError saying what is wrong with it."""
    try:
        words = shlex.split(text)
    except ValueError:
        raise ValueError("has a quote without its other half; quotes group words as in a shell") from None
    open_ended = bool(words) and words[-1] == _ANY_NUMBER
    words = words[:-1] if open_ended else words
    if any(_ANY_NUMBER in word for word in words):
        raise ValueError("has ** before its end; * stands for one word, and ** only as the last word for any number")
    return CommandPattern(tuple(words), open_ended)


def command_subject(words: Sequence[str], *, liftable: bool) -> str:
    """The command as rules see it. One that is not `liftable` fits no pattern of a rule that lifts guards."""
    return shlex.join(words if liftable else ["", *words])


def match_command(text: str, subject: str, *, every: bool) -> Match:
    """Whether a pattern fits a command, given as its subject: with `every` as a rule that lifts guards, else as a guard or
    a denial."""
    pattern, words = parse_command_pattern(text), shlex.split(subject)
    liftable = words[0] != ""
    if every:
        return Match.YES if liftable and pattern.fits(words) else Match.NO
    words = words if liftable else words[1:]
    if any(pattern.fits(words[at:]) or _by_name(pattern).fits(_by_names(words[at:])) for at in range(len(words))):
        return Match.YES
    hidden = not liftable or _program(words[0]) in _STARTERS
    return Match.UNCLEAR if hidden or _has_its_words(pattern, words) else Match.NO


def _program(word: str) -> str:
    """The name of a program without its folder and version."""
    return re.sub(r"[\d.]+$", "", basename(word)) or basename(word)


def _by_name(pattern: CommandPattern) -> CommandPattern:
    return CommandPattern(_by_names(pattern.words), pattern.open_ended)


def _by_names(words: Sequence[str]) -> tuple[str, ...]:
    return (basename(words[0]), *words[1:]) if words else ()


def _has_its_words(pattern: CommandPattern, words: Sequence[str]) -> bool:
    """Whether all words of the pattern that are not wildcards stand somewhere in the words of the command."""
    wanted = [basename(word) for word in pattern.words if word.strip("*?")]
    found = {basename(token) for word in words for token in _TOKEN.findall(word)}
    return bool(wanted) and all(any(glob_fits(word, token) for token in found) for word in wanted)
