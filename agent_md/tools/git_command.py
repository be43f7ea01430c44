"""Runs git so that the configuration of a repository starts no programs: an agent may write in the folder, and others may
have made it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["git_environment", "git_settings_command", "git_words", "is_git", "settings_of_repository"]

_ALWAYS = (
    ("core.fsmonitor", "false"),
    ("core.hooksPath", "/dev/null"),
    ("core.pager", "cat"),
    ("protocol.ext.allow", "never"),
)
_ENVIRONMENT = {"GIT_PAGER": "cat", "PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "GIT_EDITOR": "false"}

_STARTS_PROGRAMS = (
    (r"filter\..*\.(clean|smudge|process)", ""),
    (r"filter\..*\.required", "false"),
    (r"alias\..*", ""),
    (r"credential\.(.*\.)?helper", ""),
    (r"core\.sshcommand", "ssh"),
    (r"diff\..*\.textconv", "cat"),
    (r"remote\..*\.(uploadpack)", "git-upload-pack"),
    (r"remote\..*\.(receivepack)", "git-receive-pack"),
    (
        r"core\.(askpass|editor|gitproxy)|diff\.(.*\.)?(external|command)|gpg\.(.*\.)?program|merge\..*\.driver"
        r"|sequence\.editor|pager\..*|interactive\.difffilter|trailer\..*\.(command|cmd)|(diff|merge)tool\..*\.(cmd|path)"
        r"|remote\..*\.vcs|sendemail\..*|imap\.tunnel|uploadpack\.packobjectshook|web\.browser|browser\..*\.(cmd|path)"
        r"|man\..*\.(cmd|path)|submodule\..*\.update",
        "false",
    ),
)
"""Settings of a repository that name programs, and what is set instead: nothing, git's own, or a program that fails."""

_OPTIONS_WITH_VALUE = frozenset({"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"})
_PLAIN_DIFF = {
    name: ("--no-ext-diff", "--no-textconv") for name in ("diff", "log", "show", "whatchanged", "format-patch")
}


def is_git(program: str) -> bool:
    """Whether the program of this name is git."""
    return program in ("git", "git.exe")


def git_settings_command(words: Sequence[str]) -> list[str]:
    """The words that list the settings of the repository that `words`, without the program, are for. It starts no program."""
    return [*words[: _before_subcommand(words)], "config", "--list", "--show-scope", "--name-only", "-z"]


def settings_of_repository(listed: bytes) -> list[str]:
    """The names of settings that belong to the repository, out of what `git_settings_command` printed."""
    parts = listed.decode("utf-8", "replace").split("\0")
    return [name for scope, name in zip(parts[::2], parts[1::2], strict=False) if scope in ("local", "worktree")]


def git_environment(settings: Iterable[str]) -> Mapping[str, str]:
    """The variables that override what would start programs."""
    pairs = [*_ALWAYS, *_overrides(settings)]
    numbered = {
        variable: text
        for number, (name, value) in enumerate(pairs)
        for variable, text in ((f"GIT_CONFIG_KEY_{number}", name), (f"GIT_CONFIG_VALUE_{number}", value))
    }
    return {**_ENVIRONMENT, "GIT_CONFIG_COUNT": str(len(pairs)), **numbered}


def git_words(words: Sequence[str]) -> list[str]:
    """The words without the program, with what keeps `diff` and its like from starting programs."""
    at = _before_subcommand(words)
    plain = _PLAIN_DIFF.get(words[at], ()) if at < len(words) else ()
    return [*words[: at + 1], *plain, *words[at + 1 :]]


def _overrides(settings: Iterable[str]) -> Iterator[tuple[str, str]]:
    for name in dict.fromkeys(settings):
        for pattern, value in _STARTS_PROGRAMS:
            if re.fullmatch(pattern, name, re.IGNORECASE):
                yield name, value
                break


def _before_subcommand(words: Sequence[str]) -> int:
    at = 0
    while at < len(words) and words[at].startswith("-"):
        at += 2 if words[at] in _OPTIONS_WITH_VALUE else 1
    return min(at, len(words))
