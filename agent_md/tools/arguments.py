"""Validates the arguments of calls with a JSON schema, and computes their digest."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

from agent_md.errors import InvalidArguments

__all__ = ["action_digest", "check_arguments", "object_schema", "refuse_arguments"]


def object_schema(required: dict[str, Any], optional: dict[str, Any] | None = None) -> dict[str, Any]:
    """The schema of an object with exactly these fields."""
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def check_arguments(tool: str, schema: dict[str, Any], args: dict[str, Any]) -> dict[str, Any]:
    """A copy of the arguments, whole numbers as int. Raises InvalidArguments naming each field that does not fit."""
    import jsonschema  # slow to import, and only calls need it

    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    problems = [text for error in kind(schema).iter_errors(args) for text in _problems(error)]
    if problems:
        raise refuse_arguments(tool, problems)
    properties = schema.get("properties", {})
    return {name: _whole(value, properties.get(name, {})) for name, value in args.items()}


def refuse_arguments(tool: str, problems: Iterable[str]) -> InvalidArguments:
    """The error for arguments with these problems, each of the form `field: what is wrong`."""
    return InvalidArguments(f"Invalid arguments for {tool}: {'; '.join(dict.fromkeys(problems))}")


def action_digest(tool: str, args: dict[str, Any], *facts: str) -> str:
    """SHA-256 of exactly this action: the tool, its arguments, and what it depends on besides."""
    text = json.dumps([tool, args, facts], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _problems(error: Any) -> list[str]:
    place = _place(error.absolute_path)
    prefix = f"{place}." if place else ""
    if error.validator == "required":
        return [f"{prefix}{name}: is missing" for name in error.validator_value if name not in error.instance]
    if error.validator == "additionalProperties" and isinstance(error.instance, dict):
        known = error.schema.get("properties", {})
        known_text = ", ".join(known) or "none"
        return [
            f"{prefix}{name}: unknown argument (known: {known_text})" for name in error.instance if name not in known
        ]
    message = error.message if len(error.message) <= 200 else f"{error.message[:200]}…"
    return [f"{place or 'arguments'}: {message}"]


def _place(path: Sequence[str | int]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def _whole(value: Any, schema: Any) -> Any:
    """Some providers send every number as a float."""
    wanted = isinstance(schema, dict) and schema.get("type") == "integer"
    return int(value) if wanted and isinstance(value, float) else value
