"""What was run, said and answered before: filters of `logs`, `sessions` and `answers`. Most on one workspace, which is
only read."""

from __future__ import annotations

import json
import time

import pytest

from agent_md.cli.command_context import login
from agent_md.executions.states import Status
from tests.support.agent_folder import AgentFolder, call
from tests.support.processes import Finished


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> AgentFolder:
    """Execution 1 failed, 2 was denied something and succeeded, 3 still waits; 4 is a turn of a session; the answer to 5
    was retracted before anything was done."""
    folder = AgentFolder(tmp_path_factory.mktemp("past") / "ws")
    folder.file("a.txt")
    broken = {"text": "x", "error": {"kind": "bad_request", "message": "Zeichen ÜBERLAUFEN"}}
    folder.agent("broken", [broken])
    folder.agent("cleaner", [{"calls": [call("file_delete", path="a.txt")]}, {"text": "Done."}], "on_pending: parallel")
    folder.agent("teller", [{"text": "Es war einmal."}])
    assert folder.cli("run", "broken").code == 1
    assert folder.cli("run", "cleaner").code == 3
    assert folder.cli("respond", "2", "--no", "--reason", "50% fehlt noch").code == 0
    assert folder.cli("run", "cleaner", "-m", "Räum auf").code == 3
    assert folder.cli("run", "teller", "--session", "garden").code == 0
    assert folder.cli("run", "cleaner", "--fresh").code == 3
    assert folder.cli("respond", "5", "--yes", "--no-wait").code == 0
    assert folder.cli("respond", "5", "--retract").code == 0
    return folder


def found(ended: Finished) -> list[int]:
    assert (ended.code, ended.err) == (0, "")
    return [item["id"] for item in json.loads(ended.out)]


@pytest.mark.parametrize(
    ("filters", "numbers"),
    [
        (["--status", "error"], [1]),
        (["--status", "error", "--status", "success"], [4, 2, 1]),
        (["--status", "waiting", "cleaner"], [5, 3]),
        (["--status", "waiting", "teller"], []),
        (["--grep", "RÄUM"], [3]),
        (["--grep", "überlaufen"], [1]),
        (["--grep", "50% fehlt"], [2]),
        (["--grep", "50% FEHLT", "--status", "error"], []),
        (["--grep", "a.txt", "-n", "1"], [5]),
        (["--grep", ".*"], []),
        (["--grep", "War Einmal"], [4]),
        (["--since", "1h"], [5, 4, 3, 2, 1]),
        (["--since", "0s"], []),
        (["--since", "2100-01-01"], []),
        (["--since", "2001-02-03T04:05+01:00", "--status", "error"], [1]),
    ],
)
def test_logs_are_filtered(past: AgentFolder, filters: list[str], numbers: list[int]) -> None:
    assert found(past.cli("logs", "--json", *filters)) == numbers


def test_logs_with_filters_say_when_nothing_is_left(past: AgentFolder) -> None:
    assert past.cli("logs", "--grep", "nowhere said").out == "No such executions.\n"
    shown = past.cli("logs", "--grep", "räum", "--since", "1d").out
    assert "cleaner" in shown
    assert "broken" not in shown


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--since", "soon"], "'soon' is neither a duration such as 30m, 2h or 7d nor a time such as 2026-03-29T02:30"),
        (["--since", "5"], "is neither a duration"),
        (["--status", "done"], "'done' is not one of 'queued', 'running', 'waiting', 'success', "),
        (["-e", "1", "--grep", "x"], "-e 1 names one execution, and --grep finds them: give one of them"),
        (["-e", "1", "--since", "1h"], "-e 1 names one execution, and --since finds them"),
        (["--refused", "--status", "error"], "--refused are runs that never were, and --status is of executions"),
    ],
)
def test_filters_that_cannot_be(past: AgentFolder, args: list[str], message: str) -> None:
    refused = past.cli("logs", *args)
    assert (refused.code, refused.out) == (2, "")
    assert message in " ".join(refused.err.split())


def test_refused_runs_since_a_time(past: AgentFolder) -> None:
    assert past.cli("logs", "--refused", "--since", str(time.localtime().tm_year)).code == 2
    assert past.cli("logs", "--refused", "--since", "1h").out == "Nothing was refused.\n"


def test_sessions_are_listed_and_shown(past: AgentFolder) -> None:
    (listed,) = json.loads(past.cli("sessions", "--json").out)
    assert {**listed, "created_at": None, "changed_at": None} == {
        "session_id": "garden",
        "agent_id": "teller",
        "status": "idle",
        "turns": 1,
        "last_execution_id": 4,
        "created_at": None,
        "changed_at": None,
    }
    table = past.cli("sessions", "TELLER").out
    assert [" ".join(line.split()).rsplit(" ", 3)[0] for line in table.splitlines()[2:]] == ["garden teller idle 1"]
    assert past.cli("sessions", "cleaner").out == "No sessions.\n"
    shown = past.cli("sessions", "show", "garden")
    assert shown.out == (
        "Session garden of teller: idle, 1 turn, 0 tokens, $0.0000\n"
        "  👤 Begin.\n"
        "  💬 Es war einmal.\n"
        "What was done in its turns: agentmd logs -e ID, of 4\n"
        "This session goes on with: agentmd chat teller --session garden\n"
    )
    said = json.loads(past.cli("sessions", "show", "garden", "--agent", "teller", "--json").out)["messages"]
    assert [(message["role"], message["content"]) for message in said] == [
        ("user", "Begin."),
        ("assistant", "Es war einmal."),
    ]


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["show"], "say which session: agentmd sessions show ID"),
        (["delete"], "say which session: agentmd sessions delete ID"),
        (["drop", "garden"], "'drop' is nothing that can be done to a session; there are show and delete"),
        (["show", "nowhere"], "there is no session nowhere, or it was deleted; `agentmd sessions` lists them"),
        (["delete", "garden", "--agent", "cleaner"], "there is no session garden of cleaner"),
        (["nobody"], 'there is no agent "nobody"'),
    ],
)
def test_sessions_that_are_not_there(past: AgentFolder, args: list[str], message: str) -> None:
    refused = past.cli("sessions", *args)
    assert (refused.code, refused.out) == (2, "")
    assert message in refused.err


def test_a_workspace_without_sessions(folder: AgentFolder) -> None:
    assert folder.cli("sessions").out == "No sessions.\n"
    assert folder.cli("sessions", "delete", "x").code == 2
    assert not (folder.path / ".agentmd").exists()


def test_a_session_is_deleted_with_its_turn_under_way_and_its_logs_stay(folder: AgentFolder) -> None:
    folder.file("a.txt")
    asks = [{"calls": [call("file_delete", path="a.txt")]}, {"text": "Done."}]
    for name in ("one", "two"):
        folder.agent(name, asks)
        assert folder.cli("run", name, "--session", "shared").code == 3
    unclear = folder.cli("sessions", "delete", "shared")
    assert unclear.code == 2
    assert "have a session shared; name one with --agent" in unclear.err
    deleted = folder.cli("sessions", "delete", "shared", "--agent", "one")
    assert (deleted.code, deleted.err) == (0, "")
    assert deleted.out == (
        "The session shared of one is deleted. Its executions stay in the logs.\n"
        "Execution 1, its turn under way, was cancelled.\n"
    )
    assert folder.execution(1).status is Status.ABORTED
    assert folder.execution(2).status is Status.WAITING
    assert [item["agent_id"] for item in json.loads(folder.cli("sessions", "--json").out)] == ["two"]
    assert "aborted" in folder.cli("logs", "-e", "1").out
    gone = json.loads(folder.cli("sessions", "delete", "shared", "--json").out)
    assert gone == {"session_id": "shared", "agent_id": "two", "cancelled": [2]}


@pytest.mark.parametrize(
    ("filters", "decided"),
    [
        ([], [(5, "approved"), (2, "denied")]),
        (["-n", "1"], [(5, "approved")]),
        (["CLEANER", "-e", "2"], [(2, "denied")]),
        (["teller"], []),
        (["--outcome", "denied", "--outcome", "expired"], [(2, "denied")]),
        (["--by", "nobody"], []),
        (["--by", login(), "--since", "1d"], [(5, "approved"), (2, "denied")]),
        (["--by", login().partition(":")[2], "--outcome", "approved"], [(5, "approved")]),
        (["--since", "0s"], []),
    ],
)
def test_answers_are_filtered(past: AgentFolder, filters: list[str], decided: list[tuple[int, str]]) -> None:
    ended = past.cli("answers", "--json", *filters)
    assert (ended.code, ended.err) == (0, "")
    assert [(item["execution_id"], item["outcome"]) for item in json.loads(ended.out)] == decided


def test_an_answer_is_told_with_what_was_asked_and_by_whom_it_was_retracted(past: AgentFolder) -> None:
    (retracted, denied) = json.loads(past.cli("answers", "--json").out)
    assert (denied["message"], denied["tool_name"], denied["tool_args"]) == (
        'Confirm file_delete {"path": "a.txt"}',
        *("file_delete", {"path": "a.txt"}),
    )
    assert denied["answer"] == {"approved": False, "reason": "50% fehlt noch"}
    assert (denied["answered_by"], denied["retracted_by"]) == (login(), None)
    assert retracted["retracted_by"] == login()
    text = " ".join(past.cli("answers").out.split())
    assert f'Confirm file_delete {{"path": "a.txt"}} denied by {login()}: 50% fehlt noch' in text
    assert f"retracted by {login()} at " in text


def test_a_workspace_without_answers(folder: AgentFolder) -> None:
    assert folder.cli("answers").out == "No such answers.\n"
    assert folder.cli("answers", "--json").out == "[]\n"
    refused = folder.cli("answers", "nobody")
    assert (refused.code, refused.out) == (2, "")
    assert 'there is no agent "nobody"' in refused.err
    assert not (folder.path / ".agentmd").exists()
