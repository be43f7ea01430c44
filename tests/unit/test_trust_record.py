"""What a user said yes to: whole or absent, whoever is killed or writes at once; only for the same place and owner."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_md.errors import TrustUnusable
from agent_md.trust import record as module
from agent_md.trust.items import Item, Kind, not_granted, of_agents
from agent_md.trust.record import TrustRecord, user_state

FOLDER = Path("/somewhere/ws")
TOOLS = Item("a", Kind.TOOLS, "agents/_config/tools/kit.py")
SERVER = Item(None, Kind.SERVER, "port: 8000")


def in_child(work: Callable[[], object]) -> int:
    """Runs it in a forked process; gives its number."""
    pid = os.fork()
    if pid == 0:
        try:
            work()
        finally:
            os._exit(0)
    return pid


def test_nothing_is_granted_and_nothing_made_before_the_first_yes(tmp_path: Path) -> None:
    record = TrustRecord(tmp_path / "state")
    assert record.granted(FOLDER, 7) is None
    assert record.key() is None
    assert not record.forget(FOLDER)
    assert not (tmp_path / "state").exists()


def test_a_yes_is_kept_for_its_place_and_owner_alone(tmp_path: Path) -> None:
    record = TrustRecord(tmp_path / "state")
    record.add(FOLDER, 7, [TOOLS])
    again = TrustRecord(tmp_path / "state")
    assert again.granted(FOLDER, 7) == {TOOLS.digest}
    assert again.granted(FOLDER, 8) is None
    assert again.granted(FOLDER.parent, 7) is None
    assert (tmp_path / "state").stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "state").iterdir()} == {0o600}


def test_what_was_allowed_before_stays_until_it_is_withdrawn(tmp_path: Path) -> None:
    record, other = TrustRecord(tmp_path), TrustRecord(tmp_path)
    assert other.granted(FOLDER, 7) is None
    record.add(FOLDER, 7, [TOOLS])
    other.add(FOLDER, 7, [SERVER])
    assert record.granted(FOLDER, 7) == {TOOLS.digest, SERVER.digest}
    assert record.forget(FOLDER)
    assert other.granted(FOLDER, 7) is None


def test_the_trust_of_another_owner_is_not_taken_over(tmp_path: Path) -> None:
    record = TrustRecord(tmp_path)
    record.add(FOLDER, 7, [TOOLS])
    record.add(FOLDER, 8, [SERVER])
    assert record.granted(FOLDER, 8) == {SERVER.digest}


def test_processes_that_write_at_once_keep_each_others_yes(tmp_path: Path) -> None:
    items = [Item(None, Kind.SERVER, f"port: {number}") for number in range(8)]
    for pid in [in_child(lambda item=item: TrustRecord(tmp_path).add(FOLDER, 7, [item])) for item in items]:
        assert os.waitpid(pid, 0)[1] == 0
    assert TrustRecord(tmp_path).granted(FOLDER, 7) == {item.digest for item in items}


@pytest.mark.parametrize("call", range(5))
def test_a_killed_process_leaves_the_record_whole(tmp_path: Path, call: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed at each call of the system that writes it."""
    TrustRecord(tmp_path).add(FOLDER, 7, [TOOLS])

    def add_and_die() -> None:
        count = 0

        def seen(event: str, _args: object) -> None:
            nonlocal count
            if event in ("open", "os.rename", "os.remove"):
                if count == call:
                    os.kill(os.getpid(), signal.SIGKILL)
                count += 1

        import sys

        sys.addaudithook(seen)
        TrustRecord(tmp_path).add(FOLDER, 7, [SERVER])

    os.waitpid(in_child(add_and_die), 0)
    record = TrustRecord(tmp_path)
    found = record.granted(FOLDER, 7)
    assert found in ({TOOLS.digest}, {TOOLS.digest, SERVER.digest})
    record.add(FOLDER, 7, [SERVER])
    assert record.granted(FOLDER, 7) == {TOOLS.digest, SERVER.digest}


def test_one_key_whoever_asks_first(tmp_path: Path) -> None:
    for pid in [in_child(lambda: TrustRecord(tmp_path).made_key()) for _ in range(4)]:
        assert os.waitpid(pid, 0)[1] == 0
    key = TrustRecord(tmp_path).key()
    assert key == TrustRecord(tmp_path).made_key()
    assert key is not None
    assert len(key) == 32


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", '{"format": 2, "workspaces": {}}', '{"format": 1, "workspaces": {"/somewhere/ws": {}}}'],
)
def test_a_record_that_cannot_be_read_trusts_nothing_and_is_not_overwritten(tmp_path: Path, text: str) -> None:
    path = tmp_path / "trust.json"
    path.write_text(text)
    record = TrustRecord(tmp_path)
    with pytest.raises(TrustUnusable, match=r"trust\.json"):
        record.granted(FOLDER, 7)
    with pytest.raises(TrustUnusable, match="AGENTMD_TRUST=1"):
        record.add(FOLDER, 7, [TOOLS])
    assert path.read_text() == text


def test_a_link_in_its_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "others.json").write_text(json.dumps({"format": 1, "workspaces": {}}))
    (tmp_path / "state").mkdir()
    (tmp_path / "state/trust.json").symlink_to(tmp_path / "others.json")
    with pytest.raises(TrustUnusable):
        TrustRecord(tmp_path / "state").granted(FOLDER, 7)


def test_where_it_is() -> None:
    home = Path("/home/ann")
    assert user_state({}, home) == home / ".local/state/agentmd"
    assert user_state({"XDG_STATE_HOME": "relative"}, home) == home / ".local/state/agentmd"
    assert user_state({"XDG_STATE_HOME": "/var/x"}, home) == Path("/var/x/agentmd")
    assert module.__doc__ is not None


# Items


def test_only_what_is_new_is_a_difference() -> None:
    assert not_granted([TOOLS, SERVER], {TOOLS.digest, "gone"}) == [SERVER]


@pytest.mark.parametrize(
    "other", [Item("b", Kind.TOOLS, TOOLS.text), Item("a", Kind.SKILLS, TOOLS.text), Item("a", Kind.TOOLS, "kit2.py")]
)
def test_no_two_items_have_one_digest(other: Item) -> None:
    assert other.digest != TOOLS.digest


def test_what_the_workspace_does_concerns_every_agent() -> None:
    assert of_agents([TOOLS, SERVER], ["a", "b"]) == {"a": [TOOLS, SERVER], "b": [SERVER]}
    assert of_agents([TOOLS], ["a", "b"]) == {"a": [TOOLS]}
