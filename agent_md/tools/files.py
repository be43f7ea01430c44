"""Common code of the file tools, and `file_read`."""

from __future__ import annotations

from typing import Any

from agent_md.agents.effects import Effects, Place
from agent_md.executions.requests import CallEffect, Preview
from agent_md.tools.arguments import action_digest, check_arguments, object_schema, refuse_arguments
from agent_md.tools.base import Plan, Settled, SettledState, ToolOptions
from agent_md.tools.bounded_read import Reading
from agent_md.tools.file_work import Commit, carry_out
from agent_md.tools.path_sandbox import Sandbox
from agent_md.tools.pinned_path import open_pinned
from agent_md.tools.threads import ToolThreads

__all__ = ["PATH", "FileRead", "FileTool"]

PATH: dict[str, Any] = {
    "type": "string",
    "minLength": 1,
    "description": "Path relative to the workspace, or ALIAS/… for a declared path.",
}

_LINES = 2000


class FileTool:
    """A tool on files of one sandbox. Subclasses give `name`, `description`, `parameters`, `plan` and `perform`."""

    name = ""
    description = ""
    parameters: dict[str, Any] = {}  # noqa: RUF012 - replaced by each subclass, never changed
    options = ToolOptions()
    subjects_are_paths = True
    path_arguments: tuple[str, ...] = ("path",)
    """The arguments that hold the paths of `subjects`, in their order."""

    def __init__(self, sandbox: Sandbox, threads: ToolThreads | None = None) -> None:
        self._sandbox = sandbox
        self._threads = threads or ToolThreads()

    async def run(self, args: dict[str, Any], plan: Plan) -> str:
        return await carry_out(self._threads, self.name, lambda commit: self.perform(args, plan, commit))

    def perform(self, args: dict[str, Any], plan: Plan, commit: Commit) -> str:
        """Does what `run` does, on the thread that calls it; a change happens in a block of `commit`."""
        raise NotImplementedError

    def options_for(self, args: dict[str, Any]) -> ToolOptions:
        return self.options

    def validate(self, args: dict[str, Any]) -> dict[str, Any]:
        return check_arguments(self.name, self.parameters, args)

    def subjects(self, args: dict[str, Any]) -> tuple[str, ...]:
        raise NotImplementedError

    def effects(self, args: dict[str, Any]) -> Effects:
        paths = dict(zip(self.path_arguments, self.subjects(args), strict=True))

        def named(arguments: tuple[str, ...] | None) -> tuple[Place, ...]:
            return tuple(Place(paths[name]) for name in arguments or ())

        return Effects(named(self.options.reads), named(self.options.writes))

    def settle(self, args: dict[str, Any], effect: CallEffect) -> Settled:
        return Settled(SettledState.CHANGED)


class FileRead(FileTool):
    """Gives text by lines, or from a byte on. The digest of its plan covers no content: reading what grew meanwhile is the
    same action."""

    name = "file_read"
    description = "Reads a text file, or a part of it. Long files come in parts: read on with offset, within a long line with byte."
    parameters = object_schema(
        {"path": PATH},
        {
            "offset": {"type": "integer", "minimum": 0, "description": "First line to read, counted from 1."},
            "byte": {
                "type": "integer",
                "minimum": 1,
                "description": "First byte to read, counted from 1, instead of offset.",
            },
            "limit": {"type": "integer", "minimum": 1, "description": f"Lines to read; {_LINES} if not given."},
            "with_line_numbers": {"type": "boolean", "description": "Puts the number before each line; not with byte."},
        },
    )
    options = ToolOptions(read_only=True, idempotent=True, reads=("path",), writes=())

    def validate(self, args: dict[str, Any]) -> dict[str, Any]:
        args = super().validate(args)
        if "byte" in args:
            problems = ["offset: goes without byte"] if "offset" in args else []
            problems += ["with_line_numbers: goes without byte"] if args.get("with_line_numbers") else []
            if problems:
                raise refuse_arguments(self.name, problems)
        return args

    def subjects(self, args: dict[str, Any]) -> tuple[str, ...]:
        return (self._sandbox.resolve(args["path"], write=False).subject,)

    def plan(self, args: dict[str, Any]) -> Plan:
        resolved = self._sandbox.resolve(args["path"], write=False)
        with open_pinned(self._sandbox, resolved) as place:
            size = place.existing().st_size
        return Plan(
            digest=action_digest(self.name, args, str(resolved.path)),
            preview=Preview(resolved=str(resolved.path), size=size),
        )

    def perform(self, args: dict[str, Any], plan: Plan, commit: Commit) -> str:
        with (
            open_pinned(self._sandbox, self._sandbox.resolve(args["path"], write=False)) as place,
            place.open() as file,
        ):
            reading = Reading(place.shown, file, args.get("limit", _LINES))
            if "byte" in args:
                return reading.from_byte(args["byte"])
            return reading.from_line(max(args.get("offset", 1), 1), numbered=args.get("with_line_numbers", False))
