"""A final text that the model's token limit cut says so in every face, and so does the exit code."""

from __future__ import annotations

import json

from tests.support.agent_folder import AgentFolder
from tests.support.chatting import Piped

NOTE = "the text above is cut: the model stopped before its end (finish reason length)"


def agent(folder: AgentFolder) -> None:
    folder.agent("teller", [{"text": "Once upon a", "finish": "length"}])


def test_run_shows_the_text_and_that_it_is_cut(folder: AgentFolder) -> None:
    agent(folder)
    ran = folder.cli("run", "teller")
    assert ran.code == 4
    assert "teller ✅ Once upon a\n" in ran.out
    assert ran.out.splitlines()[-1].endswith(f"teller ✂ {NOTE}")


def test_quiet_prints_the_text_and_says_it_on_standard_error(folder: AgentFolder) -> None:
    agent(folder)
    ran = folder.cli("run", "teller", "-q")
    assert (ran.code, ran.out, ran.err) == (4, "Once upon a\n", f"teller: {NOTE}\n")


def test_json_has_it_in_the_events_and_in_the_execution(folder: AgentFolder) -> None:
    agent(folder)
    ran = folder.cli("run", "teller", "--json")
    lines = [json.loads(line) for line in ran.out.splitlines()]
    assert ran.code == 4
    assert {line["event"]: line.get("cut") for line in lines if "cut" in line} == {
        "ai": "length",
        "final_answer": "length",
        "complete": "length",
    }
    assert lines[-1]["status"] == "success"
    (listed,) = json.loads(folder.cli("logs", "--json").out)
    assert (listed["status"], listed["cut"]) == ("success", "length")
    assert "with a text that is cut" in folder.cli("logs", "-e", "1").out


def test_a_chat_ends_with_the_code_of_a_turn_that_was_cut(folder: AgentFolder) -> None:
    agent(folder)
    ran = Piped(folder, "teller").end("Go on.\n")
    assert ran.code == 4
    assert NOTE in ran.out
