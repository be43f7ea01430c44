"""Watches: files saved in the ways of real programs, agents that write themselves, and kills, on real servers."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_md.executions.firings import FiringState
from agent_md.executions.model import Status, TriggerKind
from tests.support.agent_folder import AgentFolder, call
from tests.support.server import Server
from tests.support.waiting import until

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


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentFolder]:
    """One server with an agent for each way to save, each with a folder of its name."""
    folder = AgentFolder(tmp_path_factory.mktemp("watches") / "ws")
    for name in WAYS:
        watching(folder, name)
        (folder.path / name / "old.txt").write_text("one\ntwo\n")
    read = {"calls": [call("file_read", path="slow/a.txt")]}
    watching(folder, "slow", turns=[read, {"text": "Read."}])
    write = {"calls": [call("file_write", path="own/out.txt", content="mine")]}
    watching(folder, "own", turns=[write, {"text": "Written."}], more="auto_approve: [file_write]")
    for name, other in (("ping", "pong"), ("pong", "ping")):
        grow = {"calls": [call("file_edit", path=f"{other}/ball", old_text="x", new_text="xx", replace_all=True)]}
        watching(folder, name, turns=[grow, {"text": "Thrown."}], more="auto_approve: [file_edit]")
        (folder.path / name / "ball").write_text("x")
    with Server(folder.path) as server:
        assert server.client.get("/info").body["watcher_active"] is True
        assert server.client.get("/agents/own").body["trigger_paths"] == ["own"]
        shown = folder.cli("status").out
        assert "\nown starts by itself: watch own\n" in shown
        assert "The watch of" not in shown
        yield folder
        assert server.client.get("/info").body["watcher_problems"] == {}


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


WAYS: dict[str, tuple[Callable[[Path], None], str]] = {
    "renamed": (by_rename, "modified renamed/old.txt"),
    "sed": (by_sed, "modified sed/old.txt"),
    "replaced": (by_replacing, "modified replaced/old.txt"),
    "git": (by_git, "created git/new.txt\nmodified git/old.txt"),
    "moved-in": (by_moving_in, "created moved-in/in.txt"),
    "moved-out": (by_moving_out, "deleted moved-out/old.txt"),
    "moved": (by_moving_within, "moved moved/old.txt -> moved/sub/new.txt"),
    "eight": (eight_at_once, "\n".join(f"created eight/{n}.txt" for n in range(8))),
    "twice": (twice, "modified twice/old.txt"),
    "forged": (a_forged_name, 'created "forged/a\\ndeleted everything"'),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_save_is_one_execution(served: AgentFolder, way: str) -> None:
    save, expected = WAYS[way]
    save(served.path / way)
    until(lambda: finished(served, way))
    (served.path / way / "last.txt").write_text("the end")  # what comes after all that the save may still cause
    until(lambda: len(finished(served, way)) == 2)
    assert told(served, way) == [expected, f"created {way}/last.txt"]


def finished(folder: AgentFolder, agent: str) -> list[Any]:
    with folder.store() as store:
        found = store.executions(agent=agent, statuses=[Status.SUCCESS])
    assert {execution.trigger for execution in found} <= {TriggerKind.WATCH}
    return found


def test_a_slow_copy_is_handed_over_complete(served: AgentFolder) -> None:
    copy = "for i in 1 2 3 4 5; do echo part $i; sleep 0.4; done > slow/a.txt"
    subprocess.run(["sh", "-c", copy], cwd=served.path, check=True)
    until(lambda: finished(served, "slow"))
    (execution,) = finished(served, "slow")
    assert told(served, "slow") == ["created slow/a.txt"]
    (result,) = served.results(execution.id)
    assert re.findall(r"part \d", result) == [f"part {n}" for n in range(1, 6)]


def test_an_agent_that_writes_into_its_own_folder_runs_once(served: AgentFolder) -> None:
    (served.path / "own/in.txt").write_text("go")
    until(lambda: finished(served, "own"))
    assert (served.path / "own/out.txt").read_text() == "mine"
    (served.path / "own/last.txt").write_text("the end")
    until(lambda: len(finished(served, "own")) == 2)
    assert told(served, "own") == ["created own/in.txt", "created own/last.txt"]


def test_two_agents_that_feed_each_other_stop_at_the_hop_limit(served: AgentFolder) -> None:
    (served.path / "ping/ball").write_text("xx")
    found: list[Any] = []

    def stopped() -> bool:
        found[:] = sorted([*firings(served, "ping"), *firings(served, "pong")], key=lambda firing: firing.id)
        return any(firing.state is FiringState.SKIPPED for firing in found)

    until(stopped, patience=120)
    assert [firing.hop for firing in found] == [0, 1, 2, 3, 4, 5, 6]
    assert (found[-1].reason or "").startswith("hop limit: ")


EVERY_WRITE = [pytest.param(number, marks=[] if number % 16 == 8 else [pytest.mark.stress]) for number in range(1, 56)]
"""One server starts, finds a change and drives its execution; about so many writes."""


@pytest.mark.parametrize("kill_before_write", EVERY_WRITE)
def test_killed_anywhere_each_change_is_told_once(folder: AgentFolder, kill_before_write: int) -> None:
    watching(folder, "in")
    with Server(folder.path) as first:
        first.stop()
    (folder.path / "in/offline.txt").write_text("while no server ran")
    with_kill = Server(folder.path, kill_before_write=kill_before_write)
    until(lambda: with_kill.process.ended or finished(folder, "in"))
    if not with_kill.process.ended:
        with_kill.kill()
    (folder.path / "in/between.txt").write_text("after the kill")
    with Server(folder.path):
        until(lambda: "between" in "".join(told(folder, "in")))
        until(lambda: len(finished(folder, "in")) == len(firings(folder, "in")))
    lines = sorted(line for message in told(folder, "in") for line in message.split("\n"))
    assert lines == ["created in/between.txt", "created in/offline.txt"]
    started = [firing.execution_id for firing in firings(folder, "in")]
    assert len(set(started)) == len(started)
