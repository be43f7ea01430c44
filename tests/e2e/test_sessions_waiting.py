"""Waiting for a session: woken at once by what happens, never longer than asked, by any number of clients."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from agent_md.ports.journal import Journal
from agent_md.stores.workers import LockWorkers
from tests.support.scenes import ask, begin, journal_of
from tests.support.server import Answer, Server
from tests.support.sessions import Talk, talking_world
from tests.support.waiting import until
from tests.support.world import World

SOON = 4.0
"""Seconds; far below how often a session is looked at without being told, and how long a wait lasts by default."""


def _waiters(talk: Talk) -> int:
    waiters: int = talk.client.get("/info").body["active_streams"]
    return waiters


def _poll(pool: ThreadPoolExecutor, talk: Talk, query: str = "?wait=true") -> Future[Answer]:
    """A client that waits already."""
    before = _waiters(talk)
    polling = pool.submit(talk.get, query)
    until(lambda: _waiters(talk) > before)
    return polling


def _taken(action: Callable[[], object]) -> float:
    begun = time.monotonic()
    action()
    return time.monotonic() - begun


def test_the_end_of_a_turn_wakes(talk: Talk, talking: World) -> None:
    talk.say("soon")
    with ThreadPoolExecutor(1) as pool:
        polling = _poll(pool, talk)
        talk.open_gate(talking.workspace)
        assert polling.result(timeout=5).body["response"]["content"] == "Soon."


@pytest.mark.parametrize(("message", "status"), [("fails at once", "error"), ("two", "interrupted"), ("hello", "idle")])
def test_what_came_before_is_not_waited_for(talk: Talk, message: str, status: str) -> None:
    talk.say(message)
    until(lambda: talk.get().body["status"] != "running")
    assert _taken(lambda: talk.get("?wait=true")) < SOON
    assert talk.get("?wait=true").body["status"] == status


def test_an_interrupt_wakes_and_is_not_waited_for(talk: Talk) -> None:
    with ThreadPoolExecutor(1) as pool:
        talk.say("question")
        polling = pool.submit(talk.get, "?wait=true")
        (asked,) = polling.result(timeout=5).body["interrupts"]
        talk.resume(asked, {"answers": {"Name for Q?": "Ann"}})
        (asked,) = talk.get("?wait=true").body["interrupts"]
        assert asked["payload"]["questions"][0]["question"] == "Colour?"


def test_deletion_wakes_at_once(talk: Talk) -> None:
    talk.say("slow")
    with ThreadPoolExecutor(1) as pool:
        polling = _poll(pool, talk)
        talk.delete()
        assert _taken(lambda: polling.result(timeout=5)) < SOON
        assert polling.result().status == 404


def test_cancelling_the_turn_wakes(talk: Talk) -> None:
    talk.say("slow")
    with ThreadPoolExecutor(1) as pool:
        polling = _poll(pool, talk)
        talk.client.request("DELETE", f"/executions/{talk.executions()[0]['id']}")
        found = polling.result(timeout=5).body
        assert (found["status"], found["error"]) == ("error", "cancelled by api")


def test_the_command_line_wakes(talk: Talk, talking: World) -> None:
    talk.say("slow")
    with ThreadPoolExecutor(1) as pool:
        polling = _poll(pool, talk)
        assert talking.cli("cancel", str(talk.executions()[0]["id"])).code == 0
        assert polling.result(timeout=5).body["status"] == "error"


def test_no_longer_than_asked(talk: Talk) -> None:
    talk.say("slow")
    for timeout, least in (("0.2", 0.2), ("0", 0.0), ("1e-05", 0.0)):
        begun = time.monotonic()
        found = talk.get(f"?wait=true&timeout={timeout}").body
        assert least <= time.monotonic() - begun < least + SOON
        assert (found["status"], found["response"]) == ("running", None)
    with ThreadPoolExecutor(1) as pool:
        polling = _poll(pool, talk, f"?wait=true&timeout={10**300}")
        talk.delete()
        assert polling.result(timeout=5).status == 404


@pytest.mark.parametrize(
    "query", ["timeout=-1", "timeout=nan", "timeout=inf", "timeout=-inf", "timeout=x", "wait=maybe"]
)
def test_a_wait_that_cannot_be_kept_is_refused(talk: Talk, query: str) -> None:
    assert talk.get(f"?wait=true&{query}").status == 422


def test_a_client_that_leaves_is_not_waited_for(talk: Talk, served: Server) -> None:
    talk.say("slow")
    before = _waiters(talk)
    gone = []
    for _ in range(20):
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        client.connect(str(served.client.socket_path))
        client.sendall(f"GET {talk.path}?wait=true HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        gone.append(client)
    until(lambda: _waiters(talk) == before + 20)
    for client in gone:
        client.close()
    until(lambda: _waiters(talk) == before, patience=SOON * 5)
    assert talk.get().body["status"] == "running"
    talk.delete()


@contextmanager
def _driven_here(world: World, talk: Talk) -> Iterator[Journal]:
    """A turn of the session that this process drives."""
    store = world.store()
    worker = LockWorkers(world.workspace / ".agentmd/workers").acquire()
    try:
        yield journal_of(store, begin(store, agent="worker", session_id=talk.id, worker=worker.id))
    finally:
        worker.close()
        store.close()


def test_what_another_process_does_wakes(talk: Talk, talking: World) -> None:
    with _driven_here(talking, talk) as journal, ThreadPoolExecutor(1) as pool:
        polling = _poll(pool, talk)
        asked = ask(journal)
        assert _taken(lambda: polling.result(timeout=5)) < SOON
        assert [interrupt["interrupt_id"] for interrupt in polling.result().body["interrupts"]] == asked


def test_deletion_wakes_also_while_another_process_is_at_the_turn(talk: Talk, talking: World) -> None:
    with _driven_here(talking, talk), ThreadPoolExecutor(1) as pool:
        polling = _poll(pool, talk)
        talk.delete()
        assert _taken(lambda: polling.result(timeout=20)) < SOON
        assert polling.result().status == 404


def test_a_stop_of_the_server_answers(tmp_path: Path) -> None:
    world = talking_world(tmp_path / "ws")
    with Server(world.workspace) as server, ThreadPoolExecutor(1) as pool:
        talk = Talk.begin(server)
        with _driven_here(world, talk):
            polling = _poll(pool, talk)
            assert server.stop().code == 0
            assert polling.result(timeout=5).body["status"] == "running"


def _start(talk: Talk, message: str) -> None:
    started = talk.client.post(f"{talk.base}/run", {"message": message, "session_id": talk.id})
    assert started.status == 200, started


@pytest.mark.parametrize("messages", [("late", "slow"), ("slow", "late")])
def test_each_of_several_turns_at_once_wakes(tmp_path: Path, messages: tuple[str, str]) -> None:
    world = talking_world(tmp_path / "ws")
    agent = world.workspace / "agents/worker.md"
    agent.write_text(agent.read_text().replace("tools:", "on_pending: parallel\ntools:"))
    with Server(world.workspace) as server, ThreadPoolExecutor(1) as pool:
        talk = Talk.begin(server)
        for message in messages:
            _start(talk, message)
        polling = _poll(pool, talk)
        talk.open_gate(world.workspace)
        assert _taken(lambda: polling.result(timeout=20)) < SOON
        assert polling.result().body["status"] == "interrupted"


def test_a_turn_that_begins_while_another_is_waited_for_wakes_too(tmp_path: Path) -> None:
    world = talking_world(tmp_path / "ws")
    agent = world.workspace / "agents/worker.md"
    agent.write_text(agent.read_text().replace("tools:", "on_pending: parallel\ntools:"))
    with Server(world.workspace) as server, ThreadPoolExecutor(1) as pool:
        talk = Talk.begin(server)
        _start(talk, "slow")
        polling = _poll(pool, talk)
        _start(talk, "one")
        assert _taken(lambda: polling.result(timeout=20)) < SOON
        assert polling.result().body["status"] == "interrupted"


def test_a_session_that_is_deleted_and_begun_again_is_another_one(tmp_path: Path) -> None:
    world = talking_world(tmp_path / "ws", "server: {allow_custom_ids: true}\n")
    with Server(world.workspace) as server, ThreadPoolExecutor(1) as pool:
        talk = Talk.begin(server)
        talk.say("slow")
        polling = _poll(pool, talk)
        with closing(world.store()) as store:
            store.sessions.delete("worker", talk.id, by="somebody")
            store.sessions.create("worker", talk.id)
        assert polling.result(timeout=20).status == 404
