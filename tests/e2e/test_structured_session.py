"""Structured questions and custom requests of real executions on a terminal."""

from __future__ import annotations

import json

import pytest

from agent_md.executions.states import Status
from tests.support.agent_folder import AgentFolder, call
from tests.support.structured import DATABASE, FEATURES, option, question

TOOLS = """
from langchain_core.tools import tool
from agent_md.sdk import interrupt

@tool
def place() -> object:
    \"\"\"Asks with a type that nobody knows.\"\"\"
    return interrupt({"type": "map", "centre": [52.5, 13.4], "hint": "a\\x1b[2Jb"}, response_schema={"type": "object"})
"""


def asking(folder: AgentFolder) -> None:
    folder.agent("asker", [{"calls": [call("ask_user_question", questions=[DATABASE, FEATURES])]}, {"text": "Done."}])


def test_all_questions_are_answered_at_the_prompt(folder: AgentFolder) -> None:
    asking(folder)
    with folder.terminal("run", "asker") as terminal:
        terminal.expect(
            "? Which database?  [Database]  (1/2)\n  1. SQLite\n     One file\n     │ app.db\n     │   users\n"
            "  2. Postgres\n     A server\n  3. Other\n"
        )
        terminal.expect("Choice: ")
        terminal.send_line("2")
        terminal.expect("? Which features?  [Features]  (2/2)\n  1. Search\n  2. Export\n     As CSV\n  3. Über\n")
        terminal.expect("Choice: ")
        terminal.send_line("3 1 4")
        terminal.expect("Other: ")
        terminal.send_line("mine")
        assert terminal.exit_code() == 0
    answers = {"Which database?": "Postgres", "Which features?": ["Search", "Über", "mine"]}
    assert json.loads(folder.results()[0]) == answers


def test_a_wide_terminal_is_used(folder: AgentFolder) -> None:
    words = " ".join(["word"] * 25)
    asked = question("Which?", option("A", words), option("B"))
    folder.agent("asker", [{"calls": [call("ask_user_question", questions=[asked])]}, {"text": "Done."}])
    with folder.terminal("run", "asker", columns=140) as terminal:
        terminal.expect(f"\n     {words}\n  2. B\n")
        terminal.expect("Choice: ")
        terminal.send_line("1")
        assert terminal.exit_code() == 0


@pytest.mark.parametrize(("out", "code"), [("\x03", 130), ("\x04", 3)])
def test_leaving_at_the_second_question_leaves_all_open_and_another_command_asks_anew(
    folder: AgentFolder, out: str, code: int
) -> None:
    asking(folder)
    with folder.terminal("run", "asker") as terminal:
        terminal.expect("Choice: ")
        terminal.send_line("1")
        terminal.expect("(2/2)")
        terminal.expect("Choice: ")
        terminal.send(out)
        assert terminal.exit_code() == code
    assert folder.execution().status is Status.WAITING
    (request,) = folder.requests()
    assert request.answer is None
    with folder.terminal("respond", "1") as terminal:
        terminal.expect("(1/2)")
        terminal.expect("Choice: ")
        terminal.send_line("2")
        terminal.expect("Choice: ")
        terminal.send_line("1")
        assert terminal.exit_code() == 0
    assert json.loads(folder.results()[0]) == {"Which database?": "Postgres", "Which features?": ["Search"]}


def test_an_answer_from_elsewhere_withdraws_the_second_question(folder: AgentFolder) -> None:
    asking(folder)
    answers = {"Which database?": "SQLite", "Which features?": ["Export"]}
    with folder.terminal("run", "asker") as terminal:
        terminal.expect("Choice: ")
        terminal.send_line("2")
        terminal.expect("(2/2)")
        terminal.expect("Choice: ")
        assert folder.cli("respond", "1", "--answers", json.dumps(answers), "--no-wait").code == 0
        terminal.expect("Withdrawn: answered elsewhere: answered by ")
        assert terminal.exit_code() == 0
        assert "Which database? SQLite; Which features? Export at " in " ".join(terminal.shown.split())
    assert json.loads(folder.results()[0]) == answers


def test_pending_and_the_log_show_them(folder: AgentFolder) -> None:
    asking(folder)
    ended = folder.cli("run", "asker")
    assert ended.code == 3
    asked = "Which database? [SQLite | Postgres] / Which features? [Search | Export | Über]"
    assert f"? {asked}" in ended.err
    assert "Which database?" in folder.cli("pending").out
    (listed,) = json.loads(folder.cli("pending", "--json").out)
    assert (listed["kind"], listed["questions"]) == ("questions", [DATABASE, FEATURES])
    folder.cli("respond", "1", "--answers", '{"Which database?": "a\\u001bb", "Which features?": "Über"}')
    assert r"Which database? a\x1bb; Which features? Über" in folder.cli("logs", "-e", "1").out


def test_a_custom_request_of_an_unknown_type_is_shown_and_answered(folder: AgentFolder) -> None:
    folder.tools("maps", TOOLS)
    folder.agent("asker", [{"calls": [call("place")]}, {"text": "Done."}], "tools: [maps]")
    with folder.terminal("run", "asker") as terminal:
        terminal.expect("⚠ this request holds control")
        terminal.expect('  {\n    "type": "map",\n    "centre": [\n      52.5,\n      13.4\n    ],\n')
        terminal.expect(r'    "hint": "a\u001b[2Jb"')
        terminal.expect('The answer must fit the JSON Schema {"type": "object"}\n? map request\n')
        terminal.expect("JSON: ")
        terminal.send_line("[1]")
        terminal.expect("does not fit the request's schema")
        terminal.expect("JSON: ")
        terminal.send_line('{"at": 1}')
        assert terminal.exit_code() == 0
    assert folder.results() == ['{"at": 1}']
