"""Arguments of LangChain tools that the runner injects; refuses tools whose calls could not work."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from agent_md.errors import ToolError
from agent_md.sdk import current_call

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

__all__ = ["check_callable", "with_injected"]

_RUNTIME = "ToolRuntime"
_INSTEAD = {
    "InjectedState": "there is no graph state for tools: take what it needs as an argument, or from agent_md.sdk.context()",
    "InjectedStore": "there is no LangGraph store: keep data in files, below agent_md.sdk.context().workspace",
}
_BY_NAME = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)


def check_callable(tool: BaseTool) -> None:
    """Raises ValueError for a tool whose every call would fail, with the reason and what to write instead."""
    from langchain_core.tools import Tool

    if isinstance(tool, Tool) and len(_names_of(tool)) != 1:
        raise ValueError(
            f"{tool.name} is a classic Tool with one unnamed text as its input, which cannot be called by arguments: "
            "decorate the function with @tool, or use StructuredTool.from_function"
        )
    function = _function_of(tool)
    if function is None:
        raise ValueError(f"{tool.name} has no function: give it func or coroutine")
    if not _is_async(tool) and inspect.iscoroutinefunction(function):
        mend = "define _arun instead of an async _run" if function == tool._run else "give it as coroutine, not as func"
        raise ValueError(
            f"{tool.name} is run as a sync tool, but its function is async, and would never be awaited: {mend}"
        )
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ValueError(f"the function of {tool.name} is a generator, and would give nothing: return one result")
    for name, annotation in _injected(tool).items():
        _check_injected(tool, name, annotation)
    _check_names(tool)
    _check_signature(tool, function)


def with_injected(tool: BaseTool) -> BaseTool:
    """A tool for the call that runs in this context: its injected arguments are filled; the same one if it has none."""
    injected = _injected(tool)
    if not injected:
        return tool
    call = current_call.get(None)
    call_id = call.info.tool_call_id if call is not None else ""
    values: dict[str, Any] = {}
    for name, annotation in injected.items():
        if _is_call_id(annotation):
            values[name] = call_id
        elif (runtime := _runtime_class(annotation)) is not None:
            values[name] = _runtime(runtime, tool, call_id, None if call is None else call.info)
    copy = tool.model_copy(update=_without(tool, injected))
    inner = copy._to_args_and_kwargs

    def filled(tool_input: str | dict[str, Any], _: str | None) -> tuple[tuple[Any, ...], dict[str, Any]]:
        args, kwargs = inner(tool_input, call_id)
        return args, {**kwargs, **values}

    # Past pydantic, which takes only declared fields; LangChain looks the method up on the instance.
    object.__setattr__(copy, "_to_args_and_kwargs", filled)
    return copy


def _injected(tool: BaseTool) -> dict[str, Any]:
    """The annotations of the arguments that the model does not give."""
    from langchain_core.tools.base import _is_injected_arg_type, get_all_basemodel_annotations

    annotations: dict[str, Any] = {}
    if (function := _function_of(tool)) is not None:
        annotations.update(_hints(function))
    if isinstance(tool.args_schema, type):
        annotations.update(get_all_basemodel_annotations(tool.args_schema))
    return {name: annotation for name, annotation in annotations.items() if _is_injected_arg_type(annotation)}


def _check_injected(tool: BaseTool, name: str, annotation: Any) -> None:
    if _is_call_id(annotation) or _runtime_class(annotation) is not None or _has_default(tool, name):
        return
    kinds = [kind if isinstance(kind, type) else type(kind) for kind in typing.get_args(annotation)[1:]]
    kind = next((kind.__name__ for kind in kinds if kind.__name__.startswith("Injected")), "InjectedToolArg")
    reason = _INSTEAD.get(kind, "nothing fills it here: give it a default, or use agent_md.sdk.context()")
    raise ValueError(f"the argument {name} of {tool.name} is {kind}, and {reason}")


def _has_default(tool: BaseTool, name: str) -> bool:
    function = _function_of(tool)
    parameter = None if function is None else _parameters(function).get(name)
    return parameter is not None and parameter.default is not parameter.empty


def _check_names(tool: BaseTool) -> None:
    """Whether each argument can be given by its name."""
    names = _names_of(tool)
    if "config" in names and hasattr(tool, "coroutine"):
        raise ValueError(
            f"the argument config of {tool.name} would never be given: LangChain keeps this name for its own; "
            "give it another name, or declare it as RunnableConfig"
        )
    if "self" in names:
        raise ValueError(
            f"{tool.name} is a method, which @tool does not bind to an object: make it a function, or use "
            "StructuredTool.from_function(object.method)"
        )
    fields = _fields_of(tool.args_schema)
    for name in names:
        alias = getattr(fields.get(name), "validation_alias", None) or getattr(fields.get(name), "alias", None)
        if alias not in (None, name):
            raise ValueError(
                f"the argument {name} of {tool.name} has the alias {alias!r}, by which no call can give it: "
                "name the argument itself as the model should"
            )


def _fields_of(schema: Any) -> Mapping[str, Any]:
    """The fields of a pydantic model, of either version, by name; none for anything else."""
    if not isinstance(schema, type):
        return {}
    fields: Mapping[str, Any] = schema.model_fields if hasattr(schema, "model_fields") else vars(schema)["__fields__"]
    return fields


def _check_signature(tool: BaseTool, function: Callable[..., Any]) -> None:
    """Whether the function takes what its schema lets the model give."""
    from langchain_core.tools import Tool
    from langchain_core.tools.base import _get_runnable_config_param

    parameters = _parameters(function)
    if not parameters or isinstance(tool, Tool):
        return
    injected = _injected(tool)
    by_langchain = ("callbacks",) if hasattr(tool, "coroutine") else ("run_manager",)
    given = {
        *(name for name in by_langchain if name in parameters),
        *(name for name in injected if name in parameters),
    }
    if (config := _get_runnable_config_param(function)) is not None:
        given.add(config)
    names = _names_of(tool)
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    taken = {name for name, parameter in parameters.items() if parameter.kind in _BY_NAME}
    unexpected = [name for name, always in names.items() if always and name not in taken and not open_ended]
    missing = [
        name for name, parameter in parameters.items() if _is_required(parameter) and name not in {*names, *given}
    ]
    if unexpected or missing:
        problems = [f"it does not take {name}" for name in unexpected] + [
            f"nothing gives it {name}" for name in missing
        ]
        raise ValueError(f"the function of {tool.name} does not fit its arguments: {', '.join(problems)}")


def _is_required(parameter: inspect.Parameter) -> bool:
    variadic = (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    return parameter.default is parameter.empty and parameter.kind not in variadic


def _names_of(tool: BaseTool) -> dict[str, bool]:
    """The arguments that the model gives, as the function is called with them, and whether each is always there."""
    from langchain_core.tools import Tool

    schema = tool.args_schema
    if schema is None and isinstance(tool, Tool):
        return {}
    if isinstance(schema, dict):
        required = schema.get("required", ())
        return {name: name in required for name in schema.get("properties", {})}
    model: Any = tool.get_input_schema() if schema is None else schema
    injected = _injected(tool)
    return {name: True for name in _fields_of(model) if name not in {*injected, "args", "kwargs"}}


def _without(tool: BaseTool, injected: Mapping[str, Any]) -> dict[str, Any]:
    """The change of the tool by which LangChain does not check what is injected."""
    fields = _fields_of(tool.args_schema)
    return {"args_schema": tool.tool_call_schema} if any(name in fields for name in injected) else {}


def _function_of(tool: BaseTool) -> Callable[..., Any] | None:
    """What runs when the tool is called."""
    if hasattr(tool, "coroutine"):
        function: Callable[..., Any] | None = tool.coroutine or getattr(tool, "func", None)
        return function
    return tool._arun if _is_async(tool) else tool._run


def _is_async(tool: BaseTool) -> bool:
    from langchain_core.tools import BaseTool

    if hasattr(tool, "coroutine"):
        return tool.coroutine is not None
    return type(tool)._arun is not BaseTool._arun


def _parameters(function: Callable[..., Any]) -> Mapping[str, inspect.Parameter]:
    try:
        return inspect.signature(function).parameters
    except (TypeError, ValueError):  # of a builtin
        return {}


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    """The annotations of the parameters; those that cannot be resolved as they are written."""
    parameters = {name: parameter.annotation for name, parameter in _parameters(function).items()}
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except Exception:  # of names that exist only for type checkers
        return parameters
    return {name: hints.get(name, annotation) for name, annotation in parameters.items()}


def _is_call_id(annotation: Any) -> bool:
    from langchain_core.tools import InjectedToolCallId
    from langchain_core.tools.base import _is_injected_arg_type

    return _is_injected_arg_type(annotation, injected_type=InjectedToolCallId)


def _runtime_class(annotation: Any) -> Any:
    """The class of a `ToolRuntime`, which the tool's own module imported; None for anything else."""
    kind = typing.get_origin(annotation) or annotation
    return kind if isinstance(kind, type) and kind.__name__ == _RUNTIME else None


def _runtime(kind: Any, tool: BaseTool, call_id: str, context: Any) -> Any:
    from langchain_core.runnables.config import ensure_config

    return kind(
        state=_NoState(tool.name),
        context=context,
        config=ensure_config(),
        stream_writer=lambda _: None,
        tool_call_id=call_id,
        store=None,
    )


class _NoState(Mapping[str, Any]):
    """Stands for the graph state in a runtime, and says that there is none when it is used."""

    def __init__(self, tool: str) -> None:
        self._tool = tool

    def __getitem__(self, key: str) -> Any:
        raise self._error()

    def __iter__(self) -> Iterator[str]:
        raise self._error()

    def __len__(self) -> int:
        raise self._error()

    def _error(self) -> ToolError:
        return ToolError(f"{self._tool} used runtime.state: {_INSTEAD['InjectedState']}")
