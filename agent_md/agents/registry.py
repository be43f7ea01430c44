"""All agents of a workspace, and the agent files that are invalid."""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath

from agent_md.agents.defaults import Defaults
from agent_md.agents.files import Unreadable, read_file
from agent_md.agents.names import name_key, nearest_names
from agent_md.agents.parse_spec import read_agent
from agent_md.agents.spec import AgentSpec, SpecOrigin
from agent_md.errors import AgentFileInvalid, UnknownAgent
from agent_md.resource_shortages import refuse_if_none_left

__all__ = ["AgentEntry", "InvalidFile", "Registry", "agent_files", "scan"]

FILE_LIMIT = 8 * 1024 * 1024
_NAMES_SHOWN = 10


@dataclass(frozen=True, slots=True)
class AgentEntry:
    """One usable agent. `source_digest` is the SHA-256 of its file's bytes."""

    spec: AgentSpec
    path: Path
    source_digest: str


@dataclass(frozen=True, slots=True)
class InvalidFile:
    """A file that is no agent, relative to the workspace, and why: one line a mistake, each with the file's name."""

    file: str
    error: str
    name: str | None = None
    """The agent's name, if the file has one that can be read."""
    last_good: str | None = None
    """The agent that goes on as this file had it when it was valid last; see `Registry.with_last_good`."""


@dataclass(frozen=True, slots=True)
class Registry:
    """The agents at the time of the scan, by name, and the invalid files, by path."""

    agents: tuple[AgentEntry, ...]
    invalid: tuple[InvalidFile, ...]
    workspace: Path = field(default=Path(), compare=False)
    folder: str = field(default="agents", compare=False)
    """Where agent files belong, relative to the workspace."""

    def get(self, name: str) -> AgentEntry:
        """The agent of this name, disabled ones included; case and Unicode form do not count.

        Raises AgentFileInvalid with the file's mistakes if an invalid file has this name, or this name without `.md`;
        UnknownAgent with the nearest names otherwise.
        """
        key = name_key(name)
        for entry in self.agents:
            if name_key(entry.spec.name) == key:
                return entry
        if invalid := self.invalid_named(name):
            raise AgentFileInvalid("\n".join(file.error for file in invalid))
        raise UnknownAgent(f'there is no agent "{name}"; {self._hint(name)}')

    def invalid_named(self, name: str) -> list[InvalidFile]:
        """The invalid files that have this name, or this name without `.md`."""
        return [file for file in self.invalid if name_key(name) in _keys(file) or _is_path_of(name, file.file)]

    def with_last_good(self, before: Registry) -> Registry:
        """With the agents of `before` whose files are invalid now, as they were then; unless another file took the name.

        A file may be read while it is half saved.
        """
        taken = {name_key(entry.spec.name) for entry in self.agents}
        known = {entry.spec.source_path: entry for entry in before.agents}
        agents, invalid = list(self.agents), []
        for item in self.invalid:
            entry = known.get(item.file)
            if entry is None or name_key(entry.spec.name) in taken:
                invalid.append(item)
                continue
            taken.add(name_key(entry.spec.name))
            agents.append(entry)
            invalid.append(replace(item, last_good=entry.spec.name))
        return replace(self, agents=_by_name(agents), invalid=tuple(invalid))

    def current_spec(self, name: str) -> AgentSpec | None:
        """The agent's spec as its file and the config give it now; None if it is gone or invalid."""
        key = name_key(name)
        return next((entry.spec for entry in self.agents if name_key(entry.spec.name) == key), None)

    def descriptions(self, names: Sequence[str]) -> dict[str, str]:
        """What the agents of these names say of themselves, by the names as their files write them; "" of one that is gone
        or invalid."""
        found = [(name, self.current_spec(name)) for name in names]
        return {name if spec is None else spec.name: "" if spec is None else spec.description for name, spec in found}

    def _hint(self, name: str) -> str:
        for entry in self.agents:
            if name_key(entry.path.stem) == name_key(name) or _is_path_of(name, entry.spec.source_path):
                return f'{entry.spec.source_path} is the agent "{entry.spec.name}"'
        if stray := self._stray(name):
            return f"there is a file {stray}, but agents live in {self.folder}/: move it there"
        return self._nearest(name)

    def _nearest(self, name: str) -> str:
        names = [entry.spec.name for entry in self.agents]
        unusable = {file.name or PurePosixPath(file.file).stem: file.file for file in self.invalid}
        if near := nearest_names(name, [*names, *unusable]):
            shown = [f"{item} ({unusable[item]} has mistakes)" if item in unusable else item for item in near]
            return f"did you mean {' or '.join(shown)}?"
        if names:
            more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
            return f"the agents are {', '.join(names[:_NAMES_SHOWN])}{more}"
        if unusable:
            return "no file of the workspace can be used as an agent; `agentmd validate` says why"
        return "the workspace has no agents yet: `agentmd new NAME` makes one"

    def _stray(self, name: str) -> str | None:
        """The path of a file of this name that lies beside the folder of the agents, or in its `_config`."""
        apart = f"{self.folder}/_config/"
        given = name.removeprefix("./").removesuffix(".md") + ".md"
        file = given.removeprefix(apart)
        for place in ("./", apart) if file == given else (apart,):
            try:
                if "/" not in file and (self.workspace / place / file).is_file():
                    return f"{place}{file}"
            except (OSError, ValueError):  # too long, or no path at all
                return None
        return None


def scan(agents_dir: Path, workspace: Path, defaults: Defaults) -> Registry:
    """Reads every agent file below `agents_dir`; a folder that does not exist has none.

    Never raises for what it finds there: what cannot be used is listed as invalid. Two files whose names compare equal
    are both invalid.
    """
    unlistable: list[tuple[Path, str]] = []
    agents: list[AgentEntry] = []
    invalid: list[InvalidFile] = []
    for path in agent_files(agents_dir, unlistable):
        entry = _load(path, _shown(path, workspace), defaults)
        if isinstance(entry, AgentEntry):
            agents.append(entry)
        else:
            invalid.append(entry)
    for path, error in unlistable:
        file = _shown(path, workspace)
        invalid.append(InvalidFile(file, f"{file}: the folder cannot be read: {error}"))
    unique, doubles = _without_doubles(agents)
    return Registry(
        _by_name(unique),
        tuple(sorted((*invalid, *doubles), key=lambda file: file.file)),
        workspace,
        _shown(agents_dir, workspace),
    )


def agent_files(folder: Path, unlistable: list[tuple[Path, str]] | None = None) -> Iterator[Path]:
    """The paths below `folder` that should be agent files, whatever they are; in the order of their names.

    Hidden names, `*.memory.md` and everything in a folder `_config` are not; links to folders are not followed.
    Folders that cannot be listed are added to `unlistable` with the reason.
    """
    folders = [folder]
    while folders:
        current = folders.pop()
        try:
            with os.scandir(current) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except FileNotFoundError:
            continue
        except OSError as error:
            refuse_if_none_left(error, f"{current} cannot be read")
            if unlistable is not None:
                unlistable.append((current, error.strerror or str(error)))
            continue
        for entry in found:
            if entry.name.startswith("."):
                continue
            if entry.name.endswith(".md"):
                if not entry.name.endswith(".memory.md"):
                    yield Path(entry.path)
            elif entry.name != "_config" and entry.is_dir(follow_symlinks=False):
                folders.append(Path(entry.path))


def _load(path: Path, file: str, defaults: Defaults) -> AgentEntry | InvalidFile:
    if not _is_text(str(path)):
        return InvalidFile(file, f"{file}: the file's own name is not UTF-8; rename it")
    try:
        data = read_file(path, FILE_LIMIT)
    except Unreadable as error:
        return InvalidFile(file, f"{file}: {error}")
    parsed = read_agent(data, file, defaults)
    if parsed.spec is None:
        return InvalidFile(file, parsed.error, parsed.name)
    digest = hashlib.sha256(data).hexdigest()
    return AgentEntry(replace(parsed.spec, origin=SpecOrigin(digest, defaults.digest)), path, digest)


def _by_name(agents: Sequence[AgentEntry]) -> tuple[AgentEntry, ...]:
    return tuple(sorted(agents, key=lambda entry: name_key(entry.spec.name)))


def _without_doubles(agents: Sequence[AgentEntry]) -> tuple[list[AgentEntry], list[InvalidFile]]:
    by_name: defaultdict[str, list[AgentEntry]] = defaultdict(list)
    for entry in agents:
        by_name[name_key(entry.spec.name)].append(entry)
    unique = [entries[0] for entries in by_name.values() if len(entries) == 1]
    doubles = [entries for entries in by_name.values() if len(entries) > 1]
    return unique, [_double(entry, entries) for entries in doubles for entry in entries]


def _double(entry: AgentEntry, entries: Sequence[AgentEntry]) -> InvalidFile:
    file = entry.spec.source_path
    others = ", ".join(other.spec.source_path for other in entries if other is not entry)
    return InvalidFile(
        file, f'{file}: the name "{entry.spec.name}" is also that of {others}; rename one', entry.spec.name
    )


def _keys(file: InvalidFile) -> set[str]:
    return {name_key(name) for name in (PurePosixPath(file.file).stem, file.name) if name}


def _is_path_of(name: str, file: str) -> bool:
    """Whether somebody who typed a path, or a file's name, means this file."""
    if not name.endswith(".md"):
        return "/" in name and _is_path_of(f"{name}.md", file)
    wanted, parts = PurePosixPath(name_key(name)).parts, PurePosixPath(name_key(file)).parts
    shorter = min(len(wanted), len(parts))
    return wanted[-shorter:] == parts[-shorter:]


def _shown(path: Path, workspace: Path) -> str:
    shown = path.relative_to(workspace) if path.is_relative_to(workspace) else path
    return shown.as_posix().encode("utf-8", "backslashreplace").decode()


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True
