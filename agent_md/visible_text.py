"""Makes untrusted text safe and visible on a terminal.

Names, arguments, questions, options and results come from models, files and servers. Whatever a terminal would obey
(control characters, escape sequences), reorder (bidirectional controls) or swallow (zero-width and tag characters) is
shown as an escape such as `\\x1b` or `\\u202e`, and so are blanks that are no ordinary one. Letters of every script,
combining marks and emoji stay as they are. Joiners are zero-width characters: only prose keeps them, between letters that
join and inside emoji.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterator
from typing import Any

__all__ = ["counted", "is_suspicious", "json_line", "one_line", "visible", "visible_characters"]

_CONTROL = r"\x00-\x1f\x7f-\x9f"
_INVISIBLE = (
    r"\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u2800\u3164"
    r"\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffc\U000110bd\U000110cd\U00013430-\U0001345f\U0001bca0-\U0001bca3"
    r"\U00016fe4\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Format characters, fillers and blanks that look like nothing, variation selectors that choose no emoji. Not the Arabic
and Syriac format characters that have a shape of their own."""
_SURROGATE = r"\ud800-\udfff"
_EMOJI = r"©®‼⁉™ℹ\u2190-\u21ff\u2300-\u27bf\u2934\u2935\u2b00-\u2bff〰〽㊗㊙\U0001f000-\U0001faff"
_STRAY_SELECTOR = rf"(?<![{_EMOJI}#*0-9])[\ufe0e\ufe0f]|(?<=[#*0-9])\ufe0e|(?<=[#*0-9])\ufe0f(?!\u20e3)"
_BLANK = r"\u00a0\u1680\u2000-\u200a\u202f\u205f"
"""Blanks that pass for an ordinary one, and are another character for a program. Prose has them for its looks."""
_UNSAFE = rf"[{_INVISIBLE}{_SURROGATE}]|{_STRAY_SELECTOR}"
_WIDE_BLANK = "\u3000"
"""The blank of Chinese and Japanese; beside a letter that is not wide it passes for two ordinary ones."""
_ESCAPED = re.compile(rf"[{_CONTROL}{_BLANK}{_WIDE_BLANK}]|{_UNSAFE}")
_ESCAPED_ASCII = re.compile(rf"[{_CONTROL}]")
"""What of that is in a text of ASCII alone, which is looked through much faster."""
_JOINED_EMOJI = re.compile(rf"(?<=[{_EMOJI}\ufe0f])\u200d(?=[{_EMOJI}])")
_JAMO = r"\u1160-\u11ff\ud7b0-\ud7ff"
"""Vowels and ends of Korean syllables: letters that are put onto the one before them."""
_MAYBE_PILE = re.compile(rf"(?:[^\w\s\x00-\u02ff]|[{_JAMO}]){{5,}}")
"""No letters that stand for themselves: where a pile of marks may be."""
_IS_JAMO = re.compile(rf"[{_JAMO}]")
_HIGHEST_PILE = 4
"""Marks on one letter that are kept: higher piles cover the lines around them."""
_HIGHEST_TIBETAN = 8
"""Tibetan writes letters of a syllable below one another; for Unicode they are marks."""
_MOST_ON_ONE = 10
"""Characters without a place of their own after one that has it: Indian and Burmese syllables have up to eight, of which
some stand beside the letter."""
_PADDING = r"(?<=\S)[^\S\n]{40}|\n{20}"
"""Blanks that push what follows out of sight; an indentation is none."""
_SUSPICIOUS = re.compile(rf"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)|{_UNSAFE}|{_PADDING}")
_JOINERS = "\u200c\u200d"
_VIRAMA = 9
"""The combining class of signs that join two consonants."""
_JOINING = (
    (0x0600, 0x06FF, 0x0750, 0x077F, 0x0870, 0x08FF),  # Arabic
    (0x0700, 0x074F, 0x0860, 0x086F),  # Syriac
    (0x07C0, 0x07FF),  # N'Ko
    *((block, block + 0x7F) for block in range(0x0900, 0x0E00, 0x80)),  # Devanagari to Sinhala
    (0x1000, 0x109F),  # Myanmar
    (0x1780, 0x17FF),  # Khmer
    (0x1800, 0x18AF),  # Mongolian
    (0x1E900, 0x1E95F),  # Adlam
)
"""Scripts whose letters join, each as the first and the last code of its blocks."""

_NAMED = {"\n": r"\n", "\r": r"\r", "\t": r"\t"}


def visible(text: str, *, one_line: bool = False, prose: bool = False) -> str:
    """The text with everything that a terminal would obey, reorder or hide shown as an escape.

    Newlines and tabs are kept, or shown as `\\n` and `\\t` too with `one_line`. `prose` is for what the agent or the user
    says, where nothing is decided by a single character: joiners and blanks stay where writing has them. The text itself
    is never shortened; what is visible already comes back unchanged.
    """

    def escape(match: re.Match[str]) -> str:
        character = match.group()
        if character in "\n\t" and not one_line:
            return character
        if prose and (unicodedata.category(character) == "Zs" or _joins(text, match.start(), emoji=True)):
            return character
        if character == _WIDE_BLANK and _is_beside_wide(text, match.start()):
            return character
        return _NAMED.get(character) or _escape(ord(character))

    if text.isascii():
        return _ESCAPED_ASCII.sub(escape, text)
    return _MAYBE_PILE.sub(lambda run: "".join(_bounded(run.group())), _ESCAPED.sub(escape, text))


def visible_characters(line: str) -> list[str]:
    """Each character of a line of prose, visible, in its order; tabs are kept, and emoji are shown in parts."""
    shown = list(line)
    for run in _MAYBE_PILE.finditer(line):
        shown[run.start() : run.end()] = _bounded(run.group())
    for match in _ESCAPED.finditer(line):
        character = match.group()
        kept = character == "\t" or unicodedata.category(character) == "Zs" or _joins(line, match.start(), emoji=False)
        if not kept:
            shown[match.start()] = _escape(ord(character))
    return shown


def _joins(text: str, at: int, *, emoji: bool) -> bool:
    """Whether the character is a joiner between letters that join, or with `emoji` inside one."""
    if text[at] not in _JOINERS or at == 0:
        return False
    before, after = text[at - 1], text[at + 1 : at + 2]
    script = _script(before)
    if script is None:
        return emoji and _JOINED_EMOJI.match(text, at) is not None
    return _script(after) == script or (unicodedata.combining(before) == _VIRAMA and after not in tuple(_JOINERS))


def _is_beside_wide(text: str, at: int) -> bool:
    around = text[max(at - 1, 0) : at] + text[at + 1 : at + 2]
    return any(unicodedata.east_asian_width(character) == "W" for character in around)


def _script(character: str) -> int | None:
    """Which script that joins its letters a letter or mark belongs to."""
    if not character or unicodedata.category(character)[0] not in "LM":
        return None
    code = ord(character)
    for script, blocks in enumerate(_JOINING):
        if any(first <= code <= last for first, last in zip(blocks[::2], blocks[1::2], strict=True)):
            return script
    return None


def _bounded(run: str) -> Iterator[str]:
    """Each character of a text without letters, those marks as escapes that are too many on one letter."""
    height = together = 0
    for character in run:
        kind = unicodedata.category(character)
        highest = _HIGHEST_TIBETAN if "\u0f71" <= character <= "\u0fbc" else _HIGHEST_PILE
        height = height + 1 if kind in ("Mn", "Me") else 0
        # What this version of Unicode does not know may be a mark for the terminal.
        has_no_place = kind in ("Mn", "Me", "Mc", "Cn") or _IS_JAMO.match(character) is not None
        together = together + 1 if has_no_place else 0
        yield _escape(ord(character)) if height > highest or together > _MOST_ON_ONE else character


def one_line(text: str) -> str:
    """`visible` on a single line."""
    return visible(text, one_line=True)


def is_suspicious(value: Any) -> bool:
    """Whether a text, or any text within a JSON value, holds what could deceive its reader.

    That is what `visible` escapes, except newlines, tabs, Windows line ends, blanks, and joiners where writing has them;
    and long runs of blanks that push the rest out of sight.
    """
    pending = [value]
    while pending:
        match pending.pop():
            case str(text):
                if _deceives(text):
                    return True
            case dict(entries):
                pending += [*entries.keys(), *entries.values()]
            case list(items) | tuple(items):
                pending += items
    return False


def _deceives(text: str) -> bool:
    if any(
        character.group() not in _JOINERS or not _joins(text, character.start(), emoji=True)
        for character in _SUSPICIOUS.finditer(text)
    ):
        return True
    return any("".join(_bounded(run.group())) != run.group() for run in _MAYBE_PILE.finditer(text))


def json_line(value: Any) -> str:
    """A JSON value on one line of plain ASCII: safe on any terminal, in any encoding, and still the same value."""
    return json.dumps(value, ensure_ascii=True).replace("\x7f", "\\u007f")


def counted(count: int, noun: str) -> str:
    """`1 turn`, `1,234 turns`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _escape(code: int) -> str:
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
