from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_md.cli.commands.explain import explained
from agent_md.executions.states import CallOutcome, Decision, Drift, RequestKind, Status
from tests.support.driving import Workspace, call, turn
from tests.support.mcp_server import lives, server_entry
from tests.support.waiting import until


class McpWorkspace(Workspace):
    """A workspace whose agent has the server `t` of the tests'."""

    def servers(self, *flags: str, **entry: Any) -> None:
        """Writes the MCP file."""
        self.entries(t=server_entry(*flags, **entry))

    def entries(self, **entries: Any) -> None:
        (self.folder / "agents/_config/mcp-servers.json").write_text(json.dumps({"mcpServers": entries}))

    def starts(self) -> int:
        file = self.folder / "mcp-starts"
        return len(file.read_text().split()) if file.exists() else 0

    @property
    def pid(self) -> int:
        return int((self.folder / "mcp-pid").read_text())


@pytest.fixture
def work(tmp_path: Path) -> Iterator[McpWorkspace]:
    work = McpWorkspace(tmp_path / "ws", {"PATH": os.environ["PATH"], "HOME": "/nowhere", "OTHER": "not for servers"})
    work.servers()
    work.agent("mcp: [t]")
    yield work
    work.close()


class TestCalls:
    def test_a_tool_of_a_server_is_offered_under_its_name_and_called(self, work: McpWorkspace) -> None:
        work.script(turn(call("t__add", a=1, b=2)), "Done.")
        work.start()
        work.check_succeeded()
        assert work.result() == "3"

    def test_the_server_is_started_once_and_has_ended_with_the_process(self, work: McpWorkspace) -> None:
        work.script(turn(call("t__add", a=1, b=2), call("t__effect", key="A")), "Done.")
        work.start()
        work.start()
        assert work.starts() == 1
        assert lives(work.pid)
        work.restart()
        assert not lives(work.pid)

    def test_results_are_told_as_what_they_are(self, work: McpWorkspace) -> None:
        work.script(turn(call("t__rich"), call("t__fail")), "Done.")
        work.start()
        work.check_succeeded()
        assert work.result() == (
            "before\n[image image/png, 6 bytes]\n[audio audio/wav, 3 bytes]\n[resource file:///a.txt, text/plain]\ninside\n"
            "[resource file:///b.bin, application/octet-stream, 3 bytes]\n"
            "[link to the resource file:///c.txt: c, text/plain]\n"
            '[structured content]\n{"rows": 2}'
        )
        assert work.result(1) == "Error: no such thing"
        assert [found.outcome for found in work.calls()] == [CallOutcome.DONE, CallOutcome.FAILED]

    def test_arguments_that_do_not_fit_are_told_without_a_call(self, work: McpWorkspace) -> None:
        work.script(turn(call("t__add", a="one")), "Done.")
        work.start()
        assert "b: is missing" in work.result()
        assert "'one' is not of type 'integer'" in work.result()

    def test_the_environment_is_what_the_entry_names(self, work: McpWorkspace) -> None:
        work.app.close()
        work.environ |= {"LANG": "C.UTF-8", "MY_TOKEN": "canary-12345678"}
        work.app = work._opened()
        work.servers(env={"TOKEN": "${MY_TOKEN}", "PLAIN": "yes", "HOW": "${NOT_SET:-default}"})
        work.script(turn(call("t__env")), "Done.")
        work.start()
        found = json.loads(work.result())
        assert found.pop("PATH") == os.environ["PATH"]
        found.pop("LC_CTYPE", None)
        assert found == {
            "HOME": "/nowhere",
            "LANG": "C.UTF-8",
            "TOKEN": "[secret TOKEN]",
            "PLAIN": "yes",
            "HOW": "default",
        }

    def test_a_request_to_sample_is_refused(self, work: McpWorkspace) -> None:
        work.script(turn(call("t__sample")), "Done.")
        work.start()
        assert "Sampling not supported" in work.result()

    def test_twenty_executions_at_once_use_one_process_and_get_their_own_answers(self, work: McpWorkspace) -> None:
        work.agent("mcp: [t]\non_pending: parallel")
        count = 20
        script = [
            {
                "match": {"user": f"^{n}$"},
                "turns": [turn(call("t__slow", seconds=0.01 * n, key=str(n))), {"text": "Done."}],
            }
            for n in range(count)
        ]
        (work.folder / "agents/_config/scripts/worker.yaml").write_text(json.dumps({"conversations": script}))
        claims = [work.create(message=str(n), session_id=f"s{n}") for n in range(count)]

        async def all_of_them() -> None:
            await asyncio.gather(*(work.advance(claim) for claim in claims))

        asyncio.run(all_of_them())
        calls = [work.app.store.calls(claim.execution_id) for claim in claims]
        assert [found[0].result for found in calls] == [f"slept for {n}" for n in range(count)]
        assert work.starts() == 1


class TestRules:
    @pytest.mark.parametrize("rule", ["t.effect", "t.*", "t__effect", "t.effect(key=A*)"])
    def test_a_call_that_a_rule_names_asks_whatever_the_server_says_of_itself(
        self, work: McpWorkspace, rule: str
    ) -> None:
        work.agent(f"mcp: [t]\nconfirm: ['{rule}']")
        work.script(turn(call("t__effect", key="A1")), "Done.")
        assert work.start().status is Status.WAITING
        assert not work.effects()
        request = work.the_request()
        assert (request.tool_name, request.tool_args) == ("t__effect", {"key": "A1"})
        work.answer()
        work.check_succeeded()
        assert work.effects() == {"A1": 1}

    def test_a_pattern_that_does_not_match_does_not_ask_and_a_denial_refuses(self, work: McpWorkspace) -> None:
        work.agent("mcp: [t]\nconfirm: ['t.effect(key=B*)']\ndeny: [t.add]")
        work.script(turn(call("t__effect", key="A"), call("t__add", a=1, b=1)), "Done.")
        work.start()
        work.check_succeeded()
        assert work.effects() == {"A": 1}
        assert "not allowed" in work.result(1)

    def test_a_rule_that_names_no_tool_of_the_server_is_refused_before_the_run(self, work: McpWorkspace) -> None:
        work.agent("mcp: [t]\nconfirm: [t.efect]")
        with pytest.raises(Exception, match=r"'t\.efect' names no tool of worker; did you mean 't__effect'"):
            work.start()

    def test_an_approval_waits_for_days_without_the_server(self, work: McpWorkspace) -> None:
        work.agent("mcp: [t]\nconfirm: [t.*]")
        work.script(turn(call("t__effect", key="A")), "Done.")
        work.start()
        work.restart()
        assert work.app.drift_of(work.requests())[work.the_request().id] == ()
        assert work.starts() == 1
        work.answer()
        assert work.effects() == {"A": 1}
        assert work.starts() == 2


def tool_list(description: str) -> str:
    schema = {"type": "object", "properties": {"key": {"type": "string"}}, "required": ["key"]}
    change = {"name": "change", "inputSchema": {"type": "object"}}
    return json.dumps([{"name": "effect", "description": description, "inputSchema": schema}, change])


def test_explain_and_validate_know_the_tools_and_which_of_them_ask(work: McpWorkspace) -> None:
    work.agent("mcp: [t]\nconfirm: [t.effect]\ndeny: [t.crash]")
    spec = work.app.registry.get("worker").spec
    found = explained(work.app, spec)
    decisions = {possible.tool: possible.verdict.decision for possible in found.calls}
    assert decisions["t__effect"] is Decision.ASK
    assert decisions["t__crash"] is Decision.REFUSE
    assert decisions["t__add"] is Decision.RUN
    assert not found.problems
    assert work.app.preflight.check(spec) == []
    work.servers("hang", connect_timeout=0.2)
    assert work.app.preflight.check(spec) == ["the MCP server t cannot be used: it did not answer within 0.2 s"]
    assert work.starts() <= 2


class TestChangedLists:
    def test_an_approval_is_bound_to_the_declaration_that_was_shown(self, work: McpWorkspace) -> None:
        work.write("mcp-tools.json", tool_list("Reads."))
        work.agent("mcp: [t]\nconfirm: [t.effect]")
        work.script(turn(call("t__effect", key="A")), "Done.")
        work.start()
        work.restart(meanwhile=lambda: work.write("mcp-tools.json", tool_list("Deletes everything.")) and None)
        assert work.answer().status is Status.WAITING
        assert not work.effects()
        assert "its declaration was changed since this was approved" in work.the_request().message
        assert work.app.drift_of(work.requests())[work.the_request().id] == ()
        assert work.answer().status is Status.SUCCESS
        assert work.effects() == {"A": 1}

    def test_a_changed_entry_asks_anew_and_is_shown(self, work: McpWorkspace) -> None:
        work.agent("mcp: [t]\nconfirm: [t.effect]")
        work.script(turn(call("t__effect", key="A")), "Done.")
        work.start()
        work.servers("greets")
        assert work.app.drift_of(work.requests())[work.the_request().id] == (Drift.TOOL,)
        assert work.answer().status is Status.WAITING
        work.answer()
        assert work.effects() == {"A": 1}

    def test_a_file_that_is_broken_while_a_call_waits_is_shown_and_told(self, work: McpWorkspace) -> None:
        work.agent("mcp: [t]\nconfirm: [t.effect]")
        work.script(turn(call("t__effect", key="A")), "Done.")
        work.start()
        work.write("agents/_config/mcp-servers.json", '{"mcpServers": ')
        assert work.app.drift_of(work.requests())[work.the_request().id] == (Drift.TOOL,)
        work.answer()
        work.check_succeeded()
        assert "t__effect cannot run" in work.result()
        assert "is no JSON" in work.result()
        assert not work.effects()

    def test_a_list_that_changes_changes_nothing_for_an_execution_under_way(self, work: McpWorkspace) -> None:
        work.write("mcp-tools.json", tool_list("Old."))
        work.agent("mcp: [t]\nconfirm: [t.effect]")
        work.script(turn(call("t__change")), turn(call("t__effect", key="A")), "Done.")

        work.start()
        work.write("mcp-tools.json", json.dumps([]))
        kept = work.app.store.mcp_lists.kept(work.execution.id)
        assert [each["description"] for each in kept["t"]] == ["Old.", ""]
        work.answer()
        work.check_succeeded()
        assert work.effects() == {"A": 1}


class TestElicitation:
    def test_a_question_is_stored_and_its_answer_reaches_the_second_call(self, work: McpWorkspace) -> None:
        work.servers(idempotent=["ask"])
        work.script(turn(call("t__ask", key="Ann")), "Done.")
        assert work.start().status is Status.WAITING
        assert work.effects() == {"Ann:cancel": 1}
        request = work.the_request()
        assert request.kind is RequestKind.INPUT
        assert request.message.startswith("Where is Ann?")
        work.restart()
        work.answer(response={"text": "Paris"})
        work.check_succeeded()
        assert json.loads(work.result()) == {"action": "accept", "content": {"city": "Paris"}}
        assert work.effects() == {"Ann:cancel": 1, "Ann:accept": 1}

    def test_a_denial_declines(self, work: McpWorkspace) -> None:
        work.write("mcp-question.json", json.dumps({"type": "object", "properties": {}}))
        work.servers(idempotent=True)
        work.script(turn(call("t__ask", key="Ann")), "Done.")
        work.start()
        assert work.the_request().kind is RequestKind.CONFIRM
        work.answer(response={"approved": False})
        assert json.loads(work.result()) == {"action": "decline"}

    def test_a_form_with_several_fields_is_a_custom_request(self, work: McpWorkspace) -> None:
        fields = {"name": {"type": "string", "minLength": 2}, "age": {"type": "integer"}}
        work.write("mcp-question.json", json.dumps({"type": "object", "properties": fields, "required": ["name"]}))
        work.servers(idempotent=True)
        work.script(turn(call("t__ask", key="Ann")), "Done.")
        work.start()
        assert work.the_request().kind is RequestKind.CUSTOM
        work.answer(response={"name": "Ann", "age": 7})
        assert json.loads(work.result()) == {"action": "accept", "content": {"name": "Ann", "age": 7}}

    def test_a_tool_that_may_not_be_called_twice_ends_as_unknown(self, work: McpWorkspace) -> None:
        work.script(turn(call("t__ask", key="Ann")), "Done.")
        assert work.start().status is Status.SUCCESS
        (found,) = work.calls()
        assert found.outcome is CallOutcome.UNKNOWN
        assert "asked 'Where is Ann?'" in work.result()
        assert "not declared `idempotent`" in work.result()
        assert work.effects() == {"Ann:cancel": 1}

    def test_questions_of_calls_at_once_reach_their_own_calls(self, work: McpWorkspace) -> None:
        work.servers(idempotent=True)
        work.script(turn(call("t__ask", key="Ann"), call("t__ask", key="Bob")), "Done.")
        work.start()
        while work.open_requests():
            name = "Ann" if "Ann" in work.open_requests()[0].message else "Bob"
            work.answer(work.open_requests()[0], {"text": f"{name}'s city"})
        work.check_succeeded()
        assert json.loads(work.result(0))["content"] == {"city": "Ann's city"}
        assert json.loads(work.result(1))["content"] == {"city": "Bob's city"}


class TestDeaths:
    def test_a_server_that_died_is_started_again_at_the_next_call(self, work: McpWorkspace) -> None:
        work.script(turn(call("t__crash", key="A")), turn(call("t__effect", key="B")), "Done.")
        work.start()
        work.check_succeeded()
        assert work.calls()[0].outcome is CallOutcome.UNKNOWN
        assert "was lost during the call: it ended with exit code 3" in work.result()
        assert work.effects() == {"A": 1, "B": 1}
        assert work.starts() == 2

    def test_a_lost_call_of_a_tool_that_may_be_called_twice_is_a_plain_error(self, work: McpWorkspace) -> None:
        work.servers(idempotent=["crash"])
        work.script(turn(call("t__crash", key="A")), "Done.")
        work.start()
        assert work.calls()[0].outcome is CallOutcome.FAILED

    def test_a_server_that_never_answers_costs_its_timeout_and_is_ended(self, work: McpWorkspace) -> None:
        work.servers("silent", timeout=0.3)
        work.script(turn(call("t__add", a=1, b=1)), "Done.")
        work.start()
        assert work.calls()[0].outcome is CallOutcome.UNKNOWN
        assert "did not answer within 0.3 s" in work.result()

    @pytest.mark.parametrize(
        ("flags", "reason"),
        [
            (("junk",), "keeps writing what is no message"),
            (("line",), "a line of more than 10 MiB"),
            (("hang",), "did not answer within 3 s"),
            (("hang", "stubborn", "forks"), "did not answer within 3 s"),
        ],
    )
    def test_a_hostile_server_costs_its_own_tools_only(
        self, work: McpWorkspace, flags: tuple[str, ...], reason: str, caplog: pytest.LogCaptureFixture
    ) -> None:
        good = server_entry(cwd=str(work.write("good/x").parent))
        work.entries(t=server_entry(*flags, connect_timeout=3), good=good)
        work.agent("mcp: [t, good]")
        work.script(turn(call("good__add", a=1, b=2)), "Done.")
        begun = time.monotonic()
        work.start()
        work.check_succeeded()
        assert work.result() == "3"
        assert reason in caplog.text
        first = time.monotonic() - begun
        work.start()
        assert time.monotonic() - begun - first < 2
        assert work.starts() == 1
        work.restart()
        assert not lives(work.pid)
        children = work.folder / "mcp-children"
        for child in children.read_text().split() if children.exists() else ():
            assert not lives(int(child))

    def test_a_server_that_ignores_signals_and_forks_does_not_hold_up_the_end(self, work: McpWorkspace) -> None:
        work.servers("stubborn", "forks")
        work.script(turn(call("t__add", a=1, b=2)), "Done.")
        work.start()
        assert work.result() == "3"
        begun = time.monotonic()
        work.restart()
        assert time.monotonic() - begun < 3
        for pid in (work.pid, *map(int, (work.folder / "mcp-children").read_text().split())):
            assert not lives(pid)

    def test_text_before_the_first_message_does_no_harm(self, work: McpWorkspace) -> None:
        work.servers("greets")
        work.script(turn(call("t__add", a=1, b=2)), "Done.")
        work.start()
        assert work.result() == "3"

    def test_standard_error_is_kept_without_secrets(self, work: McpWorkspace) -> None:
        work.servers("loud", env={"MY_TOKEN": "canary-12345678"})
        work.script(turn(call("t__add", a=1, b=2)), "Done.")
        work.start()
        log = work.folder / ".agentmd/mcp/t.log"
        until(lambda: log.exists() and log.read_text() == "SECRET-IN-LOG [secret MY_TOKEN]\n")
        assert log.stat().st_mode & 0o777 == 0o600

    def test_a_command_that_is_not_there_is_told(self, work: McpWorkspace, caplog: pytest.LogCaptureFixture) -> None:
        work.entries(t={"command": "no-such-program"})
        work.start()
        work.check_succeeded()
        assert "The MCP server t cannot be used: its command 'no-such-program' is no program" in caplog.text
