"""Text of others is printed literally and visibly by every command, and comes through JSON as it is."""

from __future__ import annotations

import json
import re

import pytest

from tests.support.agent_folder import AgentFolder, call
from tests.support.processes import Finished

EVIL = "\x1b[2K\r\x1b]0;owned\x07[/b][link=http://x]click[/link]\u202egnp.exe\u200b\u2066\U000e0041\x9b31m\x00\x7f"
SHOWN = r"\x1b[2K\r\x1b]0;owned\x07[/b][link=http://x]click[/link]\u202egnp.exe\u200b\u2066\U000e0041\x9b31m\x00\x7f"
LONG = "x" * 100_000 + "END"

TOOLS = '''
from langchain_core.tools import tool

@tool
def echo(text: str) -> str:
    """Gives the text."""
    return text

@tool
def fail(text: str) -> str:
    """Fails with the text."""
    raise ValueError(text)
'''

OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\ufeff\U000e0000-\U000e0fff]")


@pytest.fixture
def evil(folder: AgentFolder) -> AgentFolder:
    folder.tools("echoes", TOOLS)
    folder.agent(
        "crook",
        [
            {"text": EVIL, "calls": [call("echo", text=EVIL), call("fail", text=EVIL)]},
            {"calls": [call("ask_user", question=EVIL, kind="choice", options=[EVIL, "plain"])]},
            {"calls": [call("echo", text=EVIL)]},
            {"text": EVIL},
        ],
        "tools: [echoes]\nconfirm: [echo]",
    )
    return folder


def shows(ended: Finished, code: int = 0) -> str:
    """What a command printed, none of it obeyed by a terminal and the text in it readable."""
    assert ended.code == code, ended
    text = ended.out + ended.err
    assert OBEYED.search(text) is None, ascii(text)
    for fragment in (r"\\(x|u00)1b\[2K", r"\[/b\]\[link=http://x\]click\[/link\]", r"\\u202egnp\.exe\\u200b\\u2066"):
        assert re.search(fragment, text), (fragment, text)
    return text


def test_nothing_is_obeyed_and_nothing_is_hidden(evil: AgentFolder) -> None:
    shows(evil.cli("run", "crook"), code=3)
    shows(evil.cli("pending"))
    shows(evil.cli("respond", "1", "--yes"), code=3)
    shows(evil.cli("pending"))
    shows(evil.cli("respond", "1", "--choice", EVIL), code=3)
    shows(evil.cli("respond", "1", "--no", "--reason", EVIL))
    timeline = shows(evil.cli("logs", "-e", "1"))
    assert timeline.count("[/b][link=http://x]click[/link]") >= 12
    assert timeline.count(SHOWN) >= 7
    assert OBEYED.search(evil.cli("logs").out) is None


def test_json_keeps_what_it_was(evil: AgentFolder) -> None:
    ended = evil.cli("run", "crook", "--json")
    assert ended.out.isascii()
    lines = [json.loads(line) for line in ended.out.splitlines()]
    assert [line["args"] for line in lines if line["event"] == "tool_call"] == [{"text": EVIL}, {"text": EVIL}]
    pending = evil.cli("pending", "--json").out
    assert pending.isascii()
    assert json.loads(pending)[0]["tool_args"] == {"text": EVIL}
    logs = evil.cli("logs", "-e", "1", "--json").out
    assert logs.isascii()
    assert EVIL in [event["message"] for event in json.loads(logs)]


def test_a_question_on_a_terminal(evil: AgentFolder) -> None:
    with evil.terminal("run", "crook") as terminal:
        terminal.expect("  ⚠ this request holds control, hidden or reordering characters")
        terminal.expect("[y/N]: ")
        terminal.send_line("y")
        terminal.expect(f"? {SHOWN}\n  1. {SHOWN}\n  2. plain\nChoice: ")
        terminal.send_line("1")
        terminal.expect("[y/N]: ")
        terminal.send_line("n")
        assert terminal.exit_code() == 0
        assert OBEYED.search(terminal.screen.replace("\r", "")) is None


def test_errors_of_the_model_and_of_files(evil: AgentFolder) -> None:
    evil.agent("failing", [{"error": {"kind": "bad_request", "message": EVIL}}])
    shows(evil.cli("run", "failing"), code=1)
    shows(evil.cli("run", "failing", "-q"), code=1)
    written = json.dumps(re.sub("[\x00\U000e0041]", "", EVIL))  # YAML knows neither NUL nor pairs of surrogates
    (evil.path / "agents/bad.md").write_text(f"---\n{written}: 1\n---\n")
    shows(evil.cli("list"))
    shows(evil.cli("validate"), code=1)
    shows(evil.cli("run", "bad"), code=2)


def test_a_long_line_is_shown_whole(folder: AgentFolder) -> None:
    folder.tools("echoes", TOOLS)
    folder.agent("long", [{"calls": [call("echo", text=LONG)]}, {"text": LONG}], "tools: [echoes]\nconfirm: [echo]")
    with folder.terminal("run", "long") as terminal:
        terminal.expect("END")
        terminal.expect("END")
        terminal.expect("… (whole above) [y/N]: ")
        terminal.send_line("y")
        terminal.expect("END")
        assert terminal.exit_code() == 0
    assert LONG in folder.cli("logs", "-e", "1").out


def test_names_that_look_odd_but_are_allowed(folder: AgentFolder) -> None:
    for name in ("Größe 1", "прибирач", "お掃除", "a_b-c"):
        folder.agent(name, [{"text": "Done."}])
        assert folder.cli("run", name).out.endswith(f"{name} ✅ Done.\n")
    assert all(name in folder.cli("list").out for name in ("Größe 1", "прибирач", "お掃除", "a_b-c"))


def test_bytes_that_are_no_text(folder: AgentFolder) -> None:
    folder.agent("asker", [{"calls": [call("ask_user", question="Title?")]}, {"text": "Done."}])
    assert folder.cli("run", "asker", "\udcff", "-m", "\udcfe").code == 3
    ended = folder.cli("respond", "1", "--text", "caf\udce9")
    assert (ended.code, ended.err) == (0, "")
    assert folder.results()[0] in (r"caf\udce9", "caf\ufffd")
    assert r"\udcff" in folder.cli("logs", "-e", "1").out
