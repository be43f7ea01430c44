"""A state folder outside of its workspace serves one workspace; odd files in place of ours make nobody wait."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from tests.support.agent_folder import AgentFolder, call
from tests.support.processes import Cli


def _with_state(tmp_path: Path, name: str) -> AgentFolder:
    folder = AgentFolder(tmp_path / name)
    folder.agent("cleaner", [{"calls": [call("ask_user", question="Go on?")]}, {"text": "Done."}])
    (folder.path / "config.yaml").write_text(f"state_dir: {tmp_path / 'state'}\n")
    return folder


def test_another_workspace_is_refused(tmp_path: Path) -> None:
    first, second = _with_state(tmp_path, "one"), _with_state(tmp_path, "two")
    assert first.cli("run", "cleaner").code == 3
    for command in (("respond", "1", "--text", "yes"), ("run", "cleaner"), ("resume", "--all"), ("cancel", "1")):
        refused = second.cli(*command)
        assert refused.code == 1, refused
        assert "belongs to the workspace" in refused.err
    assert first.cli("respond", "1", "--text", "yes").code == 0


def test_a_moved_workspace_keeps_the_state_inside_it(tmp_path: Path) -> None:
    folder = AgentFolder(tmp_path / "here")
    folder.agent("cleaner", [{"calls": [call("ask_user", question="Go on?")]}, {"text": "Done."}])
    assert folder.cli("run", "cleaner").code == 3
    moved = folder.path.rename(tmp_path / "there")
    shutil.rmtree(moved / ".out")
    assert Cli(moved)("respond", "1", "--text", "yes").code == 0


def test_a_pipe_in_place_of_a_file_is_refused_at_once(tmp_path: Path) -> None:
    folder = AgentFolder(tmp_path / "ws")
    folder.agent("cleaner", [{"text": "Done."}])
    (script,) = (folder.path / "agents/_config/scripts").iterdir()
    kept = script.read_text()
    script.unlink()
    os.mkfifo(script)
    ended = folder.cli("run", "cleaner")
    assert ended.code == 2
    assert "not a file" in ended.err
    script.unlink()
    script.write_text(kept)
    state = folder.path / ".agentmd"
    state.mkdir(mode=0o700)
    os.mkfifo(state / "agentmd_checkpoints.db")
    ended = folder.cli("run", "cleaner")
    assert ended.code == 0  # it is only a cache
    assert "agentmd_checkpoints.db.damaged-1 and is made anew" in ended.err


def test_the_config_is_out_of_reach(tmp_path: Path) -> None:
    folder = AgentFolder(tmp_path / "ws")
    (folder.path / "config.yaml").write_text("log_level: INFO\n")
    edit = call("file_edit", path="config.yaml", old_text="INFO", new_text="DEBUG")
    folder.agent("cleaner", [{"calls": [call("file_read", path="config.yaml"), edit]}, {"text": "Done."}])
    assert folder.cli("run", "cleaner").code == 0
    assert (folder.path / "config.yaml").read_text() == "log_level: INFO\n"
    assert all(result.startswith("Error") for result in folder.results())
