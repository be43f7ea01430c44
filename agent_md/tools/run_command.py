"""`run_command`: one program with its arguments, started without a shell unless a shell is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_md.agents.command_rules import COMMAND_TOOL, command_subject
from agent_md.agents.effects import UNKNOWN_EFFECTS, Effects
from agent_md.errors import ToolError
from agent_md.executions.requests import CallEffect, Preview
from agent_md.tools.arguments import action_digest, check_arguments, object_schema, refuse_arguments
from agent_md.tools.base import Plan, Settled, SettledState, TargetChanged, ToolOptions
from agent_md.tools.child_process import ChildEnd, ChildProcess, run_child
from agent_md.tools.git_command import git_environment, git_settings_command, git_words, is_git, settings_of_repository
from agent_md.tools.isolated_command import isolated_command
from agent_md.tools.path_sandbox import Sandbox
from agent_md.tools.programs import Program, find_program, search_path
from agent_md.tools.results import storable
from agent_md.tools.threads import ToolThreads

if TYPE_CHECKING:
    from agent_md.isolation.process import Isolation

__all__ = ["CommandAccess", "RunCommand", "command_environment", "output_text"]

_SHELL = "/bin/sh"
_USUAL_S = 120
_MOST_S = 3600
_GIT_SETTINGS_S = 20.0
_INHERITED = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER")


@dataclass(frozen=True, slots=True)
class CommandAccess:
    """What a workspace gives to the commands of an agent; all of it is asked for at each call."""

    environment: Callable[[], Mapping[str, str]]
    """All variables of a command but those of the system."""
    isolation: Callable[[], Isolation] | None = None
    """What a command is given in a sandbox. None = it has no sandbox."""


class RunCommand:
    """Runs a command and gives its exit code and output.

    An approval is for exactly these words, the program that they were resolved to, its content, and the folder.
    """

    name = COMMAND_TOOL
    description = (
        "Runs a program with its arguments, as a list of words, without a shell, and gives its exit code and output. Its "
        "standard input is empty. Most commands need a human's approval. With shell: true the only word is a line for "
        "/bin/sh."
    )
    parameters = object_schema(
        {
            "command": {
                "type": "array",
                "items": {"type": "string", "maxLength": 100_000},
                "minItems": 1,
                "maxItems": 1000,
                "description": 'The program and its arguments, such as ["git", "status"]; nothing is expanded.',
            }
        },
        {
            "folder": {
                "type": "string",
                "minLength": 1,
                "description": "Where it is run; without it the workspace, or the first of the agent's paths.",
            },
            "shell": {"type": "boolean", "description": "Whether the only word is a line for /bin/sh."},
            "timeout": {
                "type": "integer",
                "minimum": 1,
                "maximum": _MOST_S,
                "description": f"Seconds after which it is ended; {_USUAL_S} without it.",
            },
        },
    )
    options = ToolOptions(requires_approval=True)
    subjects_are_paths = False

    def __init__(self, sandbox: Sandbox, access: CommandAccess, threads: ToolThreads) -> None:
        self._sandbox = sandbox
        self._access = access
        self._threads = threads

    def options_for(self, args: dict[str, Any]) -> ToolOptions:
        return self.options

    def validate(self, args: dict[str, Any]) -> dict[str, Any]:
        args = check_arguments(self.name, self.parameters, args)
        words = args["command"]
        problems = []
        if not words[0].strip():
            problems.append("command: its first word, the program, is empty")
        if args.get("shell") and len(words) != 1:
            problems.append("command: with shell: true it is one line, as the only word")
        if not args.get("shell") and len(words) == 1 and words[0].split() != [words[0]]:
            problems.append(
                'command: is a list of words, such as ["ls", "-l"]; give each word by itself, or shell: true for a line'
            )
        if any("\0" in word or _has_lone_surrogate(word) for word in words):
            problems.append("command: has a character that no argument can have")
        if problems:
            raise refuse_arguments(self.name, problems)
        return args

    def subjects(self, args: dict[str, Any]) -> tuple[str, ...]:
        folder = self._folder(args)
        liftable = not args.get("shell") and "folder" not in args and self._program(args, folder).outside
        return (command_subject(args["command"], liftable=liftable),)

    def effects(self, args: dict[str, Any]) -> Effects:
        return UNKNOWN_EFFECTS

    def plan(self, args: dict[str, Any]) -> Plan:
        folder = self._folder(args)
        program = self._program(args, folder)
        facts = (str(program.path), str(program.real), program.digest(), str(folder))
        led = "" if program.real == program.path else f" (a link to {program.real})"
        what = f"{program.path}{led}, which reads the line as a shell" if args.get("shell") else f"{program.path}{led}"
        warning = "" if program.outside else "; this agent may change this program"
        return Plan(
            digest=action_digest(self.name, args, *facts), preview=Preview(resolved=f"{what}, in {folder}{warning}")
        )

    async def run(self, args: dict[str, Any], plan: Plan) -> str:
        now = await self._threads.aside(lambda: self.plan(args))
        if now.digest != plan.digest:
            raise TargetChanged("the program or the folder of the command was changed meanwhile; nothing was done")
        folder = self._folder(args)
        program, limit = self._program(args, folder), float(args.get("timeout", _USUAL_S))
        words: list[str] = ["-c", args["command"][0]] if args.get("shell") else args["command"][1:]
        environment = self._environment()
        if is_git(program.real.name):
            environment = {**environment, **await self._git(program, words, folder, environment)}
            words = git_words(words)
        return output_text(await self._run([str(program.path), *words], folder, environment, limit), self.name)

    def settle(self, args: dict[str, Any], effect: CallEffect) -> Settled:
        return Settled(SettledState.CHANGED)

    async def _run(self, command: list[str], folder: Path, environment: Mapping[str, str], limit: float) -> ChildEnd:
        if self._access.isolation is None:
            return await run_child(ChildProcess(command, folder, environment, limit))
        isolation = await self._threads.aside(self._access.isolation)
        with ExitStack() as stack:
            inside = stack.enter_context(isolated_command(command, folder, environment, isolation))
            end = await run_child(
                ChildProcess(inside.command, Path("/"), inside.environment, limit, descriptors=inside.descriptors)
            )
        if isolation.look_after is not None:
            await self._threads.aside(isolation.look_after)
        return end

    async def _git(
        self, program: Program, words: list[str], folder: Path, environment: Mapping[str, str]
    ) -> Mapping[str, str]:
        """The variables that keep the repository's own settings from starting programs."""
        listing = [str(program.path), *git_settings_command(words)]
        found = await self._run(listing, folder, {**environment, **git_environment(())}, _GIT_SETTINGS_S)
        return git_environment(settings_of_repository(found.output) if found.code == 0 else ())

    def _environment(self) -> Mapping[str, str]:
        variables = dict(self._access.environment())
        return {**variables, "PATH": search_path(variables.get("PATH", os.defpath), self._writable()), "TERM": "dumb"}

    def _folder(self, args: dict[str, Any]) -> Path:
        """Raises ToolError for a folder that is not there, or that this agent may not use."""
        roots = self._sandbox.roots()
        given = args.get("folder")
        if given is None:
            inside = any(self._sandbox.workspace.is_relative_to(root.path) for root in roots)
            folder = self._sandbox.workspace if inside or not roots else _first(self._sandbox)
        else:
            folder = self._sandbox.resolve(given, write=False).path
        if not folder.is_dir():
            raise ToolError(f"{given or folder} is no folder")
        return folder

    def _program(self, args: dict[str, Any], folder: Path) -> Program:
        name = _SHELL if args.get("shell") else args["command"][0]
        folders = self._access.environment().get("PATH", os.defpath)
        return find_program(name, folder, folders, self._writable())

    def _writable(self) -> list[Path]:
        return [root.path for root in self._sandbox.roots() if root.writable]


def command_environment(environ: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    """The variables that a command gets: those that programs need to work at all, and the named ones."""
    return {name: environ[name] for name in (*_INHERITED, *names) if name in environ}


def output_text(end: ChildEnd, what: str) -> str:
    """The result for the model. Raises ToolError for a process that was ended."""
    output = storable(end.output.decode("utf-8", "replace")).removesuffix("\n")
    if end.code is None:
        raise ToolError(f"{what} was ended: {end.ended}. It wrote until then:\n{output or '(nothing)'}")
    return f"exit code {end.code}\n{output}" if output else f"exit code {end.code}, no output"


def _first(sandbox: Sandbox) -> Path:
    folders = [root for root in sandbox.roots() if root.path.is_dir()]
    if not folders:
        raise ToolError("none of the folders that this agent may use is there")
    return min(folders, key=lambda root: (not root.writable, root.alias or "")).path


def _has_lone_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
