"""The arguments of a call as editable text: YAML with block texts, or JSON."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import yaml

from agent_md.cli.asking.answer_parsing import json_value
from agent_md.errors import AnswerRefused, UsageError
from agent_md.models.yaml_values import NodeReader
from agent_md.visible_text import is_suspicious

__all__ = ["arguments_in", "text_of"]

_NAME = "arguments"


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)


def text_of(args: dict[str, Any]) -> str:
    """A text that `arguments_in` reads as exactly these arguments. Without a line end behind it, unless that belongs to
    them."""
    hidden = is_suspicious(args)  # escapes instead of what an editor would not show
    written = yaml.dump(args, Dumper=_Dumper, allow_unicode=not hidden, sort_keys=False, width=10_000)
    if written.endswith("\n...\n"):  # how PyYAML ends a text whose last line ends count
        written = written.removesuffix("...\n")
    for text in (written.rstrip("\n"), written):
        with suppress(AnswerRefused):
            if arguments_in(text) == args:
                return text
    return json.dumps(args, ensure_ascii=hidden, indent=2)


def arguments_in(text: str) -> dict[str, Any]:
    """The arguments that the text says, in YAML or JSON. Raises AnswerRefused naming the line."""
    value = _json(text) if text.lstrip().startswith("{") else _yaml(text)
    if not isinstance(value, dict):
        raise AnswerRefused("the arguments are no mapping; write each as `name: value`")
    return value


def _json(text: str) -> Any:
    try:
        return json_value(text)
    except ValueError as error:
        raise AnswerRefused(f"the arguments are not JSON: {error}") from None


def _yaml(text: str) -> Any:
    reader = NodeReader(_NAME, UsageError)
    try:
        root = reader.root(text, "name")
        return reader.json_object(root, _NAME)
    except UsageError as error:
        raise AnswerRefused(str(error)) from None
