"""`respond`: which request is meant, which answers it takes, and who goes on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from agent_md.cli.command_context import login
from agent_md.executions.states import Outcome, Status
from agent_md.python_api import Workspace
from tests.support.agent_folder import AgentFolder, call
from tests.support.gates import GATES, open_gate, until_begun
from tests.support.processes import Finished
from tests.support.structured import DATABASE, FEATURES

TOOLS = '''
from langchain_core.tools import tool
from agent_md.sdk import interrupt, request_choice, tool_options

@tool
def rate() -> str:
    """Asks for stars."""
    return str(interrupt({"type": "rating", "message": "Stars?"}, response_schema={"type": "integer"}))

@tool
def parts() -> str:
    """Asks for several."""
    return "+".join(request_choice("Parts?", ["a", "b", "c"], multi=True))

@tool
@tool_options(requires_approval=True)
def ship(item: str, count: int = 1) -> str:
    """Ships."""
    with open("shipped", "a") as log:
        log.write(f"{count} {item}\\n")
    return f"shipped {count} {item}"
'''
CONFIRM = call("ship", item="birds")
ASKED = 'Confirm ship {"item": "birds", "count": 1}'
INPUT = call("ask_user", question="Title?")
CHOICE = call("ask_user", question="Where?", kind="choice", options=["staging", "production"])
CUSTOM = call("rate")
MULTI = call("parts")
QUESTIONS = call("ask_user_question", questions=[DATABASE, FEATURES])


@pytest.fixture
def asking(folder: AgentFolder) -> AgentFolder:
    folder.tools("asking", TOOLS)
    folder.tools("gates", GATES)
    return folder


def waiting(folder: AgentFolder, *calls: dict[str, Any], settings: str = "") -> None:
    """Leaves execution 1 waiting with one request a call."""
    folder.agent("asker", [{"calls": list(calls)}, {"text": "Done."}], f"tools: [asking, gates]\n{settings}")
    folder.begin("asker")


def refused(folder: AgentFolder, ended: Finished, code: int = 2) -> str:
    """The message of an answer that changed nothing."""
    assert (ended.code, ended.out) == (code, "")
    assert ended.err.startswith("agentmd: ")
    assert folder.execution().status is Status.WAITING
    assert all(request.open for request in folder.requests())
    assert not (folder.path / "shipped").exists()
    return ended.err


@pytest.mark.parametrize(
    ("asked", "flags", "result"),
    [
        (CONFIRM, ["--yes"], "shipped 1 birds"),
        (CONFIRM, ["--yes", "--reason", "fine"], "shipped 1 birds"),
        (CONFIRM, ["--no"], "Action denied by user"),
        (CONFIRM, ["--no", "--reason", "file is still needed"], "Action denied by user: file is still needed"),
        (
            CONFIRM,
            ["--edit", '{"item": "cats", "count": 2}'],
            "The user edited the arguments of this call before approving it. shipped 2 cats",
        ),
        (INPUT, ["--text", "Monthly Summary"], "Monthly Summary"),
        (INPUT, ["--text", ""], ""),
        (CHOICE, ["--choice", "staging"], "staging"),
        (MULTI, ["--choice", "c", "--choice", "a"], "a+c"),
        (CUSTOM, ["--answers", "5"], "5"),
        (
            QUESTIONS,
            ["--answers", '{"Which features?": ["Über", "Search"], "Which database?": "mine"}'],
            '{"Which database?": "mine", "Which features?": ["Search", "Über"]}',
        ),
    ],
)
def test_every_answer(asking: AgentFolder, asked: dict[str, Any], flags: list[str], result: str) -> None:
    waiting(asking, asked)
    ended = asking.cli("respond", "1", *flags)
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.endswith("asker ✅ Done.\n")
    assert asking.results() == [result]


@pytest.mark.parametrize(
    ("asked", "flags", "hint"),
    [
        (CONFIRM, ["--text", "y"], "is of the kind confirm: answer it with --yes, --always, --no or --edit"),
        (CONFIRM, ["--choice", "yes"], "--yes, --always, --no or --edit"),
        (CONFIRM, ["--answers", "true"], "--yes, --always, --no or --edit"),
        (INPUT, ["--yes"], "is of the kind input: answer it with --text"),
        (INPUT, ["--edit", "{}"], "--text"),
        (CHOICE, ["--choice", "nowhere"], "the options are: staging, production"),
        (CHOICE, ["--choice", "staging", "--choice", "production"], "exactly one is allowed"),
        (CHOICE, ["--text", "staging"], "--choice"),
        (MULTI, ["--choice", "a", "--choice", "a"], "selected twice"),
        (CUSTOM, ["--answers", '"five"'], "does not fit the request's schema"),
        (CUSTOM, ["--answers", "five"], "--answers is not JSON"),
        (CUSTOM, ["--answers", "null"], "does not fit the request's schema"),
        (CUSTOM, ["--yes"], "is of the kind custom: answer it with --answers"),
        (QUESTIONS, ["--text", "SQLite"], "is of the kind questions: answer it with --answers"),
        (QUESTIONS, ["--choice", "SQLite"], "is of the kind questions: answer it with --answers"),
        (QUESTIONS, ["--answers", "[]"], "expected an object from question to answer"),
        (QUESTIONS, ["--answers", '{"Which database?": "SQLite"}'], "'Which features?' has no answer"),
        (QUESTIONS, ["--answers", '{"Which?": "SQLite"}'], "'Which?' is not one of the questions"),
        (
            QUESTIONS,
            ["--answers", '{"Which database?": ["SQLite", "Postgres"], "Which features?": "Über"}'],
            "'Which database?' takes one answer, not 2",
        ),
        (CUSTOM, ["--answers", "NaN"], "NaN is not a JSON value"),
        (CUSTOM, ["--answers", "[" * 100_000], "--answers is not JSON"),
        (CONFIRM, ["--edit", "{item: cats}"], "--edit is not JSON"),
        (CONFIRM, ["--edit", "[]"], "--edit takes a JSON object"),
        (CONFIRM, ["--edit", "null"], "--edit takes a JSON object"),
        (CONFIRM, ["--edit", "{}"], "item"),
        (CONFIRM, ["--edit", '{"item": "cats", "cuont": 2}'], "cuont"),
        (CONFIRM, ["--edit", '{"item": 5}'], "item"),
    ],
)
def test_what_does_not_fit_is_refused_and_it_waits_on(
    asking: AgentFolder, asked: dict[str, Any], flags: list[str], hint: str
) -> None:
    waiting(asking, asked)
    assert hint in refused(asking, asking.cli("respond", "1", *flags))


@pytest.mark.parametrize(
    ("flags", "hint"),
    [
        (["--yes", "--no"], "give one answer"),
        (["--yes", "--text", "x"], "give one answer"),
        (["--text", "x", "--reason", "y"], "--reason goes with"),
        (["--reason", "y"], "--reason goes with"),
        (["--all"], "go with an answer"),
        (["--request", "1-0.0"], "go with an answer"),
        (["--no-wait"], "go with an answer"),
        (["--yes", "--all", "--request", "1-0.0"], "give one of them"),
        (["--json"], "there is no terminal to ask on"),
        (["--yes", "--request", "1-9"], "1-0.0"),
        (["--yes", "--request", ""], "1-0.0"),
    ],
)
def test_wrong_usage(asking: AgentFolder, flags: list[str], hint: str) -> None:
    waiting(asking, CONFIRM, CONFIRM)
    assert hint in refused(asking, asking.cli("respond", "1", *flags))


def test_edited_arguments_pass_the_same_rules(folder: AgentFolder) -> None:
    folder.agent(
        "writer",
        [{"calls": [call("file_write", path="out/a.txt", content="new")]}, {"text": "Done."}],
        "deny: [file_write(secret/*)]",
    )
    folder.begin("writer")
    for path, hint in (
        ("secret/a.txt", "not allowed by this agent's rules"),
        ("../a.txt", "is not a path that this agent may use"),
    ):
        edit = json.dumps({"path": path, "content": "new"})
        message = refused(folder, folder.cli("respond", "1", "--edit", edit))
        assert "the edited arguments are refused" in message
        assert hint in message
    edit = json.dumps({"path": "out/b.txt", "content": "edited"})
    assert folder.cli("respond", "1", "--edit", edit).code == 0
    assert (folder.path / "out/b.txt").read_text() == "edited"
    assert not (folder.path / "out/a.txt").exists()


def test_unknown_and_never_asked(asking: AgentFolder) -> None:
    asking.agent("quick", [{"text": "Done."}])
    assert asking.cli("run", "quick").code == 0
    for number, hint in (("99", "there is no execution 99"), ("1", "has never asked anything")):
        ended = asking.cli("respond", number, "--yes")
        assert (ended.code, ended.out) == (2, "")
        assert hint in ended.err


def test_several_open_and_none_named(asking: AgentFolder) -> None:
    waiting(asking, CONFIRM, CONFIRM)
    message = refused(asking, asking.cli("respond", "1", "--yes"))
    assert "1-0.0" in message
    assert "1-0.1" in message
    assert "--all" in message


def test_requests_by_id_and_by_prefix(asking: AgentFolder) -> None:
    waiting(asking, CONFIRM, CONFIRM, INPUT)
    assert "begins several" in refused(asking, asking.cli("respond", "1", "--yes", "--request", "1-0."))
    by_prefix = asking.cli("respond", "1", "--no", "--request", "1-0.1")
    assert by_prefix.code == 3
    assert "waits for 2 answers" in by_prefix.err
    title = next(request.id for request in asking.requests() if request.message == "Title?")
    shown = asking.cli("pending").out
    assert f"(request {title[:8]}" in shown
    assert asking.cli("respond", "1", "--text", "T", "--request", title[: len(title) - 1]).code == 3
    assert asking.cli("respond", "1", "--yes", "--request", "1-0.0").code == 0
    assert asking.results() == ["shipped 1 birds", "Action denied by user", "T"]


def test_all_answers_all_or_none(asking: AgentFolder) -> None:
    waiting(asking, CONFIRM, CONFIRM, INPUT)
    asking.cli("pending")  # the tool asked later than the two others
    assert "answer it with --text" in refused(asking, asking.cli("respond", "1", "--yes", "--all"))
    assert asking.cli("respond", "1", "--text", "T", "--request", asking.requests()[2].id).code == 3
    assert asking.cli("respond", "1", "--no", "--reason", "no birds", "--all").code == 0
    assert asking.results() == ["Action denied by user: no birds", "Action denied by user: no birds", "T"]


def test_a_question_that_was_never_shown_is_shown_and_not_answered(asking: AgentFolder) -> None:
    other = call("ship", item="cats")
    asking.agent("asker", [{"calls": [CONFIRM]}, {"calls": [other]}, {"text": "Done."}], "tools: [asking, gates]")
    asking.begin("asker")
    with Workspace(asking.path) as workspace:
        workspace.answer(workspace.requests(1)[0], {"approved": True})
        workspace.resume(1)
    for _ in range(2):  # it is shown by another user's name, and by a program
        with Workspace(asking.path) as workspace:
            assert workspace.requests(1)[0].tool_args == {"item": "cats", "count": 1}
    unseen = asking.cli("respond", "1", "--yes")
    assert unseen.code == 2
    assert '? Confirm ship {"item": "cats", "count": 1} [y/N]' in unseen.out
    assert "nothing was answered: request 1-1.0 of execution 1 came up later" in unseen.err
    assert (asking.path / "shipped").read_text() == "1 birds\n"
    answered = asking.cli("respond", "1", "--yes")
    assert answered.code == 0
    assert 'Confirm ship {"item": "cats", "count": 1}: approved by' in answered.out
    assert (asking.path / "shipped").read_text() == "1 birds\n1 cats\n"


@pytest.mark.parametrize("way", ["pending", "json", "request", "quiet"])
def test_a_question_that_was_shown_or_named_is_answered(asking: AgentFolder, way: str) -> None:
    other = call("ship", item="cats")
    asking.agent("asker", [{"calls": [CONFIRM]}, {"calls": [other]}, {"text": "Done."}], "tools: [asking, gates]")
    asking.begin("asker")
    with Workspace(asking.path) as workspace:
        workspace.answer(workspace.requests(1)[0], {"approved": True})
        workspace.resume(1)
    if way in ("pending", "json"):
        asking.cli("pending", *(["--json"] if way == "json" else []))
    if way == "quiet":
        shown = asking.cli("respond", "1", "--yes", "--all", "--quiet")
        assert (shown.code, shown.out) == (2, "")
        assert "? Confirm ship" in shown.err
    named = ["--request", "1-1.0"] if way == "request" else []
    assert asking.cli("respond", "1", "--yes", *named).code == 0


def test_no_wait_records_and_leaves(asking: AgentFolder) -> None:
    waiting(asking, CONFIRM)
    recorded = asking.cli("respond", "1", "--yes", "--no-wait")
    named = f"asker 👉 {ASKED}: approved by {login()}\n"
    assert (recorded.code, recorded.err) == (0, "")
    assert recorded.out.endswith(f"{named}Recorded.\n")
    assert asking.execution().status is Status.QUEUED
    assert not (asking.path / "shipped").exists()
    again = asking.cli("respond", "1", "--yes", "--no-wait")
    assert again.out.endswith(named)
    assert again.err == "this answer was recorded before\n"
    assert asking.cli("respond", "1", "--yes").code == 0  # the same answer again goes on
    assert (asking.path / "shipped").read_text() == "1 birds\n"


def test_the_same_answer_after_the_end_gives_the_same_result_and_no_second_effect(asking: AgentFolder) -> None:
    waiting(asking, CONFIRM)
    assert asking.cli("respond", "1", "--yes").code == 0
    again = asking.cli("respond", "1", "--yes")
    assert (again.code, again.err) == (0, "this answer was recorded before\n")
    assert again.out.endswith("asker ✅ Done.\n")
    assert (asking.path / "shipped").read_text() == "1 birds\n"


@pytest.mark.parametrize("other", [["--no"], ["--yes", "--reason", "x"], ["--edit", '{"item": "cats"}']])
def test_another_answer_after_the_end_is_a_conflict_that_says_who_and_when(
    asking: AgentFolder, other: list[str]
) -> None:
    waiting(asking, CONFIRM)
    assert asking.cli("respond", "1", "--yes").code == 0
    late = asking.cli("respond", "1", *other)
    assert (late.code, late.out) == (6, "")
    assert f"request 1-0.0 was approved by {login()} at 20" in late.err
    assert (asking.path / "shipped").read_text() == "1 birds\n"


def test_an_answer_after_cancel_is_a_conflict(asking: AgentFolder) -> None:
    waiting(asking, CONFIRM)
    assert asking.cli("cancel", "1").code == 0
    late = asking.cli("respond", "1", "--yes")
    assert late.code == 6
    assert f"was cancelled by {login()} at 20" in late.err
    assert not (asking.path / "shipped").exists()


def test_an_execution_that_ends_in_error_gives_its_code(asking: AgentFolder) -> None:
    asking.agent("asker", [{"calls": [CONFIRM]}], "tools: [asking]")
    asking.begin("asker")
    ended = asking.cli("respond", "1", "--yes")
    assert ended.code == 1
    assert "asker ❌ " in ended.out
    assert asking.cli("respond", "1", "--yes").code == 1


def driven(folder: AgentFolder) -> Any:
    """Execution 1 works on one call and has an open request of another."""
    folder.agent("asker", [{"calls": [CONFIRM, call("gated")]}, {"text": "Done."}], "tools: [asking, gates]")
    run = folder.cli.start("run", "asker")
    until_begun(folder.path)
    return run


def test_an_answer_while_a_live_process_drives_is_handed_over(asking: AgentFolder) -> None:
    run = driven(asking)
    ended = asking.cli("respond", "1", "--yes")
    assert (ended.code, ended.err) == (0, "")
    assert ended.out.endswith(
        f"asker 👉 {ASKED}: approved by {login()}\n"
        "Recorded. Execution 1 is driven by a live process, which goes on with it. `agentmd logs -f -e 1` follows it\n"
    )
    open_gate(asking.path)
    assert run.wait().code == 0
    assert asking.results() == ["shipped 1 birds", "through"]


def test_an_answer_that_is_handed_over_as_json(asking: AgentFolder) -> None:
    run = driven(asking)
    ended = asking.cli("respond", "1", "--no", "--json")
    lines = [json.loads(line) for line in ended.out.splitlines()]
    assert ended.code == 0
    assert [line["event"] for line in lines] == ["execution_started", "answered", "handed_over"]
    assert {line["execution_id"] for line in lines} == {1}
    open_gate(asking.path)
    assert run.wait().code == 0


def test_json_from_the_answer_to_the_end(asking: AgentFolder) -> None:
    waiting(asking, CONFIRM, INPUT)
    for flags, last in ((["--yes", "--request", "1-0.0"], "waiting"), (["--text", "T"], "complete")):
        ended = asking.cli("respond", "1", *flags, "--json")
        lines = [json.loads(line) for line in ended.out.splitlines()]
        assert ended.code == (3 if last == "waiting" else 0)
        assert lines[0]["event"] == "execution_started"
        assert lines[-1]["event"] == last
        assert all(line["execution_id"] == 1 for line in lines)
        if last == "waiting":
            assert [request["message"] for request in lines[-1]["requests"]] == ["Title?"]
    again = asking.cli("respond", "1", "--text", "T", "--request", asking.requests()[1].id, "--json")
    lines = [json.loads(line) for line in again.out.splitlines()]
    assert again.code == 0
    assert [line["event"] for line in lines] == ["execution_started", "answered", "final_answer", "complete"]


def test_json_of_the_same_answer_while_others_are_open(asking: AgentFolder) -> None:
    waiting(asking, CONFIRM, INPUT)
    assert asking.cli("respond", "1", "--yes", "--request", "1-0.0").code == 3
    again = asking.cli("respond", "1", "--yes", "--request", "1-0.0", "--json")
    lines = [json.loads(line) for line in again.out.splitlines()]
    assert again.code == 3
    assert [line["event"] for line in lines] == ["execution_started", "answered", "waiting"]
    assert [request["message"] for request in lines[-1]["requests"]] == ["Title?"]


def test_json_of_no_wait(asking: AgentFolder) -> None:
    waiting(asking, CONFIRM)
    for again in (False, True):
        ended = asking.cli("respond", "1", "--yes", "--no-wait", "--json")
        first, named, last = (json.loads(line) for line in ended.out.splitlines())
        assert first["event"] == "execution_started"
        assert (named["event"], named["again"]) == ("answered", again)
        assert last == {"event": "recorded", "execution_id": 1, "status": "queued", "again": again}


def test_quiet_prints_the_answer_alone(asking: AgentFolder) -> None:
    waiting(asking, CONFIRM)
    ended = asking.cli("respond", "1", "--yes", "-q")
    assert (ended.code, ended.out, ended.err) == (0, "Done.\n", f"{ASKED}: approved by {login()}\n")


@pytest.mark.parametrize("flags", [[], ["--no-wait"], ["-q"], ["--json"], ["--json", "--no-wait"]])
@pytest.mark.parametrize("everything", [False, True])
def test_what_was_answered_is_named(asking: AgentFolder, flags: list[str], everything: bool) -> None:
    waiting(asking, CONFIRM, *[call("ship", item="cats", count=99)] * everything)
    ended = asking.cli("respond", "1", "--yes", *flags, *["--all"] * everything)
    assert ended.code == 0
    calls = [{"item": "birds", "count": 1}, *[{"item": "cats", "count": 99}] * everything]
    if "--json" in flags:
        lines = [line for line in map(json.loads, ended.out.splitlines()) if line["event"] == "answered"]
        assert [line["again"] for line in lines] == [False] * len(calls)
        assert [line["request"]["tool_args"] for line in lines] == calls
        assert {line["request"]["outcome"] for line in lines} == {"approved"}
    else:
        shown = ended.err if "-q" in flags else ended.out
        named = [f"Confirm ship {json.dumps(args)}: approved by {login()}" for args in calls]
        assert all(shown.count(text) == 1 for text in named)


def test_an_answer_given_again_names_what_it_answered(asking: AgentFolder) -> None:
    waiting(asking, CONFIRM)
    assert asking.cli("respond", "1", "--yes").code == 0
    again = asking.cli("respond", "1", "--yes")
    assert again.code == 0
    assert f"{ASKED}: approved by {login()}" in again.out
    assert again.err == "this answer was recorded before\n"


def test_who_answered_is_kept(asking: AgentFolder) -> None:
    waiting(asking, CONFIRM)
    assert asking.cli("respond", "1", "--no", "--reason", "never").code == 0
    (request,) = asking.requests()
    assert request.answer is not None
    assert (request.answer.outcome, request.answer.answered_by) == (Outcome.DENIED, login())
    assert f"denied by {login()}: never" in asking.cli("logs", "-e", "1").out


REFUNDS = '''
from langchain_core.tools import tool
from agent_md.sdk import interrupt, request_confirmation

@tool
def refund(amount: int) -> str:
    """Pays back."""
    return str(interrupt({"type": "refund", "amount": amount}))
'''


def test_custom_requests_can_be_told_apart_without_a_terminal(asking: AgentFolder) -> None:
    asking.tools("refunds", REFUNDS)
    calls = [call("refund", amount=10), call("refund", amount=99_999)]
    asking.agent("payer", [{"calls": calls}, {"text": "Done."}], "tools: [refunds]")
    ran = asking.cli("run", "payer")
    assert ran.code == 3
    assert '? refund request {"type": "refund", "amount": 10}\n' in ran.err
    assert '? refund request {"type": "refund", "amount": 99999}\n' in ran.err
    listed = asking.cli("pending").out
    assert 'refund request {"type": "refund", "amount": 10}' in listed
    assert 'refund request {"type": "refund", "amount": 99999}' in listed
    large = next(request for request in asking.requests() if request.payload == {"type": "refund", "amount": 99_999})
    answered = asking.cli("respond", "1", "--answers", "false", "--request", large.id)
    assert f'👉 refund request {{"type": "refund", "amount": 99999}}: answered by {login()}: false\n' in answered.out
    assert '❓ refund request {"type": "refund", "amount": 10}\n' in asking.cli("logs", "-e", "1").out
