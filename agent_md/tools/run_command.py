"""`run_command`: one program with its arguments, started without a shell unless a shell is asked for."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
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
from agent_md.tools.path_sandbox import Root, Sandbox
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


@dataclass(frozen=True, slots=True)
class _Found:
    """What a call uses: its folder, its program, and all variables."""

    folder: Path
    program: Program
    environment: Mapping[str, str]


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
        found = self._find(args)
        liftable = not args.get("shell") and "folder" not in args and found.program.outside
        return (command_subject(args["command"], liftable=liftable),)

    def effects(self, args: dict[str, Any]) -> Effects:
        return UNKNOWN_EFFECTS

    def plan(self, args: dict[str, Any]) -> Plan:
        return self._plan(args, self._find(args))

    def _plan(self, args: dict[str, Any], found: _Found) -> Plan:
        program = found.program
        facts = (str(program.path), str(program.real), program.digest(), str(found.folder))
        led = "" if program.real == program.path else f" (a link to {program.real})"
        shell = ", which reads the line as a shell" if args.get("shell") else ""
        warning = "" if program.outside else "; this agent may change this program"
        shown = f"{program.path}{led}{shell}, in {found.folder}{warning}"
        return Plan(digest=action_digest(self.name, args, *facts), preview=Preview(resolved=shown))

    async def run(self, args: dict[str, Any], plan: Plan) -> str:
        found = await self._threads.aside(lambda: self._find_as_planned(args, plan))
        program = found.program
        words: list[str] = ["-c", args["command"][0]] if args.get("shell") else args["command"][1:]
        environment = found.environment
        if is_git(program.real.name):
            environment = {**environment, **await self._git(found, words)}
            words = git_words(words)
        command, limit = [str(program.path), *words], float(args.get("timeout", _USUAL_S))
        return output_text(await self._run(command, found.folder, environment, limit), self.name)

    def _find_as_planned(self, args: dict[str, Any], plan: Plan) -> _Found:
        found = self._find(args)
        if self._plan(args, found).digest != plan.digest:
            raise TargetChanged("the program or the folder of the command was changed meanwhile; nothing was done")
        return found

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

    async def _git(self, found: _Found, words: list[str]) -> Mapping[str, str]:
        """The variables that keep the repository's own settings from starting programs."""
        listing = [str(found.program.path), *git_settings_command(words)]
        environment = {**found.environment, **git_environment(())}
        listed = await self._run(listing, found.folder, environment, _GIT_SETTINGS_S)
        return git_environment(settings_of_repository(listed.output) if listed.code == 0 else ())

    def _find(self, args: dict[str, Any]) -> _Found:
        """What the call would use now. Raises ToolError for a folder that is not there, or that this agent may not use,
        and if there is no such program."""
        roots = self._sandbox.roots()
        folder = self._folder(args.get("folder"), roots)
        writable = [root.path for root in roots if root.writable]
        environment = dict(self._access.environment())
        folders = environment.get("PATH", os.defpath)
        name = _SHELL if args.get("shell") else args["command"][0]
        program = find_program(name, folder, folders, writable)
        environment |= {"PATH": search_path(folders, writable), "TERM": "dumb"}
        return _Found(folder, program, environment)

    def _folder(self, given: str | None, roots: Sequence[Root]) -> Path:
        if given is not None:
            folder = self._sandbox.resolve(given, write=False).path
        elif any(self._sandbox.workspace.is_relative_to(root.path) for root in roots):
            folder = self._sandbox.workspace
        else:
            folder = _first(roots)
        if not folder.is_dir():
            raise ToolError(f"{given or folder} is no folder")
        return folder


def command_environment(environ: Mapping[str, str], names: tuple[str, ...]) -> dict[str, str]:
    """The variables that a command gets: those that programs need to work at all, and the named ones."""
    return {name: environ[name] for name in (*_INHERITED, *names) if name in environ}


def output_text(end: ChildEnd, what: str) -> str:
    """The result for the model. Raises ToolError for a process that was ended."""
    output = storable(end.output.decode("utf-8", "replace")).removesuffix("\n")
    if end.code is None:
        raise ToolError(f"{what} was ended: {end.ended}. It wrote until then:\n{output or '(nothing)'}")
    return f"exit code {end.code}\n{output}" if output else f"exit code {end.code}, no output"


def _first(roots: Sequence[Root]) -> Path:
    folders = [root for root in roots if root.path.is_dir()]
    if not folders:
        raise ToolError("none of the folders that this agent may use is there")
    return min(folders, key=lambda root: (not root.writable, root.alias or "")).path


def _has_lone_surrogate(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False
