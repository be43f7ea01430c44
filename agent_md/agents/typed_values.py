"""Converts positioned YAML to typed values, strictly, and collects every error with its position.

YAML 1.1 takes `no` for false, `1.10` for 1.1 and `1:30` for 90. A value is understood where the field leaves no doubt
(`enabled: no`, `history: off`); anywhere else the mistake names what YAML made of it and gives the line to paste.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection, Iterable
from typing import Any, TypeVar

from agent_md.agents.names import nearest
from agent_md.agents.source import Mark, Source
from agent_md.agents.yaml_positions import Entry, Mapping, Node, Scalar, Sequence

__all__ = ["Section", "json_safe", "note_cut_texts", "read_text"]

T = TypeVar("T")
D = TypeVar("D")

_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*(?:_[0-9]+)*)")
_DECIMAL = re.compile(r"[-+]?(?:0|[1-9][0-9]*(?:_[0-9]+)*)?(?:\.[0-9]+)?(?:[eE][-+]?[0-9]{1,3})?")
_LONGEST_NUMBER = 18
_LARGEST_EXACT = 2**53
_TRUE = ("true", "yes", "on")
_BOOLEANS = {"true": True, "false": False}


class Section:
    """Typed access to one mapping of a file.

    Every getter gives `default` for a key that is missing or null, and also, with the mistake noted in the source, for
    a value of a wrong type. `label` is how messages name the mapping: "" for the outermost.
    """

    def __init__(self, source: Source, mapping: Mapping, label: str = "") -> None:
        self.source = source
        self.mapping = mapping
        self.label = label

    def node(self, key: str) -> Node | None:
        """The value of a key; None if it is missing or null."""
        entry = self.mapping.entries.get(key)
        if entry is None or (isinstance(entry.value, Scalar) and entry.value.kind == "null"):
            return None
        return entry.value

    def name(self, key: str) -> str:
        """The key as messages name it: `settings.timeout`."""
        return f"{self.label}.{key}" if self.label else key

    def note(self, key: str, text: str) -> None:
        """Notes a mistake about a key, at its value, or at its mapping if it is missing."""
        node = self.node(key) or self.mapping
        self.source.note(node.mark, f"{self.name(key)}: {text}")

    def check_keys(
        self,
        known: Collection[str],
        elsewhere: dict[str, str] | None = None,
        advice: Callable[[Entry], str | None] = lambda entry: None,
    ) -> None:
        """Notes every key that is not known; `elsewhere` says for a key where it belongs, `advice` what to write."""
        for entry in self.mapping.entries.values():
            if entry.key not in known:
                text = advice(entry) or _unknown(entry, known, elsewhere or {})
                self.source.note(entry.mark, f"{self.name(entry.key)}: {text}")

    def alias(self, key: str, other: str) -> str:
        """The one of two names of a field that is given; both together are a mistake."""
        entries = self.mapping.entries
        if key in entries and other in entries:
            lines = f"line {entries[key].mark.line} and line {entries[other].mark.line}"
            self.source.note(
                entries[other].mark, f"{self.name(other)}: the same as {self.name(key)}, given in {lines}; keep one"
            )
        return key if key in entries else other

    def text(self, key: str, parse: Callable[[str], T], default: D) -> T | D:
        """A text, as `parse` understands it."""
        value = self._text(key, parse)
        return default if value is None else value[0]

    def prose(self, key: str, default: str) -> str:
        """A text in which every ` #` is taken for a part of it, so a comment behind it is a mistake."""
        value = self._text(key, str, prose=True)
        return default if value is None else value[0]

    def secret(self, key: str, parse: Callable[[str], T]) -> T | None:
        """A text that no message shows."""
        value = self._text(key, parse, secret=True)
        return None if value is None else value[0]

    def word(self, key: str, choices: Collection[str], default: D, meant: dict[str, str] | None = None) -> str | D:
        """One of a few words. `meant` has what is said to somebody who writes another word, in lower case."""
        node = self.node(key)
        if node is None:
            return default
        if isinstance(node, Scalar) and node.text in choices:
            return node.text
        hint = None
        if isinstance(node, Scalar):
            hint = (meant or {}).get(node.text.lower()) or nearest(node.text, choices)
        suggestion = f"; did you mean {hint}?" if hint else ""
        self.note(key, f"expected one of {', '.join(choices)}, {_read(node)}{suggestion}")
        return default

    def flag(self, key: str, default: bool) -> bool:
        """True or false; YAML's own other words for them (yes, no, on, off) are plain here."""
        node = self.node(key)
        if node is None:
            return default
        if isinstance(node, Scalar) and node.kind == "bool":
            return node.text.lower() in _TRUE
        self.note(key, f"expected true or false, {_read(node)}")
        return default

    def integer(self, key: str, default: D, low: int, high: int = 10**12) -> int | D:
        """A whole number."""
        value = self._number(key, _INTEGER, "a whole number", low, high)
        return default if value is None else int(value)

    def number(self, key: str, default: D, low: float, high: float = 10**12) -> float | D:
        """A number."""
        value = self._number(key, _DECIMAL, "a number", low, high)
        return default if value is None else float(value)

    def integer_or_none(self, key: str, default: int | None, low: int) -> int | None:
        """A whole number, or None for the word `none`."""
        if self._says_none(key):
            return None
        value = self._number(key, _INTEGER, "a whole number or none", low, 10**12)
        return default if value is None else int(value)

    def number_or_none(self, key: str, default: float | None, low: float, high: float = 10**12) -> float | None:
        """A number, or None for the word `none`."""
        if self._says_none(key):
            return None
        value = self._number(key, _DECIMAL, "a number or none", low, high)
        return default if value is None else float(value)

    def items(self, key: str) -> tuple[Node, ...] | None:
        """The nodes of a list; a single text is a list of one. None if missing, null or wrong."""
        node = self.node(key)
        if isinstance(node, Mapping):
            self.note(key, "expected a list, read a mapping; put each item on a line that starts with -")
            return None
        return node.items if isinstance(node, Sequence) else None if node is None else (node,)

    def texts(self, key: str, parse: Callable[[str], T], default: D) -> tuple[T, ...] | D:
        """A list of texts, each as `parse` understands it; wrong items are left out."""
        items = self.items(key)
        if items is None:
            return default
        values = (read_text(self.source, item, self.name(key), parse) for item in items)
        return tuple(value[0] for value in values if value is not None)

    def section(self, key: str) -> Section:
        """The mapping under a key; an empty one if it is missing, null or wrong."""
        node = self.node(key)
        if node is not None and not isinstance(node, Mapping):
            self.note(key, f"expected a mapping (lines such as `key: value` below it), {_read(node)}")
        mapping = node if isinstance(node, Mapping) else Mapping(self._mark(key))
        return Section(self.source, mapping, self.name(key))

    def _mark(self, key: str) -> Mark:
        entry = self.mapping.entries.get(key)
        return entry.mark if entry else self.mapping.mark

    def _text(
        self, key: str, parse: Callable[[str], T], *, prose: bool = False, secret: bool = False
    ) -> tuple[T] | None:
        node = self.node(key)
        return None if node is None else read_text(self.source, node, self.name(key), parse, prose=prose, secret=secret)

    def _says_none(self, key: str) -> bool:
        node = self.node(key)
        return isinstance(node, Scalar) and node.text == "none"

    def _number(self, key: str, form: re.Pattern[str], expected: str, low: float, high: float) -> float | int | None:
        node = self.node(key)
        if node is None:
            return None
        value = _parsed_number(node, form)
        if value is None:
            self.note(key, f"expected {expected}, {_read(node)}")
        elif not low <= value <= high:
            self.note(key, f"{value} is out of range; it must be from {low} to {high}")
        else:
            return value
        return None


def read_text(
    source: Source,
    node: Node,
    label: str,
    parse: Callable[[str], T],
    *,
    prose: bool = False,
    secret: bool = False,
) -> tuple[T] | None:
    """The text of a node as `parse` understands it, alone in a tuple; None, with the mistake noted, if it is none.

    `parse` raises ValueError for a text it does not take.
    """
    problem = _cut(source, node, prose=prose) if isinstance(node, Scalar) else f"expected a text, {_read(node)}"
    if problem is None and isinstance(node, Scalar):
        try:
            value = parse(node.text)
        except ValueError as error:
            problem = str(error) if node.kind == "str" else f"{_surprise(node)}; {error}"
            if node.kind == "null" and not node.text:
                problem = "there is an empty item; remove it"
        else:
            if node.kind == "str":
                return (value,)
            problem = f"{_surprise(node)}; {source.with_quotes(node.mark, node.end.column)}"
    if secret and not (isinstance(node, Scalar) and node.kind == "str"):
        problem = "expected a text; put it in quotes"
    source.note(node.mark, f"{label}: {problem}")
    return None


def json_safe(node: Node) -> Any:
    """The node as JSON has it. A scalar becomes a number, boolean or null only if JSON writes it the same way.

    So `1.10`, `007`, `yes` and `2024-01-01` stay the texts that they are.
    """
    if isinstance(node, Sequence):
        return [json_safe(item) for item in node.items]
    if isinstance(node, Mapping):
        return {entry.key: json_safe(entry.value) for entry in node.entries.values()}
    if node.kind == "null":
        return None
    if node.kind == "bool":
        return _BOOLEANS.get(node.text.lower(), node.text)
    if node.kind in ("int", "float") and len(node.text) <= _LONGEST_NUMBER:
        return _json_number(node.text)
    return node.text


def note_cut_texts(source: Source, node: Node, label: str) -> None:
    """Notes every unquoted text below a node that is cut by ` #` without a blank behind it."""
    children: Iterable[Node] = ()
    if isinstance(node, Sequence):
        children = node.items
    elif isinstance(node, Mapping):
        children = [entry.value for entry in node.entries.values()]
    elif problem := _cut(source, node, prose=False):
        source.note(node.mark, f"{label}: {problem}")
    for child in children:
        note_cut_texts(source, child, label)


def _json_number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            value: int | float = kind(text)
        except ValueError:
            continue
        if str(value) == text and math.isfinite(value) and abs(value) <= _LARGEST_EXACT:
            return value
    return text


def _parsed_number(node: Node, form: re.Pattern[str]) -> int | float | None:
    if not isinstance(node, Scalar) or not node.plain or len(node.text) > _LONGEST_NUMBER:
        return None
    if not form.fullmatch(node.text) or not any(char.isdigit() for char in node.text):
        return None
    value = int(node.text) if _INTEGER.fullmatch(node.text) else float(node.text)
    return value if math.isfinite(value) else None


def _cut(source: Source, node: Scalar, *, prose: bool) -> str | None:
    if not node.plain or node.kind != "str":
        return None
    rest = source.line(node.end.line)[node.end.column - 1 :]
    if not re.match(r"\s+#" if prose else r"\s+#[^\s#]", rest):
        return None
    mend = source.with_quotes(node.mark) if node.mark.line == node.end.line else "put the whole value in quotes"
    return f'" #" starts a comment, so YAML reads only {node.described()}; {mend}, or give the comment its own line'


def _surprise(node: Scalar) -> str:
    return f"YAML reads {node.text[:60]} as {node.described()}"


def _read(node: Node) -> str:
    if isinstance(node, Scalar) and node.kind not in ("str", "null"):
        described = node.described()
        return (
            f"read {described}"
            if described.endswith(f" {node.text}")
            else f"read {node.text[:60]}, for YAML {described}"
        )
    if isinstance(node, Mapping):
        return "read a mapping (if a text with a colon was meant, put it in quotes)"
    return f"read {node.described()}"


def _unknown(entry: Entry, known: Collection[str], elsewhere: dict[str, str]) -> str:
    if place := elsewhere.get(entry.key):
        return f"did you mean {place}? There is no {entry.key} here"
    if hint := nearest(entry.key, known):
        return f"did you mean {hint}? There is no {entry.key} here"
    return f"there is no such key here; the keys are {', '.join(known)}"
