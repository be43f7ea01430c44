"""Finds modules in the tools folder, and loads them from exactly the bytes that were hashed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

from agent_md.agents.names import nearest
from agent_md.tools.module_dependencies import imports_of, parents
from agent_md.tools.module_snapshots import Snapshot, SourceFile, import_from
from agent_md.tools.results import one_line

__all__ = ["ModuleUnusable", "Source", "ToolModule"]

_NAME = re.compile(r"[\w-]+")


class ModuleUnusable(Exception):
    """A module cannot be found, read or imported. The text names the file, and the line where there is one."""


@dataclass(frozen=True, slots=True)
class Source:
    """A module and all that it imports from the tools folder, as they were read once, by dotted name; `digest` is of
    all of it."""

    digest: str
    files: dict[str, SourceFile] = field(repr=False)


@dataclass(frozen=True, slots=True)
class ToolModule:
    """A module of the tools folder, by its name; never a path."""

    folder: Path
    name: str

    @property
    def path(self) -> Path:
        return self.folder / f"{self.name}.py"

    def read(self) -> Source:
        """The source as it is on disk now, with that of the modules of the folder that it imports, directly or not.

        Where it may load code in ways that cannot be seen in it, such as `importlib` or `exec`, it is all of the folder.
        """
        if not _NAME.fullmatch(self.name):
            raise ModuleUnusable(
                f"tools: {self.name!r} is no name of a module: write the name of a file in {self.folder} without .py"
            )
        if not self.path.is_file():
            raise ModuleUnusable(self._missing())
        files = {self.name: _read(self.path)}
        hidden = False
        open_ends = [self.name]
        while open_ends:
            name = open_ends.pop()
            imports = imports_of(files[name].data, name, is_package=files[name].is_package)
            hidden = hidden or imports.hidden
            wanted = [*imports.modules, *(each for package in imports.packages for each in self._within(package))]
            for found in (each for module in wanted for each in (*parents(module), module)):
                if found not in files and (file := self._find(found)) is not None:
                    files[found] = file
                    open_ends.append(found)
        return self._source(self._everything(files) if hidden else files)

    def load(self, source: Source) -> ModuleType:
        """The module of this source: imported once in a process, under a name that only this source has.

        Python's own import would go by the file's time of change, and could give another source than the one hashed.
        """
        place = hashlib.sha256(str(self.path).encode()).hexdigest()
        root = f"_agentmd_tools_{place[:16]}_{source.digest}"
        try:
            return import_from(Snapshot(root, Path(os.path.abspath(self.folder)), source.files), self.name)
        except (Exception, SystemExit) as error:
            raise ModuleUnusable(f"{self._place(error, source)}: {_reason(error, root)}") from error

    def _source(self, files: dict[str, SourceFile]) -> Source:
        digests = {name: hashlib.sha256(file.data).hexdigest() for name, file in files.items()}
        if len(files) == 1:
            return Source(digests[self.name], files)
        parts = [[name, files[name].is_package, digests[name]] for name in sorted(files)]
        return Source(hashlib.sha256(json.dumps([self.name, parts]).encode()).hexdigest(), files)

    def _find(self, module: str) -> SourceFile | None:
        """The file of a module, as Python looks for it: a package, a file, or a folder without `__init__.py`."""
        place = self.folder.joinpath(*module.split("."))
        for path, is_package in ((place / "__init__.py", True), (place.with_name(f"{place.name}.py"), False)):
            if path.is_file():
                return _read(path, is_package=is_package)
        return SourceFile(place, b"", is_package=True) if place.is_dir() else None

    def _within(self, package: str) -> Iterator[str]:
        """The modules of a package; its `__all__` may name them."""
        folder = self.folder.joinpath(*package.split("."))
        if package and folder.is_dir():
            names = sorted(path.stem for path in folder.iterdir() if path.suffix == ".py" or path.is_dir())
            yield from (f"{package}.{name}" for name in names if name.isidentifier() and name != "__init__")

    def _everything(self, files: dict[str, SourceFile]) -> dict[str, SourceFile]:
        """All Python files of the folder."""
        found = dict(files)
        for current, folders, names in os.walk(self.folder):
            folders[:] = sorted(name for name in folders if not name.startswith((".", "__pycache__")))
            for name in sorted(name for name in names if name.endswith(".py") and not name.startswith(".")):
                path = Path(current, name)
                parts = path.relative_to(self.folder).with_suffix("").parts
                package = parts[-1] == "__init__" and len(parts) > 1
                module = ".".join(parts[:-1] if package else parts)
                for parent in parents(module):
                    found.setdefault(parent, self._find(parent) or SourceFile(path.parent, b"", is_package=True))
                if module not in found or package:
                    found[module] = _read(path, is_package=package)
        return found

    def _missing(self) -> str:
        there = sorted(path.stem for path in self.folder.glob("*.py"))
        near = nearest(self.name, there)
        hint = f"; there are: {', '.join(there[:10])}" if there else "; the folder has no modules"
        if near:
            hint = f"; did you mean {near}?"
        return f"{self.path}: there is no such module{hint}"

    def _place(self, error: BaseException, source: Source) -> str:
        """The last line of our files that the error came through, else the module."""
        paths = {str(file.path) for file in source.files.values()}
        if isinstance(error, SyntaxError) and error.filename in paths:
            return f"{error.filename}, line {error.lineno}" if error.lineno else str(error.filename)
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename in paths]
        return f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else str(self.path)


def _read(path: Path, *, is_package: bool = False) -> SourceFile:
    try:
        return SourceFile(path, path.read_bytes(), is_package)
    except OSError as error:
        raise ModuleUnusable(f"{path}: cannot be read: {error.strerror}") from error


def _reason(error: BaseException, root: str) -> str:
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    text = text.replace(f"{root}.", "").replace(root, "the tools folder")
    return one_line(f"{type(error).__name__}: {text}", 500)
