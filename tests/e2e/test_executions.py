"""`run`, `resume`, `cancel` and the listings: exit codes, JSON, and what they leave alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from agent_md.cli.command_context import login
from agent_md.executions.states import Outcome, Status
from tests.support.agent_folder import AgentFolder, call
from tests.support.gates import GATES, open_gate, until_begun
from tests.support.processes import Running
from tests.support.waiting import until

DELETE = call("file_delete", path="a.txt")


@pytest.fixture
def work(folder: AgentFolder) -> AgentFolder:
    folder.tools("gates", GATES)
    folder.file("a.txt")
    folder.agent("quick", [{"text": "Hello.", "usage": {"input": 40, "output": 2, "cost": 0.0001}}])
    folder.agent("cleaner", [{"calls": [DELETE]}, {"text": "Done."}])
    folder.agent("gated", [{"calls": [call("gated")]}, {"text": "Done."}], "tools: [gates]")
    return folder


def begun(folder: AgentFolder, agent: str = "gated") -> Running:
    """An execution that another process drives, in the middle of a call."""
    run = folder.cli.start("run", agent)
    until_begun(folder.path)
    return run


def killed(folder: AgentFolder) -> None:
    run = begun(folder)
    run.kill()
    assert run.wait().killed
    open_gate(folder.path)


def lines_of(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


# run


def test_run_gives_the_answer(work: AgentFolder) -> None:
    ended = work.cli("run", "quick", "-q")
    assert (ended.code, ended.out, ended.err) == (0, "Hello.\n", "")


def test_run_takes_arguments_and_a_message(work: AgentFolder) -> None:
    (work.path / "agents/quick.md").write_text("---\nmodel: {provider: script, name: quick}\n---\nBe $1.\n")
    script = {"conversations": [{"match": {"user": "^Say it\n+extra$"}, "turns": [{"text": "Said."}]}]}
    (work.path / "agents/_config/scripts/quick.yaml").write_text(json.dumps(script))
    ended = work.cli("run", "quick", "-q", "-m", "Say it", "kind", "extra")
    assert (ended.code, ended.out) == (0, "Said.\n")


@pytest.mark.parametrize(
    ("turns", "settings", "code", "status"),
    [
        ([{"error": {"kind": "bad_request", "message": "no"}}], "", 1, Status.ERROR),
        ([{"calls": [DELETE]}] * 3, "settings: {max_tool_calls: 1}\nauto_approve: '*'", 4, Status.ABORTED),
        ([{"delay": "1m", "text": "late"}], "settings: {timeout: 1}", 5, Status.TIMEOUT),
    ],
)
def test_exit_codes_of_run(
    folder: AgentFolder, turns: list[dict[str, Any]], settings: str, code: int, status: Status
) -> None:
    folder.agent("failing", turns, settings)
    ended = folder.cli("run", "failing")
    assert ended.code == code
    assert ended.err == ""
    assert folder.execution().status is status
    assert folder.cli("resume", "1").code == 6


def test_json_lines_of_run(work: AgentFolder) -> None:
    ended = work.cli("run", "cleaner", "--json", "--on-ask", "deny")
    lines = lines_of(ended.out)
    assert (ended.code, ended.err) == (0, "")
    assert [line["event"] for line in lines] == [
        *("execution_started", "human", "ai", "tool_call", "interrupt", "waiting", "resumed"),
        *("tool_result", "ai", "final_answer", "complete"),
    ]
    assert {line["execution_id"] for line in lines} == {1}
    assert (lines[0]["agent_name"], lines[0]["trigger"]) == ("cleaner", "manual")
    assert (lines[-1]["status"], lines[-1]["error"]) == ("success", None)


def test_json_of_a_run_that_waits_ends_with_its_open_requests(work: AgentFolder) -> None:
    ended = work.cli("run", "cleaner", "--json")
    lines = lines_of(ended.out)
    assert ended.code == 3
    assert ended.err == "execution 1 waits for an answer: agentmd respond 1 --request 1-0.0\n"
    assert lines[-1]["event"] == "waiting"
    assert lines[-1]["requests"] == json.loads(work.cli("pending", "--json").out)


def test_a_second_run_is_refused_while_the_first_waits(work: AgentFolder) -> None:
    work.begin("cleaner")
    second = work.cli("run", "cleaner")
    assert (second.code, second.out) == (2, "")
    assert "`agentmd respond 1`" in second.err
    assert "set `on_pending: parallel`" in second.err
    assert len(json.loads(work.cli("logs", "--json").out)) == 1


@pytest.mark.parametrize("command", [["respond", "1", "--yes"], ["resume", "1"], ["resume", "--all"]])
@pytest.mark.parametrize("flags", [[], ["-q"], ["--json"]])
def test_tokens_and_cost_are_told_at_the_end_of_respond_and_resume(
    work: AgentFolder, command: list[str], flags: list[str]
) -> None:
    used = {"input": 40, "output": 2, "cost": 0.25}
    work.agent("paid", [{"calls": [DELETE], "usage": used}, {"text": "Done.", "usage": used}])
    work.begin("paid")
    if command[0] == "resume":
        assert work.cli("respond", "1", "--yes", "--no-wait").code == 0
    ended = work.cli(*command, *flags)
    assert ended.code == 0
    assert ended.err.endswith("84 tokens, $0.5000\n") is not bool(flags)
    assert "84 tokens" not in ended.out


# resume


def test_resume_goes_on_where_a_process_died(work: AgentFolder) -> None:
    killed(work)
    listed = work.cli("resume")
    assert listed.code == 0
    assert listed.out.splitlines()[2].split()[:3] == ["1", "gated", "died"]
    assert [item["id"] for item in json.loads(work.cli("resume", "--json").out)] == [1]
    ended = work.cli("resume", "1")
    assert (ended.code, ended.err) == (0, "1 call of execution 1 may have run: agentmd logs -e 1\n")
    assert work.execution().status is Status.SUCCESS
    assert work.cli("resume").out == "Nothing to resume.\n"


def test_a_dead_process_does_not_count_as_running_in_any_list(work: AgentFolder) -> None:
    killed(work)
    for command in ("logs", "list"):
        (line,) = [line for line in work.cli(command).out.splitlines() if "gated" in line and "resume" not in line]
        assert " died " in f"{line} "
        assert "running" not in line


def test_resume_all(work: AgentFolder) -> None:
    killed(work)
    work.begin("cleaner")
    assert work.cli("respond", "2", "--no", "--no-wait").code == 0
    ended = work.cli("resume", "--all")
    assert ended.code == 0
    assert [work.execution(number).status for number in (1, 2)] == [Status.SUCCESS, Status.SUCCESS]
    nothing = work.cli("resume", "--all")
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "nothing to resume\n")


def test_resume_json(work: AgentFolder) -> None:
    killed(work)
    lines = lines_of(work.cli("resume", "1", "--json").out)
    assert (lines[0]["event"], lines[-1]["event"]) == ("execution_started", "complete")


def test_resume_of_what_cannot_be_resumed(work: AgentFolder) -> None:
    assert work.cli("run", "quick").code == 0
    for number, code, hint in (("1", 6, "has ended (success)"), ("7", 2, "there is no execution 7")):
        ended = work.cli("resume", number)
        assert (ended.code, ended.out) == (code, "")
        assert hint in ended.err


def test_resume_of_what_a_live_process_drives(work: AgentFolder) -> None:
    run = begun(work)
    refused = work.cli("resume", "1")
    assert (refused.code, refused.out) == (6, "")
    assert "is driven by a live process" in refused.err
    nothing = work.cli("resume", "--all")
    assert (nothing.code, nothing.err) == (0, "nothing to resume\n")
    open_gate(work.path)
    assert run.wait().code == 0


# cancel


def test_cancel_of_a_waiting_execution_cancels_its_requests(work: AgentFolder) -> None:
    work.begin("cleaner")
    ended = work.cli("cancel", "1")
    assert (ended.code, ended.out, ended.err) == (0, "Execution 1 is aborted.\n", "")
    (request,) = work.requests()
    assert request.answer is not None
    assert (request.answer.outcome, request.answer.answered_by) == (Outcome.CANCELLED, login())
    assert work.results() == ["Not executed: the execution ended before this call"]
    assert (work.path / "a.txt").exists()
    assert work.cli("pending").out == "Nothing waits for an answer.\n"


def test_cancel_of_a_queued_execution(work: AgentFolder) -> None:
    work.begin("cleaner")
    assert work.cli("respond", "1", "--yes", "--no-wait").code == 0
    assert work.cli("cancel", "1").out == "Execution 1 is aborted.\n"
    assert (work.path / "a.txt").exists()


def test_cancel_of_an_ended_or_unknown_execution(work: AgentFolder) -> None:
    assert work.cli("run", "quick").code == 0
    assert work.cli("cancel", "1").out == "Execution 1 had ended before: success.\n"
    assert work.execution().status is Status.SUCCESS
    unknown = work.cli("cancel", "2")
    assert (unknown.code, unknown.out) == (2, "")


def test_cancel_of_one_whose_process_died(work: AgentFolder) -> None:
    killed(work)
    assert work.cli("cancel", "1").out == "Execution 1 is aborted.\n"


# listings


def test_pending_json(work: AgentFolder) -> None:
    assert work.cli("pending", "--json").out == "[]\n"
    work.begin("cleaner")
    (request,) = json.loads(work.cli("pending", "--json").out)
    assert request["execution_id"] == 1
    assert request["agent_id"] == "cleaner"
    assert request["request_id"] == "1-0.0"
    assert (request["kind"], request["tool_name"], request["tool_args"]) == (
        *("confirm", "file_delete"),
        {"path": "a.txt"},
    )
    assert request["preview"]["resolved"] == str(work.path / "a.txt")
    assert request["path"] == [{"execution_id": 1, "agent_id": "cleaner"}]
    assert (request["drifted"], request["outcome"], request["expires_at"]) == (False, None, None)
    (work.path / "agents/cleaner.md").unlink()
    assert json.loads(work.cli("pending", "--json").out)[0]["drifted"] is True
    assert work.cli("pending").out.splitlines()[2].endswith(" (drifted: agent file)")


def test_list_json(work: AgentFolder) -> None:
    (work.path / "agents/broken.md").write_text("---\nconfrim: [a]\n---\n")
    assert work.cli("run", "quick").code == 0
    listed = json.loads(work.cli("list", "--json").out)
    assert [agent["name"] for agent in listed["agents"]] == ["cleaner", "gated", "quick"]
    assert set(listed["agents"][0]) == {
        *("name", "description", "icon", "enabled", "trigger_type", "model_provider", "model_name"),
        *("source_path", "last_run", "next_run"),
    }
    assert listed["agents"][2]["last_run"].endswith("Z")
    assert [file["file"] for file in listed["invalid"]] == ["agents/broken.md"]
    assert "did you mean confirm" in listed["invalid"][0]["error"]


def test_logs_json(work: AgentFolder) -> None:
    assert work.cli("logs", "--json").out == "[]\n"
    for _ in range(3):
        assert work.cli("run", "quick").code == 0
    found = json.loads(work.cli("logs", "--json", "-n", "2").out)
    assert [item["id"] for item in found] == [3, 2]
    assert found[0] | {"created_at": "", "started_at": "", "finished_at": "", "duration_ms": 0} == {
        "id": 3,
        "agent_id": "quick",
        "status": "success",
        "trigger": "manual",
        "session_id": None,
        "created_at": "",
        "started_at": "",
        "finished_at": "",
        "duration_ms": 0,
        "input_tokens": 40,
        "output_tokens": 2,
        "total_tokens": 42,
        "cost_usd": 0.0001,
        "error": None,
        "cut": None,
        "unknown_calls": 0,
        "parent_execution_id": None,
    }
    messages = json.loads(work.cli("logs", "-e", "3", "--json").out)
    assert [item["event_type"] for item in messages] == ["system", "human", "ai", "final_answer", "complete"]
    assert set(messages[0]) == {"id", "execution_id", "timestamp", "event_type", "message", "metadata"}
    assert json.loads(messages[-1]["metadata"])["status"] == "success"


def test_logs_of_one_agent(work: AgentFolder) -> None:
    assert work.cli("run", "quick").code == 0
    work.begin("cleaner")
    assert [item["agent_id"] for item in json.loads(work.cli("logs", "cleaner", "--json").out)] == ["cleaner"]
    assert work.cli("logs", "gated").out == "No executions yet.\n"
    (work.path / "agents/quick.md").unlink()
    assert [item["agent_id"] for item in json.loads(work.cli("logs", "quick", "--json").out)] == ["quick"]
    both = work.cli("logs", "quick", "-e", "1")
    assert (both.code, both.out) == (2, "")


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_logs_follow_one_execution_to_its_end(work: AgentFolder, flags: tuple[str, ...]) -> None:
    run = begun(work)
    follow = work.cli.start("logs", "-f", "-e", "1", *flags)
    until(lambda: "gated" in follow.printed())
    open_gate(work.path)
    assert run.wait().code == 0
    ended = follow.wait()
    assert (ended.code, ended.err) == (0, "")
    if flags:
        assert [line["event_type"] for line in lines_of(ended.out)][-2:] == ["final_answer", "complete"]
    else:
        assert ended.out.count("✅ Done.") == 1
        assert "■ success" in ended.out


def test_watching_sees_what_begins_in_a_fresh_workspace(work: AgentFolder) -> None:
    with work.terminal("pending", "--watch") as pending, work.terminal("logs", "-f") as logs:
        pending.expect("Nothing waits for an answer.\n")
        logs.expect("No executions yet.\n")
        assert not (work.path / ".agentmd").exists()
        work.begin("cleaner")
        pending.expect(' 1   cleaner    Confirm file_delete {"path": "a.txt"}\n')
        logs.expect("waiting")
        assert work.cli("respond", "1", "--no").code == 0
        pending.expect("Nothing waits for an answer.\n")
        logs.expect("success")
        work.begin("cleaner")
        logs.expect(" 2 ")
        logs.expect("waiting")
        assert logs.screen.count("Started") == 1
        assert logs.screen.count("success") == 1


def test_validate_json(work: AgentFolder) -> None:
    fine = work.cli("validate", "--json")
    assert fine.code == 0
    assert json.loads(fine.out)[0] == {
        "agent": "cleaner",
        "file": "agents/cleaner.md",
        "errors": [],
        "notes": [
            "file_edit and file_move may change something without asking; `confirm` in agents/cleaner.md makes such calls ask"
        ],
        "fires": [],
        "mcp": [],
    }
    work.agent("wrong", [{"text": "x"}], "confirm: [file_delte]")
    (work.path / "agents/broken.md").write_text("no frontmatter")
    (work.path / "agents/hosted.md").write_text("---\nmodel: {provider: google, name: gemini-2.5-flash}\n---\nHi.\n")
    bad = work.cli("validate", "--json", env={"GOOGLE_API_KEY": "", "GEMINI_API_KEY": ""})
    assert bad.code == 1
    errors = {result["agent"] or result["file"]: " ".join(result["errors"]) for result in json.loads(bad.out)}
    assert "did you mean 'file_delete'" in errors["wrong"]
    assert "GOOGLE_API_KEY" in errors["hosted"]
    assert errors["agents/broken.md"] != ""
    one = work.cli("validate", "quick")
    told = "note: file_edit and file_move may change something without asking; `confirm` in agents/quick.md makes such calls ask"
    assert (one.code, one.out) == (0, f"✓ quick  agents/quick.md\n    {told}\n")
    assert work.cli("validate", "nobody").code == 2


def test_validate_ends_with_1_for_whatever_is_wrong_in_a_file(work: AgentFolder) -> None:
    (work.path / "agents" / "bad.md").write_text("---\nname: bad\ncolour: red\n---\nX\n")
    for names in (["bad"], []):
        ended = work.cli("validate", *names)
        assert ended.code == 1
        assert "✗ agents/bad.md" in ended.out
        assert "colour: there is no such key here" in ended.out
        result = json.loads(work.cli("validate", *names, "--json").out)[-1]
        assert (result["agent"], result["file"]) == (None, "agents/bad.md")
    (work.path / "config.yaml").write_text("colour: red\n")
    for names in (["bad"], []):
        ended = work.cli("validate", *names)
        assert (ended.code, ended.out) == (1, "")
        assert "colour: there is no such key here" in ended.err


@pytest.mark.parametrize("arguments", [["nobody"], ["--colour"], ["a", "b"], ["-w", "/nowhere"]])
def test_validate_ends_with_2_for_wrong_usage(work: AgentFolder, arguments: list[str]) -> None:
    ended = work.cli("validate", *arguments)
    assert (ended.code, ended.out) == (2, "")


def test_info_json(work: AgentFolder) -> None:
    (work.path / "config.yaml").write_text("defaults: {max_tool_calls: 7}\nserver: {api_key: hunter2}\n")
    (work.path / ".env").write_text("GOOGLE_API_KEY=canary\n")
    info = work.cli("info", "--json")
    data = json.loads(info.out)
    assert (data["agents"], data["invalid"], data["workspace"]) == (3, 0, str(work.path))
    assert data["settings"]["defaults.max_tool_calls"] == {"value": 7, "from": "config.yaml"}
    assert data["settings"]["defaults.model"]["from"] == "default"
    shown = info.out + work.cli("info").out
    assert "hunter2" not in shown
    assert "canary" not in shown


@pytest.mark.parametrize(
    "args",
    [
        *(("list",), ("pending",), ("logs",), ("info",), ("resume",), ("validate",)),
        *(("list", "--json"), ("pending", "--json"), ("logs", "--json"), ("resume", "--json")),
        *(("logs", "-e", "1"), ("run", "nobody"), ("--help",), ("run", "--help")),
    ],
)
def test_what_only_looks_makes_nothing(work: AgentFolder, args: tuple[str, ...]) -> None:
    before = everything(work.path)
    assert work.cli(*args).code in (0, 2)
    assert everything(work.path) == before


def everything(path: Path) -> set[Path]:
    return {
        found
        for found in path.rglob("*")
        if not found.is_relative_to(path / ".out") and "__pycache__" not in found.parts
    }


def test_a_store_that_cannot_be_written_is_still_shown(work: AgentFolder) -> None:
    work.begin("cleaner")
    shown = [work.cli(*args).out for args in (("pending",), ("logs",), ("list",))]
    state = work.path / ".agentmd"
    for file in state.iterdir():
        file.chmod(0o400 if file.is_file() else 0o500)
    state.chmod(0o500)
    try:
        assert [work.cli(*args).out for args in (("pending",), ("logs",), ("list",))] == shown
    finally:
        state.chmod(0o700)
