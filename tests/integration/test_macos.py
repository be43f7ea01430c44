"""What differs on macOS, with the system replaced by one that answers as it does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_md.api.address import ServerLock, left_behind, server_alive, socket_path
from agent_md.errors import StateDirUnusable
from agent_md.stores.local_disk import file_system_of, require_local_disk
from agent_md.stores.sqlite.database import Database
from agent_md.stores.workers import LockWorkers
from agent_md.system.macos import MacOs
from agent_md.system.port import Mount, Process
from agent_md.system.posix import Posix
from agent_md.tools.forbidden import Forbidden
from agent_md.tools.path_sandbox import Sandbox
from agent_md.tools.pinned_path import open_pinned
from tests.support.macos import MOUNTED, FakeMac

F_FULLFSYNC = 51
STARTED = "Mon Nov 30 17:12:09 2026    \n"


class TestProcesses:
    def test_the_boot_has_a_name(self) -> None:
        mac = FakeMac({"sysctl -n kern.bootsessionuuid": "8C2F0E6A-1D5B\n"})
        assert mac.system.boot_id() == "8C2F0E6A-1D5B"

    def test_when_a_process_began(self) -> None:
        mac = FakeMac({"ps -o lstart= -p 812": STARTED})
        assert mac.system.start_of(812) == "Mon Nov 30 17:12:09 2026"
        assert mac.system.start_of(813) == ""

    def test_who_has_a_locked_file_open(self, tmp_path: Path) -> None:
        lock = tmp_path / "a lock"
        listed = f"p902\nf5\np77\nf3\nf4\np{os.getpid()}\nf9\n"
        mac = FakeMac(
            {
                f"lsof -nPw -F p -- {lock}": listed,
                "ps -o state=,command= -p 77": "T+   python -m agent_md.cli.main start --api-key hunter2\n",
            }
        )
        assert mac.system.lock_holders(lock) == [
            Process(77, "python -m agent_md.cli.main start", stopped=True),
            Process(902, ""),
        ]

    def test_nobody_is_named_for_a_lock_on_a_part_of_a_file(self, tmp_path: Path) -> None:
        mac = FakeMac({f"lsof -nPw -F p -- {tmp_path}": "p902\n"})
        assert mac.system.lock_holders(tmp_path, byte=120) == []

    def test_a_worker_of_an_earlier_boot_ended_by_order(self, tmp_path: Path) -> None:
        mac = FakeMac({"sysctl -n kern.bootsessionuuid": "first\n"})
        handle = LockWorkers(tmp_path / "workers", mac.system.boot_id).acquire()
        assert not LockWorkers(tmp_path / "workers", mac.system.boot_id).ended_by_order(handle.id)
        mac.said["sysctl -n kern.bootsessionuuid"] = "second\n"
        assert LockWorkers(tmp_path / "workers", mac.system.boot_id).ended_by_order(handle.id)
        handle.close()


class TestTheLockOfAServer:
    def test_one_that_lives(self, tmp_path: Path) -> None:
        mac = FakeMac({f"ps -o lstart= -p {os.getpid()}": STARTED})
        lock = ServerLock(tmp_path, mac.system)
        assert server_alive(tmp_path, mac.system)
        lock.close()
        assert not server_alive(tmp_path, mac.system)

    def test_one_that_a_fork_keeps_beyond_the_death_of_the_server(self, tmp_path: Path) -> None:
        mac = FakeMac({f"ps -o lstart= -p {os.getpid()}": STARTED})
        lock = ServerLock(tmp_path, mac.system)
        mac.said = {
            f"lsof -nPw -F p -- {tmp_path / 'server.lock'}": "p902\n",
            "ps -o state=,command= -p 902": "S /usr/bin/helper\n",
        }
        assert not server_alive(tmp_path, mac.system)
        assert "still held by process 902 (/usr/bin/helper)" in left_behind(tmp_path, mac.system)
        lock.close()

    @pytest.mark.parametrize("system", [FakeMac().system, Posix()])
    def test_where_nothing_can_be_seen_whoever_holds_it_is_taken_for_alive(self, tmp_path: Path, system: MacOs) -> None:
        lock = ServerLock(tmp_path, system)
        assert server_alive(tmp_path, system)
        assert left_behind(tmp_path, system) == ""
        lock.close()


class TestTheSocket:
    @pytest.mark.parametrize("length", [20, 90, 91, 200])
    def test_its_path_is_never_longer_than_the_system_takes(self, tmp_path: Path, length: int) -> None:
        system = FakeMac().system
        assert system.longest_socket_path == 103
        path = socket_path(Path("/" + "x" * length), {}, system)
        assert len(os.fsencode(path)) <= system.longest_socket_path
        assert (path.name == "server.sock") == (length <= 103 - len("//server.sock"))

    def test_a_long_folder_of_the_session_is_left_out(self, tmp_path: Path) -> None:
        runtime = tmp_path / ("r" * 150)
        path = socket_path(Path("/" + "x" * 200), {"XDG_RUNTIME_DIR": str(runtime)}, FakeMac().system)
        assert len(os.fsencode(path)) <= 103
        assert not runtime.exists()
        assert path.parent.stat().st_mode & 0o777 == 0o700


class TestDisks:
    def test_mounts_are_those_that_the_command_lists(self) -> None:
        assert FakeMac({"mount": MOUNTED}).system.mounts() == [
            Mount(Path("/"), "apfs"),
            Mount(Path("/dev"), "devfs"),
            Mount(Path("/System/Volumes/Data"), "apfs"),
            Mount(Path("/System/Volumes/Data/home"), "autofs"),
            Mount(Path("/Volumes/my share (1)"), "smbfs"),
        ]

    def test_a_share_is_refused_and_the_disk_is_not(self, tmp_path: Path) -> None:
        system = FakeMac({"mount": MOUNTED}).system
        assert file_system_of(Path("/Volumes/my share (1)/work"), system) == "smbfs"
        with pytest.raises(StateDirUnusable, match="of the type smbfs"):
            require_local_disk(Path("/Volumes/my share (1)/work"), system)
        require_local_disk(tmp_path, system)

    def test_where_the_command_says_nothing_it_passes(self, tmp_path: Path) -> None:
        require_local_disk(tmp_path, FakeMac().system)


class TestWhatSurvivesALossOfPower:
    @pytest.mark.parametrize(("full_sync", "asked"), [(True, [F_FULLFSYNC] * 2), (False, [])])
    def test_files_and_folders_go_through_the_cache_of_the_drive(
        self, tmp_path: Path, full_sync: bool, asked: list[int]
    ) -> None:
        mac = FakeMac(full_sync=full_sync)
        sandbox = Sandbox(tmp_path, (), Forbidden(tmp_path / "agents"), mac.system)
        with open_pinned(sandbox, sandbox.resolve("a.txt", write=True)) as place:
            place.replace(b"text", place.state())
        assert (tmp_path / "a.txt").read_bytes() == b"text"
        assert mac.synced == asked

    def test_the_database_asks_for_it_too(self, tmp_path: Path) -> None:
        database = Database(tmp_path / "x.db")
        assert [database.one(f"PRAGMA {name}") for name in ("fullfsync", "checkpoint_fullfsync")] == [(1,), (1,)]
        database.close()


def test_a_command_that_is_not_there_says_nothing() -> None:
    """The real way to ask, on whatever system this is: `sysctl` of Linux knows no such name."""
    assert len(MacOs().boot_id()) in (0, 36)


def test_no_advice_that_is_of_linux_alone() -> None:
    assert MacOs.out_of_watches == Posix.out_of_watches == ""
