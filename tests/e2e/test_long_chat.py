"""A long chat with a hosted model on a terminal: questions, a kill -9 in the middle, and the rest in a new process."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import langchain_google_genai  # noqa: F401 - so that forks have it
import pytest

from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import Status
from tests.support.agent_folder import AgentFolder
from tests.support.chatting import ready, say
from tests.support.forked_terminal import ForkedTerminal
from tests.support.gemini import GeminiServer, calls, text

TOOLS = """
import os, signal
from langchain_core.tools import tool
from agent_md.sdk import context

@tool
def change(what: str) -> str:
    \"\"\"Changes something, or is killed after it did.\"\"\"
    folder = context().workspace
    with (folder / "world.log").open("a") as log:
        log.write("changed\\n")
    if (folder / "kill").exists():
        (folder / "kill").unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    return "changed " + what
"""
AGENT = """---
name: bot
model: {{provider: google, name: gemini-2.5-flash, base_url: '{url}'}}
tools: [kit]
confirm: [change]
history: low
---
Help.
"""
WINDOW = 2
"""Turns of four messages of which a window of ten keeps all."""

Content = tuple[str, str]


class Talk:
    """The chat, and what the model is to be given in it."""

    def __init__(self, folder: AgentFolder) -> None:
        self._folder = folder
        self._past: list[list[Content]] = []
        self.expected: list[list[Content]] = []

    def open(self) -> ForkedTerminal:
        return self._folder.terminal("chat", "bot", "--session", "s", env={"GOOGLE_API_KEY": "test"})

    def turn(self, terminal: ForkedTerminal, number: int, *, killed: bool = False) -> None:
        say(terminal, f"Message {number}")
        terminal.expect('? Confirm change {"what": "it"} [y/N]: ')
        approved = killed or number % 3 != 0
        terminal.send_line("y" if approved else "n")
        if not killed:
            terminal.expect("✅ End.\n")
            self.ended(number, "changed it" if approved else "Action denied by user")

    def ended(self, number: int, result: str) -> None:
        own = [("user", f"Message {number}"), ("model", "change"), ("user", result)]
        before = [content for turn in self._past[-WINDOW:] for content in turn]
        self.expected += [[*before, own[0]], [*before, *own]]
        self._past.append([*own, ("model", "End.")])


def plainly(contents: list[dict[str, Any]]) -> list[Content]:
    return [(content["role"], "".join(map(told, content["parts"]))) for content in contents]


def told(part: dict[str, Any]) -> str:
    if "functionCall" in part:
        return str(part["functionCall"]["name"])
    if "functionResponse" in part:
        return str(part["functionResponse"]["response"]["output"])
    return str(part["text"])


@pytest.mark.parametrize("count", [6, pytest.param(60, marks=pytest.mark.stress)])
def test_the_model_is_given_exactly_the_window_over_a_kill(folder: AgentFolder, count: int) -> None:
    folder.tools("kit", TOOLS)
    talk = Talk(folder)
    with GeminiServer([calls(("change", {"what": "it"}, "c2ln")), text("End.")] * (WINDOW + 1)) as server:
        (folder.path / "agents/bot.md").write_text(AGENT.format(url=server.url))
        with talk.open() as terminal:
            for number in range(count // 2):
                talk.turn(terminal, number)
            (folder.path / "kill").touch()
            talk.turn(terminal, count // 2, killed=True)
            assert terminal.exit_code() == -9
        with talk.open() as terminal:
            terminal.expect(f"  It goes on after {count // 2 + 1} turns")
            terminal.expect("was left in the middle; it goes on first.\n")
            terminal.expect("✅ End.\n")
            talk.ended(count // 2, unknown_result(folder, count // 2 + 1))
            for number in range(count // 2 + 1, count):
                talk.turn(terminal, number)
            ready(terminal)
            terminal.send("\x04")
            assert terminal.exit_code() == 0
    assert [plainly(request.body["contents"]) for request in server.requests] == talk.expected
    check_logs(folder, count)


def unknown_result(folder: AgentFolder, number: int) -> str:
    """What the model is told of the call that was killed."""
    with folder.store() as store:
        (call,) = store.calls(ExecutionId(number))
    assert "may have run" in (call.result or "")
    return call.result or ""


def check_logs(folder: AgentFolder, count: int) -> None:
    with folder.store() as store:
        turns = store.executions()
    assert [(turn.id, turn.session_id, turn.status) for turn in turns] == [
        (number, "s", Status.SUCCESS) for number in range(count, 0, -1)
    ]
    listed = folder.cli("logs", "bot", "-n", "100").out.splitlines()
    assert sum(re.search(r"success( ⚠)? +chat", line) is not None for line in listed) == count
    for number in (1, count // 2 + 1, count):
        assert f"👤 Message {number - 1}\n" in folder.cli("logs", "-e", str(number)).out
    approved = sum(number % 3 != 0 for number in range(count) if number != count // 2) + 1
    assert Path(folder.path / "world.log").read_text().count("changed\n") == approved
