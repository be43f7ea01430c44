"""A checkpoint file that is damaged at any moment: it is put aside and made anew, and everything goes on."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import empty_checkpoint

from agent_md.errors import StoreError
from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import Status
from agent_md.stores.checkpoint_repair import CacheFile
from agent_md.stores.checkpoints import Checkpoints
from tests.support.agent_folder import AgentFolder, call
from tests.support.damage import DAMAGES, UNSEEN, side_files
from tests.support.forks import in_processes
from tests.support.processes import Finished
from tests.support.server import Server, respond, run, wait_for
from tests.support.waiting import until
from tests.support.world import World, http_answer

each_damage = pytest.mark.parametrize("kind", DAMAGES)

OFTEN = {"empty", "cut in the middle", "all garbage", "only the log is left", "a folder"}


@pytest.fixture
def folder(tmp_path: Path) -> AgentFolder:
    return AgentFolder(tmp_path / "ws")


SAID = "was put aside as agentmd_checkpoints.db.damaged-1 and is made anew"


def put_aside(path: Path) -> list[str]:
    names = (found.name for found in path.parent.glob(f"{path.name}.damaged-*"))
    return sorted(name for name in names if not name.endswith(("-wal", "-shm")))


def check_said(checkpoints: Path, kind: str, ended: list[Finished]) -> None:
    """Once, by the process that moved the file, which is still there."""
    said = sum(process.err.count(SAID) for process in ended)
    assert said == len(put_aside(checkpoints)) <= 1, ended
    assert said == 1 or kind in UNSEEN
    assert all("Traceback" not in process.err for process in ended)


class TestBetweenDrives:
    @pytest.mark.parametrize("kind", ["cut in the middle", pytest.param("all garbage", marks=pytest.mark.stress)])
    def test_a_whole_story_goes_on(self, world: World, kind: str) -> None:
        world.begin()
        DAMAGES[kind](world.checkpoints)
        ended = []
        while world.status() is Status.WAITING:
            ended.append(world.respond(world.open_requests()[0]))
            assert ended[-1].code in (0, 3), ended
        world.check()
        check_said(world.checkpoints, kind, ended)
        with closing(world.store()) as store:
            assert store.execution(ExecutionId(1)).attempts == 0

    @each_damage
    def test_the_next_answer_goes_on(self, folder: AgentFolder, kind: str) -> None:
        folder.agent("worker", [{"calls": [call("ask_user", question="Go on?")]}, {"text": "Done."}])
        folder.begin("worker")
        checkpoints = folder.path / ".agentmd/agentmd_checkpoints.db"
        DAMAGES[kind](checkpoints)
        ended = folder.cli("respond", "1", "--text", "yes")
        assert (ended.code, folder.execution().attempts) == (0, 0), ended
        assert "Done." in ended.out
        assert folder.results() == ["yes"]
        check_said(checkpoints, kind, [ended])

    def test_a_new_run_goes_on_too_and_one_file_after_the_other_is_kept(self, folder: AgentFolder) -> None:
        folder.agent("worker", [{"calls": [call("ask_user", question="Go on?")]}, {"text": "Done."}])
        checkpoints = folder.path / ".agentmd/agentmd_checkpoints.db"
        checkpoints.parent.mkdir()
        checkpoints.write_text("Dear diary")
        begun = folder.cli("run", "worker")
        assert (begun.code, begun.err.count(SAID)) == (3, 1), begun
        checkpoints.write_text("Dear diary, again")
        assert folder.cli("respond", "1", "--text", "yes").code == 0
        kept = [checkpoints.with_name(name).read_text() for name in put_aside(checkpoints)]
        assert kept == ["Dear diary", "Dear diary, again"]

    def test_the_store_itself_stays_refused(self, world: World) -> None:
        world.cli("run", "worker")
        database = world.workspace / ".agentmd/agentmd.db"
        for beside in side_files(database):
            beside.unlink(missing_ok=True)
        database.write_bytes(database.read_bytes()[:5000])
        before = database.read_bytes()
        for command in (["run", "worker"], ["pending"], ["resume", "1"]):
            refused = world.cli(*command)
            assert refused.code == 1, refused
            assert "restore it from a copy" in refused.err
        assert database.read_bytes() == before


SPOILING = '''
import os, sys
sys.path.insert(0, {tests!r})
from langchain_core.tools import tool
from agent_md.sdk import context
from tests.support.damage import DAMAGES

@tool
def spoil(kind: str) -> str:
    """Damages the checkpoints while they are used."""
    DAMAGES[kind](context().workspace / ".agentmd/agentmd_checkpoints.db")
    return "spoilt"

@tool
async def plain(key: str) -> str:
    """One line in the world."""
    with open(context().workspace / "world.log", "a") as log:
        log.write(key + "\\n")
    return "did " + key
'''


class TestInTheMiddleOfADrive:
    @pytest.mark.parametrize(
        "kind", [kind if kind in OFTEN else pytest.param(kind, marks=pytest.mark.stress) for kind in DAMAGES]
    )
    def test_the_drive_goes_on(self, folder: AgentFolder, kind: str) -> None:
        folder.tools("spoiling", SPOILING.format(tests=str(Path(__file__).parents[2])))
        turns = [
            {"calls": [call("plain", key="A"), call("spoil", kind=kind), call("plain", key="B")]},
            {"calls": [call("plain", key="C"), call("ask_user", question="Go on?")]},
            {"calls": [call("plain", key="D")], "text": "Nearly."},
            {"text": "Done."},
        ]
        folder.agent("worker", turns, "tools: [spoiling]")
        begun = folder.cli("run", "worker")
        assert begun.code == 3, begun
        ended = folder.cli("respond", "1", "--text", "yes")
        assert ended.code == 0, ended
        assert folder.execution().status is Status.SUCCESS
        assert sorted((folder.path / "world.log").read_text().split()) == ["A", "B", "C", "D"]
        assert folder.results() == ["did A", "spoilt", "did B", "did C", "yes", "did D"]
        assert folder.execution().attempts == 0
        said = begun.err.count("was put aside as") + ended.err.count("was put aside as")
        assert said == len(put_aside(folder.path / ".agentmd/agentmd_checkpoints.db")) <= 1

    @pytest.mark.parametrize("kind", ["all garbage", pytest.param("only the log is left", marks=pytest.mark.stress)])
    def test_a_server_drives_on(self, world: World, kind: str) -> None:
        with Server(world.workspace) as server:
            number = run(server.client)
            wait_for(server.client, number, "waiting")
            DAMAGES[kind](world.checkpoints)
            while world.status() is not Status.SUCCESS:
                until(lambda: world.status() is Status.SUCCESS or bool(world.open_requests()))
                for request in server.client.get("/pending").body:
                    taken = respond(server.client, number, http_answer(request), request["request_id"])
                    assert taken.status == 200, taken
        world.check()
        assert len(put_aside(world.checkpoints)) <= 1


def config(checkpoint_id: str | None = None) -> RunnableConfig:
    chosen = {"thread_id": "1", "checkpoint_ns": ""}
    return {"configurable": chosen | ({"checkpoint_id": checkpoint_id} if checkpoint_id else {})}


def put(saver: Checkpoints, checkpoint_id: str) -> None:
    made = empty_checkpoint()
    made["id"] = checkpoint_id
    saver.put(config(), made, {}, {})


def head(saver: Checkpoints) -> str | None:
    found = saver.get_tuple(config())
    return None if found is None else found.checkpoint["id"]


class TestSeveralProcesses:
    def test_that_find_it_at_once_move_it_once(self, tmp_path: Path) -> None:
        path = tmp_path / "c.db"
        path.write_text("Dear diary")
        told = tmp_path / "told"

        def tell(text: str) -> None:
            with told.open("a") as file:
                file.write(f"{text}\n")

        def use() -> None:
            saver = Checkpoints(path, tell=tell)
            saver.put_writes(config("a"), [("x", 1)], f"task {id(saver)}")
            saver.close()

        assert in_processes(*[use] * 6) == [0] * 6
        assert put_aside(path) == ["c.db.damaged-1"]
        assert (tmp_path / "c.db.damaged-1").read_text() == "Dear diary"
        assert told.read_text().count("\n") == 1
        with closing(sqlite3.connect(path)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)

    def test_one_that_has_the_old_file_open_goes_on_with_the_new_and_harms_nothing(self, tmp_path: Path) -> None:
        path = tmp_path / "c.db"
        old = Checkpoints(path)
        put(old, "a")
        for beside in side_files(path):
            assert beside.exists()
        file = CacheFile(
            path, tables={"checkpoints", "writes"}, prepare=lambda connection: None, tell=lambda text: None
        )
        file.connect().close()
        file.put_aside("for this test")
        new = Checkpoints(path)
        put(new, "b")
        assert head(old) == "b"
        assert old.made_anew == 1
        put(old, "c")
        old.close()
        assert head(new) == "c"
        new.close()
        assert put_aside(path) == ["c.db.damaged-1"]

    def test_a_file_that_is_damaged_again_and_again_is_told(self, tmp_path: Path) -> None:
        path = tmp_path / "c.db"

        def spoil(connection: sqlite3.Connection) -> None:
            path.write_bytes(b"\xff" * 5000)
            connection.execute("CREATE TABLE checkpoints (x)")

        file = CacheFile(path, tables=(), prepare=spoil, tell=lambda text: None)
        with pytest.raises(StoreError, match="although it was made anew 5 times; check the disk"):
            file.connect()
        assert len(put_aside(path)) == 5
