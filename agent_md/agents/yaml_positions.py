"""Parses YAML into a tree of nodes that keep their position and their original text.

The scanner and parser are PyYAML's safe ones; what could surprise is refused on the way: anchors, aliases, tags,
directives, merge keys, duplicate keys, several documents, and more depth or more values than any file needs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal, NoReturn

import yaml

from agent_md.agents.source import Mark, Source
from agent_md.agents.yaml_error_hints import explain

__all__ = ["MAX_BYTES", "MAX_DEPTH", "MAX_VALUES", "Entry", "Mapping", "Node", "Scalar", "Sequence", "load_mapping"]

MAX_BYTES = 256 * 1024
MAX_DEPTH = 32
MAX_VALUES = 10_000

Kind = Literal["str", "null", "bool", "int", "float", "timestamp"]
"""What YAML 1.1 takes an unquoted scalar for."""

_KINDS: dict[str, Kind] = {
    f"tag:yaml.org,2002:{kind}": kind for kind in ("str", "null", "bool", "int", "float", "timestamp")
}
_LONGEST_SHOWN = 64
_INVISIBLE = re.compile("\r(?!\n)|[\x85\u2028\u2029\ufeff]")
_UNUSABLE = re.compile("[\x00\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Scalar:
    """One scalar. `text` is what was written, without quotes and escapes; `kind` is `str` whenever it was quoted."""

    mark: Mark
    end: Mark
    text: str
    plain: bool
    kind: Kind

    def described(self) -> str:
        """What YAML read, for a message: `the boolean false`, `the number 7`, `the text "30m"`."""
        if self.kind == "null":
            return "null"
        shown = self.text if len(self.text) <= _LONGEST_SHOWN else self.text[: _LONGEST_SHOWN - 1] + "…"
        if self.kind == "str":
            return f'the text "{shown}"'
        name = {"bool": "the boolean", "int": "the number", "float": "the number", "timestamp": "the date"}[self.kind]
        return f"{name} {str(_yaml_value(self.text)).lower()}"


@dataclass(frozen=True, slots=True)
class Sequence:
    mark: Mark
    items: tuple[Node, ...]

    def described(self) -> str:
        return "a list"


@dataclass(frozen=True, slots=True)
class Entry:
    """One key of a mapping, as written, and its value."""

    mark: Mark
    key: str
    value: Node


@dataclass(frozen=True, slots=True)
class Mapping:
    mark: Mark
    entries: dict[str, Entry] = field(default_factory=dict)

    def described(self) -> str:
        return "a mapping"


Node = Scalar | Sequence | Mapping


def load_mapping(source: Source, *, max_bytes: int = MAX_BYTES, any_character: bool = False) -> Mapping | None:
    """The mapping that the text is; an empty text is an empty one. None, with the mistake noted, if it cannot be read.

    Duplicate keys are noted and the first is kept, so that the rest can be checked too. With `any_character`, escapes
    may also stand for NUL and for halves of surrogate pairs.
    """
    if len(source.text.encode(errors="surrogatepass")) > max_bytes:
        source.note(
            Mark(source.first_line, 1), f"the settings are larger than {max_bytes // 1024} KiB; move text to the body"
        )
        return None
    if found := _INVISIBLE.search(source.text):
        char = found.group()
        source.note(
            _mark_at(source, found.start()),
            f"there is an invisible U+{ord(char):04X} here, which YAML takes for something else than editors do; "
            "remove it (and end lines with LF or CRLF)",
        )
        return None
    try:
        return _Composer(source, any_character).document()
    except _Refused as refusal:
        source.note(refusal.mark, refusal.text)
    except yaml.reader.ReaderError as error:
        source.note(
            _mark_at(source, error.position),
            f"there is a control character U+{ord(source.text[error.position]):04X} here; remove it, or write it as an "
            "escape in double quotes",
        )
    except yaml.MarkedYAMLError as error:
        source.note(*explain(error, source))
    return None


class _Refused(Exception):
    """Legal YAML that is refused here."""

    def __init__(self, mark: Mark, text: str) -> None:
        super().__init__(text)
        self.mark = mark
        self.text = text


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader, stopped where its scanner meets what is refused.

    Stopping in the scanner keeps the time of a refusal independent of what follows.
    """

    def __init__(self, source: Source) -> None:
        self.source = source
        super().__init__(source.text)

    def here(self) -> Mark:
        return Mark(self.line + self.source.first_line, self.column + 1)

    def fetch_flow_collection_start(self, token: Any) -> None:
        if self.flow_level >= MAX_DEPTH:
            raise _too_deep(self.here())
        super().fetch_flow_collection_start(token)

    def fetch_alias(self) -> None:
        self._refuse("an unquoted * starts an alias in YAML, and aliases are not supported")

    def fetch_anchor(self) -> None:
        self._refuse("an unquoted & starts an anchor in YAML, and anchors are not supported")

    def fetch_tag(self) -> None:
        self._refuse("an unquoted ! starts a tag in YAML, and tags are not supported")

    def fetch_directive(self) -> None:
        self._refuse("a line that starts with % is a directive in YAML, and directives are not supported")

    def fetch_document_start(self) -> None:
        if self.tokens_taken + len(self.tokens) > 1:
            self._refuse("a second YAML document starts here; there must be one")
        super().fetch_document_start()

    def fetch_document_end(self) -> None:
        self._refuse("the YAML document ends here; a closing line must be exactly --- or ...")

    def _refuse(self, text: str) -> NoReturn:
        mark = self.here()
        rest = self.source.line(mark.line)[mark.column - 1 :]
        value = re.match(r"[^,\[\]{}]*" if self.flow_level else r".*?(?=\s+#|$)", rest)
        end = mark.column + len(value.group().rstrip()) if value else None
        raise _Refused(mark, f"{text}; if this is meant as text, {self.source.with_quotes(mark, end)}")


class _Composer:
    def __init__(self, source: Source, any_character: bool) -> None:
        self._source = source
        self._any_character = any_character
        self._loader: Any = _Loader(source)  # Any: its stubs are untyped
        self._values = 0

    def document(self) -> Mapping:
        """Reads the whole text: a mapping, or nothing."""
        self._next()  # the start of the stream
        start = Mark(self._source.first_line, 1)
        if isinstance(self._next(), yaml.StreamEndEvent):
            return Mapping(start)
        root = self._node(self._next(), 0)
        self._next()  # the end of the document
        self._next()  # the end of the stream: a second document is refused by the loader
        if isinstance(root, Scalar) and root.kind == "null":
            return Mapping(start)
        if not isinstance(root, Mapping):
            raise _Refused(root.mark, f"expected lines such as `key: value`, read {root.described()}")
        return root

    def _next(self) -> yaml.Event:
        try:
            event: yaml.Event = self._loader.get_event()
        except (ValueError, OverflowError):  # chr() of an escape such as "\UFFFFFFFF"
            raise _Refused(self._loader.here(), "this escape is no character; write the character itself") from None
        return event

    def _node(self, event: yaml.Event, depth: int) -> Node:
        mark = self._mark(event.start_mark)
        self._values += 1
        if self._values > MAX_VALUES:
            raise _Refused(mark, f"there are more than {MAX_VALUES} values; move data to a file of its own")
        if isinstance(event, yaml.ScalarEvent):
            return self._scalar(event, mark)
        if depth >= MAX_DEPTH:
            raise _too_deep(mark)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(mark, depth + 1)
        return self._mapping(mark, depth + 1)

    def _sequence(self, mark: Mark, depth: int) -> Sequence:
        items = []
        while not isinstance(event := self._next(), yaml.SequenceEndEvent):
            items.append(self._node(event, depth))
        return Sequence(mark, tuple(items))

    def _mapping(self, mark: Mark, depth: int) -> Mapping:
        entries: dict[str, Entry] = {}
        while not isinstance(event := self._next(), yaml.MappingEndEvent):
            key = self._node(event, depth)
            value = self._node(self._next(), depth)
            if not isinstance(key, Scalar) or key.kind == "null":
                raise _Refused(key.mark, f"a key must be a text, read {key.described()}")
            if key.plain and key.text == "<<":
                raise _Refused(key.mark, "merge keys (<<) are not supported; write the keys out")
            if first := entries.get(key.text):
                self._source.note(
                    key.mark,
                    f"{key.text}: given twice, in line {first.mark.line} and in line {key.mark.line}; keep one",
                )
                continue
            entries[key.text] = Entry(key.mark, key.text, value)
        return Mapping(mark, entries)

    def _scalar(self, event: yaml.ScalarEvent, mark: Mark) -> Scalar:
        if not self._any_character and (found := _UNUSABLE.search(event.value)):
            raise _Refused(
                mark,
                f"the value has an escape for U+{ord(found.group()):04X}, which is no text; write the character itself",
            )
        plain = event.style is None
        tag = self._loader.resolve(yaml.ScalarNode, event.value, (True, False)) if plain else ""
        return Scalar(mark, self._mark(event.end_mark), event.value, plain, _KINDS.get(tag, "str"))

    def _mark(self, mark: Any) -> Mark:
        return Mark(mark.line + self._source.first_line, mark.column + 1)


def _too_deep(mark: Mark) -> _Refused:
    return _Refused(mark, f"the settings are nested more than {MAX_DEPTH} deep; make them flatter")


def _mark_at(source: Source, index: int) -> Mark:
    before = source.text[:index]
    return Mark(source.first_line + before.count("\n"), index - before.rfind("\n"))


def _yaml_value(text: str) -> object:
    if len(text) > _LONGEST_SHOWN:
        return text[: _LONGEST_SHOWN - 1] + "…"
    try:
        return yaml.safe_load(text)
    except ValueError:  # such as 2024-13-45, which looks like a date
        return text
