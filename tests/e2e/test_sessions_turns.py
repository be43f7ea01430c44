"""Conversations over HTTP, from their first message to their deletion, with a real server process."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import closing
from pathlib import Path

from tests.support.server import Server, run
from tests.support.sessions import Talk, talking_world
from tests.support.waiting import until
from tests.support.world import World

IDLE = {"status": "idle", "response": None, "error": None, "interrupts": None}


class TestTurns:
    def test_a_session_is_begun_empty(self, served: Server) -> None:
        made = served.client.post("/agents/worker/sessions")
        assert (made.status, made.body) == (201, {**IDLE, "session_id": made.body["session_id"]})
        assert made.headers["location"] == f"/agents/worker/sessions/{made.body['session_id']}"
        assert served.client.get(made.headers["location"]).body == made.body
        assert served.client.get(f"{made.headers['location']}/messages").body == []

    def test_a_turn(self, talk: Talk) -> None:
        accepted = talk.say("hello")
        assert (accepted.status, accepted.body) == (202, {"session_id": talk.id, "status": "running"})
        assert accepted.headers["location"] == talk.path
        assert talk.rest() == {
            "session_id": talk.id,
            "status": "idle",
            "response": {"role": "assistant", "content": "Hello."},
            "error": None,
            "interrupts": None,
        }
        assert talk.messages() == [
            {"role": "user", "content": "hello"},
            {"role": "assistant", "content": "Hello."},
        ]

    def test_calls_and_results_are_messages(self, talk: Talk) -> None:
        talk.told("fails later")
        _, asks, result = talk.messages()
        assert asks["content"] == "First."
        (call,) = asks["tool_calls"]
        assert call == {
            "id": call["id"],
            "type": "function",
            "function": {"name": "plain", "arguments": '{"key": "U"}'},
        }
        assert result == {"role": "tool", "content": "did U", "tool_call_id": call["id"], "name": "plain"}

    def test_a_new_turn_clears_what_the_last_one_came_to(self, talk: Talk) -> None:
        assert talk.told("hello")["response"] is not None
        talk.say("slow")
        shown = talk.get().body
        assert (shown["status"], shown["response"], shown["error"]) == ("running", None, None)
        talk.delete()

    def test_a_turn_that_failed_before_any_call_leaves_the_conversation(self, talk: Talk) -> None:
        talk.told("hello")
        failed = talk.told("fails at once")
        assert (failed["status"], failed["response"], failed["interrupts"]) == ("error", None, None)
        assert "no good" in failed["error"]
        assert talk.texts() == ["hello", "Hello."]
        assert talk.told("hello again")["status"] == "idle"
        assert talk.texts() == ["hello", "Hello.", "hello again", "Hello."]

    def test_a_turn_that_failed_after_a_call_keeps_what_it_did(self, talk: Talk) -> None:
        assert talk.told("fails later")["status"] == "error"
        assert talk.texts() == ["fails later", "First.", "did U"]
        assert talk.told("hello")["status"] == "idle"
        assert talk.texts() == ["fails later", "First.", "did U", "hello", "Hello."]

    def test_runs_in_a_session_are_turns_of_it(self, served: Server) -> None:
        run(served.client, {"message": "hello", "session_id": "of a run, é"})
        talk = Talk(served.client, "of%20a%20run%2C%20%C3%A9")
        talk.rest()
        assert talk.get().body["response"] == {"role": "assistant", "content": "Hello."}
        assert talk.told("hello again")["status"] == "idle"
        assert len(talk.messages()) == 4
        assert talk.delete().status == 204

    def test_nothing_is_changed_on_the_way(self, talk: Talk) -> None:
        hostile = "é\u0000\u001b[2J\u202e $1 ${HOME} $ARGUMENTS {{x}} [/b] \r\n \U0001f600 " + "日" * 1000
        params = {"a": None, "b": [1.5, {"deep": hostile}], "n": 10**30}
        assert talk.told(hostile, user_params=params, name="Ann\u0000")["status"] == "idle"
        human, _ = talk.messages()
        assert human == {"role": "user", "content": hostile, "user_params": params, "name": "Ann\u0000"}


class TestInterrupts:
    def test_two_guarded_calls_of_one_turn(self, talk: Talk, talking: World) -> None:
        before = talking.effects()
        asked = talk.told("two")
        assert (asked["status"], asked["response"], asked["error"]) == ("interrupted", None, None)
        first, second = asked["interrupts"]
        assert (first["type"], second["type"]) == ("tool_approval", "tool_approval")
        payload = {"type": "tool_approval", "tool_name": "danger"}
        assert first["payload"] == {**payload, "tool_args": {"key": "A"}}
        assert second["payload"] == {**payload, "tool_args": {"key": "B"}}
        assert talk.say("meanwhile").status == 409
        answered = talk.resume(first, {"approved": True})
        assert (answered.status, answered.body) == (200, {"session_id": talk.id, "status": "interrupted"})
        assert [i["interrupt_id"] for i in talk.get().body["interrupts"]] == [second["interrupt_id"]]
        assert talk.say("meanwhile").status == 409
        assert talk.resume(first, {"approved": True}).body["status"] == "interrupted"
        different = talk.resume(first, {"approved": False})
        assert (different.status, different.body["outcome"], different.body["answered_by"]) == (409, "approved", "api")
        assert talk.resume("nonsense", {"approved": True}).status == 404
        assert talk.resume(second, {"approved": False, "reason": "no"}).body == {
            "session_id": talk.id,
            "status": "running",
        }
        done = talk.rest()
        assert done["response"]["content"] == "Both were decided."
        assert talk.resume(second, {"approved": False, "reason": "no"}).body["status"] == "idle"
        assert talk.resume(second, {"approved": True}).status == 409
        assert talk.texts()[2:4] == ["did A", "Action denied by user: no"]
        assert talking.effects() - before == {"A": 1}

    def test_what_is_no_decision_runs_nothing(self, talk: Talk, talking: World) -> None:
        before = talking.effects()
        (asked,) = talk.told("one")["interrupts"]
        wrong = [{"approved": "false"}, {"approved": None}, {"approved": 1}, {}, None, True, "yes", []]
        for value in (*wrong, {"approved": True, "x": 1}, {"answers": {"Approve?": "Yes"}}):
            assert talk.resume(asked, value).status == 422, value
        assert [i["interrupt_id"] for i in talk.get().body["interrupts"]] == [asked["interrupt_id"]]
        assert talking.effects() == before

    def test_a_value_is_required(self, talk: Talk) -> None:
        (asked,) = talk.told("one")["interrupts"]
        for body in ({"interrupt_id": asked["interrupt_id"]}, {"value": {"approved": True}}, {}, None):
            assert talk.client.post(f"{talk.path}/resume", body).status == 422
        assert talk.get().body["status"] == "interrupted"

    def test_arguments_can_be_edited(self, talk: Talk, talking: World) -> None:
        (asked,) = talk.told("one")["interrupts"]
        assert talk.resume(asked, {"approved": True, "args": {"wrong": 1}}).status == 422
        assert talk.resume(asked, {"approved": True, "args": {"key": "edited"}}).status == 200
        assert talk.rest()["status"] == "idle"
        assert "did edited" in talk.texts()[2]
        assert talking.effects()["edited"] == 1

    def test_questions_of_a_tool(self, talk: Talk) -> None:
        (asked,) = talk.told("question")["interrupts"]
        assert asked["type"] == "user_input"
        (question,) = asked["payload"]["questions"]
        assert (question["question"], question["options"]) == ("Name for Q?", [])
        assert talk.resume(asked, {"answers": {"Name for Q?": "Ann"}}).body["status"] == "running"
        (asked,) = talk.rest()["interrupts"]
        assert [option["label"] for option in asked["payload"]["questions"][0]["options"]] == ["red", "blue"]
        assert talk.resume(asked, {"answers": {"Colour?": "green"}}).status == 422
        assert talk.resume(asked, {"answers": {"Colour?": "blue"}}).status == 200
        assert talk.rest()["response"]["content"] == "Thanks."
        assert "Ann blue" in talk.texts()

    def test_a_custom_interrupt_takes_null_where_its_schema_does(self, talk: Talk) -> None:
        (asked,) = talk.told("place")["interrupts"]
        assert (asked["type"], asked["payload"]) == ("map", {"type": "map", "centre": [52.5, 13.4]})
        assert talk.resume(asked, {"at": "x"}).status == 422
        assert talk.resume(asked, None).status == 200
        assert talk.rest()["response"]["content"] == "There."

    def test_nothing_to_resume(self, served: Server, talk: Talk) -> None:
        talk.told("hello")
        refused = talk.resume("nonsense", {"approved": True})
        assert refused.status == 409
        assert "not interrupted" in refused.body["detail"]
        other = Talk.begin(served)
        (asked,) = other.told("one")["interrupts"]
        assert talk.resume(asked, {"approved": True}).status == 409
        talk.told("one")
        assert talk.resume(asked, {"approved": True}).status == 404
        assert other.get().body["status"] == "interrupted"
        assert Talk(served.client, "none").resume(asked, {"approved": True}).status == 404

    def test_fifty_answers_at_once(self, talk: Talk, talking: World) -> None:
        before = talking.effects()
        (asked,) = talk.told("one")["interrupts"]
        with ThreadPoolExecutor(25) as pool:
            answers = list(pool.map(lambda n: talk.resume(asked, {"approved": n % 2 == 0}), range(50)))
        talk.rest()
        won = (talking.effects() - before)["A"] == 1
        assert [answer.status for answer in answers] == [200 if (n % 2 == 0) == won else 409 for n in range(50)]

    def test_of_ten_messages_at_once_one_is_taken(self, talk: Talk) -> None:
        with ThreadPoolExecutor(10) as pool:
            answers = list(pool.map(lambda n: talk.say(f"slow {n}"), range(10)))
        assert sorted(answer.status for answer in answers) == [202, *[409] * 9]
        assert len(talk.executions()) == 1
        assert talk.delete().status == 204


class TestDeletion:
    def test_while_it_waits(self, talk: Talk) -> None:
        talk.told("two")
        (turn,) = talk.executions()
        assert talk.delete().status == 204
        until(lambda: talk.client.get(f"/executions/{turn['id']}").body["status"] == "aborted")
        requests = talk.client.get(f"/executions/{turn['id']}/requests").body
        assert [request["outcome"] for request in requests] == ["cancelled", "cancelled"]
        for answer in (
            talk.get(),
            talk.get("?wait=true"),
            talk.delete(),
            talk.say("hello"),
            talk.client.get(f"{talk.path}/messages"),
            talk.resume(requests[0]["request_id"], {"approved": True}),
        ):
            assert answer.status == 404
            assert "session not found" in answer.body["detail"]

    def test_while_a_stubborn_call_runs(self, talk: Talk, talking: World) -> None:
        talk.say("stubborn")
        until(lambda: talking.effects()["begun"])
        (turn,) = talk.executions()
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(talk.get, "?wait=true")
            assert talk.delete().status == 204
            assert waiting.result(timeout=5).status == 404
        until(lambda: talk.client.get(f"/executions/{turn['id']}").body["status"] == "aborted")
        log = talk.client.get(f"/executions/{turn['id']}/messages").body
        assert [entry["event_type"] for entry in log].count("tool_result") == 1
        (talking.workspace / "let-go").touch()
        assert talk.get().status == 404
        assert talk.say("hello").status == 404
        assert talk.id not in [s["session_id"] for s in talk.client.get("/sessions").body]

    def test_messages_and_deletions_at_once(self, served: Server) -> None:
        talks = [Talk.begin(served) for _ in range(10)]

        def race(step: int) -> int:
            talk = talks[step // 2]
            return (talk.say("hello") if step % 2 else talk.delete()).status

        with ThreadPoolExecutor(8) as pool:
            statuses = list(pool.map(race, range(20)))
        assert set(statuses[::2]) == {204}
        assert set(statuses[1::2]) <= {202, 404}
        assert [talk.get().status for talk in talks] == [404] * 10
        until(lambda: not served.client.get("/health").body["working"])
        assert [talk.get().status for talk in talks] == [404] * 10

    def test_by_another_process_while_messages_come(self, served: Server, talking: World) -> None:
        talks = [Talk.begin(served) for _ in range(40)]
        store = talking.store()
        with closing(store), ThreadPoolExecutor(1) as pool:
            for talk in talks:
                containing = pool.submit(talk.say, "hello")
                store.sessions.delete("worker", talk.id, by="ttl")
                assert containing.result().status in (202, 404)
        assert [talk.get().status for talk in talks] == [404] * 40

    def test_while_it_waits_and_every_place_is_taken(self, tmp_path: Path) -> None:
        with Server(talking_world(tmp_path / "ws", "server: {max_concurrent: 1}\n").workspace) as server:
            waiting, working = Talk.begin(server), Talk.begin(server)
            waiting.told("one")
            (turn,) = waiting.executions()
            working.say("slow")
            working.until_driven()
            assert waiting.delete().status == 204
            assert server.client.get(f"/executions/{turn['id']}").body["status"] == "aborted"
            assert server.client.get("/pending").body == []
            assert working.get().body["status"] == "running"


def test_an_answer_that_takes_long_to_check_holds_up_nobody(tmp_path: Path) -> None:
    world = talking_world(tmp_path / "ws")
    tools = world.workspace / "agents/_config/tools/effects.py"
    slow = 'response_schema={"type": "string", "pattern": "^(a+)+$"}'
    tools.write_text(tools.read_text().replace("response_schema=schema", slow))
    with Server(world.workspace) as server, ThreadPoolExecutor(1) as pool:
        talk = Talk.begin(server)
        (asked,) = talk.told("place")["interrupts"]
        answering = pool.submit(talk.resume, asked, "a" * 40 + "!")
        others = 0
        while not answering.done():
            assert talk.client.get("/health").status == 200
            others += 1
            wait([answering], timeout=0.05)
        assert others > 10  # if it held them up: the first, and perhaps one at the very end
        assert answering.result().status == 422
        assert talk.get().body["status"] == "interrupted"
        assert talk.resume(asked, "aa").status == 200
        assert talk.rest()["response"]["content"] == "There."


def test_an_answer_that_is_retracted_interrupts_the_session_anew(talk: Talk, talking: World) -> None:
    """The answered call has not started: another one of its message runs."""
    talk.say("beside")
    until(lambda: talk.get().body["status"] == "interrupted")
    (before,) = talk.get().body["interrupts"]
    assert talk.resume(before, {"approved": True}).body["status"] == "running"
    (turn,) = talk.executions()
    route = f"/executions/{turn['id']}/requests/{before['interrupt_id']}/answer"
    again = talk.client.request("DELETE", route).body["replaced_by"]
    shown = talk.get().body
    assert (shown["status"], [each["interrupt_id"] for each in shown["interrupts"]]) == ("interrupted", [again])
    assert shown["interrupts"][0]["payload"] == before["payload"]
    late = talk.resume(before, {"approved": True})
    assert (late.status, late.body["outcome"], late.body["replaced_by"]) == (409, "retracted", again)
    talk.open_gate(talking.workspace)
    assert talk.rest()["status"] == "interrupted"
    assert talk.resume(again, {"approved": False}).status == 200
    assert talk.rest()["response"]["content"] == "It was decided."
    assert talk.texts()[-2] == "Action denied by user"
