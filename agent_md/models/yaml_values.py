"""Converts YAML of scripts and price files to typed values; the first error is raised.

The text is read by the one reader of YAML, `agents/yaml_positions.py`.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Collection
from typing import Any, NoReturn, TypeVar

from agent_md.agents.source import Source
from agent_md.agents.yaml_positions import Mapping, Node, Scalar, Sequence, load_mapping
from agent_md.errors import UsageError
from agent_md.models.text_pattern import TextPattern

__all__ = ["MAX_BYTES", "NodeReader"]

MAX_BYTES = 1024 * 1024

T = TypeVar("T")

_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_KINDS = {
    "int": "a number",
    "float": "a number",
    "bool": "a boolean to YAML",
    "null": "empty",
    "timestamp": "a date to YAML",
    "str": "a text",
}


class NodeReader:
    """The typed values of one YAML text. Every mistake is a `kind` of error that names `path` and the line."""

    def __init__(self, path: str, kind: type[UsageError]) -> None:
        self._path = path
        self._kind = kind

    def refuse(self, node: Node, problem: str) -> NoReturn:
        """Raises the error, with the line of `node`."""
        raise self._kind(f"{self._path}, line {node.mark.line}: {problem}")

    def root(self, text: str, start: str) -> Mapping:
        """The mapping that the text is; `start` is the key that an empty text lacks."""
        source = Source(self._path, text)
        root = load_mapping(source, max_bytes=MAX_BYTES, any_character=True)
        if source.mistakes:
            mark, problem = min(source.mistakes)
            raise self._kind(f"{self._path}, line {mark.line}, column {mark.column}: {problem}")
        if root is None or not root.entries:
            raise self._kind(f"{self._path}: the file is empty; it starts with `{start}:`")
        return root

    def mapping(self, node: Node, what: str, known: Collection[str], required: Collection[str] = ()) -> dict[str, Node]:
        """The value nodes by key; unknown and missing keys are mistakes."""
        found = self.entries(node, what)
        for name, value in found.items():
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known))}"
                self.refuse(value, f"{what} has an unknown key {name!r}; {hint}")
        for name in sorted(set(required) - found.keys()):
            self.refuse(node, f"{what} has no {name!r}")
        return found

    def entries(self, node: Node, what: str) -> dict[str, Node]:
        """The value nodes of a mapping by key, whatever the keys."""
        if not isinstance(node, Mapping):
            self.refuse(node, f"{what} is {_described(node)}, expected a mapping")
        return {entry.key: entry.value for entry in node.entries.values()}

    def items(self, node: Node, what: str, read: Callable[[Node], T]) -> tuple[T, ...]:
        """The items of a list, each as `read` gives it."""
        if not isinstance(node, Sequence):
            self.refuse(node, f"{what} is {_described(node)}, expected a list")
        return tuple(read(item) for item in node.items)

    def text(self, node: Node, what: str) -> str:
        """A text as written; what YAML takes for something else has to be quoted."""
        if not isinstance(node, Scalar) or node.kind != "str":
            self.refuse(node, f"{what} is {_described(node)}, expected a text; put it in quotes")
        return node.text

    def number(self, node: Node, what: str) -> float:
        """A number of at least 0."""
        value = self.value(node, what)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            self.refuse(node, f"{what} is {_shown(node)}, expected a number of at least 0")
        return float(value)

    def count(self, node: Node, what: str) -> int:
        """A whole number of at least 0."""
        value = self.number(node, what)
        if not value.is_integer():
            self.refuse(node, f"{what} is {_shown(node)}, expected a whole number")
        return int(value)

    def pattern(self, node: Node, what: str) -> TextPattern:
        """A regular expression."""
        try:
            return TextPattern.of(self.text(node, what))
        except ValueError as error:
            self.refuse(node, f"{what} is no regular expression: {error}")

    def json_object(self, node: Node, what: str) -> dict[str, Any]:
        """A mapping of JSON values."""
        return {key: self.value(item, f"{what}.{key}") for key, item in self.entries(node, what).items()}

    def value(self, node: Node, what: str) -> Any:
        """A JSON value. Only JSON's own spelling of numbers, true, false and null is taken; the rest needs quotes."""
        if isinstance(node, Mapping):
            return self.json_object(node, what)
        if isinstance(node, Sequence):
            return list(self.items(node, what, lambda item: self.value(item, what)))
        if node.kind == "str":
            return node.text
        is_number = node.kind in ("int", "float") and _NUMBER.fullmatch(node.text)
        is_word = node.kind in ("bool", "null") and node.text in ("true", "false", "null")
        if not is_number and not is_word:
            self.refuse(node, f"{what} is {_shown(node)}, which YAML reads in its own way; put it in quotes")
        try:
            return json.loads(node.text)
        except ValueError:  # more digits than a number may have
            self.refuse(node, f"{what} is too long for a number; put it in quotes")


def _described(node: Node) -> str:
    return _KINDS[node.kind] if isinstance(node, Scalar) else node.described()


def _shown(node: Node) -> str:
    return node.text or "empty" if isinstance(node, Scalar) else node.described()
