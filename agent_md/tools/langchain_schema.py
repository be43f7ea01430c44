"""The JSON schema of a LangChain tool's arguments, and their validation."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_md.tools.arguments import check_arguments, refuse_arguments

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

__all__ = ["Arguments", "parameters_of", "validate_with"]

_VARIADIC = frozenset({"args", "kwargs"})
"""Fields that stand for `*args` and `**kwargs`; LangChain gives their defaults to no tool."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a tool will get. `exact`: `values` say it in full, coerced and with defaults; if not, some of it has no JSON
    form, or comes out otherwise each time, and `values` are as they were given."""

    values: dict[str, Any]
    exact: bool = True


def parameters_of(tool: BaseTool) -> dict[str, Any]:
    """JSON schema of what the model gives; arguments that LangChain injects are not in it.

    Raises ValueError if the arguments have none, or the one the tool declares is no JSON schema.
    """
    import jsonschema
    from langchain_core.utils.pydantic import model_json_schema

    try:
        schema = tool.tool_call_schema
        plain = schema if isinstance(schema, dict) else model_json_schema(schema)
        jsonschema.Draft202012Validator.check_schema(plain)
    except Exception as error:  # of pydantic, and of the types that the author wrote
        raise ValueError(f"the arguments of {tool.name} have no JSON schema: {error}") from error
    return dict(plain)


def validate_with(tool: BaseTool, args: dict[str, Any]) -> Arguments:
    """The arguments as the tool will get them; checked again, they stay the same.

    Raises InvalidArguments naming each field that does not fit, unknown ones too.
    """
    schema = tool.tool_call_schema
    if isinstance(schema, dict):
        closed = {"type": "object", "additionalProperties": False, **schema}
        checked = check_arguments(tool.name, closed, args)
        return _of_json({**_defaults(tool, schema), **checked}, args)
    schema = _full_schema(tool, schema)
    problems = [*_unknown(parameters_of(tool), args), *_misfits(schema, args)]
    if problems:
        raise refuse_arguments(tool.name, problems)
    return _of_model(schema, args)


def _full_schema(tool: BaseTool, shown: Any) -> Any:
    """The class that LangChain itself checks with, validators included, unless it injects some of the fields."""
    full = tool.args_schema
    if full is None or isinstance(full, dict) or _fields(full) != _fields(shown):
        return shown
    return full


def _fields(schema: Any) -> set[str]:
    fields = schema.model_fields if hasattr(schema, "model_fields") else schema.__fields__
    return set(fields)


def _defaults(tool: BaseTool, schema: dict[str, Any]) -> dict[str, Any]:
    """What Python fills in for arguments that a schema written as JSON lets out."""
    function = getattr(tool, "coroutine", None) or getattr(tool, "func", None) or tool._run
    known = schema.get("properties", {})
    return {
        name: parameter.default
        for name, parameter in inspect.signature(function).parameters.items()
        if name in known and parameter.default is not parameter.empty
    }


def _of_json(values: dict[str, Any], args: dict[str, Any]) -> Arguments:
    try:
        exact = json.loads(json.dumps(values, allow_nan=False)) == values
    except (TypeError, ValueError):
        exact = False
    return Arguments(values) if exact else Arguments(dict(args), exact=False)


def _of_model(schema: Any, args: dict[str, Any]) -> Arguments:
    try:
        model = _validated(schema, args)
        values = _dumped(model, args)
        again = _validated(schema, values)
        exact = (
            _content(again) == _content(model)
            and _dumped(again, values) == values
            and _dumped(_validated(schema, args), args) == values
        )
    except Exception:  # of types and validators that the author wrote
        exact = False
    return Arguments(values) if exact else Arguments(dict(args), exact=False)


def _validated(schema: Any, args: dict[str, Any]) -> Any:
    validate = getattr(schema, "model_validate", None) or schema.parse_obj
    return validate(copy.deepcopy(args))


def _dumped(model: Any, args: dict[str, Any]) -> dict[str, Any]:
    if hasattr(model, "model_dump"):
        plain = model.model_dump(mode="json", by_alias=True, warnings=False)
    else:
        plain = json.loads(model.json(by_alias=True))
    kept = {name: value for name, value in plain.items() if name in args or name not in _VARIADIC}
    json.dumps(kept, allow_nan=False)
    return kept


def _content(model: Any) -> tuple[Any, Any]:
    return model.__dict__, getattr(model, "__pydantic_extra__", None)


def _unknown(parameters: dict[str, Any], args: dict[str, Any]) -> Iterator[str]:
    known = parameters.get("properties", {})
    if parameters.get("additionalProperties"):
        return
    for name in args:
        if name not in known:
            yield f"{name}: unknown argument (known: {', '.join(known) or 'none'})"


def _misfits(schema: Any, args: dict[str, Any]) -> Iterator[str]:
    from pydantic import ValidationError
    from pydantic.v1 import ValidationError as ValidationErrorV1

    try:
        _validated(schema, args)
    except (ValidationError, ValidationErrorV1) as error:
        for problem in error.errors():
            place = ".".join(str(part) for part in problem["loc"])
            yield f"{place or 'arguments'}: {problem['msg']}"
