"""Questions of real executions on a terminal: asked, answered here or elsewhere, withdrawn."""

from __future__ import annotations

import pytest

from agent_md.cli.command_context import login
from agent_md.executions.states import Status
from tests.support.agent_folder import AgentFolder, call
from tests.support.gates import GATES, open_gate, until_begun

ASKING = """
from langchain_core.tools import tool
from agent_md.sdk import interrupt, request_choice, request_confirmation, request_input

@tool
def ask_all(topic: str) -> str:
    \"\"\"Asks in every way.\"\"\"
    title = request_input(f"Title of {topic}?")
    place = request_choice("Where to?", ["staging", "production"])
    parts = request_choice("Which parts?", ["a", "b", "c"], multi=True)
    stars = interrupt({"type": "rating", "message": "How many stars?"}, response_schema={"type": "integer"})
    sure = request_confirmation("Publish?", tool_name="publish", tool_args={"title": title})
    return f"{title} {place} {'+'.join(parts)} {stars} {sure}"
"""


def deleting(folder: AgentFolder, *files: str, settings: str = "") -> None:
    for name in files:
        folder.file(name)
    calls = [call("file_delete", path=name) for name in files]
    folder.agent("cleaner", [{"calls": calls}, {"text": "Done."}], settings)


def question(name: str) -> str:
    return f'? Confirm file_delete {{"path": "{name}"}} [y/N]: '


def test_every_kind_of_question(folder: AgentFolder) -> None:
    folder.tools("asking", ASKING)
    folder.agent("asker", [{"calls": [call("ask_all", topic="birds")]}, {"text": "Done."}], "tools: [asking]")
    with folder.terminal("run", "asker") as terminal:
        terminal.expect("? Title of birds?\n> ")
        terminal.send_line("Tschüss 👋")
        terminal.expect("? Where to?\n  1. staging\n  2. production\n  a number, or an option as it is written ")
        terminal.expect("Choice: ")
        terminal.send_line("3")
        terminal.expect("  3 is no option; type a number from 1 to 2\nChoice: ")
        terminal.send_line("1")
        terminal.expect("? Which parts?\n  1. a\n  2. b\n  3. c\n  numbers or options, separated by commas ")
        terminal.expect("Choice: ")
        terminal.send_line("3,1")
        terminal.expect("? How many stars?\n")
        terminal.expect("JSON: ")
        terminal.send_line("many")
        terminal.expect("not JSON: ")
        terminal.expect("JSON: ")
        terminal.send_line("5")
        terminal.expect('  publish {"title": "Tschüss 👋"}\n')
        terminal.expect("  y yes · n no · n TEXT no, with this reason · ? everything\n? Publish? [y/N]: ")
        terminal.send_line("yes")
        assert terminal.exit_code() == 0
    assert folder.results() == ["Tschüss 👋 staging a+c 5 True"]


def test_questions_of_one_message_come_one_after_another(folder: AgentFolder) -> None:
    deleting(folder, "one.txt", "two.txt", "three.txt")
    with folder.terminal("run", "cleaner") as terminal:
        for name, answer in (("one.txt", "y"), ("two.txt", "n"), ("three.txt", "y")):
            terminal.expect(question(name))
            assert folder.cli("pending").out.count("file_delete") == sum(not r.answer for r in folder.requests())
            terminal.send_line(answer)
        assert terminal.exit_code() == 0
    assert folder.results() == ["File deleted: one.txt", "Action denied by user", "File deleted: three.txt"]
    assert not (folder.path / "one.txt").exists()
    assert (folder.path / "two.txt").exists()


def test_an_answer_from_elsewhere_withdraws_the_question_and_this_command_drives(folder: AgentFolder) -> None:
    deleting(folder, "a.txt")
    with folder.terminal("run", "cleaner") as terminal:
        terminal.expect(question("a.txt"))
        recorded = folder.cli("respond", "1", "--no", "--reason", "not today", "--no-wait")
        assert recorded.code == 0
        assert recorded.out.endswith(": not today\nRecorded.\n")
        terminal.expect(f"\n  Withdrawn: answered elsewhere: denied by {login()}: not today at ")
        terminal.expect("file_delete ← Action denied by user: not today\n")
        assert terminal.exit_code() == 0
        assert terminal.screen.endswith("✅ Done.\n")


def test_an_answer_from_elsewhere_that_also_drives_is_followed_to_the_end(folder: AgentFolder) -> None:
    deleting(folder, "a.txt")
    with folder.terminal("run", "cleaner") as terminal:
        terminal.expect(question("a.txt"))
        other = folder.cli("respond", "1", "--yes")
        assert other.code == 0
        assert other.out.endswith("✅ Done.\n")
        terminal.expect(f"\n  Withdrawn: answered elsewhere: approved by {login()} at ")
        assert terminal.exit_code() == 0
        assert terminal.screen.count("File deleted: a.txt") == 1
        assert terminal.screen.endswith("✅ Done.\n")


def test_it_is_followed_to_the_next_question_too(folder: AgentFolder) -> None:
    folder.file("a.txt")
    folder.file("b.txt")
    turns = [{"calls": [call("file_delete", path=name)]} for name in ("a.txt", "b.txt")]
    folder.agent("cleaner", [*turns, {"text": "Done."}])
    with folder.terminal("run", "cleaner") as terminal:
        terminal.expect(question("a.txt"))
        assert folder.cli("respond", "1", "--yes").code == 3
        terminal.expect("Withdrawn: answered elsewhere: approved by ")
        terminal.expect("File deleted: a.txt\n")
        terminal.expect(question("b.txt"))
        terminal.send_line("n")
        assert terminal.exit_code() == 0
    assert folder.results() == ["File deleted: a.txt", "Action denied by user"]


def test_two_terminals_ask_the_same_question_and_one_answer_counts(folder: AgentFolder) -> None:
    deleting(folder, "a.txt")
    with folder.terminal("run", "cleaner") as first:
        first.expect(question("a.txt"))
        with folder.terminal("respond", "1") as second:
            second.expect(question("a.txt"))
            second.send_line("y")
            assert second.exit_code() == 0
            assert second.screen.endswith("✅ Done.\n")
        first.expect(f"Withdrawn: answered elsewhere: approved by {login()} at ")
        assert first.exit_code() == 0
    assert folder.results() == ["File deleted: a.txt"]


def test_a_second_terminal_that_answers_second_follows(folder: AgentFolder) -> None:
    deleting(folder, "a.txt")
    with folder.terminal("run", "cleaner") as first:
        first.expect(question("a.txt"))
        with folder.terminal("respond", "1") as second:
            second.expect(question("a.txt"))
            first.send_line("n")
            assert first.exit_code() == 0
            second.expect(f"Withdrawn: answered elsewhere: denied by {login()} at ")
            assert second.exit_code() == 0
            assert second.screen.endswith("✅ Done.\n")


def test_cancelled_elsewhere(folder: AgentFolder) -> None:
    deleting(folder, "a.txt")
    with folder.terminal("run", "cleaner") as terminal:
        terminal.expect(question("a.txt"))
        cancelled = folder.cli("cancel", "1")
        assert (cancelled.code, cancelled.out) == (0, "Execution 1 is aborted.\n")
        terminal.expect(f"\n  Withdrawn: cancelled by {login()} at ")
        terminal.expect(f"🛑 aborted: cancelled by {login()}\n")
        assert terminal.exit_code() == 4
    assert (folder.path / "a.txt").exists()


def test_a_deadline_that_passes_while_the_question_is_open(folder: AgentFolder) -> None:
    deleting(folder, "a.txt", settings="confirm_timeout: 2s")
    with folder.terminal("run", "cleaner") as terminal:
        terminal.expect("  ⚠ expires in ")
        terminal.expect(question("a.txt"))
        terminal.send("y")
        terminal.expect("\n  Withdrawn: expired, nobody answered in time at ")
        terminal.expect("file_delete ← Action denied by user (timeout)\n")
        assert terminal.exit_code() == 0
    assert (folder.path / "a.txt").exists()
    assert folder.results() == ["Action denied by user (timeout)"]


def test_what_was_half_typed_never_answers_the_next_question(folder: AgentFolder) -> None:
    deleting(folder, "a.txt", "b.txt")
    with folder.terminal("run", "cleaner") as terminal:
        terminal.expect(question("a.txt"))
        terminal.send("y")
        terminal.expect("y")
        assert folder.cli("respond", "1", "--request", "1-0.0", "--no").code == 3
        terminal.expect("Withdrawn: answered elsewhere: denied by ")
        terminal.expect(question("b.txt"))
        terminal.send_line()
        assert terminal.exit_code() == 0
    assert folder.results() == ["Action denied by user", "Action denied by user"]


@pytest.mark.parametrize("ahead", ["y\n", "y\ny\n"])
def test_what_is_typed_while_the_agent_works_answers_nothing(folder: AgentFolder, ahead: str) -> None:
    folder.file("a.txt")
    folder.tools("gates", GATES)
    turns = [{"calls": [call("gated")]}, {"calls": [call("file_delete", path="a.txt")]}, {"text": "Done."}]
    folder.agent("cleaner", turns, "tools: [gates]")
    with folder.terminal("run", "cleaner") as terminal:
        until_begun(folder.path)
        terminal.send(ahead)
        open_gate(folder.path)
        terminal.expect(question("a.txt"))
        terminal.send_line("n")
        assert terminal.exit_code() == 0
    assert (folder.path / "a.txt").exists()


def test_respond_without_an_answer_walks_through_the_open_questions(folder: AgentFolder) -> None:
    deleting(folder, "a.txt", "b.txt")
    folder.begin("cleaner")
    with folder.terminal("respond", "1") as terminal:
        terminal.expect(question("a.txt"))
        terminal.send_line("y")
        terminal.expect(question("b.txt"))
        terminal.send("\x04")
        terminal.expect("execution 1 waits for an answer: agentmd respond 1 --request 1-0.1\n")
        assert terminal.exit_code() == 3
    assert folder.execution().status is Status.WAITING
    with folder.terminal("respond", "1") as terminal:
        terminal.expect(question("b.txt"))
        terminal.send_line("n")
        assert terminal.exit_code() == 0
    assert folder.results() == ["File deleted: a.txt", "Action denied by user"]


def test_a_file_that_changes_while_the_question_stands_is_asked_again(folder: AgentFolder) -> None:
    deleting(folder, "a.txt")
    with folder.terminal("run", "cleaner", columns=200) as terminal:
        terminal.expect(question("a.txt"))
        folder.file("a.txt", "something else\n")
        terminal.send_line("y")
        terminal.expect("  ⚠ asked again: ")
        terminal.expect("changed since ")
        terminal.expect(question("a.txt"))
        terminal.send_line("y")
        assert terminal.exit_code() == 0
    assert not (folder.path / "a.txt").exists()


def test_an_edited_agent_is_told_and_the_execution_goes_on_as_it_started(folder: AgentFolder) -> None:
    deleting(folder, "a.txt")
    folder.begin("cleaner")
    (folder.path / "agents/cleaner.md").unlink()
    with folder.terminal("respond", "1") as terminal:
        terminal.expect("the agent file has changed since")
        terminal.expect(question("a.txt"))
        terminal.send_line("y")
        assert terminal.exit_code() == 0
    assert not (folder.path / "a.txt").exists()


def test_quiet_prints_only_the_questions_and_the_answer(folder: AgentFolder) -> None:
    deleting(folder, "a.txt")
    with folder.terminal("run", "cleaner", "--quiet", columns=200) as terminal:
        terminal.expect(question("a.txt"))
        terminal.send_line("y")
        assert terminal.exit_code() == 0
        lines = terminal.shown.splitlines()
    assert [lines[0][:4], lines[1][:7], *lines[2:]] == ["  → ", "  y yes", f"{question('a.txt')}y", "Done."]
