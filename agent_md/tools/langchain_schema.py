"""The arguments of a LangChain tool: their JSON schema, and whether given ones fit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from agent_md.tools.arguments import check_arguments, refuse_arguments

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

__all__ = ["parameters_of", "validate_with"]


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


def validate_with(tool: BaseTool, args: dict[str, Any]) -> dict[str, Any]:
    """A copy of the arguments as they were given; the tool itself turns them into its types.

    Raises InvalidArguments naming each field that does not fit, unknown ones too.
    """
    schema = tool.tool_call_schema
    if isinstance(schema, dict):
        return check_arguments(tool.name, {"type": "object", "additionalProperties": False, **schema}, args)
    problems = [*_unknown(parameters_of(tool), args), *_misfits(schema, args)]
    if problems:
        raise refuse_arguments(tool.name, problems)
    return dict(args)


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

    validate = getattr(schema, "model_validate", None) or schema.parse_obj
    try:
        validate(dict(args))
    except (ValidationError, ValidationErrorV1) as error:
        for problem in error.errors():
            place = ".".join(str(part) for part in problem["loc"])
            yield f"{place or 'arguments'}: {problem['msg']}"
