"""Pydantic models of the sessions routes, for validation and OpenAPI. The objects come from `agent_md.serialization`
and `agent_md.executions.chat_messages`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import ConfigDict, Field, field_validator, model_validator

from agent_md.api.request_bodies import RequestBody, storable
from agent_md.api.schemas import Open, PathStep
from agent_md.executions.chat_messages import read_arguments
from agent_md.executions.images import image_block
from agent_md.executions.json_values import MAX_DEPTH, is_too_deep

__all__ = [
    "ChatMessage",
    "CreateSession",
    "Interrupt",
    "MessageBody",
    "Moved",
    "PostMessage",
    "Preview",
    "Resume",
    "Session",
    "SessionSummary",
    "Webhook",
]

_Role = Literal["user", "assistant", "system", "tool"]
_Status = Literal["idle", "running", "interrupted", "error"]


class FunctionCall(Open):
    name: str = Field(min_length=1)
    arguments: str = Field(description="A JSON object as text.", examples=['{"path": "output/stale.log"}'])


class ToolCall(Open):
    id: str = Field(min_length=1)
    type: Literal["function"] = "function"
    function: FunctionCall


class ChatMessage(Open):
    """A message of a conversation. What it lacks is left out."""

    role: _Role = "user"
    content: str | None = Field(default=None, description="Its text.", examples=["Clean the output"])
    tool_calls: Sequence[ToolCall] | None = None
    tool_call_id: str | None = Field(default=None, description="Of a tool's result: the call that it answers.")
    name: str | None = None
    base64_image: str | None = Field(
        default=None, description="Of a user's message: an image in base64, also as a data URL; PNG, JPEG, GIF or WebP."
    )
    user_params: dict[str, Any] | None = Field(default=None, description="Kept and given back; nothing reads it.")


class FunctionCallBody(FunctionCall, RequestBody):
    model_config = ConfigDict(extra="forbid")


class ToolCallBody(ToolCall, RequestBody):
    model_config = ConfigDict(extra="forbid")

    function: FunctionCallBody


class MessageBody(ChatMessage, RequestBody):
    """A message that a client gives."""

    model_config = ConfigDict(extra="forbid")

    tool_calls: list[ToolCallBody] | None = None
    reasoning: None = Field(default=None, description="Not given to models; only null is taken.")
    reasoning_details: None = Field(default=None, description="Not given to models; only null is taken.")

    @field_validator("user_params")
    @classmethod
    def _not_too_deep(cls, value: Any) -> Any:
        if is_too_deep(value):
            raise ValueError(f"it is nested deeper than {MAX_DEPTH}")
        return value

    @field_validator("tool_calls")
    @classmethod
    def _readable(cls, calls: list[ToolCallBody] | None) -> list[ToolCallBody] | None:
        for call in calls or []:
            read_arguments(call.function.arguments)
        if calls and len({call.id for call in calls}) < len(calls):
            raise ValueError("two calls have the same id")
        return calls

    @field_validator("base64_image")
    @classmethod
    def _is_image(cls, text: str | None) -> str | None:
        if text is not None:
            image_block(text)
        return text

    @model_validator(mode="after")
    def _whole(self) -> MessageBody:
        """Whether it has what a message of its role is made of, and nothing that it cannot have."""
        if self.tool_calls and self.role != "assistant":
            raise ValueError(f"a message of the role {self.role} has no tool_calls")
        if (self.tool_call_id is not None) != (self.role == "tool"):
            raise ValueError("a message of the role tool, and only such a one, has a tool_call_id")
        if self.role == "tool" and self.content is None:
            raise ValueError("a tool message has a content, which may be empty")
        if self.base64_image is not None and self.role != "user":
            raise ValueError(f"a message of the role {self.role} has no base64_image")
        if self.role != "tool" and not self.tool_calls and not (self.content or "").strip():
            raise ValueError("content: the message has no text")
        return self


class CreateSession(RequestBody):
    """How to begin a session; everything may be left out."""

    state: list[MessageBody] = Field(default_factory=list, description="What was said before.")
    agent: str | None = Field(default=None, description="Under /sessions; default `server.default_agent`.")

    _checked = model_validator(mode="before")(storable)


class Webhook(RequestBody):
    """Where to tell of this turn."""

    url: str = Field(description="Where to send it.", examples=["https://example.com/hook"])
    token: str | None = Field(default=None, description="Sent as `Authorization: Bearer`.")
    secret: str | None = Field(default=None, description="Signs what is sent.")
    include_messages: bool = Field(default=False, description="Whether the conversation is sent too.")


class PostMessage(MessageBody):
    """A message that begins a turn."""

    webhook: Webhook | None = None

    _checked = model_validator(mode="before")(storable)


class Resume(RequestBody):
    """An answer to an interrupt."""

    interrupt_id: str
    value: Any = Field(
        description="By the interrupt's type: {approved, reason?, args?}, {answers}, or any JSON value.",
        examples=[{"approved": True}, {"answers": {"Which one?": "The first"}}],
    )

    _checked = model_validator(mode="before")(storable)


class Preview(Open):
    """The effect of a call. Missing values are left out, except `resolved`."""

    resolved: str | None = Field(description="The path that the call means.")
    diff: str | None = Field(default=None, description="What would change in the file.")
    size: int | None = Field(default=None, description="Bytes.")
    type: str | None = None


class Interrupt(Open):
    """What a human is asked."""

    interrupt_id: str
    type: str = Field(description="tool_approval, user_input, or the own one of a custom interrupt.")
    payload: dict[str, Any]
    preview: Preview | None = Field(default=None, description="Of a call that is to be approved, if it has one.")
    rule: str | None = Field(default=None, description="Of a guarded call: the rule that asks.")
    digest: str | None = Field(default=None, description="Of a guarded call: what an approval is bound to.")
    editable: bool | None = Field(default=None, description="Whether `args` may come with an approval.")
    path: list[PathStep] | None = Field(
        default=None, description="Of an agent that another one called: the executions from the root to it."
    )
    kind: Literal["custom"] | None = Field(
        default=None, description="Of a custom interrupt that calls itself `tool_approval` or `user_input`."
    )
    response_schema: dict[str, Any] | None = Field(
        default=None, description="What the value must fit, if that is said."
    )
    proposed_rule: str | None = Field(
        default=None, description="The widest rule that an approval may `remember`, if there is one."
    )


class Session(Open):
    session_id: str
    status: _Status
    response: ChatMessage | None = Field(description="The answer of the last turn, if that ended well.")
    cut: str | None = Field(
        default=None, description="Only if that answer is not whole: the model's word for why it stopped."
    )
    error: str | None = Field(description="Why the last turn failed, if it did.")
    interrupts: list[Interrupt] | None = Field(description="While it is interrupted: what is asked, oldest first.")


class SessionSummary(Open):
    session_id: str
    agent: str
    total_messages: int
    status: _Status


class Moved(Open):
    """Where the session stands now."""

    session_id: str
    status: _Status
