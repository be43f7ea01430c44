"""Python modules in the workspace's tools folder: found by name, and loaded from exactly the bytes that were hashed."""

from __future__ import annotations

import difflib
import hashlib
import re
import sys
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from agent_md.tools.results import one_line

__all__ = ["ModuleUnusable", "Source", "ToolModule"]

_NAME = re.compile(r"[\w-]+")


class ModuleUnusable(Exception):
    """A module cannot be found, read or imported. The text names the file, and the line where there is one."""


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a module as it was read once; `digest` is its SHA-256."""

    data: bytes
    digest: str


@dataclass(frozen=True, slots=True)
class ToolModule:
    """A module of the tools folder, by its name; never a path."""

    folder: Path
    name: str

    @property
    def path(self) -> Path:
        return self.folder / f"{self.name}.py"

    def read(self) -> Source:
        """The source as it is on disk now."""
        if not _NAME.fullmatch(self.name):
            raise ModuleUnusable(
                f"tools: {self.name!r} is no name of a module: write the name of a file in {self.folder} without .py"
            )
        if not self.path.is_file():
            raise ModuleUnusable(self._missing())
        try:
            data = self.path.read_bytes()
        except OSError as error:
            raise ModuleUnusable(f"{self.path}: cannot be read: {error.strerror}") from error
        return Source(data, hashlib.sha256(data).hexdigest())

    def load(self, source: Source) -> ModuleType:
        """The module of this source: imported once in a process, under a name that only this source has.

        Python's own import would go by the file's time of change, and could give another source than the one hashed.
        """
        place = hashlib.sha256(str(self.path).encode()).hexdigest()
        name = f"_agentmd_tools_{place[:16]}_{source.digest}"
        if (known := sys.modules.get(name)) is not None:
            return known
        module = ModuleType(name)
        module.__file__ = str(self.path)
        module.__package__ = ""
        # Before it runs: dataclasses and pydantic look their module up while it is imported.
        sys.modules[name] = module
        try:
            exec(compile(source.data, str(self.path), "exec", dont_inherit=True), module.__dict__)  # noqa: S102 - this is the import
        except BaseException as error:
            del sys.modules[name]
            if isinstance(error, Exception | SystemExit):
                raise ModuleUnusable(f"{self._place(error)}: {_reason(error)}") from error
            raise
        return module

    def _missing(self) -> str:
        there = sorted(path.stem for path in self.folder.glob("*.py"))
        near = difflib.get_close_matches(self.name, there, n=3) or there[:10]
        hint = f"; there are: {', '.join(near)}" if near else "; the folder has no modules"
        return f"{self.path}: there is no such module{hint}"

    def _place(self, error: BaseException) -> str:
        lines = [
            frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(self.path)
        ]
        line = lines[-1] if lines else None
        if isinstance(error, SyntaxError) and error.filename == str(self.path):
            line = error.lineno
        return f"{self.path}, line {line}" if line else str(self.path)


def _reason(error: BaseException) -> str:
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return one_line(f"{type(error).__name__}: {text}", 500)
