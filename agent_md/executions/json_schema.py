"""Validates the JSON Schema of a request, and answers with it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from agent_md.errors import AnswerRefused
from agent_md.python_command import python_command

__all__ = ["check_answer", "check_schema"]

_PROCESS = Path(__file__).with_name("json_schema_process.py")
_CLOCK_S = 60.0
"""Ends a check that neither computes nor ends; one that computes is ended sooner."""
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


def check_schema(schema: Any) -> None:
    """Raises ValueError for what is no JSON Schema, and for one that refers to anything outside itself."""
    import jsonschema  # only requests with a schema pay for it

    try:
        kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        kind.check_schema(schema)
        _check_references(schema, kind.META_SCHEMA)
    except jsonschema.SchemaError as error:
        raise ValueError(f"response_schema is no JSON Schema: {error.message}") from None
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"response_schema cannot be used: {type(error).__name__}: {error}") from None


def check_answer(schema: dict[str, Any], value: Any) -> None:
    """Raises AnswerRefused for a value that does not fit, or that cannot be checked.

    Takes a fraction of a second, and a few seconds at most, whatever the schema demands; nothing is fetched from
    anywhere.
    """
    found = _checked(json.dumps([schema, value]))
    if "message" in found:
        place = ".".join(map(str, found["path"])) or "the answer does not fit the request's schema"
        raise AnswerRefused(f"{place}: {found['message']}")
    if "unusable" in found:
        raise AnswerRefused(f"the request's schema cannot be checked: {found['unusable']}; nothing was answered")


def _checked(given: str) -> dict[str, Any]:
    try:
        ended = subprocess.run(
            python_command(str(_PROCESS)), input=given, capture_output=True, text=True, timeout=_CLOCK_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise AnswerRefused(f"the answer cannot be checked: {error}; nothing was answered") from None
    if ended.returncode != 0:
        why = "it takes too long" if ended.returncode < 0 else ended.stderr.strip().rpartition("\n")[2]
        raise AnswerRefused(f"the request's schema cannot be checked: {why}; nothing was answered")
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def _check_references(schema: Any, meta_schema: Any) -> None:
    import referencing
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012, specification_with

    specification = specification_with(meta_schema["$schema"], default=DRAFT202012)
    root = specification.create_resource(schema)
    pending = [(root, referencing.Registry().resolver_with_root(root))]
    while pending:
        found, above = pending.pop()
        resolver = above.in_subresource(found)
        for reference in _references_of(found.contents):
            try:
                resolver.lookup(reference)
            except Unresolvable:
                raise ValueError(f"response_schema refers to {reference!r}, which is not in it") from None
        pending += [(inner, resolver) for inner in found.subresources()]


def _references_of(schema: Any) -> list[str]:
    if not isinstance(schema, dict):
        return []
    return [schema[name] for name in _REFERENCES if isinstance(schema.get(name), str)]
