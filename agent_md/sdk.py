"""The SDK for custom tools: ask a human, run an effect once, get the context of the call.

    from langchain_core.tools import tool
    from agent_md.sdk import request_choice, step

A tool that asks is run again from its start when all its questions are answered; each question then gives its answer,
and each `step` its first result. If its module was edited between a question and the answer, nothing of it runs until
a human has confirmed the call anew; answers and results of steps from before the edit are kept then. Questions asked at once (`asyncio.gather`, a `TaskGroup`) belong before any other await.
"""

from __future__ import annotations

import contextvars
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, TypeVar

from agent_md.errors import ToolError
from agent_md.executions.json_schema import check_schema
from agent_md.executions.json_values import MAX_DEPTH, PAYLOAD_LIMIT, is_too_deep, json_size
from agent_md.executions.questions import Answers, checked_questions
from agent_md.executions.requests import Answer
from agent_md.executions.states import Outcome, RequestKind

__all__ = [
    "Context",
    "Pause",
    "RequestDenied",
    "RequestExpired",
    "StepUnknown",
    "ToolOptions",
    "context",
    "interrupt",
    "request_choice",
    "request_confirmation",
    "request_input",
    "request_questions",
    "step",
    "tool_options",
]

OPTIONS_ATTRIBUTE = "__agentmd_options__"

_ELSEWHERE = {
    "resolve_path": "`context().resolve_path(path)`, which gives the path, or raises ToolError",
    "workspace_root": "`context().workspace`",
    "agent_name": "`context().agent`",
    "agent_paths": "`context().resolve_path(alias)` for one of them",
}

T = TypeVar("T")
F = TypeVar("F")


@dataclass(frozen=True, slots=True)
class ToolOptions:
    """What a tool says of itself. `timeout` in seconds, None = no limit of its own."""

    requires_approval: bool = False
    read_only: bool = False
    idempotent: bool = False
    timeout: float | None = None
    sandbox: bool = False
    """Whether it runs in a sandboxed process."""
    reads: tuple[str, ...] | None = None
    writes: tuple[str, ...] | None = None
    """The files that its calls read and change: names of arguments that hold paths, paths and globs. None = it does not
    say."""
    covers: tuple[str, ...] = ()
    """The files whose content an approval of a call covers too, named likewise."""
    return_direct: bool = False
    """Whether its result is the answer of the execution. Declared with LangChain's `@tool(return_direct=True)`."""
    always_asks: bool = False
    """Whether it asks whatever rules and grants say; built-in tools only."""
    unasked: str = ""
    """Which calls need no approval although `requires_approval` is set, for people; built-in tools only."""


class Pause(BaseException):
    """Carries a pause out of a tool. A BaseException, so that `except Exception` in a tool cannot swallow it."""


class RequestDenied(ToolError):
    """The human, or a policy, denied the request. Uncaught, the model is told "Action denied by user", or "by policy"."""


class RequestExpired(ToolError):
    """Nobody answered in time. Uncaught, the model is told "Action denied by user (timeout)"."""


class StepUnknown(ToolError):
    """A step was started before and never finished: it may have run. Uncaught, the call ends as "may have run"."""


@dataclass(frozen=True, slots=True)
class Context:
    """Where a tool runs. `idempotency_key` is the same whenever this call is run again, and no other call's."""

    agent: str
    execution_id: int
    session_id: str | None
    workspace: Path
    idempotency_key: str
    resolver: Callable[[str], Path]
    tool_call_id: str = ""
    """The id that the model's message has for this call."""

    def resolve_path(self, path: str) -> Path:
        """The real path of what the agent may reach as `path`. Raises ToolError for anything outside."""
        return self.resolver(path)


class CallContext(Protocol):
    """What the runner gives a running call. Not for tools."""

    @property
    def info(self) -> Context: ...

    def ask(self, kind: RequestKind, message: str, **fields: Any) -> Answer:
        """The answer to this request of this call. Raises Pause when there is none yet."""

    def earlier_result(self, result_id: str) -> str | None:
        """The whole result of a closed call of this conversation, by the id that a cut one names; None if there is none."""

    def step(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of the step, run now or before; an awaitable if the function is a coroutine function."""


current_call: contextvars.ContextVar[CallContext] = contextvars.ContextVar("agentmd_call")
"""The call that runs in this context; set by the runner."""


def request_confirmation(
    message: str, *, tool_name: str | None = None, tool_args: dict[str, Any] | None = None
) -> bool:
    """Asks yes or no. True only if a human said yes; a denial and an expiry are False."""
    answer = _ask(RequestKind.CONFIRM, message, tool_name=tool_name, tool_args=tool_args)
    return answer.outcome is Outcome.APPROVED


def request_input(message: str) -> str:
    """Asks for free text, and gives what was typed, "" included. Raises RequestDenied, RequestExpired."""
    answer = _granted(_ask(RequestKind.INPUT, message))
    return str(answer.value["text"])


def request_choice(message: str, options: Sequence[str], *, multi: bool = False) -> list[str] | str:
    """Asks to pick one of `options`, or with `multi` at least one: then a list, in the order of the options.

    Raises ValueError for no, empty or equal options; RequestDenied, RequestExpired.
    """
    answer = _granted(_ask(RequestKind.CHOICE, message, options=options, multi=bool(multi)))
    selected: list[str] = answer.value["selected"]
    return list(selected) if multi else selected[0]


def request_questions(questions: Sequence[dict[str, Any]]) -> Answers:
    """Asks 1 to 4 questions at once, with 2 to 4 options each, and gives a dict from question to answer.

    A question is `{"question", "header", "multiSelect", "options"}`, an option `{"label", "description"}` with a
    preview as `"markdown"` if there is one. No two questions, and no two labels of one, are equal. An answer is the
    label or a text of the human's own, with `multiSelect` a list of them. Raises TypeError for what is no list,
    ValueError naming each field that does not fit, and for more than 16 KiB; RequestDenied, RequestExpired.
    """
    answers: Answers = _granted(_ask(RequestKind.QUESTIONS, "", questions=questions)).value["answers"]
    return dict(answers)


def interrupt(payload: dict[str, Any], *, response_schema: dict[str, Any] | None = None) -> Any:
    """Asks with any JSON object of at most 16 KiB, and gives the JSON value that was answered.

    The size is that of the JSON without blanks, in UTF-8. With `response_schema` (JSON Schema, complete in itself)
    only values that fit it are accepted. Raises TypeError for a payload that is no JSON object, ValueError for one
    that is too large or nested deeper than 64, or a schema that cannot be used; RequestDenied, RequestExpired.
    """
    return _granted(_ask(RequestKind.CUSTOM, "", payload=payload, response_schema=response_schema)).value


def step(function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Does an effect once, although the tool may be run again from its start, and gives its result.

    The result, or the exception, is kept: it must be JSON (text, numbers, lists, objects). For a coroutine function
    the result is awaitable. Steps of one call run in order; another function in a step's place fails the call. Raises
    StepUnknown for a step that was started and never finished.
    """
    result: T = _call().step(function, args, kwargs)
    return result


def context() -> Context:
    """Where this tool runs. Raises RuntimeError outside a running tool."""
    return _call().info


def tool_options(
    *misplaced: Any,
    requires_approval: bool = False,
    read_only: bool = False,
    idempotent: bool = False,
    timeout: float | None = None,
    sandbox: bool = False,
    reads: str | Sequence[str] | None = None,
    writes: str | Sequence[str] | None = None,
    covers: str | Sequence[str] = (),
) -> Callable[[F], F]:
    """Declares what a tool is, above or below `@tool`:

    `requires_approval`: a human confirms every call; `read_only`, `idempotent`: it may be run again after a crash;
    `timeout`: seconds after which a call is given up; `sandbox`: it runs, like all tools of its module, in a process of
    its own that reaches only what the agent may; `reads`, `writes`: the files that a call reads and changes, for rules
    such as `write(reports/*)`; `covers`: files whose content an approval covers too, so that a call does not run when they
    were changed since. A file is named by the argument that holds its path (or a list of paths), by a path, or by a glob
    in which `*` also stands for `/`. What is `read_only` writes nothing. Raises ValueError for a timeout that is no number
    above 0 and for a `read_only` tool that writes, TypeError for files that are no texts.
    """
    if misplaced:
        raise TypeError(
            "tool_options takes names only, and needs parentheses: write @tool_options(requires_approval=True)"
        )
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0):
        raise ValueError(f"timeout is {timeout!r}, expected a number of seconds above 0")
    changed = () if writes is None and read_only else _files("writes", writes)
    if read_only and changed:
        raise ValueError(f"a read_only tool changes no files, and writes names some: {', '.join(changed)}")
    options = ToolOptions(
        *(requires_approval, read_only, idempotent, timeout, sandbox),
        reads=_files("reads", reads),
        writes=changed,
        covers=_files("covers", covers) or (),
    )

    def declare(target: F) -> F:
        function = getattr(target, "func", None) or getattr(target, "coroutine", None) or target
        setattr(function, OPTIONS_ATTRIBUTE, options)
        return target

    return declare


def _files(name: str, given: Any) -> tuple[str, ...] | None:
    if given is None:
        return None
    files = (given,) if isinstance(given, str) else given
    if not isinstance(files, Sequence) or not all(isinstance(file, str) and file.strip() for file in files):
        raise TypeError(f"{name} is {given!r}, expected the name of an argument, a path, or a list of these")
    return tuple(files)


def _call() -> CallContext:
    call = current_call.get(None)
    if call is None:
        raise RuntimeError(
            "agent_md.sdk was used outside a running tool (in a thread of its own, perhaps): "
            "requests, steps and context() belong to the call that runs"
        )
    return call


def _ask(kind: RequestKind, message: str, **fields: Any) -> Answer:
    message, fields = checked_request(kind, message, fields)
    return _call().ask(kind, message, **fields)


def checked_request(kind: RequestKind, message: Any, fields: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The message and the fields of a request as they are stored. Raises TypeError and ValueError for what cannot be
    asked. Not for tools."""
    match kind:
        case RequestKind.CONFIRM:
            name = fields.get("tool_name")
            named = None if name is None else _text("tool_name", name)
            return _text("message", message), {
                "tool_name": named,
                "tool_args": _json("tool_args", fields.get("tool_args")),
            }
        case RequestKind.INPUT:
            return _text("message", message), {}
        case RequestKind.CHOICE:
            chosen = _options(fields.get("options"))
            return _text("message", message), {"options": chosen, "multi": bool(fields.get("multi"))}
        case RequestKind.QUESTIONS:
            asked = checked_questions(fields.get("questions"))
            return " / ".join(question["question"] for question in asked), {"questions": asked}
        case RequestKind.CUSTOM:
            return _checked_payload(fields.get("payload"), fields.get("response_schema"))
    raise ValueError(f"a tool cannot ask a request of the kind {kind}")


def _checked_payload(payload: Any, response_schema: Any) -> tuple[str, dict[str, Any]]:
    if not isinstance(payload, dict):
        raise TypeError(f"interrupt() takes a JSON object, not {type(payload).__name__}")
    data = _json("payload", payload)
    size = json_size(data)
    if size > PAYLOAD_LIMIT:
        raise ValueError(f"the payload of interrupt() has {size} bytes, at most {PAYLOAD_LIMIT} are allowed")
    schema = _json("response_schema", response_schema)
    if schema is not None:
        check_schema(schema)
    return _headline(data), {"payload": data, "response_schema": schema}


def _granted(answer: Answer) -> Answer:
    from agent_md.executions.answers import denial_text

    if answer.outcome is Outcome.ANSWERED:
        return answer
    raise (RequestExpired if answer.outcome is Outcome.EXPIRED else RequestDenied)(denial_text(answer))


def _headline(payload: dict[str, Any]) -> str:
    """What stands for a custom request where there is one line for it."""
    texts = [payload.get(name) for name in ("message", "prompt", "question")]
    said = next((text for text in texts if isinstance(text, str) and text.strip()), None)
    if said is not None:
        return said
    kind = payload.get("type")
    return f"{kind if isinstance(kind, str) and kind else 'custom'} request"


def _text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} is {type(value).__name__}, expected a text")
    return value


def _options(options: Any) -> tuple[str, ...]:
    if isinstance(options, str) or not isinstance(options, Sequence):
        raise TypeError("options must be a list of texts")
    chosen = tuple(_text("option", option) for option in options)
    if not chosen:
        raise ValueError("there are no options to choose from")
    if any(not option.strip() for option in chosen):
        raise ValueError("an option is empty")
    if len(set(chosen)) != len(chosen):
        raise ValueError("two options are equal")
    return chosen


def _json(name: str, value: Any) -> Any:
    if is_too_deep(value):
        raise ValueError(f"{name} is nested deeper than {MAX_DEPTH}, or holds itself")
    try:
        data = json.loads(json.dumps(value, allow_nan=False))
        json_size(data)
    except (TypeError, ValueError) as error:
        raise TypeError(f"{name} is not JSON: {error}") from None
    return data


if not TYPE_CHECKING:

    def __getattr__(name: str) -> NoReturn:
        """Says what to write instead of names that another program of this name had here."""
        if name in _ELSEWHERE:
            raise ImportError(
                f"agent_md.sdk has no {name}; write `from agent_md.sdk import context`, and {_ELSEWHERE[name]}"
            )
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
