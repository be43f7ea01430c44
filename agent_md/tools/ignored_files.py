"""Which files of a workspace its `.gitignore` files name."""

from __future__ import annotations

from contextlib import suppress
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from agent_md.errors import ToolError
from agent_md.tools.path_sandbox import Sandbox
from agent_md.tools.pinned_path import open_pinned

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

__all__ = ["IgnoredFiles"]

_LARGEST = 256 * 1024


class IgnoredFiles:
    """Says of a path, as rules name it, whether a `.gitignore` in a folder above it, within its root, names it."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox
        self._specs: dict[str, GitIgnoreSpec | None] = {}

    def __call__(self, path: str) -> bool:
        parts = PurePosixPath(path).parts
        for depth in range(len(parts) - 1, -1, -1):  # the innermost file that says something decides
            spec = self._spec("/".join(parts[:depth]))
            if spec is None:
                continue
            inner = "/".join(parts[depth:])
            for spelling in (inner, f"{inner}/") if self._is_folder(path) else (inner,):
                if (named := spec.check_file(spelling).include) is not None:
                    return named
        return False

    def _is_folder(self, path: str) -> bool:
        with suppress(ToolError, OSError):
            return self._sandbox.resolve(path, write=False).path.is_dir()
        return False

    def _spec(self, folder: str) -> GitIgnoreSpec | None:
        if folder not in self._specs:
            self._specs[folder] = self._read(f"{folder}/.gitignore".lstrip("/"))
        return self._specs[folder]

    def _read(self, path: str) -> GitIgnoreSpec | None:
        from pathspec import GitIgnoreSpec  # only searches need it

        with (
            suppress(ToolError, OSError, ValueError),
            open_pinned(self._sandbox, self._sandbox.resolve(path, write=False)) as place,
            place.open() as file,
        ):
            return GitIgnoreSpec.from_lines(file.read(_LARGEST).decode().splitlines())
        return None
