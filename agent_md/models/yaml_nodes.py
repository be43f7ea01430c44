"""Reads YAML by its nodes, which know their lines and have not yet guessed any types."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Collection
from typing import Any, NoReturn, TypeVar

import yaml

from agent_md.errors import UsageError

__all__ = ["NodeReader"]

T = TypeVar("T")

_TAG = "tag:yaml.org,2002:"
_DEEPEST = 50
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?")
_SHAPES = {
    "int": "a number",
    "float": "a number",
    "bool": "a boolean to YAML",
    "null": "empty",
    "timestamp": "a date to YAML",
    "seq": "a list",
    "map": "a mapping",
    "str": "a text",
}


class NodeReader:
    """The typed values of one YAML text. Every mistake is a `kind` of error that names `path` and the line."""

    def __init__(self, path: str, kind: type[UsageError]) -> None:
        self._path = path
        self._kind = kind

    def refuse(self, node: yaml.Node | None, problem: str) -> NoReturn:
        """Raises the error, with the line of `node` if there is one."""
        raise self._kind(f"{self._path}{_line(node.start_mark) if node is not None else ''}: {problem}")

    def compose(self, text: str) -> yaml.Node | None:
        """The root node; None if the text is empty. Aliases are refused: they hide values and grow them."""
        try:
            self._check_events(text)
            root: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            where = f"{_line(mark)}, column {mark.column + 1}" if mark is not None else ""
            raise self._kind(f"{self._path}{where}: not YAML: {error.problem or error.context}") from None
        except yaml.YAMLError as error:
            raise self._kind(f"{self._path}: not YAML: {' '.join(str(error).split())}") from None
        return root

    def _check_events(self, text: str) -> None:
        depth = 0
        for event in yaml.parse(text, Loader=yaml.SafeLoader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if isinstance(event, yaml.AliasEvent):
                where = _line(event.start_mark)
                raise self._kind(f"{self._path}{where}: *{event.anchor} is an alias; put the text in quotes")
            if depth > _DEEPEST:
                raise self._kind(f"{self._path}{_line(event.start_mark)}: nested more than {_DEEPEST} deep")

    def mapping(
        self, node: yaml.Node, what: str, known: Collection[str], required: Collection[str] = ()
    ) -> dict[str, yaml.Node]:
        """The value nodes by key; unknown, repeated and missing keys are mistakes."""
        found = self.entries(node, what)
        for name, value in found.items():
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(sorted(known))}"
                self.refuse(value, f"{what} has an unknown key {name!r}; {hint}")
        for name in sorted(set(required) - found.keys()):
            self.refuse(node, f"{what} has no {name!r}")
        return found

    def entries(self, node: yaml.Node, what: str) -> dict[str, yaml.Node]:
        """The value nodes of a mapping by key, whatever the keys; a repeated one is a mistake."""
        if not isinstance(node, yaml.MappingNode):
            self.refuse(node, f"{what} is {_shape(node)}, expected a mapping")
        found: dict[str, yaml.Node] = {}
        for key, value in node.value:
            name = self.text(key, f"a key of {what}")
            if name in found:
                self.refuse(key, f"{what} has {name!r} twice")
            found[name] = value
        return found

    def items(self, node: yaml.Node, what: str, read: Callable[[yaml.Node], T]) -> tuple[T, ...]:
        """The items of a list, each as `read` gives it."""
        if not isinstance(node, yaml.SequenceNode):
            self.refuse(node, f"{what} is {_shape(node)}, expected a list")
        return tuple(read(item) for item in node.value)

    def text(self, node: yaml.Node, what: str) -> str:
        """A text as written; what YAML takes for something else has to be quoted."""
        if not isinstance(node, yaml.ScalarNode) or node.tag != f"{_TAG}str":
            self.refuse(node, f"{what} is {_shape(node)}, expected a text; put it in quotes")
        return str(node.value)

    def number(self, node: yaml.Node, what: str) -> float:
        """A number of at least 0."""
        value = self.value(node, what)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
            self.refuse(node, f"{what} is {_shown(node)}, expected a number of at least 0")
        return float(value)

    def count(self, node: yaml.Node, what: str) -> int:
        """A whole number of at least 0."""
        value = self.number(node, what)
        if not value.is_integer():
            self.refuse(node, f"{what} is {_shown(node)}, expected a whole number")
        return int(value)

    def pattern(self, node: yaml.Node, what: str) -> re.Pattern[str]:
        """A regular expression."""
        try:
            return re.compile(self.text(node, what))
        except re.error as error:
            self.refuse(node, f"{what} is no regular expression: {error}")

    def json_object(self, node: yaml.Node, what: str) -> dict[str, Any]:
        """A mapping of JSON values."""
        return {key: self.value(item, f"{what}.{key}") for key, item in self.entries(node, what).items()}

    def value(self, node: yaml.Node, what: str) -> Any:
        """A JSON value. Only JSON's own spelling of numbers, true, false and null is taken; the rest needs quotes."""
        if isinstance(node, yaml.MappingNode):
            return self.json_object(node, what)
        if isinstance(node, yaml.SequenceNode):
            return list(self.items(node, what, lambda item: self.value(item, what)))
        tag = node.tag.removeprefix(_TAG)
        if tag == "str":
            return str(node.value)
        is_number = tag in ("int", "float") and _NUMBER.fullmatch(node.value)
        is_word = tag in ("bool", "null") and node.value in ("true", "false", "null")
        if not is_number and not is_word:
            self.refuse(node, f"{what} is {_shown(node)}, which YAML reads in its own way; put it in quotes")
        return json.loads(node.value)


def _line(mark: Any) -> str:
    return f", line {mark.line + 1}"


def _shape(node: yaml.Node) -> str:
    return _SHAPES.get(node.tag.removeprefix(_TAG), f"a {node.tag}")


def _shown(node: yaml.Node) -> str:
    return str(node.value) or "empty" if isinstance(node, yaml.ScalarNode) else _shape(node)
