"""The files that a custom tool declares with `tool_options`: what its calls read and write, and what is in those that an
approval covers too."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from agent_md.agents.effects import UNKNOWN_EFFECTS, Effects, Place
from agent_md.agents.globs import glob_fits, is_glob
from agent_md.errors import ToolError
from agent_md.executions.requests import CoveredFile
from agent_md.sdk import ToolOptions
from agent_md.tools.path_sandbox import Sandbox, shown_path
from agent_md.tools.pinned_path import ABSENT

__all__ = ["DeclaredFiles", "check_declared"]

_NAME = re.compile(r"[A-Za-z_]\w*")
_MOST_FILES = 1000
_MOST_BYTES = 256 * 1024 * 1024
_MOST_ENTRIES = 200_000
_LIMIT_S = 20.0
_PIECE = 1024 * 1024


def check_declared(tool: str, options: ToolOptions, parameters: Mapping[str, Any]) -> None:
    """Raises ValueError for a declared name that is no argument of the tool, and for a glob that leads outside."""
    arguments = parameters.get("properties", {})
    for kind, names in (("reads", options.reads), ("writes", options.writes), ("covers", options.covers)):
        for name in names or ():
            if _NAME.fullmatch(name) and name not in arguments:
                raise ValueError(
                    f"{kind} of {tool} names {name!r}, which is no argument of it (they are: {', '.join(arguments)}); "
                    f"a file of this name is written ./{name}"
                )
            if is_glob(name) and (name.startswith(("/", "~")) or ".." in name.split("/")):
                raise ValueError(f"{kind} of {tool} has the glob {name!r}; write it as seen from the workspace")


class DeclaredFiles:
    """The declarations of one tool, for the agent whose files are those of the `sandbox`; None = they are not known."""

    def __init__(self, options: ToolOptions, parameters: Mapping[str, Any], sandbox: Sandbox | None) -> None:
        self._options = options
        self._arguments = frozenset(parameters.get("properties", {}))
        self._sandbox = sandbox

    def effects(self, args: Mapping[str, Any]) -> Effects:
        """What a call reads and writes. Raises ToolError for a file that the agent may not use so."""
        if self._sandbox is None:
            return UNKNOWN_EFFECTS
        return Effects(
            self._places(self._options.reads, args, write=False), self._places(self._options.writes, args, write=True)
        )

    def covered(self, args: Mapping[str, Any]) -> tuple[CoveredFile, ...]:
        """The files that an approval of a call covers, as they are now. Raises ToolError if they are too many, too large
        or cannot be read."""
        if not self._options.covers:
            return ()
        if self._sandbox is None:
            raise ToolError("the files that an approval covers are not known here")
        look = _Look(self._sandbox)
        for text in self._named(self._options.covers, args):
            if text is None:
                raise ToolError("covers names an argument that holds no path; nothing was run")
            look.at(text)
        return look.found()

    def _places(
        self, declared: tuple[str, ...] | None, args: Mapping[str, Any], *, write: bool
    ) -> tuple[Place, ...] | None:
        if declared is None:
            return None
        places = []
        for text in self._named(declared, args):
            if text is None:
                return None
            places.append(self._place(text, write=write))
        return tuple(places)

    def _named(self, declared: tuple[str, ...], args: Mapping[str, Any]) -> Iterator[str | None]:
        """The paths and globs that are meant in a call; None for an argument whose value is neither a path nor a list of
        them."""
        for name in declared:
            if name not in self._arguments:
                yield name
                continue
            value = args.get(name)
            for each in value if isinstance(value, list) else [] if value is None else [value]:
                yield each if isinstance(each, str) else None

    def _place(self, text: str, *, write: bool) -> Place:
        assert self._sandbox is not None
        if not is_glob(text):
            return Place(self._sandbox.resolve(text, write=write).subject)
        names = [name for name in text.split("/") if name not in ("", ".")]
        if text.startswith(("/", "~")) or ".." in names:
            raise self._sandbox.refusal(text)
        return Place("/".join(self._sandbox.without_braces(names, text)), any_of=True)


class _Look:
    """One look at covered files, bounded in number, bytes and time."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._files: dict[str, CoveredFile] = {}
        self._entries = 0
        self._bytes = 0
        self._deadline = time.monotonic() + _LIMIT_S

    def found(self) -> tuple[CoveredFile, ...]:
        return tuple(self._files[path] for path in sorted(self._files))

    def at(self, text: str) -> None:
        """Looks at the file, or at all that the glob fits."""
        if not is_glob(text):
            self._add(text, self._path(text))
            return
        folder, _, _ = text[: min(at for at in (text.find("*"), text.find("?")) if at >= 0)].rpartition("/")
        for path, name in self._below(self._path(folder or "."), folder):
            if glob_fits(text.removeprefix("./"), name.removeprefix("./")):
                self._add(name, path)

    def _path(self, text: str) -> Path:
        """Where a file is: for a tool also where file tools may not look, such as the folder of the tools."""
        try:
            return self._sandbox.resolve(text, write=False).path
        except ToolError:
            if "\0" in text or text.startswith("~"):
                raise
            return self._sandbox.workspace / text

    def _below(self, top: Path, shown: str) -> Iterator[tuple[Path, str]]:
        """Everything below a folder but folders; links are not followed."""
        folders = [(top, shown)]
        while folders:
            folder, name = folders.pop()
            try:
                with os.scandir(folder) as entries:
                    found = sorted(entries, key=lambda entry: entry.name)
            except OSError:
                continue
            for entry in found:
                self._count(entries=1)
                path, below = Path(entry.path), f"{name}/{entry.name}" if name else entry.name
                if entry.is_dir(follow_symlinks=False):
                    folders.append((path, below))
                else:
                    yield path, below

    def _add(self, shown: str, path: Path) -> None:
        if len(self._files) >= _MOST_FILES and shown not in self._files:
            raise ToolError(f"an approval would cover more than {_MOST_FILES} files; name fewer in `covers`")
        try:
            state = self._state(path)
        except FileNotFoundError:
            state = ABSENT
        except OSError as error:
            reason = error.strerror or type(error).__name__
            raise ToolError(f"{shown_path(shown)}, which an approval covers, cannot be read: {reason}") from error
        self._files[shown] = CoveredFile(shown, state)

    def _state(self, path: Path) -> str:
        # A FIFO must not block the open.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise ToolError(
                f"{path}, which an approval covers, is no file; name files, or a glob such as {path.name}/*"
            )
        with os.fdopen(descriptor, "rb") as file:
            digest = hashlib.sha256()
            while piece := file.read(_PIECE):
                self._count(size=len(piece))
                digest.update(piece)
        return f"sha256:{digest.hexdigest()}"

    def _count(self, *, entries: int = 0, size: int = 0) -> None:
        self._entries += entries
        self._bytes += size
        if self._bytes > _MOST_BYTES or self._entries > _MOST_ENTRIES or time.monotonic() > self._deadline:
            raise ToolError(
                f"the files that an approval covers are more than {_MOST_BYTES} bytes, or too many to look at; name fewer "
                "in `covers`"
            )
