"""A question of a server, asked a human as a request of the call during which it came."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_md.executions.json_schema import check_schema
from agent_md.executions.json_values import PAYLOAD_LIMIT, is_too_deep, json_size
from agent_md.executions.requests import Answer
from agent_md.executions.states import Outcome, RequestKind
from agent_md.sdk import CallContext, Pause

if TYPE_CHECKING:
    from mcp import types

__all__ = ["Elicitations"]

_SCHEMA_KEYS = ("type", "properties", "required", "title", "description")


@dataclass(frozen=True, slots=True)
class _Question:
    """What is asked, and what of its answer is the content that the server gets."""

    kind: RequestKind
    message: str
    fields: dict[str, Any]
    content: Callable[[Any], dict[str, Any]]


class Elicitations:
    """Answers the questions of a server during one call. One that has no answer yet is answered `cancel`, and leaves its
    pause; so does everything that is asked after it."""

    def __init__(self, server: str, tool: str, call: CallContext | None, *, may_ask: bool) -> None:
        """`may_ask`: whether the call can be made again when a question has its answer."""
        self._server = server
        self._tool = tool
        self._call = call
        self._may_ask = may_ask
        self.pause: Pause | None = None
        """What to raise when the call is over: its questions have no answers yet."""
        self.refused: str | None = None
        """The first question that nobody can be asked."""

    def asked(self, params: types.ElicitRequestParams) -> types.ElicitResult:
        """What the server is told."""
        from mcp.types import ElicitResult

        if self.pause is None:
            question = self._question(params)
            if question is None or not self._may_ask or self._call is None:
                self.refused = self.refused or params.message
            else:
                try:
                    return self._told(question, self._call.ask(question.kind, question.message, **question.fields))
                except Pause as pause:
                    self.pause = pause
        return ElicitResult(action="cancel")

    def _told(self, question: _Question, answer: Answer) -> types.ElicitResult:
        from mcp.types import ElicitResult

        if answer.outcome in (Outcome.APPROVED, Outcome.ANSWERED):
            return ElicitResult(action="accept", content=question.content(answer.value))
        return ElicitResult(action="decline" if answer.outcome is Outcome.DENIED else "cancel")

    def _question(self, params: types.ElicitRequestParams) -> _Question | None:
        """None for what cannot be asked: to open an address, and schemas that cannot be used."""
        if params.mode != "form":
            return None
        schema = {key: params.requestedSchema[key] for key in _SCHEMA_KEYS if key in params.requestedSchema}
        message = f"{params.message}\n(asked by the MCP server {self._server}, tool {self._tool})"
        if not _usable(schema, message):
            return None
        properties = schema.get("properties")
        if not isinstance(properties, dict):
            properties = {}
        if not properties:
            fields: dict[str, Any] = {"tool_name": None, "tool_args": None}
            return _Question(RequestKind.CONFIRM, message, fields, lambda _: {})
        if len(properties) == 1 and list(properties) == schema.get("required"):
            (name, form), *_ = properties.items()
            if (simple := _simple(name, form, message)) is not None:
                return simple
        payload = {"server": self._server, "tool": self._tool, "message": params.message, "requested": schema}
        fields = {"payload": payload, "response_schema": {**schema, "type": "object"}}
        return _Question(RequestKind.CUSTOM, message, fields, dict)


def _usable(schema: dict[str, Any], message: str) -> bool:
    try:
        if is_too_deep(schema) or json_size(schema) + len(message) > PAYLOAD_LIMIT // 2:
            return False
        check_schema(schema)
    except (TypeError, ValueError):
        return False
    return True


def _simple(name: str, form: Any, message: str) -> _Question | None:
    """A question with one field, as a person answers it at a prompt; None if its kind is another."""
    if not isinstance(form, dict) or form.get("type", "string") != "string":
        return None
    about = form.get("description") or form.get("title")
    asked = f"{message}\n{about}" if isinstance(about, str) and about else message
    options = form.get("enum")
    if options is None:
        if set(form) - {"type", "title", "description", "default"}:  # a length, a pattern, a format
            return None
        return _Question(RequestKind.INPUT, asked, {}, lambda value: {name: str(value["text"])})
    if not isinstance(options, list) or not all(isinstance(each, str) and each for each in options):
        return None
    if len(set(options)) < len(options) or not options:
        return None
    fields = {"options": tuple(options), "multi": False}
    return _Question(RequestKind.CHOICE, asked, fields, lambda value: {name: value["selected"][0]})
