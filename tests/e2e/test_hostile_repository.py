"""A cloned repository runs nothing, sends nothing and changes nothing before its user has trusted it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tests.support.agent_folder import AgentFolder
from tests.support.hostile_repository import Listener, clone, everything_below, write_queued_agent
from tests.support.trusting import UNTRUSTED

READING = {
    ("list",): 0,
    ("list", "--json"): 0,
    ("validate", "--static"): 0,
    ("explain", "evil", "--static"): 0,
    ("pending",): 0,
    ("pending", "--json"): 0,
    ("logs",): 0,
    ("answers",): 0,
    ("sessions",): 0,
    ("grants",): 0,
    ("schedule",): 0,
    ("info",): 0,
    ("trust", "--json"): 0,
    ("stop",): 0,
    ("status",): 1,
}
REFUSED = (
    ("run", "evil", "-m", "now"),
    ("run", "-d", "evil"),
    ("start",),
    ("start", "-d"),
    ("respond", "1", "--yes"),
    ("resume", "--all"),
    ("resume", "1"),
    ("retry", "1"),
    ("cancel", "1"),
    ("validate",),
    ("explain", "evil"),
    ("chat", "evil"),
    ("settle", "1", "0.0", "--ran"),
    ("sessions", "delete", "3f0e8a52-6f0c-4ad5-9b53-3a6d4d7a9f10"),
    ("schedule", "pause"),
    ("service", "install"),
    ("trust",),
)


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[tuple[AgentFolder, Listener]]:
    with clone(tmp_path) as made:
        yield made


def as_newcomer(tmp_path: Path) -> Mapping[str, str]:
    """A user who has trusted nothing, and has something to lose."""
    (tmp_path / "home").mkdir(exist_ok=True)
    user = {"HOME": str(tmp_path / "home"), "XDG_STATE_HOME": str(tmp_path / "home/state"), "STOLEN": "precious-value"}
    return {**UNTRUSTED, **user, "OPENAI_API_KEY": "sk-the-users-own-key"}


def nothing_happened(tmp_path: Path, listener: Listener, before: object) -> None:
    assert not (tmp_path / "ran").exists(), (tmp_path / "ran").read_text()
    assert not listener.called()
    assert everything_below(tmp_path) == before


def test_commands_that_read_run_send_and_change_nothing(hostile: tuple[AgentFolder, Listener], tmp_path: Path) -> None:
    folder, listener = hostile
    user = as_newcomer(tmp_path)
    before = everything_below(tmp_path)
    for command, code in READING.items():
        ended = folder.cli(*command, env=user)
        assert ended.code == code, (command, ended)
        assert "sk-the-users-own-key" not in ended.out + ended.err
        nothing_happened(tmp_path, listener, before)


def test_every_other_command_is_refused(hostile: tuple[AgentFolder, Listener], tmp_path: Path) -> None:
    folder, listener = hostile
    user = as_newcomer(tmp_path)
    before = everything_below(tmp_path)
    for command in REFUSED:
        ended = folder.cli(*command, env=user)
        assert ended.code == 2, (command, ended)
        assert any(word in ended.err for word in ("trust", "recorded", "git tracks")), (command, ended)
        nothing_happened(tmp_path, listener, before)


def test_in_the_folder_itself_its_modules_are_not_ours(hostile: tuple[AgentFolder, Listener], tmp_path: Path) -> None:
    folder, listener = hostile
    user = as_newcomer(tmp_path)
    before = everything_below(tmp_path)

    def enter() -> None:
        os.chdir(folder.path)

    assert folder.cli("list", env=user, prepare=enter, named=False).code == 0
    nothing_happened(tmp_path, listener, before)


def test_also_a_trusted_one_does_not_bring_its_own_queue(hostile: tuple[AgentFolder, Listener], tmp_path: Path) -> None:
    folder, _ = hostile
    user = as_newcomer(tmp_path)
    assert folder.cli("trust", "--yes", env=user).code == 0
    for command in (("resume", "--all"), ("start", "-d"), ("run", "evil")):
        ended = folder.cli(*command, env=user)
        assert ended.code == 2, (command, ended)
        assert "git tracks files of the state folder" in ended.err
    (folder.path / ".git/index").unlink()
    assert "was not made by you here" in folder.cli("resume", "--all", env=user).err
    shown = folder.cli("trust", "--adopt-state", env=user)
    assert (shown.code, "execution 1 of queued: queued, goes on by itself" in shown.out) == (2, True), shown
    assert not (tmp_path / "outside/x").exists()
    assert folder.cli("trust", "--adopt-state", "--yes", env=user).code == 0
    write_queued_agent(folder, tmp_path / "outside")
    assert folder.cli("trust", "--yes", env=user).code == 0
    resumed = folder.cli("resume", "--all", env=user)
    assert (tmp_path / "outside/x").exists(), f"what was attempted works once all of it is trusted; {resumed}"


@pytest.mark.parametrize("linked", [".agentmd", ".agentmd/agentmd.db"])
def test_a_linked_state_folder_touches_nothing_elsewhere(folder: AgentFolder, tmp_path: Path, linked: str) -> None:
    folder.agent("a", [{"text": "Done."}])
    other = AgentFolder(tmp_path / "other")
    other.agent("a", [{"text": "Done."}])
    assert other.cli("run", "a", env=UNTRUSTED).code == 0
    (other.path / ".agentmd").chmod(0o755)
    (folder.path / linked).parent.mkdir(exist_ok=True)
    (folder.path / linked).symlink_to(other.path / linked)
    before = everything_below(other.path)
    for command, code in {
        ("list",): 0, ("pending",): 0, ("logs",): 0, ("status",): 1, ("stop",): 1, ("run", "a"): 1, ("start",): 1,
        ("resume", "--all"): 1,
    }.items():  # fmt: skip
        ended = folder.cli(*command, env=UNTRUSTED)
        assert ended.code == code, (command, ended)
        assert everything_below(other.path) == before, command


def test_a_server_of_another_workspace_is_not_stopped_through_state_dir(folder: AgentFolder, tmp_path: Path) -> None:
    other = AgentFolder(tmp_path / "other")
    other.agent("a", [{"text": "Done."}])
    assert other.cli("start", "-d", env=UNTRUSTED).code == 0
    try:
        (folder.path / "config.yaml").write_text(f"state_dir: {other.path}/.agentmd\n")
        for command in ("stop", "status"):
            ended = folder.cli(command, env=UNTRUSTED)
            assert (ended.code, "another one" in ended.err) == (1, True), ended
        assert json.loads(other.cli("status", "--json", env=UNTRUSTED).out)["running"]
    finally:
        assert other.cli("stop", env=UNTRUSTED).code == 0
