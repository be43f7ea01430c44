"""`agentmd service`: installed, started, stopped and removed by a systemd; refused where there is none."""

from __future__ import annotations

import os
import plistlib
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.agent_folder import AgentFolder
from tests.support.processes import Finished
from tests.support.server import Client, Server
from tests.support.trusting import UNTRUSTED

pytestmark = pytest.mark.stress  # slow, and about what seldom changes

FAKE = Path(__file__).parents[1] / "support/fake_systemctl.py"
HOSTILE = "a $HOME ${x} %n \"q\" 'x' \\ ;é"


class Systemd:
    """A home with a systemd, and a workspace whose server is to be its service."""

    def __init__(self, folder: Path) -> None:
        self.home, self.state, self.bin = folder / "home", folder / "state", folder / "bin"
        for made in (self.home, self.state, self.bin):
            made.mkdir()
        program = self.bin / "systemctl"
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE}" "$@"\n')
        program.chmod(0o755)
        self.folder = AgentFolder(folder / HOSTILE)
        self.folder.agent("worker", [{"text": "Done."}], "trigger: {type: schedule, every: 1h}")
        assert self.folder.cli("trust", "--yes").code == 0

    def __call__(self, action: str, **environ: str) -> Finished:
        own = {"HOME": str(self.home), "FAKE_SYSTEMD": str(self.state), "PATH": f"{self.bin}:/usr/bin:/bin"} | UNTRUSTED
        return self.folder.cli("service", action, env={**own, **environ})

    @property
    def unit(self) -> Path:
        (found,) = self.units()
        return found

    def units(self) -> list[Path]:
        return sorted((self.home / ".config/systemd/user").glob("*"))

    def said(self) -> list[str]:
        """What systemctl was told since the last time, without its options."""
        log = self.state / "log"
        lines = log.read_text().splitlines() if log.exists() else []
        log.unlink(missing_ok=True)
        return [line.removeprefix("--user --no-pager ") for line in lines]

    def health(self) -> int:
        address = Server.address_of(self.folder.path)
        return Client(Path(address["socket"])).get("/health").status

    def kill(self) -> None:
        pid = self.state / "pid"
        if pid.exists():
            try:
                os.kill(int(pid.read_text()), signal.SIGKILL)
            except ProcessLookupError:
                return


@pytest.fixture
def systemd(tmp_path: Path) -> Iterator[Systemd]:
    made = Systemd(tmp_path)
    yield made
    made.kill()


def test_installed_it_runs_and_removed_it_does_not(systemd: Systemd) -> None:
    installed = systemd("install", OPENAI_API_KEY="sk-of-the-shell")
    assert (installed.code, "Its server answers" in installed.out) == (0, True), installed
    name = systemd.unit.stem
    unit = f"{name}.service"
    assert systemd.said() == ["show --property=Version", f"is-active {unit}", "daemon-reload", f"enable --now {unit}"]
    assert systemd.health() == 200
    assert "a service does not have the variables of this shell: OPENAI_API_KEY" in installed.err
    assert "loginctl enable-linger" in installed.err
    text, touched = systemd.unit.read_text(), systemd.unit.stat().st_mtime_ns
    assert "sk-of-the-shell" not in text
    environ = Path(f"/proc/{(systemd.state / 'pid').read_text()}/environ").read_bytes().split(b"\0")
    assert f"AGENTMD_WORKSPACE={systemd.folder.path}".encode() in environ

    again = systemd("install")
    assert (again.code, systemd.unit.stat().st_mtime_ns) == (0, touched)
    assert systemd("print").out == text

    removed = systemd("uninstall")
    assert (removed.code, removed.out) == (0, f"The service {name} is stopped and removed.\n")
    assert systemd.said()[-3:] == ["show --property=Version", f"disable --now {unit}", "daemon-reload"]
    assert systemd.units() == []
    assert systemd.folder.cli("status").code == 1
    gone = systemd("uninstall")
    assert (gone.code, gone.out) == (0, "No service of this workspace is installed.\n")


def test_trust_of_the_shell_alone_is_not_enough(systemd: Systemd) -> None:
    assert systemd.folder.cli("trust", "--revoke").code == 0
    for trusted, word in (("", "is not trusted"), ("1", "`agentmd trust --yes`")):
        ended = systemd("install", AGENTMD_TRUST=trusted)
        assert (ended.code, word in ended.err) == (2, True), ended
    assert systemd.units() == []


@pytest.mark.parametrize("kind", ["no systemctl", "no answer"])
def test_without_systemd_it_says_so_and_changes_nothing(systemd: Systemd, kind: str) -> None:
    if kind == "no answer":
        (systemd.state / "dead").touch()
    else:
        (systemd.bin / "systemctl").unlink()
    path = {"PATH": str(systemd.bin)} if kind == "no systemctl" else {}
    ended = systemd("install", **path)
    assert ended.code == 2
    reason = "there is no systemctl" if kind == "no systemctl" else "Failed to connect to bus: No medium found"
    assert f"systemd manages no services of this user here ({reason}); nothing was changed" in ended.err
    assert list(systemd.home.rglob("*")) == []
    assert not (systemd.folder.path / ".agentmd").exists()
    assert systemd("uninstall", **path).code == 0
    printed = systemd("print", **path)
    assert (printed.code, "[Service]" in printed.out) == (0, True)


def test_what_is_not_as_agentmd_wrote_it_is_left_untouched(systemd: Systemd) -> None:
    assert systemd("install").code == 0
    assert systemd("uninstall").code == 0
    text = systemd("print").out
    folder = systemd.home / ".config/systemd/user"
    (name,) = [line.split()[-1].rstrip("`.") for line in text.splitlines() if "systemctl --user edit" in line]
    path = folder / f"{name}.service"
    for other in ("[Service]\nExecStart=/bin/true\n", text.replace("RestartSec=10", "RestartSec=1"), None):
        path.unlink(missing_ok=True)
        if other is None:
            path.symlink_to("/dev/null")  # as `systemctl mask` does
        else:
            path.write_text(other)
        systemd.said()
        for action in ("install", "uninstall"):
            ended = systemd(action)
            assert (ended.code, "is left untouched" in ended.err) == (2, True)
        assert path.is_symlink() if other is None else path.read_text() == other
        assert not [line for line in systemd.said() if not line.startswith(("show", "is-active"))]


def test_an_installation_that_fails_leaves_nothing(systemd: Systemd) -> None:
    (systemd.state / "refuses").touch()
    ended = systemd("install")
    assert (ended.code, "Failed to enable unit" in ended.err) == (1, True)
    assert systemd.units() == []
    assert systemd.said()[-1] == "daemon-reload"


def test_a_server_that_runs_already_is_not_doubled(systemd: Systemd) -> None:
    with Server(systemd.folder.path):
        ended = systemd("install")
        assert (ended.code, "a server of this workspace is running already" in ended.err) == (2, True)
        assert systemd.units() == []


def test_a_broken_config_is_told_before_anything_is_changed(systemd: Systemd) -> None:
    systemd.folder.file("config.yaml", "server: {prot: 1}\n")
    assert systemd("install").code == 2
    assert systemd.units() == []


def test_launchd_is_printed_and_no_more(systemd: Systemd) -> None:
    printed = systemd.folder.cli("service", "print", "--manager", "launchd", env={"HOME": "/Users/ann"})
    plist = plistlib.loads(printed.out.encode())
    assert plist["ProgramArguments"][-2:] == ["--workspace", str(systemd.folder.path)]
    assert plist["StandardErrorPath"] == f"/Users/ann/Library/Logs/{plist['Label']}.log"
    for action in ("install", "uninstall"):
        refused = systemd.folder.cli("service", action, "--manager", "launchd")
        assert (refused.code, "nothing was changed" in refused.err) == (2, True)
