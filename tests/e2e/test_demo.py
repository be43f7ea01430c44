"""The demonstration as people and CI jobs start it: with a terminal, without one, again, and after it was left."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.demonstration import copy_of_workspace
from tests.support.terminal import Terminal

_OWN = ("output", ".agentmd")


def _demo(workspace: Path) -> list[str]:
    return [sys.executable, str(workspace / "examples" / "demo.py")]


def _run_without_terminal(workspace: Path, **env: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("CI", "AGENTMD_WORKSPACE")}
    return subprocess.run(
        _demo(workspace),
        cwd=workspace.parent,
        env={**kept, "HOME": str(workspace), **env},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def _files(folder: Path) -> dict[str, bytes]:
    """Every file with its content, but those that the demonstration owns."""
    found = (path for path in sorted(folder.rglob("*")) if path.is_file())
    relative = ((path.relative_to(folder), path) for path in found)
    return {str(name): path.read_bytes() for name, path in relative if name.parts[0] not in _OWN}


def test_without_a_terminal_other_processes_answer_also_when_it_is_run_again(tmp_path: Path) -> None:
    workspace = copy_of_workspace(tmp_path / "repository")
    (workspace / "output/archive").mkdir(parents=True)
    for name in ("archive/draft.txt", "stale.log"):
        (workspace / "output" / name).write_text("of the last time")
    before = _files(workspace)
    (tmp_path / "elsewhere" / "agents").mkdir(parents=True)

    ended = _run_without_terminal(workspace, AGENTMD_WORKSPACE=str(tmp_path / "elsewhere"))

    assert ended.returncode == 0, ended.stdout + ended.stderr
    shown = [line for line in ended.stdout.splitlines() if line.startswith(("$ ", "(exit"))]
    assert shown == [
        "$ agentmd trust --yes",
        "$ agentmd run cleaner",
        "(exit code 3)",
        "$ agentmd pending",
        "$ agentmd respond 1 --yes",
        "(exit code 3)",
        "$ agentmd pending",
        "$ agentmd respond 1 --choice archive",
        "(exit code 0)",
        "$ agentmd logs -e 1",
    ]
    assert 'Confirm file_delete {"path": "output/stale.log"}' in ended.stdout
    assert "What is to become of output/draft.txt?" in ended.stdout
    assert "success after" in ended.stdout
    assert not (workspace / "output" / "stale.log").exists()
    assert not (workspace / "output" / "draft.txt").exists()
    assert "Unfinished" in (workspace / "output" / "archive" / "draft.txt").read_text()
    assert _files(workspace) == before


def test_on_a_terminal_the_person_is_asked_also_after_a_run_that_was_left_waiting(tmp_path: Path) -> None:
    workspace = copy_of_workspace(tmp_path / "repository")
    env = {"HOME": str(workspace), "CI": None}
    with Terminal(_demo(workspace), env=env, cwd=workspace, columns=200) as terminal:
        terminal.expect("[y/N]: ", timeout=30)
        terminal.send("\x03")
        assert terminal.exit_code(timeout=30) == 130
        assert "agentmd respond 1" in terminal.screen
        assert "Traceback" not in terminal.screen
    with Terminal(_demo(workspace), env=env, cwd=workspace, columns=200) as terminal:
        terminal.expect('? Confirm file_delete {"path": "output/stale.log"} [y/N]: ', timeout=30)
        terminal.send_line("y")
        terminal.expect("? What is to become of output/draft.txt?")
        terminal.expect("Choice: ")
        terminal.send_line("2")
        assert terminal.exit_code(timeout=30) == 0, terminal.screen
    assert not (workspace / "output" / "stale.log").exists()
    assert (workspace / "output" / "archive" / "draft.txt").exists()


def test_in_ci_nobody_is_asked_on_a_terminal(tmp_path: Path) -> None:
    workspace = copy_of_workspace(tmp_path / "repository")
    with Terminal(_demo(workspace), env={"HOME": str(workspace), "CI": "1"}, cwd=workspace, columns=200) as terminal:
        terminal.expect("$ agentmd run cleaner", timeout=60)
        terminal.expect("(exit code 3)", timeout=60)


@pytest.mark.parametrize("linked", ["output", "output/archive"])
def test_it_never_follows_a_link_out_of_its_folder(tmp_path: Path, linked: str) -> None:
    workspace = copy_of_workspace(tmp_path / "repository")
    treasure = tmp_path / "treasure"
    (treasure / "archive").mkdir(parents=True)
    for name in ("stale.log", "draft.txt", "archive/draft.txt"):
        (treasure / name).write_text("precious")
    (workspace / linked).parent.mkdir(exist_ok=True)
    (workspace / linked).symlink_to(treasure)

    ended = _run_without_terminal(workspace)

    assert ended.returncode == 1
    assert "is a link" in ended.stderr
    assert [path.read_text() for path in treasure.rglob("*.*")] == ["precious"] * 3


@pytest.mark.parametrize(("target", "installs"), [("demo", "-e ."), ("check", "-e '.[dev]'"), ("test", "-e '.[dev]'")])
def test_a_command_installs_what_it_needs_and_shows_it(tmp_path: Path, target: str, installs: str) -> None:
    root = Path(__file__).parents[2]
    for name in ("Makefile", "pyproject.toml"):
        (tmp_path / name).write_bytes((root / name).read_bytes())
    asked = subprocess.run(["make", "-n", target], cwd=tmp_path, capture_output=True, text=True, timeout=20, check=True)
    (line,) = [line for line in asked.stdout.splitlines() if " pip install " in line]
    assert line.endswith(f" {installs}")
    assert "--quiet" not in line
