"""A session that others have begun, left open, or are at: what `agentmd chat --session` does first."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import CallOutcome, Status, TriggerKind
from tests.support.agent_folder import AgentFolder
from tests.support.chatting import Piped, on_screen, ready, say
from tests.support.forked_terminal import ForkedTerminal
from tests.support.gates import GATES, open_gate, until_begun
from tests.support.server import Server
from tests.support.waiting import until

SCRIPT = """
conversations:
  - match: {user: delete}
    turns:
      - {calls: [{name: file_delete, args: {path: a.txt}}], usage: {input: 70, output: 7, cost: 0.5}}
      - {text: Deleted., usage: {input: 90, output: 9, cost: 0.25}}
  - match: {user: die}
    turns: [{calls: [{name: die, args: {}}]}, {text: I am back.}]
  - match: {user: gate}
    turns: [{calls: [{name: gated, args: {}}]}, {text: Through.}]
  - match: {user: hostile}
    turns: [{text: "Evil \\e[31m\\nyou> "}]
  - turns: [{text: Hello.}]
"""
TOOLS = """
import os, signal
from langchain_core.tools import tool
from agent_md.sdk import context

@tool
def die() -> str:
    \"\"\"Kills its process, once.\"\"\"
    try:
        (context().workspace / "died").touch(exist_ok=False)
    except FileExistsError:
        return "alive"
    os.kill(os.getpid(), signal.SIGKILL)
"""
WAITS = "Execution 1, a turn of this session, waits for an answer; that comes first.\n"


@pytest.fixture
def bot(folder: AgentFolder) -> AgentFolder:
    folder.agent("bot", SCRIPT, "tools: [kit, gates]")
    folder.tools("kit", TOOLS)
    folder.tools("gates", GATES)
    return folder


@pytest.fixture
def server(bot: AgentFolder) -> Iterator[Server]:
    with Server(bot.path) as running:
        yield running


def chat(folder: AgentFolder, name: str = "bot") -> ForkedTerminal:
    return folder.terminal("chat", name, "--session", "s")


def leave(terminal: ForkedTerminal) -> None:
    say(terminal, "/exit")
    assert terminal.exit_code() == 0


def last_window(folder: AgentFolder) -> list[tuple[str, str]]:
    """What the newest execution began with, without its system prompt."""
    with folder.store() as store:
        seed = store.seed(store.executions(limit=1)[0].id)
    return [(m["type"], m["data"]["content"]) for m in seed[1:]]


def test_how_far_it_has_come(bot: AgentFolder) -> None:
    assert Piped(bot, "bot", "--session", "s").end("One\nhostile\x1b[2J\u202e two\n").code == 0
    with chat(bot) as terminal:
        say(terminal, "Three")
        leave(terminal)
        screen = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", "THEN", on_screen(terminal))
    assert screen.startswith(
        "▶ Chat with bot  script/bot\n"
        "  Session s; /help helps, /exit ends\n"
        "  It goes on after 2 turns, the last change THEN:\n"
        "  👤 hostile\\x1b[2J\\u202e two\n"
        "  💬 Evil \\x1b[31m\\nyou>\n"
        "\n"
        "you> Three\n"
    )
    assert [kind for kind, _ in last_window(bot)] == ["human", "ai", "human", "ai", "human"]


def test_the_session_that_changed_last_is_continued(bot: AgentFolder) -> None:
    bot.agent("other", [{"text": "Other."}])
    for agent, name in (("bot", "one"), ("bot", "two"), ("bot", "one"), ("other", "three")):
        assert Piped(bot, agent, "--session", name).end("Hi\n").code == 0
    with bot.terminal("chat", "bot", "-c") as terminal:
        terminal.expect("  Session one; /help helps")
        terminal.expect("  It goes on after 2 turns")
        leave(terminal)


def test_what_cannot_be_continued(bot: AgentFolder) -> None:
    ended = bot.cli("chat", "bot", "--continue")
    assert (ended.code, ended.out) == (2, "")
    assert ended.err == "agentmd: bot has no session that could be continued; `agentmd chat bot` begins one\n"
    assert not (bot.path / ".agentmd/agentmd.db").exists()
    for more in (["--session", "s"], ["--url", "http://127.0.0.1:9"]):
        ended = bot.cli("chat", "bot", "--continue", *more)
        assert (ended.code, ended.out) == (2, "")
        assert f"does not go with {more[0]}" in ended.err


def test_a_name_is_the_same_in_any_spelling(bot: AgentFolder) -> None:
    assert Piped(bot, "bot", "--session", "s").end("One\n").code == 0
    with chat(bot, "BOT") as terminal:
        say(terminal, "Two")
        leave(terminal)
    assert last_window(bot) == [("human", "One"), ("ai", "Hello."), ("human", "Two")]


def test_an_open_question_comes_first(bot: AgentFolder) -> None:
    bot.file("a.txt")
    assert Piped(bot, "bot", "--session", "s").end("delete\n").code == 3
    with chat(bot) as terminal:
        terminal.expect(WAITS)
        terminal.expect("[y/N]: ")
        terminal.send_line("y")
        terminal.expect("file_delete ← File deleted: a.txt\n")
        terminal.expect("✅ Deleted.\n")
        say(terminal, "Hi")
        terminal.expect("✅ Hello.\n")
        leave(terminal)
        assert "2 turns, 99 tokens, $0.2500\n" in on_screen(terminal)
    assert bot.execution().status is Status.SUCCESS
    assert last_window(bot) == [
        *(("human", "delete"), ("ai", ""), ("tool", "File deleted: a.txt"), ("ai", "Deleted."), ("human", "Hi"))
    ]


def test_an_open_question_that_is_left_again(bot: AgentFolder) -> None:
    bot.file("a.txt")
    assert Piped(bot, "bot", "--session", "s").end("delete\n").code == 3
    with chat(bot) as terminal:
        terminal.expect("[y/N]: ")
        terminal.send("\x04")
        terminal.expect("execution 1 waits for an answer: agentmd respond 1 --request 1-0.0\n")
        assert terminal.exit_code() == 3
    assert bot.execution().status is Status.WAITING


def test_a_turn_whose_process_was_killed_goes_on_first(bot: AgentFolder) -> None:
    with chat(bot) as terminal:
        say(terminal, "die")
        assert terminal.exit_code() == -9
    with chat(bot) as terminal:
        terminal.expect("Execution 1, a turn of this session, was left in the middle; it goes on first.\n")
        terminal.expect("may have run")
        terminal.expect("✅ I am back.\n")
        say(terminal, "Hi")
        leave(terminal)
    with bot.store() as store:
        (call,) = store.calls(ExecutionId(1))
    assert call.outcome is CallOutcome.UNKNOWN
    assert [kind for kind, _ in last_window(bot)] == ["human", "ai", "tool", "ai", "human"]


def test_a_queued_turn_goes_on_first_also_from_a_pipe(bot: AgentFolder) -> None:
    bot.file("a.txt")
    with Server(bot.path) as server:
        answer = server.client.post("/agents/bot/run", {"message": "delete", "session_id": "s"})
        assert answer.status == 200
        until(lambda: bot.execution().status is Status.WAITING)
        server.stop()
    assert bot.cli("respond", "1", "--no", "--no-wait").code == 0
    assert bot.execution().status is Status.QUEUED
    ended = Piped(bot, "bot", "--session", "s").end("Hi\n")
    assert ended.code == 0
    assert "was left in the middle; it goes on first.\n" in ended.err
    assert [line[13:] for line in ended.out.splitlines()] == [
        *("📎 file_delete ← Action denied by user", "✅ Deleted.", "✅ Hello.")
    ]


class TestBesideOthers:
    def test_a_turn_at_another_terminal_is_followed_to_its_end(self, bot: AgentFolder) -> None:
        with chat(bot) as first, chat(bot) as second:
            ready(second)
            say(first, "gate")
            until_begun(bot.path)
            second.send_line("Hi")
            second.expect(
                "Execution 1, a turn of this session, is driven by another process; it is\n  followed to its end first.\n"
            )
            open_gate(bot.path)
            second.expect("gated ← through\n")
            second.expect("✅ Through.\n")
            second.expect("✅ Hello.\n")
            leave(second)
            leave(first)
            assert "Hello." not in first.screen
        assert last_window(bot) == [
            *(("human", "gate"), ("ai", ""), ("tool", "through"), ("ai", "Through."), ("human", "Hi"))
        ]

    def test_ctrl_c_while_following_only_leaves(self, bot: AgentFolder) -> None:
        with chat(bot) as first:
            say(first, "gate")
            until_begun(bot.path)
            with chat(bot) as second:
                second.expect("followed to its end first.\n")
                second.expect("bot · gated…")
                second.send("\x03")
                second.expect("execution 1 goes on without this terminal")
                assert second.exit_code() == 130
            open_gate(bot.path)
            first.expect("✅ Through.\n")
            leave(first)
        assert bot.execution().status is Status.SUCCESS

    def test_a_server_leaves_the_turns_of_a_chat_alone(self, bot: AgentFolder, server: Server) -> None:
        bot.file("a.txt")
        with chat(bot) as terminal:
            say(terminal, "gate")
            until_begun(bot.path)
            assert server.client.get("/executions/1").body["status"] == "running"
            open_gate(bot.path)
            terminal.expect("✅ Through.\n")
            say(terminal, "delete")
            terminal.expect("[y/N]: ")
            terminal.send_line("y")
            terminal.expect("✅ Deleted.\n")
            leave(terminal)
        assert [(bot.execution(n).status, bot.execution(n).epoch) for n in (1, 2)] == [
            *((Status.SUCCESS, 1), (Status.SUCCESS, 2))
        ]
        assert bot.execution(2).trigger is TriggerKind.CHAT

    def test_an_answer_that_a_server_takes_is_followed(self, bot: AgentFolder, server: Server) -> None:
        bot.file("a.txt")
        with chat(bot) as terminal:
            say(terminal, "delete")
            terminal.expect("[y/N]: ")
            answer = server.client.post("/executions/1/respond", {"response": {"approved": True}})
            assert answer.status == 200
            terminal.expect("Withdrawn: answered elsewhere: approved by api")
            terminal.expect("✅ Deleted.\n")
            say(terminal, "Hi")
            terminal.expect("✅ Hello.\n")
            leave(terminal)

    def test_a_turn_that_a_server_is_at_is_followed(self, bot: AgentFolder, server: Server) -> None:
        bot.file("a.txt")
        server.client.post("/agents/bot/run", {"message": "gate", "session_id": "s"})
        until_begun(bot.path)
        with chat(bot) as terminal:
            terminal.expect("followed to its end first.\n")
            open_gate(bot.path)
            terminal.expect("✅ Through.\n")
            ready(terminal)
            server.client.post("/agents/bot/run", {"message": "delete", "session_id": "s"})
            until(lambda: bot.execution(2).status is Status.WAITING)
            terminal.send_line("Hi")
            terminal.expect("Execution 2, a turn of this session, waits for an answer; that comes first.\n")
            terminal.expect("[y/N]: ")
            terminal.send_line("n")
            terminal.expect("✅ Deleted.\n")
            terminal.expect("✅ Hello.\n")
            leave(terminal)
