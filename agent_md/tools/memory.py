"""The memory tools: `memory_save`, `memory_append`, `memory_retrieve`, on a file of the agent that a person may edit too."""

from __future__ import annotations

import fcntl
import hashlib
import os
from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent_md.agents.effects import NO_EFFECTS, Effects
from agent_md.errors import ToolError
from agent_md.executions.requests import CallEffect, Preview
from agent_md.tools.arguments import action_digest, check_arguments, object_schema, refuse_arguments
from agent_md.tools.base import Plan, Settled, SettledState, TargetChanged, Tool, ToolOptions
from agent_md.tools.diffs import content_diff
from agent_md.tools.file_work import Commit, carry_out
from agent_md.tools.forbidden import Forbidden
from agent_md.tools.memory_text import LONGEST_NAME, MemoryText
from agent_md.tools.path_sandbox import Sandbox
from agent_md.tools.pinned_path import ABSENT, PinnedPath, digest_of_bytes, open_pinned
from agent_md.tools.threads import ToolThreads

__all__ = ["MEMORY_TOOLS", "MemoryFile", "memory_notice", "memory_tools"]

_LARGEST = 1024 * 1024
"""Most bytes of a memory file."""
_NAMES_SHOWN = 2000
"""Most characters of the list of sections that a model is given with its prompt."""
_ATTEMPTS = 5

_SECTION: dict[str, Any] = {
    "type": "string",
    "minLength": 1,
    "maxLength": LONGEST_NAME,
    "description": "Name of the section: one line, compared letter by letter.",
}


class MemoryFile:
    """The memory of one agent: `NAME.memory.md` in the folder of agents. Changes are made one at a time, across processes,
    and replace the file atomically; an edit by a person in between is never lost."""

    def __init__(self, agents_dir: Path, agent: str, locks_dir: Path) -> None:
        self._sandbox = Sandbox(agents_dir, (), Forbidden(agents_dir / "_config"))
        self._name = f"{agent}.memory.md"
        key = hashlib.sha256(agent.encode()).hexdigest()[:16]
        self._lock = locks_dir / f"memory-{key}.lock"

    def read(self) -> tuple[MemoryText, str]:
        """The text and the state of the file; a file that is not there is empty. Raises ToolError."""
        with self._place() as place:
            return self._read(place)

    def path(self) -> Path:
        """Where the file is. Raises ToolError if it may not be there: it is a link that leads elsewhere."""
        return self._sandbox.resolve(self._name, write=True).path

    def replace(self, text: MemoryText, expected: str, commit: Commit) -> None:
        """Raises TargetChanged, with the file untouched, if its state is not `expected`."""
        data = str(text).encode()
        if len(data) > _LARGEST:
            raise ToolError(
                f"the memory would have {len(data)} bytes, at most {_LARGEST} are allowed; nothing was done"
            )
        with self._place() as place:
            place.replace(data, expected, commit)

    @contextmanager
    def locked(self) -> Iterator[None]:
        """One process, and one thread in it, is in the block at a time."""
        descriptor = os.open(self._lock, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    @contextmanager
    def _place(self) -> Iterator[PinnedPath]:
        with open_pinned(self._sandbox, self._sandbox.resolve(self._name, write=True)) as place:
            yield place

    def _read(self, place: PinnedPath) -> tuple[MemoryText, str]:
        if place.stat() is None:
            return MemoryText(""), ABSENT
        with place.open() as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise ToolError(f"{self._name} is larger than {_LARGEST} bytes; a person must shorten it")
        try:
            return MemoryText(data.decode("utf-8-sig")), digest_of_bytes(data)
        except UnicodeDecodeError:
            raise ToolError(f"{self._name} is no UTF-8 text; a person must mend it") from None


class _MemoryTool:
    """Common code of the memory tools."""

    name = ""
    description = ""
    parameters: dict[str, Any] = {}  # noqa: RUF012 - replaced by each subclass, never changed
    options = ToolOptions(reads=(), writes=())
    subjects_are_paths = False

    def __init__(self, memory: MemoryFile, threads: ToolThreads) -> None:
        self._memory = memory
        self._threads = threads

    def validate(self, args: dict[str, Any]) -> dict[str, Any]:
        args = check_arguments(self.name, self.parameters, args)
        section = args.get("section")
        if section is not None and (section != section.strip() or len(section.splitlines()) != 1):
            raise refuse_arguments(self.name, ["section: must be one line, without blanks around it"])
        for field in ("section", "content"):
            try:
                args.get(field, "").encode()
            except UnicodeEncodeError:
                raise refuse_arguments(self.name, [f"{field}: has a lone surrogate"]) from None
        return args

    def options_for(self, args: dict[str, Any]) -> ToolOptions:
        return self.options

    def subjects(self, args: dict[str, Any]) -> tuple[str, ...] | None:
        return None

    def effects(self, args: dict[str, Any]) -> Effects:
        return NO_EFFECTS

    async def run(self, args: dict[str, Any], plan: Plan) -> str:
        return await carry_out(self._threads, self.name, lambda commit: self.perform(args, plan, commit))

    def perform(self, args: dict[str, Any], plan: Plan, commit: Commit) -> str:
        raise NotImplementedError

    def settle(self, args: dict[str, Any], effect: CallEffect) -> Settled:
        return Settled(SettledState.CHANGED)


class _Changing(_MemoryTool):
    """The digest of a plan covers the section as it was: an approval of a change is for that section's content. The effect
    tells what the section held before, so that a call that was cut off is settled by what it holds now."""

    parameters = object_schema({"section": _SECTION, "content": {"type": "string", "description": "Markdown text."}})

    def plan(self, args: dict[str, Any]) -> Plan:
        text, _ = self._memory.read()
        section, before = args["section"], text.section(args["section"]) or ""
        old = str(text).encode()
        self._change(text, args)
        path = str(self._memory.path())
        return Plan(
            digest=action_digest(self.name, args, path, before),
            preview=Preview(path, content_diff(path, old, str(text), len(old)), len(str(text).encode()), "text"),
            effect=CallEffect(before=_state(before), after=_state(text.section(section) or "")),
        )

    def perform(self, args: dict[str, Any], plan: Plan, commit: Commit) -> str:
        with self._memory.locked():
            for attempt in range(_ATTEMPTS):
                text, state = self._memory.read()
                self._check(args, plan, text)
                self._change(text, args)
                try:
                    self._memory.replace(text, state, commit)
                except TargetChanged:  # a person saved it meanwhile
                    if attempt == _ATTEMPTS - 1:
                        raise
                else:
                    break
        return self._result(args)

    @abstractmethod
    def _change(self, text: MemoryText, args: dict[str, Any]) -> None: ...

    @abstractmethod
    def _result(self, args: dict[str, Any]) -> str: ...

    def _check(self, args: dict[str, Any], plan: Plan, text: MemoryText) -> None:
        """Raises TargetChanged if the section is not as it was planned for."""


class MemorySave(_Changing):
    """Replaces one section."""

    name = "memory_save"
    description = (
        "Replaces a section of your memory, which later conversations have too; makes it if it is not there. Empty content "
        "removes the section."
    )

    def settle(self, args: dict[str, Any], effect: CallEffect) -> Settled:
        now = _state(self._memory.read()[0].section(args["section"]) or "")
        if now == effect.after:
            return Settled(SettledState.DONE, self._result(args))
        return Settled(SettledState.NOT_DONE if now == effect.before else SettledState.CHANGED)

    def _change(self, text: MemoryText, args: dict[str, Any]) -> None:
        text.save(args["section"], args["content"])

    def _check(self, args: dict[str, Any], plan: Plan, text: MemoryText) -> None:
        assert plan.effect is not None
        if _state(text.section(args["section"]) or "") != plan.effect.before:
            raise TargetChanged(f"the section {args['section']} was changed meanwhile; nothing was done")

    def _result(self, args: dict[str, Any]) -> str:
        return f"Memory {'saved' if args['content'].strip() else 'removed'}: {args['section']}"


class MemoryAppend(_Changing):
    """Adds lines to one section. What others added meanwhile stays: appending to it is the same action."""

    name = "memory_append"
    description = "Adds lines at the end of a section of your memory; makes the section if it is not there."

    def validate(self, args: dict[str, Any]) -> dict[str, Any]:
        args = super().validate(args)
        if not args["content"].strip():
            raise refuse_arguments(self.name, ["content: is empty"])
        return args

    def plan(self, args: dict[str, Any]) -> Plan:
        plan = super().plan(args)
        assert plan.preview is not None
        return Plan(action_digest(self.name, args, str(plan.preview.resolved)), plan.preview, plan.effect)

    def settle(self, args: dict[str, Any], effect: CallEffect) -> Settled:
        now = self._memory.read()[0].section(args["section"]) or ""
        added = args["content"].strip("\n")
        size = int(effect.before.partition(":")[0])
        if _state(now[:size]) != effect.before:
            return Settled(SettledState.CHANGED)
        if f"\n{added}\n" in f"\n{now[size:]}\n":
            return Settled(SettledState.DONE, self._result(args))
        return Settled(SettledState.NOT_DONE)

    def _change(self, text: MemoryText, args: dict[str, Any]) -> None:
        text.append(args["section"], args["content"])

    def _result(self, args: dict[str, Any]) -> str:
        return f"Memory appended: {args['section']}"


class MemoryRetrieve(_MemoryTool):
    """Gives a section, or the names of all sections."""

    name = "memory_retrieve"
    description = "Gives a section of your memory; without section the names of all sections."
    parameters = object_schema({}, {"section": _SECTION})
    options = ToolOptions(read_only=True, idempotent=True, reads=(), writes=())

    def plan(self, args: dict[str, Any]) -> Plan:
        path = str(self._memory.path())
        return Plan(digest=action_digest(self.name, args, path), preview=Preview(resolved=path))

    def perform(self, args: dict[str, Any], plan: Plan, commit: Commit) -> str:
        text, _ = self._memory.read()
        names = "\n".join(text.names()) or "The memory is empty"
        if "section" not in args:
            return names
        content = text.section(args["section"])
        if content is None:
            raise ToolError(f"the memory has no section {args['section']}; its sections are:\n{names}")
        return content or "The section is empty"


MEMORY_TOOLS = (MemorySave, MemoryAppend, MemoryRetrieve)


def memory_tools(memory: MemoryFile, threads: ToolThreads) -> list[Tool]:
    """The tools of one memory."""
    return [MemorySave(memory, threads), MemoryAppend(memory, threads), MemoryRetrieve(memory, threads)]


def memory_notice(memory: MemoryFile) -> str | None:
    """What a model is told with its prompt: the names of the sections, as many as there is room for. None if there are none,
    or the file cannot be read: then the tools say why."""
    try:
        names = memory.read()[0].names()
    except (ToolError, OSError):
        return None
    if not names:
        return None
    shown: list[str] = []
    for name in names:
        if sum(map(len, shown)) + len(name) > _NAMES_SHOWN:
            break
        shown.append(name[:LONGEST_NAME])
    more = f", and {len(names) - len(shown)} more" if len(shown) < len(names) else ""
    return f"Your memory has these sections: {'; '.join(shown)}{more}"


def _state(content: str) -> str:
    """The length of a section and its digest."""
    return f"{len(content)}:{hashlib.sha256(content.encode()).hexdigest()}"
