"""The commands of a chat: what is obeyed and not sent, with an agent of this workspace, of a server, of any server."""

from __future__ import annotations

from pathlib import Path

import pytest

import agent_md.cli.remote.remote_chat  # noqa: F401 - so that forks have it
from tests.support.agent_folder import AgentFolder
from tests.support.chatting import Piped, ready, say
from tests.support.foreign_sessions import Reply, foreign_server
from tests.support.forked_terminal import ForkedTerminal
from tests.support.relay import relay
from tests.support.server import Server

SCRIPT = """
conversations:
  - match: {user: look}
    turns:
      - calls: [{name: file_glob, args: {pattern: "*.txt"}}]
        usage: {input: 10, output: 3, cost: 0.25}
      - {text: "One \\x1b[31mfile."}
  - turns: [{text: Hello., usage: {input: 10, output: 3, cost: 0.25}}]
"""
OTHER = [{"text": "It is me.", "usage": {"input": 1, "output": 1, "cost": 0.5}}]


@pytest.fixture
def bot(folder: AgentFolder) -> AgentFolder:
    folder.file("a.txt")
    folder.agent("bot", SCRIPT, 'description: "Looks around"')
    folder.agent("other", OTHER, 'description: "Says \\e[2J"')
    return folder


def leave(terminal: ForkedTerminal) -> str:
    say(terminal, "/exit")
    assert terminal.exit_code() == 0
    return terminal.shown


def test_the_commands_of_a_chat_in_a_workspace(bot: AgentFolder) -> None:
    with bot.terminal("chat", "bot", "--session", "first", columns=140) as terminal:
        say(terminal, "/history")
        terminal.expect("  Nothing was said in this session yet.\n")
        say(terminal, "look")
        say(terminal, "/history")
        terminal.expect('  👤 look\n  🔧 file_glob {"pattern": "*.txt"}\n  💬 One \\x1b[31mfile.\n')
        say(terminal, "/agents")
        terminal.expect(
            "  ▶ bot  Looks around\n    other  Says \\x1b[2J\n  `agentmd chat NAME` talks with another one.\n"
        )
        say(terminal, "/model")
        terminal.expect("  script/bot answers; /model PROVIDER/NAME lets another one answer in this chat.\n")
        say(terminal, "/model script/nobody")
        terminal.expect("nobody.yaml")
        say(terminal, "/model script/other")
        terminal.expect("  script/other answers from the next message on, in this chat only.\n")
        say(terminal, "who?")
        terminal.expect("✅ It is me.\n")
        say(terminal, "/cost")
        terminal.expect("  This chat: 2 turns, 15 tokens, $0.7500\n  The session: 2 turns, 15 tokens, $0.7500\n")
        say(terminal, "/clear")
        terminal.expect("  This session goes on with: agentmd chat bot --session first\n")
        terminal.expect("  A new session, which knows nothing of what was said: ")
        say(terminal, "and now?")
        terminal.expect("✅ It is me.\n")
        say(terminal, "/cost")
        terminal.expect("  This chat: 3 turns, 17 tokens, $1.2500\n  The session: 1 turn, 2 tokens, $0.5000\n")
        assert leave(terminal).count("This session goes on with") == 2
    with bot.store() as store:
        turns = store.executions()
        assert [turn.session_id == "first" for turn in turns] == [False, True, True]
        assert len([m for m in store.seed(turns[0].id) if m["type"] == "human"]) == 1


def test_what_only_looks_like_a_command_is_told_or_sent(bot: AgentFolder) -> None:
    with bot.terminal("chat", "bot", columns=140) as terminal:
        say(terminal, "/modle")
        terminal.expect("  there is no command /modle; did you mean /model? To send it, put a blank before it\n")
        say(terminal, "/model gpt-4o")
        terminal.expect('  "gpt-4o" is no PROVIDER/NAME; write openai/gpt-4o')
        for message in ("/clear the table", "/model of a ship", " /cost"):
            say(terminal, message)
            terminal.expect("✅ Hello.\n")
        leave(terminal)
    with bot.store() as store:
        assert len(store.executions()) == 3


def test_lines_of_a_program_are_no_commands(bot: AgentFolder) -> None:
    ended = Piped(bot, "bot").end("/clear\n/cost\n")
    assert (ended.code, ended.out.count("✅ Hello.")) == (0, 2)


def test_the_commands_of_a_chat_with_a_server(bot: AgentFolder) -> None:
    with (
        Server(bot.path) as server,
        relay(Path(server.address["socket"])) as way,
        ForkedTerminal(["chat", "--url", f"{way.url}/agents/bot"], cwd="/", columns=140) as terminal,
    ):
        say(terminal, "/clear")
        terminal.expect("  This session is new: nothing was said in it.\n")
        say(terminal, "look")
        say(terminal, "/history")
        terminal.expect("  👤 look\n  💬 One \\x1b[31mfile.\n")
        say(terminal, "/cost")
        terminal.expect("  The session: 1 turn, 13 tokens, $0.2500\n")
        say(terminal, "/agents")
        terminal.expect("  ▶ bot  Looks around\n    other  Says \\x1b[2J\n")
        say(terminal, "/model")
        terminal.expect("  script/bot answers.\n")
        say(terminal, "/model script/other")
        terminal.expect("  The model of an agent of a server is chosen there: in its agent file.\n")
        say(terminal, "/clear")
        terminal.expect("  A new session, which knows nothing of what was said: ")
        say(terminal, "and now?")
        terminal.expect("✅ Hello.\n")
        say(terminal, "/history")
        terminal.expect("  👤 and now?\n  💬 Hello.\n")
        leave(terminal)


def test_a_server_that_has_sessions_alone() -> None:
    with foreign_server() as server:
        server.replies["POST /sessions"] = [Reply({"session_id": "x", "status": "idle"})]
        server.replies["GET /sessions/x/messages"] = [Reply([{"role": "user", "content": "Hi"}, {"role": "z"}])]
        server.replies["GET /agents"] = [Reply([{"title": "a"}])]
        server.replies["DELETE /sessions/x"] = [Reply(b"", 204)]
        with ForkedTerminal(["chat", "--url", server.url], cwd="/", columns=140) as terminal:
            for command in ("/cost", "/agents"):
                say(terminal, command)
                terminal.expect("  This server does not tell that.\n")
            say(terminal, "/model")
            terminal.expect("  The address names no agent, and the server does not tell whose sessions these are.\n")
            say(terminal, "/history")
            terminal.expect("  👤 Hi\n")
            ready(terminal)
            terminal.send("\x04")
            assert terminal.exit_code() == 0


def test_tab_completes_them(bot: AgentFolder) -> None:
    with bot.terminal("chat", "bot") as terminal:
        ready(terminal)
        terminal.send("/hi\t")
        terminal.expect("/history")
        terminal.send("\n")
        terminal.expect("Nothing was said in this session yet.")
        leave(terminal)
