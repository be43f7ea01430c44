"""The repository's own workspace, copied so that a test can play in it."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path

from tests.support.documents import ROOT

__all__ = ["copy_of_workspace", "prepare_output"]

_MEMBERS = ("agents", "examples", "config.yaml")


def copy_of_workspace(folder: Path) -> Path:
    """What the demonstration needs of the repository, in a new folder."""
    for name in _MEMBERS:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    return folder


def prepare_output(workspace: Path) -> None:
    """Makes the files that the demonstration begins with."""
    runpy.run_path(str(workspace / "examples" / "demo.py"))["prepare"]()
