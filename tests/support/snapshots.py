"""A folder as it was, put back in its place as often as it is wanted."""

from __future__ import annotations

import shutil
from pathlib import Path

__all__ = ["Snapshot"]


class Snapshot:
    """A copy of a workspace that no process uses. It comes back to the same place: approvals hold there alone."""

    def __init__(self, folder: Path, copy: Path) -> None:
        self._folder, self._copy = folder, copy
        shutil.copytree(folder, copy, ignore=shutil.ignore_patterns(".out"))

    def restore(self) -> None:
        shutil.rmtree(self._folder)
        shutil.copytree(self._copy, self._folder)
