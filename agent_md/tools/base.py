"""The interface of tools to the gate and the tool node."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from agent_md.agents.effects import Effects
from agent_md.errors import ToolError
from agent_md.executions.requests import CallEffect, CoveredFile, Preview, ToolSource
from agent_md.sdk import ToolOptions

__all__ = [
    "CutOff",
    "Plan",
    "Settled",
    "SettledState",
    "TargetChanged",
    "Tool",
    "ToolOptions",
    "declaration",
    "declared_digest",
    "tool_digest",
]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a call would do if it ran now.

    `digest` covers the tool, its arguments, the target's content and, for a custom tool, the source of its module
    with what that imports from the tools folder: equal digests mean the same action. An approval is bound to it. `effect` is set by tools whose outcome can be
    settled afterwards by looking at the target.
    """

    digest: str
    preview: Preview | None = None
    effect: CallEffect | None = None
    makes_file: bool = False
    """Whether its target does not exist and would be made."""
    source: ToolSource | None = None
    """For a custom tool: the source that the digest covers."""
    covered: tuple[CoveredFile, ...] = ()
    """For a custom tool: the files that it declares, whose content the digest covers."""


class SettledState(StrEnum):
    """What a look at the target says about a call that may have run."""

    DONE = "done"
    NOT_DONE = "not_done"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Settled:
    """The outcome of a look at the target; `result` is the tool's result when it was done."""

    state: SettledState
    result: str | None = None


class TargetChanged(ToolError):
    """The target is no longer what the plan saw; nothing was done."""


class CutOff(ToolError):
    """The call was ended from outside while it ran; it may have had its effect."""


class Tool(Protocol):
    """One tool, ready to be planned and run. All methods but `run` are quick and change nothing."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str:
        """The description for the model."""

    @property
    def parameters(self) -> dict[str, Any]:
        """JSON schema of the arguments: an object."""

    @property
    def options(self) -> ToolOptions:
        """What is to be said of the tool as a whole."""

    def options_for(self, args: dict[str, Any]) -> ToolOptions:
        """What holds for a call with these arguments, checked by `validate`."""

    @property
    def subjects_are_paths(self) -> bool:
        """Whether `subjects` are paths of files: then a grant may be for all calls in a folder, else for one call only."""

    def validate(self, args: dict[str, Any]) -> dict[str, Any]:
        """The arguments as the tool will get them, defaults filled in, as JSON; checked again, they stay the same.

        Raises InvalidArguments naming each field that does not fit.
        """

    def subjects(self, args: dict[str, Any]) -> tuple[str, ...] | None:
        """What rules with a pattern are matched against, all of them; None = the arguments themselves (`name=glob`),
        none at all = no pattern can be applied for sure, so one in a rule asks.

        For a file tool the resolved path relative to its root (`alias/…` for a declared one). Raises ToolError for a
        path that is not allowed at all.
        """

    def effects(self, args: dict[str, Any]) -> Effects:
        """The files that the call reads and writes, named as in `subjects`. Raises ToolError for a path that is not
        allowed at all."""

    def plan(self, args: dict[str, Any]) -> Plan:
        """What the call would do now. Raises ToolError if it cannot be done (gone, outside, no match)."""

    async def run(self, args: dict[str, Any], plan: Plan) -> str:
        """Does it, and gives the text for the model.

        Raises TargetChanged, with nothing done, if the target is not what `plan` saw; ToolError for any other
        failure. A request raised inside passes through as `agent_md.sdk.Pause`.
        """

    def settle(self, args: dict[str, Any], effect: CallEffect) -> Settled:
        """Whether a call that may have run did. Only called when its plan had an `effect`."""


class Declared(Protocol):
    """The declaration of a tool for a model."""

    @property
    def name(self) -> str: ...

    @property
    def description(self) -> str: ...

    @property
    def parameters(self) -> dict[str, Any]: ...


def declaration(tool: Declared) -> dict[str, Any]:
    """The tool as a model is told of it: OpenAI's function form."""
    return {
        "type": "function",
        "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
    }


def declared_digest(tool: Declared) -> str:
    """SHA-256 of the declaration."""
    return hashlib.sha256(json.dumps(declaration(tool), sort_keys=True).encode()).hexdigest()


def tool_digest(tool: Tool, plan: Plan) -> str:
    """Digest of what the tool of a planned call is: of its source, if it is a custom tool, else of its declaration."""
    return declared_digest(tool) if plan.source is None else plan.source.digest
