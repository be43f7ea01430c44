"""The checkpointer: LangGraph's own conformance suite, and what is ours beyond it."""

from __future__ import annotations

import asyncio
import sqlite3
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from typing import Any

import langgraph.checkpoint.base.id
import ormsgpack
import pytest
from langchain_core.messages import AIMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver, Checkpoint, empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate

from agent_md.executions.states import Status
from agent_md.stores.checkpoints import Checkpoints
from tests.support.forks import in_processes
from tests.support.processes import preload
from tests.support.world import World

Place = Callable[[], Path | None]


@pytest.fixture(scope="module", autouse=True)
def _imported() -> None:
    preload()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "ws")


@pytest.fixture(params=["file", "memory"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Where the next checkpointer is: a file of its own, or memory."""
    names = (tmp_path / f"{number}.db" for number in range(100))
    return (lambda: next(names)) if request.param == "file" else (lambda: None)


@pytest.fixture
def saver(place: Place) -> Iterator[Checkpoints]:
    checkpoints = Checkpoints(place())
    yield checkpoints
    checkpoints.close()


def config(checkpoint_id: str | None = None, thread: str = "1") -> RunnableConfig:
    chosen: dict[str, Any] = {"thread_id": thread, "checkpoint_ns": ""}
    return {"configurable": chosen | ({"checkpoint_id": checkpoint_id} if checkpoint_id else {})}


def checkpoint(checkpoint_id: str, **values: Any) -> Checkpoint:
    made = empty_checkpoint()
    made["id"] = checkpoint_id
    made["channel_values"] = values
    return made


async def test_langgraphs_conformance_suite(place: Place) -> None:
    @checkpointer_test(name="agentmd")
    async def opened() -> AsyncGenerator[BaseCheckpointSaver[str], None]:
        checkpoints = Checkpoints(place())
        yield checkpoints
        checkpoints.close()

    report = await validate(opened)
    failures = {name: result.failures for name, result in report.results.items() if result.failures}
    assert failures == {}
    assert report.passed_all_base()
    assert sum(result.tests_passed for result in report.results.values()) > 50


class TestHead:
    def test_it_is_the_last_written_whatever_its_id(self, saver: Checkpoints) -> None:
        saver.put(config(), checkpoint("2026-10", step=1), {"step": 1}, {})
        saver.put(config("2026-10"), checkpoint("2026-09", step=2), {"step": 2}, {})  # the clock was set back
        head = saver.get_tuple(config())
        assert head is not None
        assert head.checkpoint["channel_values"] == {"step": 2}
        assert head.parent_config is not None
        assert head.parent_config["configurable"]["checkpoint_id"] == "2026-10"

    def test_of_each_thread_and_namespace(self, saver: Checkpoints) -> None:
        for thread in "12":
            saver.put(config(thread=thread), checkpoint("b", thread=thread), {}, {})
            saver.put(config(thread=thread), checkpoint("a", thread=thread, later=True), {}, {})
        below = config()
        below["configurable"]["checkpoint_ns"] = "child"
        saver.put(below, checkpoint("c"), {}, {})
        for thread in "12":
            head = saver.get_tuple(config(thread=thread))
            assert head is not None
            assert head.checkpoint["channel_values"] == {"thread": thread, "later": True}
        assert saver.get_tuple(config(thread="3")) is None

    def test_writes_belong_to_it(self, saver: Checkpoints) -> None:
        saver.put(config(), checkpoint("b"), {}, {})
        saver.put(config("b"), checkpoint("a"), {}, {})
        saver.put_writes(config("a"), [("messages", "of a")], "task")
        head = saver.get_tuple(config())
        assert head is not None
        assert head.pending_writes == [("task", "messages", "of a")]

    def test_an_execution_goes_on_when_the_clock_is_set_back(self, world: World) -> None:
        world.cli("run", "worker")
        for hours in range(1, 20):
            if world.status() is not Status.WAITING:
                break
            ended = world.respond(world.open_requests()[0], prepare=clock_set_back(hours))
            assert ended.code in (0, 3), ended
        world.check()
        with closing(sqlite3.connect(world.checkpoints)) as connection:
            ids = [row[0] for row in connection.execute("SELECT checkpoint_id FROM checkpoints ORDER BY rowid")]
        assert any(later < earlier for earlier, later in pairwise(ids))  # the clock was set back indeed


def clock_set_back(hours: int) -> Callable[[], None]:
    """For `prepare`: the ids that LangGraph makes are of some hours ago."""

    def prepare() -> None:
        now = time.time_ns
        time.time_ns = lambda: now() - hours * 3600 * 10**9
        langgraph.checkpoint.base.id._last_v6_timestamp = None  # the process starts anew

    return prepare


class TestTypes:
    """A row of the file is data, whatever it says."""

    @pytest.fixture
    def trap(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        """A module that leaves a file when it is imported, and another when it is called."""
        (tmp_path / "trapmodule.py").write_text(
            "from pathlib import Path\n"
            "here = Path(__file__).parent\n"
            "(here / 'imported').touch()\n"
            "class Trap:\n"
            "    def __init__(self, *args, **kwargs): (here / 'called').touch()\n"
            "    @classmethod\n"
            "    def make(cls, *args): cls()\n"
        )
        monkeypatch.syspath_prepend(str(tmp_path))
        return tmp_path

    @pytest.mark.parametrize("code", range(6), ids=["one", "args", "kwargs", "method", "pydantic1", "pydantic2"])
    def test_a_foreign_class_is_neither_imported_nor_called(
        self, saver: Checkpoints, trap: Path, code: int, caplog: pytest.LogCaptureFixture
    ) -> None:
        argument: Any = {"x": 1} if code in (2, 4, 5) else [1]
        ext = ormsgpack.Ext(code, ormsgpack.packb(("trapmodule", "Trap", argument, "make")))
        self._store(saver, "msgpack", ormsgpack.packb({"v": 1, "id": "a", "channel_values": {"x": ext}}))
        loaded = saver.get_tuple(config())
        assert loaded is not None
        assert type(loaded.checkpoint["channel_values"]["x"]) in (dict, list, int)
        assert caplog.records == [] or "Blocked deserialization" in caplog.text  # once a type and process
        self._sprung_not(trap)

    @pytest.mark.parametrize("lc", [1, 2])
    def test_nor_one_in_json(self, saver: Checkpoints, trap: Path, lc: int) -> None:
        self._store(
            saver,
            "json",
            f'{{"lc": {lc}, "type": "constructor", "id": ["trapmodule", "Trap"], "kwargs": {{}}}}'.encode(),
        )
        try:
            saver.get_tuple(config())
        except ValueError:
            assert lc == 1
        self._sprung_not(trap)

    def test_nor_a_pickle(self, saver: Checkpoints, trap: Path) -> None:
        self._store(saver, "pickle", b"ctrapmodule\nTrap\n(tR.")
        with pytest.raises(NotImplementedError):
            saver.get_tuple(config())
        self._sprung_not(trap)

    def _store(self, saver: Checkpoints, kind: str, blob: bytes) -> None:
        saver.put(config(), checkpoint("a"), {}, {})
        with saver.cursor() as cursor:
            cursor.execute("UPDATE checkpoints SET type = ?, checkpoint = ?", (kind, blob))

    def _sprung_not(self, trap: Path) -> None:
        assert not (trap / "imported").exists()
        assert not (trap / "called").exists()
        assert "trapmodule" not in sys.modules

    async def test_messages_come_back_as_they_were(self, saver: Checkpoints, caplog: pytest.LogCaptureFixture) -> None:
        message = AIMessage("Hello", id="1", additional_kwargs={"thought_signature": b"\x00\xff".hex()})
        saver.put(config(), checkpoint("a", messages=[message]), {}, {})
        loaded = saver.get_tuple(config())
        assert loaded is not None
        assert loaded.checkpoint["channel_values"]["messages"] == [message]
        assert caplog.records == []

    def test_no_type_of_a_whole_execution_is_blocked(self, world: World) -> None:
        (world.workspace / "config.yaml").write_text("log_level: DEBUG\n")
        world.cli("run", "worker")
        while world.status() is Status.WAITING:
            world.respond(world.open_requests()[0])
        world.check()
        log = (world.workspace / ".agentmd/agentmd.log").read_text()
        assert "asyncio" in log  # it is written at all
        assert "deserializ" not in log.lower()
        assert "WARNING" not in log


class TestAsync:
    def test_every_method_runs_inline(self, saver: Checkpoints) -> None:
        written = inline(saver.aput(config(), checkpoint("a", x=1), {"step": 1}, {}))
        inline(saver.aput_writes(written, [("x", 2)], "task"))
        assert inline(saver.aget_tuple(config())).pending_writes == [("task", "x", 2)]
        history = inline(saver.aget_delta_channel_history(config=config(), channels=["x"]))
        assert set(history) == {"x"}
        assert [item.checkpoint["id"] for item in inline(listed(saver))] == ["a"]
        inline(saver.adelete_thread("1"))
        assert inline(saver.aget_tuple(config())) is None

    def test_no_thread_is_left(self, place: Place) -> None:
        before = threading.active_count()
        checkpoints = Checkpoints(place())
        asyncio.run(checkpoints.aput(config(), checkpoint("a"), {}, {}))
        assert threading.active_count() == before
        checkpoints.close()


def inline(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that never gives the loop a turn."""
    with pytest.raises(StopIteration) as ended:
        coroutine.send(None)
    return ended.value.value


async def listed(saver: Checkpoints) -> list[Any]:
    return [item async for item in saver.alist(config())]


class TestSharing:
    def test_threads_of_one_process(self, saver: Checkpoints) -> None:
        workers = [threading.Thread(target=put_many, args=(saver, f"thread {n}")) for n in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        self._check_all_there(saver)

    def test_processes_that_make_the_file_at_once(self, tmp_path: Path) -> None:
        path = tmp_path / "checkpoints.db"

        def work(name: str) -> None:
            checkpoints = Checkpoints(path)
            put_many(checkpoints, name)
            checkpoints.close()

        codes = in_processes(*(lambda n=n: work(f"thread {n}") for n in range(4)))  # type: ignore[misc]
        assert codes == [0, 0, 0, 0]
        saver = Checkpoints(path)
        self._check_all_there(saver)
        saver.close()

    def _check_all_there(self, saver: Checkpoints) -> None:
        for n in range(4):
            found = list(saver.list(config(thread=f"thread {n}")))
            assert len(found) == 20
            assert all(len(item.pending_writes or []) == 2 for item in found)

    def test_what_one_wrote_the_other_reads(self, tmp_path: Path) -> None:
        one, other = Checkpoints(tmp_path / "c.db"), Checkpoints(tmp_path / "c.db")
        one.put(config(), checkpoint("a"), {}, {})
        other.put(config("a"), checkpoint("b"), {}, {})
        for saver in (one, other):
            head = saver.get_tuple(config())
            assert head is not None
            assert head.checkpoint["id"] == "b"
            saver.close()


def put_many(saver: Checkpoints, thread: str) -> None:
    for step in range(20):
        written = saver.put(config(thread=thread), checkpoint(f"{step:04}", step=step), {"step": step}, {})
        saver.put_writes(written, [("one", step), ("other", step)], "task")
        head = saver.get_tuple(config(thread=thread))
        assert head is not None
        assert head.checkpoint["channel_values"] == {"step": step}
