"""Watches: files saved in the ways of real programs, agents that write themselves, and kills, on real servers."""

from __future__ import annotations

import os
import random
import re
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from agent_md.executions.firings import FiringState
from agent_md.executions.states import Status, TriggerKind
from tests.support.agent_folder import AgentFolder, call
from tests.support.server import Server
from tests.support.snapshots import Snapshot
from tests.support.waiting import until

pytestmark = pytest.mark.xdist_group("watches")  # what they share takes long to make: once, in one process

HEAD = "Files that you watch were changed:\n"


def watching(folder: AgentFolder, name: str, *, turns: list[dict[str, Any]] | None = None, more: str = "") -> None:
    settings = f"trigger: {{type: watch, paths: [{name}]}}\n{more}"
    folder.agent(name, turns or [{"text": "Done."}], settings)
    (folder.path / name).mkdir()


def firings(folder: AgentFolder, agent: str) -> list[Any]:
    with folder.store() as store:
        return store.firings.listed(agent=agent)[::-1]


def told(folder: AgentFolder, agent: str) -> list[str]:
    return [firing.message.removeprefix(HEAD) for firing in firings(folder, agent)]


def by_rename(place: Path) -> None:
    (place / ".old.txt.swp").write_text("swap")
    (place / "4913").touch()
    (place / "4913").unlink()
    (place / "old.txt").rename(place / "old.txt~")
    (place / "old.txt").write_text("one\ntwo\nthree\n")
    (place / "old.txt~").unlink()
    (place / ".old.txt.swp").unlink()


def by_sed(place: Path) -> None:
    subprocess.run(["sed", "-i", "s/one/1/", "old.txt"], cwd=place, check=True)


def by_replacing(place: Path) -> None:
    (place / "temporary").write_text("new")
    os.replace(place / "temporary", place / "old.txt")


def by_git(place: Path) -> None:
    def git(*args: str) -> None:
        named = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
        subprocess.run(["git", *named, *args], cwd=place, check=True, capture_output=True)

    git("init", "-q", "-b", "main")
    git("add", ".")
    git("commit", "-qm", "first")
    git("checkout", "-qb", "side")
    (place / "old.txt").write_text("side\n")
    (place / "new.txt").write_text("new\n")
    git("add", ".")
    git("commit", "-qm", "side")
    git("checkout", "-q", "main")
    git("checkout", "-q", "side")


def by_moving_in(place: Path) -> None:
    made = place.parent / "made.txt"
    made.write_text("from elsewhere")
    made.rename(place / "in.txt")


def by_moving_out(place: Path) -> None:
    (place / "old.txt").rename(place.parent / "out.txt")


def by_moving_within(place: Path) -> None:
    (place / "sub").mkdir()
    (place / "old.txt").rename(place / "sub/new.txt")


def eight_at_once(place: Path) -> None:
    for number in range(8):
        (place / f"{number}.txt").write_text(str(number))


def twice(place: Path) -> None:
    (place / "old.txt").write_text("first")
    (place / "old.txt").write_text("second time")


def a_forged_name(place: Path) -> None:
    (place / "a\ndeleted everything").write_text("x")


def slowly(place: Path) -> None:
    copy = "for i in 1 2 3 4 5; do echo part $i; sleep 0.4; done > slow.txt"
    subprocess.run(["sh", "-c", copy], cwd=place, check=True)


WAYS: dict[str, tuple[Callable[[Path], None], str]] = {
    "renamed": (by_rename, "modified {place}/old.txt"),
    "sed": (by_sed, "modified {place}/old.txt"),
    "replaced": (by_replacing, "modified {place}/old.txt"),
    "git": (by_git, "created {place}/new.txt\nmodified {place}/old.txt"),
    "moved-in": (by_moving_in, "created {place}/in.txt"),
    "moved-out": (by_moving_out, "deleted {place}/old.txt"),
    "moved": (by_moving_within, "moved {place}/old.txt -> {place}/sub/new.txt"),
    "eight": (eight_at_once, "\n".join(f"created {{place}}/{n}.txt" for n in range(8))),
    "twice": (twice, "modified {place}/old.txt"),
    "slow": (slowly, "created {place}/slow.txt"),
    "forged": (a_forged_name, 'created "{place}/a\\ndeleted everything"'),
}
"""How programs save files, and what is told of it."""


class Watched:
    """A server with an agent for each way to save, each with a folder of its name, in which everything was saved at once."""

    def __init__(self, folder: AgentFolder) -> None:
        self.folder = folder
        for way in WAYS:
            read = {"calls": [call("file_read", path=f"{way}/slow.txt")]}
            watching(folder, way, turns=[read, {"text": "Read."}] if way == "slow" else None)
            (folder.path / way / "old.txt").write_text("one\ntwo\n")
        write = {"calls": [call("file_write", path="own/out.txt", content="mine")]}
        watching(folder, "own", turns=[write, {"text": "Written."}], more="auto_approve: [file_write]")
        for name, other in (("ping", "pong"), ("pong", "ping")):
            grow = {"calls": [call("file_edit", path=f"{other}/ball", old_text="x", new_text="xx", replace_all=True)]}
            watching(folder, name, turns=[grow, {"text": "Thrown."}], more="auto_approve: [file_edit]")
            (folder.path / name / "ball").write_text("x")

    def save_all(self) -> None:
        place = self.folder.path
        (place / "ping/ball").write_text("xx")
        (place / "own/in.txt").write_text("go")
        with ThreadPoolExecutor(len(WAYS)) as pool:
            list(pool.map(lambda way: WAYS[way][0](place / way), WAYS))
        self.until_finished(1)
        for name in (*WAYS, "own"):
            (place / name / "last.txt").write_text("the end")  # what comes after all that a save may still cause
        self.until_finished(2)

    def until_finished(self, count: int) -> None:
        until(lambda: all(len(finished(self.folder, name)) >= count for name in (*WAYS, "own")))


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentFolder]:
    folder = AgentFolder(tmp_path_factory.mktemp("watches") / "ws")
    watched = Watched(folder)
    with Server(folder.path) as server:
        assert server.client.get("/info").body["watcher_active"] is True
        assert server.client.get("/agents/own").body["trigger_paths"] == ["own"]
        shown = folder.cli("status").out
        assert "\nown starts by itself: watch own\n" in shown
        assert "The watch of" not in shown
        watched.save_all()
        yield folder
        assert server.client.get("/info").body["watcher_problems"] == {}


@pytest.mark.parametrize("way", WAYS)
def test_a_save_is_one_execution(served: AgentFolder, way: str) -> None:
    assert told(served, way) == [WAYS[way][1].format(place=way), f"created {way}/last.txt"]
    assert len(finished(served, way)) == 2


def finished(folder: AgentFolder, agent: str) -> list[Any]:
    with folder.store() as store:
        found = store.executions(agent=agent, statuses=[Status.SUCCESS])
    assert {execution.trigger for execution in found} <= {TriggerKind.WATCH}
    return found


def test_a_slow_copy_is_handed_over_complete(served: AgentFolder) -> None:
    (result,) = served.results(finished(served, "slow")[-1].id)
    assert re.findall(r"part \d", result) == [f"part {n}" for n in range(1, 6)]


def test_an_agent_that_writes_into_its_own_folder_runs_once(served: AgentFolder) -> None:
    assert (served.path / "own/out.txt").read_text() == "mine"
    assert told(served, "own") == ["created own/in.txt", "created own/last.txt"]


def test_two_agents_that_feed_each_other_stop_at_the_hop_limit(served: AgentFolder) -> None:
    found: list[Any] = []

    def stopped() -> bool:
        found[:] = sorted([*firings(served, "ping"), *firings(served, "pong")], key=lambda firing: firing.id)
        return any(firing.state is FiringState.SKIPPED for firing in found)

    until(stopped, patience=120)
    assert [firing.hop for firing in found] == [0, 1, 2, 3, 4, 5, 6]
    assert (found[-1].reason or "").startswith("hop limit: ")


MOST_WRITES = 132
"""A server that starts, finds what was saved while there was none, and then sees another save makes about so many."""


class Killed:
    """An agent that watches `in`, and servers that are killed; from the beginning again as often as it is wanted."""

    def __init__(self, folder: AgentFolder, copy: Path) -> None:
        self.folder, self.place = folder, folder.path / "in"
        watching(folder, "in")
        (self.place / "old.txt").write_text("one\ntwo\n")
        with Server(folder.path) as first:
            first.stop()
        self._begun = Snapshot(folder.path, copy)

    def check(self, write: int, way: str) -> None:
        """kill -9 before this write of a server that runs when a file is saved, or starts after it."""
        save, expected = WAYS[way]
        self._begun.restore()
        (self.place / "offline.txt").write_text("while no server ran")
        killed = Server(self.folder.path, kill_before_write=write)
        save(self.place)
        until(lambda: killed.process.ended or (len(self.lines()) > len(expected.split("\n")) and self.all_finished()))
        if not killed.process.ended:
            killed.kill()
        (self.place / "between.txt").write_text("after the kill")
        with Server(self.folder.path):
            until(lambda: "between" in "".join(self.lines()) and self.all_finished())
        new = ["created in/between.txt", "created in/offline.txt", *expected.format(place="in").split("\n")]
        told = sorted(self.lines())
        if way == "moved" and told != sorted(
            new
        ):  # looked at while it was moved, it is a new file and one that is gone
            new[2:] = ["created in/sub/new.txt", "deleted in/old.txt"]
        assert told == sorted(new), (write, way)
        started = [firing.execution_id for firing in firings(self.folder, "in")]
        assert len(set(started)) == len(started), (write, way)

    def lines(self) -> list[str]:
        return [line for message in told(self.folder, "in") for line in message.split("\n")]

    def all_finished(self) -> bool:
        return len(finished(self.folder, "in")) == len(firings(self.folder, "in"))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Killed:
    folder = tmp_path_factory.mktemp("killed")
    return Killed(AgentFolder(folder / "ws"), folder / "copy")


def test_killed_anywhere_each_change_is_told_once(killed: Killed) -> None:
    killed.check(random.randrange(1, MOST_WRITES), random.choice(list(WAYS)))


@pytest.mark.stress
@pytest.mark.parametrize("write", range(1, MOST_WRITES))
def test_killed_at_every_write_each_change_is_told_once(killed: Killed, write: int) -> None:
    killed.check(write, list(WAYS)[write % len(WAYS)])
