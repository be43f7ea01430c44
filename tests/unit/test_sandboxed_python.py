"""What a sandbox shows of the interpreter."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from agent_md.isolation import bubblewrap


@pytest.mark.parametrize("link", [".local/bin/python3", "bin/python3"])
def test_a_link_in_the_home_folder_shows_no_more_than_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: str
) -> None:
    program = tmp_path / "home" / link
    program.parent.mkdir(parents=True)
    program.symlink_to(os.path.realpath(sys.executable))
    (tmp_path / "venv/bin").mkdir(parents=True)
    (tmp_path / "venv/bin/python").symlink_to(program)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / "venv/bin/python"))
    shown = [folder for folder in bubblewrap._python_folders() if folder.is_relative_to(tmp_path / "home")]
    assert shown == [program]
