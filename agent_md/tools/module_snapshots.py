"""Imports modules of the tools folder from bytes that were read before, whatever is on disk now.

The modules of one snapshot are submodules of a package that has a name of its own, so that each version of a source is
another module, and what a tool imports late, inside a function, is the version that the tool itself has.
"""

from __future__ import annotations

import builtins
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from agent_md.tools.module_dependencies import belongs_to_folder

__all__ = ["Snapshot", "SourceFile", "import_from"]


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One module as it was read. `data` is empty for a folder without `__init__.py`."""

    path: Path
    data: bytes
    is_package: bool


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Modules by their dotted name in `folder`; `root` is the package that they are imported into."""

    root: str
    folder: Path
    files: Mapping[str, SourceFile]


def import_from(snapshot: Snapshot, module: str) -> ModuleType:
    """The module, imported once in a process for one root. What its import raises comes out, with nothing left of it."""
    finder = _finder()
    finder.add(snapshot)
    try:
        return importlib.import_module(f"{snapshot.root}.{module}")
    except BaseException:
        finder.drop(snapshot)
        for name in [name for name in sys.modules if f"{name}.".startswith(f"{snapshot.root}.")]:
            del sys.modules[name]
        raise


def _finder() -> _Finder:
    """That of this process; the list of finders belongs to the process like the modules."""
    known = next((finder for finder in sys.meta_path if isinstance(finder, _Finder)), None)
    if known is None:
        known = _Finder()
        sys.meta_path.insert(0, known)
    return known


class _Finder(MetaPathFinder):
    """Finds modules of snapshots, and refuses files of their folders that they import past them: Python would keep the
    first version in the process, whatever is approved later."""

    def __init__(self) -> None:
        self._snapshots: dict[str, Snapshot] = {}
        self._folders: set[str] = set()

    def add(self, snapshot: Snapshot) -> None:
        self._snapshots.setdefault(snapshot.root, snapshot)
        self._folders.add(str(snapshot.folder))

    def drop(self, snapshot: Snapshot) -> None:
        self._snapshots.pop(snapshot.root, None)

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        root, _, inner = fullname.partition(".")
        snapshot = self._snapshots.get(root)
        if snapshot is None:
            self._refuse(fullname, sys.path if path is None else path)
            return None
        if not inner:
            return ModuleSpec(root, _Root(), is_package=True)
        file = snapshot.files.get(inner)
        if file is None:
            return None
        spec = ModuleSpec(fullname, _Loader(snapshot, inner), origin=str(file.path), is_package=file.is_package)
        spec.has_location = True
        return spec

    def _refuse(self, fullname: str, path: Sequence[str]) -> None:
        for place in map(Path, map(os.path.abspath, path)):
            folder = next((each for each in (place, *place.parents) if str(each) in self._folders), None)
            if folder is None or not self._asked_by_a_tool():
                continue
            if PathFinder.find_spec(fullname, [str(place)]) is not None:
                raise ImportError(
                    f"{fullname} is a file of the tools folder {folder} and is loaded by name: write it as an import "
                    f"statement (from . import {fullname.partition('.')[0]}), so that an approval covers it",
                    name=fullname,
                )

    def _asked_by_a_tool(self) -> bool:
        """Whether code of a snapshot is what imports; other code of the process may import what it likes."""
        frame = inspect.currentframe()
        while frame is not None:
            if str(frame.f_globals.get("__name__")).partition(".")[0] in self._snapshots:
                return True
            frame = frame.f_back
        return False


class _Root(Loader):
    """The package of a snapshot: empty."""

    def exec_module(self, module: ModuleType) -> None: ...


class _Loader(Loader):
    """Runs one module of a snapshot."""

    def __init__(self, snapshot: Snapshot, inner: str) -> None:
        self._snapshot = snapshot
        self._inner = inner

    def exec_module(self, module: ModuleType) -> None:
        file = self._snapshot.files[self._inner]
        code = compile(file.data, str(file.path), "exec", dont_inherit=True)
        plain = not file.is_package and "." not in self._inner
        importing = _importing(self._snapshot, self._inner if plain else "")
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": importing}
        exec(code, vars(module))  # noqa: S102 - this is the import


def _importing(snapshot: Snapshot, importer: str) -> Callable[..., Any]:
    """`__import__` of the modules of a snapshot: `import helper` means that of the tools folder if there is one."""

    def import_name(
        name: str,
        globals: Mapping[str, object] | None = None,
        locals: Mapping[str, object] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        top = name.partition(".")[0]
        if level or top not in snapshot.files or not belongs_to_folder(top, importer):
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        found = builtins.__import__(f"{snapshot.root}.{name}", globals, locals, fromlist or (), 0)
        return found if fromlist else sys.modules[f"{snapshot.root}.{top}"]

    return import_name
