"""What rules see of a tool, whatever it is called with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agent_md.agents.effects import Effects, Place
from agent_md.agents.explained_rules import Subjects, ToolFacts
from agent_md.errors import InvalidArguments, ToolError
from agent_md.tools.base import Tool
from agent_md.tools.globbing import FileGlob
from agent_md.tools.module_tool import ModuleTool

__all__ = ["facts_of"]


def facts_of(tool: Tool) -> ToolFacts:
    """What rules see of a tool."""
    arguments: Mapping[str, Any] = tool.parameters.get("properties", {})
    kind = Subjects.UNSURE if isinstance(tool, ModuleTool) else _subjects_of(tool, arguments)
    required = tool.parameters.get("required", ())
    options = tool.options
    return ToolFacts(
        *(tool.name, kind, frozenset(arguments), frozenset(required), options.requires_approval),
        effects=_effects_of(tool),
        unasked=options.unasked,
    )


def _subjects_of(tool: Tool, arguments: Mapping[str, Any]) -> Subjects:
    try:
        kinds = {name: schema.get("type") for name, schema in arguments.items()}
        subjects = tool.subjects({name: {} if kind == "object" else "x" for name, kind in kinds.items()})
    except InvalidArguments:
        return Subjects.ARGUMENTS
    except ToolError:  # it looked for a subject, and found one that is out of bounds
        return Subjects.SUBJECTS
    return Subjects.ARGUMENTS if subjects is None else Subjects.SUBJECTS


def _effects_of(tool: Tool) -> Effects:
    """Its effects, wherever they are. What a custom tool declares may be a glob; `file_glob` leaves out what is denied."""
    custom, leaves_out = isinstance(tool, ModuleTool), isinstance(tool, FileGlob)

    def places(names: tuple[str, ...] | None) -> tuple[Place, ...] | None:
        if names is None:
            return None
        return tuple(Place("", any_of=custom, leaves_out=leaves_out) for _ in names)

    return Effects(places(tool.options.reads), places(tool.options.writes))
