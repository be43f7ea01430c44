"""Whose a state folder is: only one that this user made here is used; refusing one never changes it."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from agent_md.agents.registry import scan
from agent_md.app import App
from agent_md.errors import StateDirUnusable, Untrusted
from agent_md.executions.states import Status
from agent_md.settings import load_settings
from agent_md.stores.sqlite.migrate import migrations
from agent_md.trust.git_index import tracks_below
from agent_md.trust.ownership import of_others
from agent_md.trust.state_mark import FIRST_MARKED_FORMAT, StateFolder
from tests.fixtures.make import FOLDER, restore
from tests.support.hostile_repository import everything_below, index_of

SCRIPT = "conversations: [{turns: [{text: Done.}]}]\n"


class Place:
    """A workspace of a user; `open` is what another process of theirs would do."""

    def __init__(self, folder: Path) -> None:
        self.ws, self.home = folder / "ws", folder / "home"
        (self.ws / "agents/_config/scripts").mkdir(parents=True)
        (self.ws / "agents/a.md").write_text("---\nmodel: {provider: script, name: a}\n---\nWork.\n")
        (self.ws / "agents/_config/scripts/a.yaml").write_text(SCRIPT)

    @property
    def state_dir(self) -> Path:
        return self.ws / ".agentmd"

    def open(self, environ: Mapping[str, str] | None = None, home: Path | None = None) -> App:
        return App(load_settings(self.ws, environ=environ or {}, cwd=self.ws, home=home or self.home))

    def state(self, **more: Path) -> StateFolder:
        with closing(self.open(**more)) as app:  # type: ignore[arg-type]
            return app.trust.state()

    def use(self, environ: Mapping[str, str] | None = None) -> None:
        """Queues an execution, and leaves."""
        with closing(self.open(environ)) as app:
            app.starter.start("a", claimed=False)

    def unmark(self) -> None:
        (self.state_dir / "mark").unlink()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def test_one_that_is_made_here_is_ours(place: Place) -> None:
    assert place.state() is StateFolder.NONE
    place.use()
    assert place.state() is StateFolder.OURS
    place.use()
    assert (place.state_dir / "mark").stat().st_mode & 0o777 == 0o600


def test_it_is_nobody_elses(place: Place, tmp_path: Path) -> None:
    place.use()
    assert place.state(home=tmp_path / "another") is StateFolder.UNMARKED


def test_it_stays_ours_where_the_workspace_is_moved_or_its_database_restored(place: Place, tmp_path: Path) -> None:
    place.use()
    copy = tmp_path / "copy.db"
    with closing(sqlite3.connect(place.state_dir / "agentmd.db")) as database:
        database.execute("VACUUM INTO ?", (str(copy),))
    for file in place.state_dir.glob("*.db*"):
        file.unlink()
    shutil.copy(copy, place.state_dir / "agentmd.db")
    place.ws = place.ws.rename(tmp_path / "moved")
    assert place.state() is StateFolder.OURS


def test_a_copy_of_it_is_not(place: Place, tmp_path: Path) -> None:
    place.use()
    shutil.copytree(place.ws, tmp_path / "copy")
    place.ws = tmp_path / "copy"
    assert place.state() is StateFolder.UNMARKED


def test_another_database_in_the_config_is_not(place: Place) -> None:
    place.use()
    shutil.copy(place.state_dir / "agentmd.db", place.ws / "other.db")
    (place.ws / "config.yaml").write_text("database: other.db\n")
    assert place.state() is StateFolder.UNMARKED


@pytest.mark.parametrize("planted", ["api_key", "agentmd_checkpoints.db", "workers/x.lock", "server.json"])
def test_a_folder_with_files_that_would_be_believed_is_not(place: Place, planted: str) -> None:
    (place.state_dir / planted).parent.mkdir(parents=True)
    (place.state_dir / planted).write_text("theirs")
    assert place.state() is StateFolder.UNMARKED


def test_logs_and_what_a_killed_process_left_are_no_state(place: Place) -> None:
    place.state_dir.mkdir()
    for name in ("agentmd.log", "tools.log", ".gitignore", ".mark.77", "agentmd.db"):
        (place.state_dir / name).touch()
    assert place.state() is StateFolder.NONE
    place.use()
    assert place.state() is StateFolder.OURS


REFUSED: dict[str, tuple[Callable[[Place], object], type[Exception], str]] = {
    "unmarked": (lambda place: place.unmark(), Untrusted, "--adopt-state"),
    "tracked": (lambda place: _track(place, ".agentmd/agentmd.db"), Untrusted, "git tracks files"),
    "linked": (lambda place: _link(place), StateDirUnusable, "is a link"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_refusing_changes_nothing_also_when_the_workspace_is_trusted(place: Place, kind: str) -> None:
    change, error, word = REFUSED[kind]
    place.use()
    change(place)
    with closing(place.open()) as app:
        app.trust.grant(app.trust.items())
    before = everything_below(place.ws)
    for environ in ({}, {"AGENTMD_TRUST": "1"}):
        with pytest.raises(error, match=word):
            place.use(environ)
        with closing(place.open(environ)) as app:
            shown = app.reading_store.executions()
        assert len(shown) == (kind != "linked")
    assert everything_below(place.ws) == before


def test_adopt_takes_it_over_for_good_where_the_user_can_record_it(place: Place) -> None:
    place.use()
    place.unmark()
    place.use({"AGENTMD_TRUST": "adopt"})
    assert place.state() is StateFolder.OURS
    place.use()


def test_adopt_works_where_nothing_can_be_recorded(place: Place) -> None:
    place.home.write_text("no folder")
    place.use({"AGENTMD_TRUST": "adopt"})
    assert not (place.state_dir / "mark").exists()


def _track(place: Place, *paths: str) -> None:
    (place.ws / ".git").mkdir()
    (place.ws / ".git/index").write_bytes(index_of(list(paths)))


def _link(place: Place) -> None:
    real = place.state_dir.rename(place.ws.parent / "elsewhere")
    place.state_dir.symlink_to(real)


# Of earlier versions


@pytest.fixture
def earlier(place: Place) -> Place:
    """With the state folder of the last version that made no marks."""
    restore(FOLDER / f"store-format-{FIRST_MARKED_FORMAT - 1}", place.ws.parent / "restored")
    (place.ws.parent / "restored/.agentmd").rename(place.state_dir)
    return place


def test_marks_begin_with_the_format_that_is_said() -> None:
    assert len(migrations()) >= FIRST_MARKED_FORMAT


def test_it_is_taken_over_when_the_workspace_is_trusted(earlier: Place) -> None:
    before = everything_below(earlier.ws)
    assert earlier.state() is StateFolder.EARLIER
    with pytest.raises(Untrusted, match="of an earlier version"):
        earlier.use()
    with closing(earlier.open()) as app:
        assert app.reading_store.executions() == []
    assert everything_below(earlier.ws) == before
    with closing(earlier.open()) as app:
        app.trust.grant(app.trust.items())
        assert app.store.executions(statuses=[Status.WAITING])
    assert earlier.state() is StateFolder.OURS


def test_it_is_not_if_git_tracks_it(earlier: Place) -> None:
    _track(earlier, "agents/a.md", ".agentmd/agentmd.db")
    assert earlier.state() is StateFolder.TRACKED


# What goes on while the workspace asks for more


def test_what_was_added_is_reached_only_when_it_was_allowed(place: Place) -> None:
    (place.ws / "config.yaml").write_text("http: {allow_hosts: [a.lan]}\n")
    with closing(place.open()) as app:
        assert app.trust.private_hosts() == ()
        app.trust.grant(app.trust.items())
        assert app.trust.private_hosts() == ("a.lan",)
    (place.ws / "config.yaml").write_text("http: {allow_hosts: [a.lan, b.lan]}\n")
    with closing(place.open()) as app:
        assert app.trust.private_hosts() == ("a.lan",)
    with closing(place.open({"AGENTMD_TRUST": "1"})) as app:
        assert app.trust.private_hosts() == ("a.lan", "b.lan")


def test_an_mcp_server_is_used_only_as_it_was_allowed(place: Place) -> None:
    (place.ws / "agents/a.md").write_text("---\nmcp: [files]\n---\nWork.\n")
    file = place.ws / "agents/_config/mcp-servers.json"
    file.write_text('{"files": {"command": "sh"}}')
    with closing(place.open()) as app:
        with pytest.raises(Untrusted, match="files: sh"):
            app.assembly.mcp.permitted("files")
        app.trust.grant(app.trust.items())
        assert app.assembly.mcp.permitted("files").command == "sh"
        file.write_text('{"files": {"command": "sh", "args": ["-c", "evil"]}}')
        with pytest.raises(Untrusted, match="files: sh -c evil"):
            app.assembly.mcp.permitted("files")
        assert "not trusted" in str(app.assembly.mcp.listed(["files"])["files"].failure)


def test_a_model_is_asked_only_where_it_was_allowed(place: Place) -> None:
    (place.ws / "agents/a.md").write_text(
        '---\nmodel: {provider: local, name: x, base_url: "http://${PLACE}/v1"}\n---\nWork.\n'
    )
    (place.ws / ".env").write_text("PLACE=a.lan\n")
    with closing(place.open()) as app:
        app.trust.grant(app.trust.items())
        spec = app.registry.get("a").spec
        app.trust.require_address(spec)
    (place.ws / ".env").write_text("PLACE=evil.example\n")
    with closing(place.open()) as app, pytest.raises(Untrusted, match=r"now http://evil\.example"):
        app.trust.require_address(spec)


# What git tracks


@pytest.mark.parametrize("version", [2, 4])
@pytest.mark.parametrize(
    ("paths", "tracked"),
    [
        (["agents/a.md"], False),
        ([".agentmd/agentmd.db"], True),
        ([".agent", ".agentmd.bak/x", ".agentmdx"], False),
        ([".agent/a", ".agentmd/x", ".b"], True),
        ([".agentmd"], True),
        ([], False),
    ],
)
def test_the_index_says_what_git_tracks(place: Place, version: int, paths: list[str], tracked: bool) -> None:
    (place.ws / ".git").mkdir()
    (place.ws / ".git/index").write_bytes(index_of(paths, version))
    assert tracks_below(place.ws, place.state_dir) is tracked


def test_a_repository_around_the_workspace_counts(place: Place) -> None:
    (place.ws.parent / ".git").mkdir()
    (place.ws.parent / ".git/index").write_bytes(index_of(["ws/.agentmd/x"]))
    assert tracks_below(place.ws, place.state_dir)


@pytest.mark.parametrize("data", [b"", b"DIRC", b"DIRC\0\0\0\4\0\0\0\7xx", b"DIRC\0\0\0\x09", b"\xff" * 90])
def test_an_index_that_cannot_be_read_tracks_everything(place: Place, data: bytes) -> None:
    (place.ws / ".git").mkdir()
    (place.ws / ".git/index").write_bytes(data)
    assert tracks_below(place.ws, place.state_dir)


def test_git_itself_agrees(place: Place) -> None:
    if shutil.which("git") is None:
        print("NOT RUN: there is no git here")
        return
    git = ["git", "-C", str(place.ws), "-c", "user.name=x", "-c", "user.email=x@x.example"]
    subprocess.run([*git, "init", "-q"], check=True)
    place.use()
    for version in ("2", "4"):
        subprocess.run([*git, "update-index", "--index-version", version], check=True)
        subprocess.run([*git, "add", "-A"], check=True)
        assert not tracks_below(place.ws, place.state_dir), version
        subprocess.run([*git, "add", "-f", ".agentmd/agentmd.db"], check=True)
        assert tracks_below(place.ws, place.state_dir), version
        subprocess.run([*git, "rm", "-q", "-r", "--cached", ".agentmd"], check=True)
        assert not tracks_below(place.ws, place.state_dir), version
    assert place.state() is StateFolder.OURS


# Whose the files are


@pytest.mark.parametrize("name", ["", "agents", "agents/a.md", "config.yaml", ".env", "agents/_config/tools/kit.py"])
def test_a_file_of_another_user_is_found(place: Place, name: str) -> None:
    (place.ws / "agents/_config/tools").mkdir()
    (place.ws / "agents/a.md").write_text("---\ntools: [kit]\n---\nWork.\n")
    for file in ("config.yaml", ".env", "agents/_config/tools/kit.py"):
        (place.ws / file).touch()
    settings = load_settings(place.ws, environ={}, cwd=place.ws, home=place.home)
    registry = scan(settings.agents_dir, settings.workspace, settings.defaults)
    assert of_others(settings, registry) is None
    assert of_others(settings, registry, me=os.geteuid() + 1) == place.ws
    if os.geteuid() != 0:
        print("NOT RUN: only root can give files to another user")
        return
    os.chown(place.ws / name, 12345, -1)
    assert of_others(settings, registry) == place.ws / name
    with closing(place.open({"AGENTMD_TRUST": "adopt"})) as app, pytest.raises(Untrusted, match="another user"):
        app.starter.start("a", claimed=False)


# A process that is killed


@pytest.fixture
def killed_at(place: Place) -> Callable[[int], bool]:
    """Makes the state folder in a process that is killed at its n-th rename, open or mkdir; whether it was."""

    def killed(point: int) -> bool:
        pid = os.fork()
        if pid == 0:
            _die_at(point)
            try:
                place.use()
            finally:
                os._exit(0)
        return os.WIFSIGNALED(os.waitpid(pid, 0)[1])

    return killed


def _die_at(point: int) -> None:
    import sys

    count = 0

    def seen(event: str, args: tuple[object, ...]) -> None:
        nonlocal count
        if event in ("os.rename", "os.mkdir") or (event == "open" and ".agentmd" in str(args[0])):
            if count == point:
                os.kill(os.getpid(), signal.SIGKILL)
            count += 1

    sys.addaudithook(seen)


def test_a_process_that_is_killed_while_it_makes_the_folder_leaves_one_that_can_be_used(
    place: Place, killed_at: Callable[[int], bool]
) -> None:
    point = 0
    while killed_at(point):
        assert place.state() in (StateFolder.NONE, StateFolder.OURS), point
        place.use()
        shutil.rmtree(place.state_dir)
        point += 1
    assert point > 4
