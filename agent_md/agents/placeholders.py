"""Renders the prompt of an execution: replaces the placeholders in an agent's body and in the human message.

Pure text work: nothing is run through a shell, and what was put in is never looked at again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

from agent_md.errors import ConfigInvalid

__all__ = ["BEGIN", "Prompt", "expand", "render", "variables"]

BEGIN = "Begin."
"""The human message when there is nothing else to say."""

_VARIABLE = r"\$\{(?P<variable>[A-Za-z_][A-Za-z0-9_]*)\}"
_BODY = re.compile(
    rf"(?P<dollar>\$\$)|(?P<all>\$ARGUMENTS)(?![A-Za-z0-9_])|\$(?P<number>[1-9][0-9]{{0,3}})(?![0-9])|{_VARIABLE}"
)
_CONFIG = re.compile(rf"(?P<dollar>\$\$)|{_VARIABLE}")
_FENCE = re.compile(r"[ \t]*(?P<fence>`{3,}(?=[^`]*$)|~{3,})")


class Prompt(NamedTuple):
    """The system prompt and the human message that an execution starts with."""

    system: str
    human: str


def render(
    body: str,
    args: Sequence[str],
    message: str | None,
    environ: Mapping[str, str],
    forbidden: Collection[str],
    placeholders: Collection[str] = (),
) -> Prompt:
    """Fills the body: `$ARGUMENTS`, `$1`, … from `args`, `${NAME}` from `environ`, `$$` as `$`; fenced code stays.

    A `$N` without an argument becomes nothing. Arguments that have no place in the body are appended to the message, on
    a line of their own. Names in `forbidden` are not in the environment as far as a body is concerned; those in
    `placeholders` stay as `${NAME}`. Raises ConfigInvalid naming every variable that is missing.
    """
    filler = _Filler(args, {name: value for name, value in environ.items() if name not in forbidden}, placeholders)
    system = "".join(part if fenced else _BODY.sub(filler, part) for fenced, part in _parts(body))
    if filler.missing:
        raise ConfigInvalid(_missing("the agent's body", filler.missing, forbidden))
    rest = " ".join(arg for number, arg in enumerate(args, 1) if not filler.placed(number))
    parts = [part for part in (message, rest) if part and part.strip()]
    return Prompt(system, "\n".join(parts) or BEGIN)


def variables(text: str, *, of_body: bool) -> list[str]:
    """The names of the `${NAME}` that are filled in an agent's body, or in another setting, in their order."""
    pattern = _BODY if of_body else _CONFIG
    parts = [part for fenced, part in _parts(text) if not fenced] if of_body else [text]
    names = (found["variable"] for part in parts for found in pattern.finditer(part))
    return list(dict.fromkeys(name for name in names if name))


def expand(text: str, environ: Mapping[str, str], where: str) -> str:
    """A text of the model or MCP settings with `${NAME}` from the environment, and `$$` as `$`.

    `where` names the setting in the message of the ConfigInvalid that a missing variable raises.
    """
    filler = _Filler((), environ, ())
    expanded = _CONFIG.sub(filler, text)
    if filler.missing:
        raise ConfigInvalid(_missing(where, filler.missing, ()))
    return expanded


class _Filler:
    """Gives the text for each placeholder, and keeps what was asked for."""

    def __init__(self, args: Sequence[str], environ: Mapping[str, str], placeholders: Collection[str]) -> None:
        self._args = args
        self._environ = environ
        self._placeholders = placeholders
        self._numbers: set[int] = set()
        self._all = False
        self.missing: dict[str, None] = {}

    def placed(self, number: int) -> bool:
        """Whether argument `number`, from 1, had a place."""
        return self._all or number in self._numbers

    def __call__(self, found: re.Match[str]) -> str:
        groups = found.groupdict()
        if groups["dollar"]:
            return "$"
        if groups.get("all"):
            self._all = True
            return " ".join(self._args)
        if number := groups.get("number"):
            self._numbers.add(int(number))
            return self._args[int(number) - 1] if int(number) <= len(self._args) else ""
        return self._variable(found, groups["variable"])

    def _variable(self, found: re.Match[str], name: str) -> str:
        if name in self._placeholders:
            return found.group()
        if name not in self._environ:
            self.missing[name] = None
            return ""
        return self._environ[name]


def _parts(body: str) -> Iterator[tuple[bool, str]]:
    """The body in runs of lines, each with whether it is fenced code, its fences included."""
    closes: Callable[[str], bool] | None = None
    run: list[str] = []
    for line in re.findall(r"[^\n]*\n|[^\n]+", body):
        if closes is None and (opening := _FENCE.match(line.rstrip("\r\n"))):
            yield False, "".join(run)
            run, closes = [line], _closing(opening["fence"])
        elif closes is not None and closes(line):
            yield True, "".join([*run, line])
            run, closes = [], None
        else:
            run.append(line)
    yield closes is not None, "".join(run)


def _closing(fence: str) -> Callable[[str], bool]:
    pattern = re.compile(rf"[ \t]*{re.escape(fence[0])}{{{len(fence)},}}[ \t]*\r?\n?")
    return lambda line: pattern.fullmatch(line) is not None


def _missing(where: str, names: Collection[str], forbidden: Collection[str]) -> str:
    secret = [name for name in names if name in forbidden]
    unset = [name for name in names if name not in forbidden]
    texts = []
    if unset:
        texts.append(
            f"{where} uses {_list(unset)}, which the environment does not have; "
            f"set {'it' if len(unset) == 1 else 'them'}, or write $${{{unset[0]}}} for the text itself"
        )
    if secret:
        texts.append(
            f"{where} uses {_list(secret)}, which is never put into a prompt because it holds a secret; "
            f"remove it, or write $${{{secret[0]}}} for the text itself"
        )
    return "; ".join(texts)


def _list(names: Sequence[str]) -> str:
    return ", ".join(f"${{{name}}}" for name in names)
