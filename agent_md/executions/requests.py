"""Requests, their answers and retractions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_md.executions.grants import GrantId, GrantOffer

if TYPE_CHECKING:
    pass
from agent_md.executions.ids import ExecutionId, RequestId
from agent_md.executions.positions import Position
from agent_md.executions.states import Outcome, RequestKind, RequestSource

__all__ = [
    "Answer",
    "CallEffect",
    "CoveredFile",
    "NewRequest",
    "PathStep",
    "Preview",
    "Request",
    "RequestContent",
    "Retraction",
    "ToolSource",
]


@dataclass(frozen=True, slots=True)
class Preview:
    """What a human sees of a call's effect: the resolved path, the diff of a write or edit, size and type."""

    resolved: str | None = None
    diff: str | None = None
    size: int | None = None
    type: str | None = None


@dataclass(frozen=True, slots=True)
class CallEffect:
    """Digests of a target before a call and after it, JSON-safe, so that an unknown outcome can be settled."""

    before: str
    after: str


@dataclass(frozen=True, slots=True)
class PathStep:
    """One execution on the way from a root to the one that asks."""

    execution_id: ExecutionId
    agent: str


@dataclass(frozen=True, slots=True)
class ToolSource:
    """The source that a custom tool is made of: a module of the tools folder with what it imports from there. For a tool of
    an MCP server, what the server declares of it: `module` is `mcp:SERVER.TOOL` then."""

    module: str
    digest: str

    @property
    def in_words(self) -> str:
        """What it is, in a sentence about the tool."""
        return "its declaration" if self.module.startswith("mcp:") else "its source"


@dataclass(frozen=True, slots=True)
class CoveredFile:
    """A file that a custom tool declares its approvals to cover: its path, and what was in it: a digest, or `absent`."""

    path: str
    state: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestContent:
    """The content of a request, with its call. Fields that its kind does not use are None."""

    id: RequestId
    position: Position
    """The call that asks."""
    source: RequestSource
    kind: RequestKind
    message: str
    digest: str
    """For the gate: of exactly the action shown. For a tool: of kind and payload."""
    action_digest: str | None = None
    """For a tool: of the action that was running when it asked. None in requests of older versions."""
    tool_source: ToolSource | None = None
    """Of a custom tool: what its source was. None for other tools, and in requests of older versions."""
    covered: tuple[CoveredFile, ...] = ()
    """Of the gate: the files whose content an approval covers too, as they were."""
    occurrence: int = 0
    """How often the question was asked before: of the gate, by this call; of a tool, in one pass of it and after
    retractions."""
    tool_name: str | None = None
    tool_args: dict[str, Any] | None = None
    options: tuple[str, ...] | None = None
    multi: bool | None = None
    questions: tuple[dict[str, Any], ...] | None = None
    payload: dict[str, Any] | None = None
    response_schema: dict[str, Any] | None = None
    preview: Preview | None = None
    rule: str | None = None
    """Of the gate: the rule that asks, as `confirm: file_edit`. None in requests of older versions, and where none does."""
    offer: GrantOffer | None = None
    """For the gate: what may be allowed from now on with the answer. None = nothing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewRequest(RequestContent):
    """A request to open. `expires_in` in seconds, None = never."""

    expires_in: float | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    """How a request was decided. `value` is the validated response; None for expired and cancelled ones. One that has
    expired was decided at its deadline, and `recorded_at` when somebody looked; all others are recorded at once.

    `digest` is of the action that was approved when that is not the one shown: its arguments were edited. `grant_id`: the
    grant that was given, or extended, with it.
    """

    request_id: RequestId
    outcome: Outcome
    value: Any
    answered_by: str
    answered_at: float
    recorded_at: float
    digest: str | None = None
    grant_id: GrantId | None = None
    used_at: float | None = None
    """When the call acted on it: it was started, paused again or closed. From then on the answer cannot be retracted."""


@dataclass(frozen=True, slots=True)
class Retraction:
    """The retraction of an answer, before the call acted on it. `replaced_by` is the request that asks again."""

    answer: Answer
    retracted_by: str
    retracted_at: float
    replaced_by: RequestId


@dataclass(frozen=True, slots=True, kw_only=True)
class Request(RequestContent):
    """A stored request with its decision, if there is one. It has an `answer`, or a `retraction`, or is open."""

    execution_id: ExecutionId
    agent: str
    created_at: float
    path: tuple[PathStep, ...] = ()
    """From the root to the execution that asks; empty if that is its own root."""
    expires_at: float | None = None
    answer: Answer | None = None
    """The answer that counts: None when it was retracted."""
    retraction: Retraction | None = None
    replaces: RequestId | None = None
    """The request whose answer was retracted, so that this one asks again."""

    @property
    def root(self) -> PathStep:
        """The execution under which people find it."""
        return self.path[0] if self.path else PathStep(self.execution_id, self.agent)

    @property
    def open(self) -> bool:
        return self.answer is None and self.retraction is None

    @property
    def given(self) -> Answer | None:
        """The answer that it was given, whether it counts or was retracted."""
        return self.answer if self.retraction is None else self.retraction.answer

    def time_left(self, now: float) -> float | None:
        """Seconds until it expires; None = it never does. Never more than it was given: the clock may be set back."""
        if self.expires_at is None:
            return None
        return min(self.expires_at - now, self.expires_at - self.created_at)
