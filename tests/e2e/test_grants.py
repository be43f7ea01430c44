"""Grants on the command line and over HTTP: given, seen at each call, listed, explained and revoked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_md.cli.command_context import login
from agent_md.executions.states import Status
from tests.support.agent_folder import AgentFolder, call
from tests.support.server import Server, respond, run, wait_for
from tests.support.sessions import Talk

FOR_THE_AGENT = {"approved": True, "remember": {"scope": "agent", "until": "2h"}}


def deleting(folder: AgentFolder, *messages: str, settings: str = "") -> None:
    """An agent that deletes, a message a word, the files that it names with commas between."""
    turns: list[dict[str, Any]] = []
    for names in messages:
        paths = [f"old/{name}.log" for name in names.split(",")]
        for path in paths:
            folder.file(path)
        turns.append({"calls": [call("file_delete", path=path) for path in paths]})
    folder.agent("cleaner", [*turns, {"text": "Done."}], settings)


def waiting(folder: AgentFolder, *messages: str) -> None:
    deleting(folder, *messages)
    assert folder.cli("run", "cleaner").code == 3


def listed(folder: AgentFolder, *args: str) -> Any:
    ended = folder.cli("grants", *args, "--json")
    assert ended.code == 0, ended
    return json.loads(ended.out)


class TestRespond:
    def test_what_is_left_out_is_filled_in_and_each_call_names_the_grant(self, folder: AgentFolder) -> None:
        waiting(folder, "1", "2", "3")
        ended = folder.cli("respond", "1", "--always", "--reason", "all of them")
        assert ended.code == 0, ended
        assert (
            f"approved by {login()} and file_delete(old/*) for this execution, 8h (grant 1): all of them" in ended.out
        )
        assert ended.out.count(f" (allowed by grant 1 of {login()})\n") == 2
        assert not list((folder.path / "old").iterdir())
        [grant] = listed(folder, "--all")
        assert (grant["rule"], grant["scope"], grant["state"]) == ("file_delete(old/*)", "execution", "over")
        timeline = folder.cli("logs", "-e", "1").out
        assert timeline.count(f"(allowed by grant 1 of {login()})") == 2
        assert "for this execution, 8h (grant 1)" in timeline

    def test_rule_scope_and_end_as_they_are_said(self, folder: AgentFolder) -> None:
        waiting(folder, "1", "2")
        flags = ("--rule", "file_delete(old/1*)", "--scope", "agent", "--until", "never")
        ended = folder.cli("respond", "1", "--yes", "--always", *flags)
        assert ended.code == 3, ended
        [grant] = listed(folder)
        assert (grant["rule"], grant["scope"], grant["until"]) == ("file_delete(old/1*)", "agent", None)
        assert (grant["given_by"], grant["state"], grant["execution_id"]) == (login(), "active", 1)
        assert [request.tool_args for request in folder.requests() if request.open] == [{"path": "old/2.log"}]

    def test_all_open_requests_at_once_give_one(self, folder: AgentFolder) -> None:
        waiting(folder, "1,2,3")
        assert folder.cli("respond", "1", "--all", "--always").code == 0
        assert len(listed(folder, "--all")) == 1

    def test_the_same_command_again_gives_no_other(self, folder: AgentFolder) -> None:
        waiting(folder, "1")
        command = ("respond", "1", "--request", "1-0.0", "--always", "--scope", "agent")
        assert [folder.cli(*command).code for _ in range(2)] == [0, 0]
        assert len(listed(folder)) == 1
        for other in (("--yes",), ("--always",), ("--always", "--scope", "agent", "--until", "9h")):
            assert folder.cli("respond", "1", "--request", "1-0.0", *other).code == 6

    @pytest.mark.parametrize(
        ("flags", "said"),
        [
            (("--rule", "file_delete(old/*)"), "--rule goes with --always"),
            (("--yes", "--until", "2h", "--scope", "agent"), "--scope, --until goes with --always"),
            (("--always", "--no"), "give one answer"),
            (("--always", "--edit", '{"path": "old/2.log"}'), "give one answer"),
            (("--always", "--text", "x"), "give one answer"),
            (("--always", "--scope", "world"), "'world' is not one of"),
            (("--always", "--scope", "session"), "cannot have the scope session here"),
            (("--always", "--rule", "file_delete"), "allows more than"),
            (("--always", "--rule", "file_delete(old/2.log)"), "does not fit the call"),
            (("--always", "--until", "soon"), "the end of a grant: expected a time"),
            (("--always", "--retract"), "goes with --request alone"),
        ],
    )
    def test_what_cannot_be_answered(self, folder: AgentFolder, flags: tuple[str, ...], said: str) -> None:
        waiting(folder, "1")
        ended = folder.cli("respond", "1", *flags)
        assert (ended.code, ended.out) == (2, "")
        assert said in ended.err
        assert folder.execution().status is Status.WAITING
        assert listed(folder, "--all") == []

    def test_what_a_tool_asks_is_not_allowed_from_now_on(self, folder: AgentFolder) -> None:
        folder.agent("asker", [{"calls": [call("ask_user", question="Sure?", kind="confirm")]}, {"text": "Done."}])
        assert folder.cli("run", "asker").code == 3
        ended = folder.cli("respond", "1", "--always")
        assert (ended.code, "unknown keys: remember" in ended.err) == (2, True), ended


class TestListing:
    def test_none(self, folder: AgentFolder) -> None:
        deleting(folder, "1")
        assert folder.cli("grants").out == "No grants.\n"
        assert listed(folder) == listed(folder, "cleaner", "--all") == []
        assert not (folder.path / ".agentmd").exists()

    def test_one_by_agent_in_a_table_and_what_suspends_it(self, folder: AgentFolder) -> None:
        waiting(folder, "1")
        assert folder.cli("respond", "1", "--always", "--scope", "agent", "--until", "never").code == 0
        assert folder.cli("grants").out.splitlines()[2] == (
            f" 1  cleaner  file_delete(old/*)  all executions  never  {login()}"
        )
        deleting(folder, "1", settings="description: other")
        assert "suspended, since this has changed: agent file" in folder.cli("grants", "CLEANER").out
        [grant] = listed(folder)
        assert (grant["state"], grant["drift"]) == ("suspended", [{"what": "agent_file"}])
        assert "cleaner" in folder.cli("grants", "claener").err

    def test_revoked(self, folder: AgentFolder) -> None:
        waiting(folder, "1")
        assert folder.cli("respond", "1", "--always", "--scope", "agent").code == 0
        ended = folder.cli("grants", "revoke", "1")
        assert (ended.code, ended.err) == (0, "")
        assert ended.out == (
            "Grant 1, file_delete(old/*) of cleaner, is revoked: calls that have not begun ask again.\n"
        )
        again = folder.cli("grants", "revoke", "1")
        assert (again.code, f"had ended before: revoked by {login()} at " in again.out) == (0, True)
        assert folder.cli("grants").out == "No grants.\n"
        assert f"revoked by {login()}" in folder.cli("grants", "--all").out
        assert listed(folder, "revoke", "1")["state"] == "revoked"
        folder.file("old/1.log")
        assert folder.cli("run", "cleaner", "--fresh").code == 3

    @pytest.mark.parametrize(
        ("args", "said"),
        [
            (("revoke",), "say which grant"),
            (("revoke", "x"), "'x' is not the number of a grant"),
            (("revoke", "7"), "there is no grant 7"),
            (("cleaner", "revoke"), "is nothing that can be done to a grant"),
            (("nobody",), "nobody"),
        ],
    )
    def test_wrong_usage(self, folder: AgentFolder, args: tuple[str, ...], said: str) -> None:
        deleting(folder, "1")
        ended = folder.cli("grants", *args)
        assert (ended.code, ended.out) == (2, "")
        assert said in ended.err

    def test_explain_shows_it_among_the_rules(self, folder: AgentFolder) -> None:
        waiting(folder, "1")
        assert folder.cli("respond", "1", "--always", "--scope", "agent", "--until", "never").code == 0
        text = folder.cli("explain", "cleaner").out
        assert (
            "Runs for now, although a rule would ask\n"
            f"  file_delete(old/*)  grant 1 of {login()}, for all executions, without end\n\n"
            "Asks you first\n"
        ) in text
        assert [grant["id"] for grant in json.loads(folder.cli("explain", "cleaner", "--json").out)["grants"]] == [1]
        folder.agent("other", [{"text": "Done."}])
        assert "Runs for now" not in folder.cli("explain", "other").out


def test_at_the_question_of_a_run_and_in_the_turns_that_follow(folder: AgentFolder) -> None:
    deleting(folder, "1", "2")
    with folder.terminal("run", "cleaner", "--session", "s", columns=120) as terminal:
        terminal.expect('? Confirm file_delete {"path": "old/1.log"} [y/N]: ')
        terminal.send_line("a")
        assert "scope  this session  (or execution, agent)" in terminal.expect("? Allow this without asking [y/N]: ")
        terminal.send_line("y")
        terminal.expect(f'{{"path": "old/2.log"}} (allowed by grant 1 of {login()})')
        assert terminal.exit_code() == 0
    deleting(folder, "3")
    assert folder.cli("run", "cleaner", "--session", "s").code == 0
    folder.file("old/3.log")
    assert folder.cli("run", "cleaner", "--session", "t").code == 3


class TestOverHttp:
    def test_given_listed_used_and_revoked(self, server: Server) -> None:
        client = server.client
        first = run(client)
        wait_for(client, first, "waiting")
        assert client.get(f"/executions/{first}/pending").body["proposed_rule"] == "danger(key=A)"
        assert respond(client, first, FOR_THE_AGENT).status == 200
        wait_for(client, first, "success")
        [request] = client.get(f"/executions/{first}/requests").body
        filled = {"rule": "danger(key=A)", "scope": "agent", "until": "2h"}
        assert (request["answer"], request["grant_id"]) == ({"approved": True, "remember": filled}, 1)
        for same, status in (
            (FOR_THE_AGENT, 200),
            ({"approved": True}, 409),
            ({"approved": True, "remember": {}}, 409),
        ):
            assert client.post(f"/executions/{first}/respond", {"response": same}).status == status
        [grant] = client.get("/grants").body
        assert grant["given_at"] < grant["until"]
        del grant["given_at"], grant["until"]
        assert grant == {
            "id": 1,
            "agent_id": "worker",
            "rule": "danger(key=A)",
            "scope": "agent",
            "execution_id": first,
            "session_id": None,
            "given_by": "api",
            "state": "active",
            "drift": [],
            "ended_by": None,
            "ended_at": None,
        }
        second = run(client)
        wait_for(client, second, "success")
        told = [json.loads(entry["metadata"]) for entry in client.get(f"/executions/{second}/messages").body]
        assert [data["grant"] for data in told if "grant" in data] == [
            {"id": 1, "rule": "danger(key=A)", "given_by": "api"}
        ]
        assert [each["id"] for each in client.get("/grants?agent=WORKER").body] == [1]
        assert client.get("/grants?agent=nobody").body == []
        assert client.request("DELETE", "/grants/1?by=policy").status == 422
        revoked = client.request("DELETE", "/grants/1?by=bob")
        assert (revoked.status, revoked.body["state"], revoked.body["ended_by"]) == (200, "revoked", "http:bob")
        assert client.request("DELETE", "/grants/1").body == revoked.body
        assert client.get("/grants").body == []
        assert client.get("/grants?ended=true").body == [revoked.body]
        third = run(client)
        wait_for(client, third, "waiting")

    def test_what_cannot_be_remembered(self, server: Server) -> None:
        execution = run(server.client)
        wait_for(server.client, execution, "waiting")
        for remember in (
            *("yes", [], True, {"rule": 5}, {"rules": "x"}, {"until": 8}, {"until": "8"}, {"until": "0s"}),
            *({"scope": "world"}, {"scope": "session"}, {"rule": "danger"}, {"rule": "danger(key=*)"}),
        ):
            body = {"response": {"approved": True, "remember": remember}}
            assert server.client.post(f"/executions/{execution}/respond", body).status == 422, remember
        assert server.client.get(f"/executions/{execution}").body["status"] == "waiting"
        assert server.client.get("/grants?ended=true").body == []

    def test_numbers_that_are_none(self, server: Server) -> None:
        for number, status in (("7", 404), ("x", 422), ("1.0", 422), ("9" * 30, 404), ("-1", 404)):
            assert server.client.request("DELETE", f"/grants/{number}").status == status
        assert server.client.get("/grants?limit=0").status == 422

    def test_through_sessions_only_for_the_session(self, talk: Talk, served: Server) -> None:
        (asked,) = talk.told("one thing")["interrupts"]
        assert asked["proposed_rule"] == "danger(key=A)"
        for scope in ("agent", "execution"):
            refused = talk.resume(asked, {"approved": True, "remember": {"scope": scope}})
            assert (refused.status, "cannot have the scope" in refused.body["detail"]) == (422, True)
        assert talk.resume(asked, {"approved": True, "remember": {}}).status == 200
        assert talk.rest()["status"] == "idle"
        assert talk.resume(asked, {"approved": True, "remember": {"scope": "session"}}).status == 200
        assert talk.resume(asked, {"approved": True}).status == 409
        assert talk.told("one more")["status"] == "idle"
        assert talk.texts()[-2:] == ["did A", "It was decided."]
        other = Talk.begin(served)
        assert other.told("one thing")["status"] == "interrupted"
        other.delete()
        [grant] = [each for each in served.client.get("/grants").body if each["session_id"] == talk.id]
        assert grant["scope"] == "session"
        talk.delete()
        [over] = [each for each in served.client.get("/grants?ended=true").body if each["id"] == grant["id"]]
        assert over["state"] == "over"
