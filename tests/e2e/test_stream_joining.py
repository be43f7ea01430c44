"""Streams that are joined, left and joined again: what is asked is whole in them, and no piece of a message is missing."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.dripping import DrippingModel
from tests.support.server import Server, SseEvent, respond, run, take, wait_for
from tests.support.sessions import Talk, talking_world
from tests.support.world import World


@pytest.fixture(scope="module")
def model() -> Iterator[DrippingModel]:
    with DrippingModel() as dripping:
        yield dripping


@pytest.fixture(scope="module")
def joined(tmp_path_factory: pytest.TempPathFactory, model: DrippingModel) -> World:
    world = talking_world(tmp_path_factory.mktemp("joined") / "ws")
    agents = world.workspace / "agents"
    (agents / "talker.md").write_text(f"---\nname: talker\nmodel: {model.reference}\n---\nTalk.\n")
    return world


@pytest.fixture(scope="module")
def server(joined: World) -> Iterator[Server]:
    with Server(joined.workspace, env={"GOOGLE_API_KEY": "a-key-of-a-test"}) as running:
        yield running


class Reader:
    """What a client makes of the pieces it gets."""

    def __init__(self, events: Iterator[SseEvent]) -> None:
        self._events = events
        self.text = ""
        self.restarts = 0
        self.last: int | None = None

    def until_text(self, text: str) -> None:
        while self.text != text:
            self.take(next(self._events))

    def until(self, name: str) -> SseEvent:
        while True:
            event = next(self._events)
            if event.event == name:
                return event
            self.take(event)

    def take(self, event: SseEvent) -> None:
        self.last = event.id or self.last
        if event.event != "delta":
            return
        if event.data.get("restart"):
            self.text = ""
            self.restarts += 1
        self.text += event.data.get("text", "")


class TestPieces:
    def test_a_client_that_comes_back_in_the_middle_of_a_message_misses_nothing(
        self, server: Server, model: DrippingModel
    ) -> None:
        path = f"/executions/{run(server.client, agent='talker')}/stream"
        model.say("One ", "two ")
        with server.client.stream(path) as events:
            first = Reader(events)
            first.until_text("One two ")
        model.say("three ")
        with server.client.stream(path) as events:  # another client sees when it has come
            Reader(events).until_text("One two three ")
        with server.client.stream(path, str(first.last)) as events:
            back = Reader(events)
            back.until_text("One two three ")
            assert back.restarts == 1
            model.say("four.")
            back.until_text("One two three four.")
            model.end()
            assert back.until("ai").data["message"] == back.text
            assert back.restarts == 1
            back.until("complete")

    def test_one_that_joins_begins_with_a_restart_and_the_text_so_far(
        self, server: Server, model: DrippingModel
    ) -> None:
        path = f"/executions/{run(server.client, agent='talker')}/stream"
        with server.client.stream(path) as early, server.client.stream(path) as events:
            first, deltas = Reader(early), (event for event in events if event.event == "delta")
            model.say("Begun")
            first.until_text("Begun")
            with server.client.stream(path) as late:
                seen = [event.data for event in late_deltas(late)]
            assert [data.get("restart", data.get("text")) for data in seen] == [True, "Begun"]
            assert "restart" not in next(deltas).data  # it was there from the beginning of the message
            model.end()
            first.until("complete")

    def test_a_model_that_is_asked_again_takes_its_pieces_back(self, server: Server, model: DrippingModel) -> None:
        path = f"/executions/{run(server.client, agent='talker')}/stream"
        with server.client.stream(path) as events:
            reader = Reader(events)
            model.say("Lost")
            reader.until_text("Lost")
            model.break_off()
            model.say("Found")
            model.end()
            assert reader.until("ai").data["message"] == "Found"
            assert (reader.text, reader.restarts) == ("Found", 1)
            reader.until("complete")

    def test_a_message_that_is_whole_is_not_told_in_pieces_again(self, server: Server) -> None:
        execution = run(server.client, {"message": "one"})
        wait_for(server.client, execution, "waiting")
        last = server.client.get(f"/executions/{execution}/messages").body[-1]["id"]
        with server.client.stream(f"/executions/{execution}/stream", str(last)) as events:
            respond(server.client, execution, {"approved": True})
            turns = [event.data["turn"] for event in events if event.event == "delta"]
        assert set(turns) <= {1}


def late_deltas(events: Iterator[SseEvent]) -> Iterator[SseEvent]:
    """The first two deltas."""
    for _ in range(2):
        yield next(event for event in events if event.event == "delta")


class TestQuestions:
    def test_an_interrupt_has_all_that_the_request_has(self, server: Server) -> None:
        execution = run(server.client, {"message": "one"})
        wait_for(server.client, execution, "waiting")
        request = server.client.get(f"/executions/{execution}/pending").body
        with server.client.stream(f"/executions/{execution}/stream") as events:
            (asked,) = take(events, 1, "interrupt")
        assert {name: asked.data[name] for name in request} == request
        assert (asked.data["event"], asked.data["id"], asked.data["position"]) == ("interrupt", asked.id, "0.0")
        respond(server.client, execution, {"approved": False}, by="ann")
        wait_for(server.client, execution, "success")
        with server.client.stream(f"/executions/{execution}/stream") as events:
            (again,) = take(events, 1, "interrupt")
        assert (again.data["outcome"], again.data["answered_by"]) == ("denied", "http:ann")
        assert again.data | {name: asked.data[name] for name in ("outcome", "answer")} != asked.data

    def test_of_every_kind_options_and_all(self, server: Server) -> None:
        execution = run(server.client, {"message": "question"})
        with server.client.stream(f"/executions/{execution}/stream") as events:
            (name,) = take(events, 1, "interrupt")
            assert (name.data["kind"], name.data["options"], name.data["message"]) == ("input", None, "Name for Q?")
            respond(server.client, execution, {"text": "Ann"}, name.data["request_id"])
            (colour,) = take(events, 1, "interrupt")
            assert (colour.data["kind"], colour.data["options"], colour.data["multi"]) == (
                "choice",
                ["red", "blue"],
                False,
            )
            respond(server.client, execution, {"selected": ["red"]}, colour.data["request_id"])
            assert take(events, 1, "complete")[0].data["status"] == "success"


class TestSessions:
    def test_the_stream_follows_the_turns(self, server: Server) -> None:
        talk = Talk.begin(server)
        with server.client.stream(f"{talk.path}/stream") as events:
            talk.say("one")
            first = take(events, 5)
            assert [event.event for event in first] == ["system", "human", "ai", "tool_call", "interrupt"]
            assert first[-1].data["interrupt"] == talk.rest()["interrupts"][0]
            assert first[-1].data["tool_args"] == {"key": "A"}
            talk.resume(first[-1].data["request_id"], {"approved": True})
            assert take(events, 1, "complete")[0].data["status"] == "success"
            talk.say("hello")
            second = take(events, 5)
            assert [event.event for event in second] == ["system", "human", "ai", "final_answer", "complete"]
            assert second[0].data["execution_id"] != first[0].data["execution_id"]

    def test_cut_at_every_event_and_resumed(self, server: Server) -> None:
        talk = Talk.begin(server)
        for _ in range(2):
            talk.told("hello")
        turns = sorted(turn["id"] for turn in talk.executions())
        log = [entry["id"] for turn in turns for entry in server.client.get(f"/executions/{turn}/messages").body]
        last_turn = [entry["id"] for entry in server.client.get(f"/executions/{turns[-1]}/messages").body]
        with server.client.stream(f"{talk.path}/stream") as events:
            assert [event.id for event in take(events, len(last_turn))] == last_turn
        for cut, position in enumerate(log[:-1], 1):
            with server.client.stream(f"{talk.path}/stream", str(position)) as events:
                assert [event.id for event in take(events, len(log) - cut)] == log[cut:]
        other = Talk.begin(server)
        other.told("hello")
        foreign = server.client.get(f"/executions/{other.executions()[0]['id']}/messages").body[0]["id"]
        for unknown in (str(foreign), "abc", "999999"):
            with server.client.stream(f"{talk.path}/stream", unknown) as events:
                again = take(events, len(log) + 1)
            assert [event.id for event in again] == [None, *log]
            assert (again[0].event, again[0].data) == ("resync", {"session_id": talk.id})

    def test_it_is_there_below_sessions_too_and_ends_with_the_session(self, server: Server) -> None:
        talk = Talk.begin(server)
        with server.client.stream(f"/sessions/{talk.id}/stream") as events, ThreadPoolExecutor(1) as pool:
            talk.say("one")
            take(events, 1, "waiting")
            rest = pool.submit(list, events)
            assert talk.delete().status == 204
            assert all(event.data["execution_id"] == talk.executions()[0]["id"] for event in rest.result(timeout=20))
        assert server.client.get(f"{talk.path}/stream").status == 404

    def test_its_pieces_are_joined_in_the_middle(self, server: Server, model: DrippingModel) -> None:
        talk = Talk.begin(server, base="/agents/talker")
        with server.client.stream(f"{talk.path}/stream") as events:
            talk.say("Talk.")
            model.say("Once ")
            reader = Reader(events)
            reader.until_text("Once ")
            with server.client.stream(f"{talk.path}/stream", str(reader.last)) as other:
                back = Reader(other)
                back.until_text("Once ")
                assert back.restarts == 1
                model.say("upon")
                model.end()
                assert back.until("ai").data["message"] == back.text == "Once upon"
            assert reader.until("ai").data["message"] == reader.text == "Once upon"
            reader.until("complete")
