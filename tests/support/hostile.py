"""Texts that would change, hide or break what a terminal shows, if anything obeyed them; and how a surface is judged.

Each begins and ends with a letter, so that what stands around it changes nothing about how it is shown.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from agent_md.visible_text import visible

__all__ = ["HOSTILE", "LONG", "assert_literal", "assert_shown", "stored", "strings_of"]

HOSTILE = {
    "csi": "a\x1b[2K\x1b[1A\x1b[31mred\x1b[0mz",
    "osc": "a\x1b]0;owned\x07\x1b]8;;http://evil\x1b\\click\x1b]8;;\x1b\\z",
    "dcs": "a\x1bP$q\x1b\\\x1b_apc\x1b\\\x1b^pm\x1b\\\x1bcz",
    "c1": "a\x9b31m\x9d0;t\x9c\x90q\x9c\x85z",
    "bidi": "invoice\u202egpj.exe\u202c\u2066left\u2067right\u2069\u200f\u061cz",
    "zero width": "pa\u200bss\u200cwo\u200drd\u2060\ufeff\u00adz",
    "tags": "hi\U000e0041\U000e0042\U000e007fz",
    "selectors": "a\ufe0fb\ufe00c\U000e0100d1\ufe0fz",
    "combining": "z" + "\u0301\u0336\u20dd" * 40 + "z",
    "markup": "a[/b][bold red]x[/][link=http://x]click[/link] \\[b] <b>&amp; **md** `x`z",
    "overwrite": "rm -rf /\rls\r\nok\b\b\b\x7fz",
    "controls": "a\x00\x01\x07\x08\x0b\x0c\x0e\x1fz",
    "surrogates": "a\ud800b\udfffz",
    "separators": "one\u2028two\u2029three\x85four\x1cfivez",
    "tabs": "a\tb\t\tcz",
    "lines": "first\n12:00:00 crook ✅ Done.\n? Confirm all {} [y/N]: yz",
    "fillers": "a\u3164\u115f\u2800\u180ez",
    "emoji": "a👩\u200d💻👍🏽❤️🇩🇪1️⃣ お掃除 전체 z",
    "quotes": "a\"b'c\\d{}%s${HOME}$(id)z",
}

LONG = "x" * 100_000 + "END"
"""One line of 100 KB."""

_OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b\u200c\u200e\u200f\u2028-\u202e\u2060-\u2069\u3164\u115f\u2800\ufeff"
    "\ud800-\udfff\U000e0000-\U000e0fff]|(?<!👩)\u200d|\u200d(?!💻)|(?<=z)\u0301{5}"
)


def stored(text: str) -> str:
    """What is kept of a text that a model writes: no store takes lone surrogates."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def assert_literal(output: str) -> None:
    """Nothing in it would be obeyed, reordered or swallowed by a terminal."""
    found = _OBEYED.search(output)
    assert found is None, (ascii(found), ascii(output[max(0, found.start() - 80) : found.end() + 20]))


def assert_shown(output: str, names: Iterable[str] = tuple(HOSTILE), *, times: int = 1) -> None:
    """These texts of the corpus can be read in the output, whole, at least so many times.

    Folds and the indentation of further lines are not part of a text; in JSON it may be shown with JSON's escapes.
    """
    squeezed = _squeezed(output)
    for name in names:
        texts = {HOSTILE[name], stored(HOSTILE[name])}
        forms = {form for text in texts for form in (text, json.dumps(text, ensure_ascii=False)[1:-1])}
        shown = {_squeezed(visible(form, one_line=True, prose=prose)) for form in forms for prose in (False, True)}
        found = sum(squeezed.count(form) for form in shown)
        assert found >= times, (name, found, sorted(shown), output[-3000:])


def strings_of(value: Any) -> list[str]:
    """All texts within a JSON value, also within texts that are JSON objects themselves."""
    match value:
        case str():
            try:
                inner = json.loads(value)
            except ValueError:
                inner = None
            return [value, *(strings_of(inner) if isinstance(inner, dict) else [])]
        case dict():
            return [text for item in [*value.keys(), *value.values()] for text in strings_of(item)]
        case list():
            return [text for item in value for text in strings_of(item)]
        case _:
            return []


def _squeezed(text: str) -> str:
    return re.sub(r"\s|\\[nt]", "", text)
