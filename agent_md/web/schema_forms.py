"""Forms for the JSON Schema of a custom request, where it is a flat object of plain values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent_md.errors import AnswerRefused
from agent_md.executions.json_values import parse_strictly
from agent_md.web.forms import Form

__all__ = ["Field", "fields_of", "value_from"]

_SIMPLE = ("string", "number", "integer", "boolean")
_KNOWN = frozenset(
    ("type", "title", "description", "enum", "default", "minLength", "maxLength", "minimum", "maximum", "pattern")
)
_MOST = 40
_MOST_CHOICES = 100
PREFIX = "field-"


@dataclass(frozen=True, slots=True)
class Field:
    """One input. `key` is its name in the form; `choices` are what an enum allows, as text."""

    key: str
    name: str
    label: str
    description: str
    type: str
    required: bool
    choices: tuple[str, ...]
    default: str


def fields_of(schema: Any) -> tuple[Field, ...] | None:
    """The fields that say all of the schema's properties; None where it has others than plain values."""
    if not isinstance(schema, dict) or schema.get("type") != "object":
        return None
    properties = schema.get("properties")
    if not isinstance(properties, dict) or not 0 < len(properties) <= _MOST:
        return None
    if set(schema) - {"type", "properties", "required", "additionalProperties", "title", "description", "$schema"}:
        return None
    listed = schema.get("required")
    required = listed if isinstance(listed, list) else []
    found = [
        _field(f"{PREFIX}{number}", name, each, required) for number, (name, each) in enumerate(properties.items())
    ]
    fields = tuple(field for field in found if field is not None)
    return fields if len(fields) == len(found) else None


def _field(key: str, name: str, schema: Any, required: Sequence[Any]) -> Field | None:
    if not isinstance(schema, dict) or set(schema) - _KNOWN or schema.get("type") not in _SIMPLE:
        return None
    choices = schema.get("enum", [])
    texts_only = schema["type"] == "string" and all(isinstance(choice, str) for choice in choices)
    if choices and (not texts_only or len(choices) > _MOST_CHOICES):
        return None
    default = schema.get("default", "")
    return Field(
        key,
        name,
        str(schema.get("title") or name),
        str(schema.get("description") or ""),
        schema["type"],
        name in required,
        tuple(choices),
        default if isinstance(default, str) else str(default).lower() if isinstance(default, bool) else str(default),
    )


def value_from(fields: Sequence[Field], form: Form) -> dict[str, Any]:
    """What the form says, without the fields that were left empty and are not required. Raises AnswerRefused naming the
    field."""
    value = {}
    for field in fields:
        text = form.text(field.key)
        if field.type == "boolean" and (text or field.required):
            value[field.name] = text == "true"
        elif text or (field.required and field.type == "string" and not field.choices):
            value[field.name] = _typed(field, text)
        elif field.required:
            raise AnswerRefused(f"{field.name}: a value is needed")
    return value


def _typed(field: Field, text: str) -> Any:
    if field.choices:
        if not text.isdecimal() or int(text) >= len(field.choices):
            raise AnswerRefused(f"{field.name}: choose one of the list")
        return field.choices[int(text)]
    if field.type == "string":
        return text
    try:
        number = parse_strictly(text.strip())
    except ValueError:
        number = None
    whole = field.type == "integer"
    if isinstance(number, bool) or not isinstance(number, int if whole else int | float):
        raise AnswerRefused(f"{field.name}: {'a whole number' if whole else 'a number'} is needed")
    return number
