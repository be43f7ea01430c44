"""`agentmd chat` on a terminal: turns, questions, how it ends."""

from __future__ import annotations

import re
import signal
import uuid

import pytest

from agent_md.cli.command_context import login
from agent_md.executions.sessions import SessionStatus
from agent_md.executions.states import Status, TriggerKind
from tests.support.agent_folder import AgentFolder, call
from tests.support.chatting import on_screen, ready, say
from tests.support.gates import GATES, open_gate, until_begun
from tests.support.waiting import until

SCRIPT = """
conversations:
  - match: {user: delete}
    turns:
      - {calls: [{name: file_delete, args: {path: a.txt}}]}
      - {text: Deleted.}
  - match: {user: slow}
    turns: [{delay: 1m, text: Late.}]
  - match: {user: fail}
    turns: [{error: {kind: bad_request, message: out of order}}]
  - match: {user: hang}
    turns: [{calls: [{name: hang, args: {}}]}, {text: Hung.}]
  - turns: [{text: Hello., usage: {input: 10, output: 3, cost: 0.25}}]
"""

HANG = """
import asyncio
from langchain_core.tools import tool
from agent_md.sdk import context

@tool
async def hang() -> str:
    \"\"\"Cannot be cancelled.\"\"\"
    (context().workspace / "begun").touch()
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass
"""


@pytest.fixture
def bot(folder: AgentFolder) -> AgentFolder:
    folder.agent("bot", SCRIPT, "tools: [hang]")
    folder.tools("hang", HANG)
    return folder


def times_out(screen: str) -> str:
    return re.sub(r"\d\d:\d\d:\d\d", "TT:TT:TT", screen)


def test_a_chat_from_its_first_line_to_its_last(bot: AgentFolder) -> None:
    file = bot.file("a.txt")
    with bot.terminal("chat", "bot", "--session", "tuesday", columns=200) as terminal:
        say(terminal, "Hi")
        say(terminal, "delete it")
        terminal.expect("[y/N]: ")
        terminal.send_line("y")
        say(terminal, "/exit")
        assert terminal.exit_code() == 0
        screen = times_out(on_screen(terminal, 200))
    assert screen == (
        "▶ Chat with bot  script/bot\n"
        "  Session tuesday; /help helps, /exit ends\n"
        "\n"
        "you> Hi\n"
        "TT:TT:TT bot ✅ Hello.\n"
        "\n"
        "you> delete it\n"
        'TT:TT:TT bot 🔧 file_delete → {"path": "a.txt"}\n'
        f"  → {file} (5 bytes, text)\n"
        "  y yes · n no · n TEXT no, with this reason · e edit · a always · ? everything\n"
        '? Confirm file_delete {"path": "a.txt"} [y/N]: y\n'
        "\n"
        "TT:TT:TT bot 📎 file_delete ← File deleted: a.txt\n"
        "TT:TT:TT bot ✅ Deleted.\n"
        "\n"
        "you> /exit\n"
        "2 turns, 13 tokens, $0.2500\n"
        "This session goes on with: agentmd chat bot --session tuesday\n"
    )
    with bot.store() as store:
        second, first = store.executions()
        assert {x.trigger for x in (first, second)} == {TriggerKind.CHAT}
        assert {x.session_id for x in (first, second)} == {"tuesday"}
        seed = [(m["type"], m["data"]["content"]) for m in store.seed(second.id)]
        assert store.sessions.get("bot", "tuesday").status is SessionStatus.IDLE
    assert seed == [("system", "Work.\n"), ("human", "Hi"), ("ai", "Hello."), ("human", "delete it")]


def test_a_new_session_has_a_uuid_that_is_said(bot: AgentFolder) -> None:
    with bot.terminal("chat", "bot") as terminal:
        say(terminal, "Hi")
        ready(terminal)
        terminal.send("\x04")
        assert terminal.exit_code() == 0
        named = re.findall(r"(?:Session |--session )([0-9a-f-]{36})", on_screen(terminal, 120))
    assert named == [bot.execution().session_id] * 2
    assert uuid.UUID(named[0]).version == 4


def test_a_chat_without_a_message_leaves_no_session(bot: AgentFolder) -> None:
    with bot.terminal("chat", "bot") as terminal:
        ready(terminal)
        terminal.send_line("  ")
        say(terminal, "/quit")
        assert terminal.exit_code() == 0
        assert on_screen(terminal).endswith("you> /quit\n")
    with bot.store() as store:
        assert (store.executions(), store.sessions.listed()) == ([], [])


def test_help_is_no_message_and_what_else_begins_with_a_slash_is(bot: AgentFolder) -> None:
    with bot.terminal("chat", "bot") as terminal:
        say(terminal, "/help")
        terminal.expect("/help shows this; any other text is a\n  message.\n")
        say(terminal, "/etc/hosts")
        say(terminal, "/exit now")
        say(terminal, "/exit")
        assert terminal.exit_code() == 0
    assert said(bot) == ["/etc/hosts", "/exit now"]


def test_what_looks_like_a_command_and_is_none_is_not_sent(bot: AgentFolder) -> None:
    with bot.terminal("chat", "bot") as terminal:
        say(terminal, "/exti")
        terminal.expect("  there is no command /exti; did you mean /exit? To send it, put a blank before\n  it\n")
        say(terminal, "/compact")
        terminal.expect("  there is no command /compact; there are /exit, /quit, /help, /clear, /history,\n")
        say(terminal, " /compact")
        terminal.expect("✅ Hello.")
        say(terminal, "/Exit")
        terminal.expect("✅ Hello.")
        say(terminal, "/exit")
        assert terminal.exit_code() == 0
    assert said(bot) == [" /compact", "/Exit"]


def said(folder: AgentFolder) -> list[str]:
    """The messages of people, in order."""
    with folder.store() as store:
        return [store.seed(x.id)[-1]["data"]["content"] for x in reversed(store.executions())]


def test_a_turn_that_fails_is_shown_and_the_chat_goes_on(bot: AgentFolder) -> None:
    with bot.terminal("chat", "bot") as terminal:
        say(terminal, "fail")
        terminal.expect("❌ ")
        terminal.expect("out of order")
        say(terminal, "Hi")
        terminal.expect("✅ Hello.")
        say(terminal, "fail")
        say(terminal, "/exit")
        assert terminal.exit_code() == 0
    assert [bot.execution(n).status for n in (1, 2, 3)] == [Status.ERROR, Status.SUCCESS, Status.ERROR]


class TestInterrupted:
    def test_ctrl_c_cancels_the_turn_and_the_chat_goes_on(self, bot: AgentFolder) -> None:
        with bot.terminal("chat", "bot") as terminal:
            say(terminal, "slow")
            bot.until_status(Status.RUNNING)
            terminal.send("\x03")
            terminal.expect("cancelling execution 1; press Ctrl-C again to leave at once\n")
            terminal.expect(f"🛑 aborted: cancelled by {login()}\n")
            say(terminal, "Hi")
            terminal.expect("✅ Hello.")
            say(terminal, "/exit")
            assert terminal.exit_code() == 0
        assert [bot.execution(n).status for n in (1, 2)] == [Status.ABORTED, Status.SUCCESS]

    def test_a_second_one_leaves_at_once(self, bot: AgentFolder) -> None:
        with bot.terminal("chat", "bot") as terminal:
            say(terminal, "hang")
            until((bot.path / "begun").exists)
            terminal.send("\x03")
            terminal.expect("press Ctrl-C again")
            terminal.send("\x03")
            assert terminal.exit_code() == 130
        assert bot.execution().status is Status.RUNNING

    @pytest.mark.parametrize(("key", "code"), [("\x03", 130), ("\x04", 3)])
    def test_at_a_question_the_turn_is_left_waiting(self, bot: AgentFolder, key: str, code: int) -> None:
        bot.file("a.txt")
        with bot.terminal("chat", "bot", "--session", "s") as terminal:
            say(terminal, "delete")
            terminal.expect("[y/N]: ")
            terminal.send(key)
            terminal.expect("execution 1 waits for an answer: agentmd respond 1 --request 1-0.0\n")
            terminal.expect("1 turn, ")
            terminal.expect("This session goes on with: agentmd chat bot --session s\n")
            assert terminal.exit_code() == code
        assert bot.execution().status is Status.WAITING

    def test_where_a_message_is_awaited_it_clears_what_is_typed_and_then_ends_the_chat(self, bot: AgentFolder) -> None:
        with bot.terminal("chat", "bot", "--session", "s") as terminal:
            say(terminal, "Hi")
            ready(terminal)
            terminal.send("half a mess")
            terminal.expect("mess")
            terminal.send("\x03")
            terminal.expect("\x1b[K")
            terminal.send("\x03")
            assert terminal.exit_code() == 130
            assert on_screen(terminal).endswith(
                "\nyou>\n1 turn, 13 tokens, $0.2500\nThis session goes on with: agentmd chat bot --session s\n"
            )
        assert said(bot) == ["Hi"]

    def test_sigterm_where_a_message_is_awaited(self, bot: AgentFolder) -> None:
        with bot.terminal("chat", "bot") as terminal:
            ready(terminal)
            terminal.signal(signal.SIGTERM)
            assert terminal.exit_code() == 143
            assert terminal.screen.endswith("\x1b[?2004lyou> \n")
            assert terminal.line_mode

    def test_sigterm_in_a_turn_leaves_it_to_others(self, bot: AgentFolder) -> None:
        with bot.terminal("chat", "bot") as terminal:
            say(terminal, "slow")
            terminal.expect("bot · thinking…")
            terminal.signal(signal.SIGTERM)
            assert terminal.exit_code() == 143
        assert bot.execution().status is Status.QUEUED

    def test_a_terminal_that_is_closed(self, bot: AgentFolder) -> None:
        with bot.terminal("chat", "bot") as terminal:
            say(terminal, "Hi")
            ready(terminal)
            assert terminal.hang_up() == 129
        assert bot.execution().status is Status.SUCCESS


class TestTyping:
    def test_keys_edit_and_recall(self, bot: AgentFolder) -> None:
        with bot.terminal("chat", "bot") as terminal:
            ready(terminal)
            terminal.send("Helo\x1b[Dl\x1b[H> \x05, Ann\x17Bob\n")
            terminal.expect("> Hello, Bob\n")
            ready(terminal)
            terminal.send("\x1b[A!\n")
            terminal.expect("> Hello, Bob!\n")
            say(terminal, "/exit")
            assert terminal.exit_code() == 0
        assert said(bot) == ["> Hello, Bob", "> Hello, Bob!"]

    def test_what_is_pasted_is_one_message_that_waits_for_enter(self, bot: AgentFolder) -> None:
        with bot.terminal("chat", "bot") as terminal:
            ready(terminal)
            terminal.send("Read:\x1b\n\x1b[200~one\r\n/exit\r\x1b[31mtwo\t3\n\x1b[201~")
            terminal.expect("two")
            terminal.send("!\n")
            terminal.expect("bot ✅ ")
            say(terminal, "/exit")
            assert terminal.exit_code() == 0
            assert "you> Read:\n  one\n  /exit\n  \\x1b[31mtwo   3\n  !\n" in on_screen(terminal)
        assert said(bot) == ["Read:\none\n/exit\n\x1b[31mtwo\t3\n!"]

    def test_a_message_of_any_length(self, bot: AgentFolder) -> None:
        text = "A long one, with 漢字. " * 1000
        with bot.terminal("chat", "bot") as terminal:
            ready(terminal)
            terminal.send(f"\x1b[200~{text}\x1b[201~")
            terminal.send("\n")
            terminal.expect("✅ Hello.")
            say(terminal, "/exit")
            assert terminal.exit_code() == 0
        assert said(bot) == [text]

    def test_what_is_typed_ahead_is_shown_and_not_sent(self, bot: AgentFolder) -> None:
        bot.tools("gates", GATES)
        bot.agent("late", [{"calls": [call("gated")]}, {"text": "Now."}], "tools: [gates]")
        with bot.terminal("chat", "late") as terminal:
            say(terminal, "Hi")
            until_begun(bot.path)
            terminal.send("\n/exit\nand more")
            open_gate(bot.path)
            terminal.expect("✅ Now.")
            ready(terminal)
            terminal.send("!\n")
            terminal.expect("✅ Now.")
            say(terminal, "/quit")
            assert terminal.exit_code() == 0
        assert said(bot) == ["Hi", "/exit\nand more!"]

    def test_lines_that_a_terminal_pastes_without_saying_so(self, bot: AgentFolder) -> None:
        with bot.terminal("chat", "bot") as terminal:
            ready(terminal)
            terminal.send("one\ntwo\nthree")
            terminal.expect("three")
            terminal.send("!\n")
            terminal.expect("✅ Hello.")
            say(terminal, "/exit")
            assert terminal.exit_code() == 0
        assert said(bot) == ["one\ntwo\nthree!"]

    def test_a_terminal_that_changes_its_size(self, bot: AgentFolder) -> None:
        text = "A text that takes more than forty columns and is folded."
        with bot.terminal("chat", "bot") as terminal:
            ready(terminal)
            terminal.send(text)
            terminal.expect("folded.")
            terminal.resize(24, 40)
            terminal.signal(signal.SIGWINCH)
            terminal.expect("\n")
            terminal.expect("olumns and is folded.")
            terminal.send("\n")
            terminal.expect("✅ Hello.")
            say(terminal, "/exit")
            assert terminal.exit_code() == 0
        assert said(bot) == [text]

    def test_a_dumb_terminal(self, bot: AgentFolder) -> None:
        with bot.terminal("chat", "bot", env={"TERM": "dumb"}) as terminal:
            terminal.expect("\nyou> ")
            terminal.send_line("Hel\x1b[Dlo")
            terminal.expect("the answer holds control characters, perhaps of an arrow key")
            terminal.expect("\nyou> ")
            terminal.send_line("Hello")
            terminal.expect("✅ Hello.")
            terminal.expect("\nyou> ")
            terminal.send("\x04")
            assert terminal.exit_code() == 0
            assert "\x1b" not in terminal.screen
        assert said(bot) == ["Hello"]


class TestRefused:
    @pytest.mark.parametrize(
        ("settings", "why"),
        [
            ("enabled: false", "bot is disabled"),
            ("tools: [none]", "there is no such module"),
            ("confirm: [file_delet]", "the rule 'file_delet' names no tool of bot"),
        ],
    )
    def test_before_the_first_prompt(self, folder: AgentFolder, settings: str, why: str) -> None:
        folder.agent("bot", [{"text": "Hello."}], settings)
        with folder.terminal("chat", "bot") as terminal:
            assert terminal.exit_code() == 2
            assert why in terminal.screen
            assert "you> " not in terminal.screen

    def test_a_key_that_is_missing(self, folder: AgentFolder) -> None:
        (folder.path / "agents/bot.md").write_text("---\nmodel: {provider: google, name: gemini-2.5-flash}\n---\nHi.\n")
        ended = folder.cli("chat", "bot", env={"GOOGLE_API_KEY": "", "GEMINI_API_KEY": ""})
        assert (ended.code, ended.out) == (2, "")
        assert "GOOGLE_API_KEY" in ended.err

    def test_an_agent_that_nobody_knows(self, folder: AgentFolder) -> None:
        assert folder.cli("chat", "nobody").code == 2

    @pytest.mark.parametrize("given", ["", " ", "a\nb", "a\x1bb", "\u202eb", " a", "a ", "x" * 201])
    def test_a_session_id_that_cannot_be_typed_again(self, bot: AgentFolder, given: str) -> None:
        ended = bot.cli("chat", "bot", "--session", given)
        assert (ended.code, ended.out) == (2, "")
        assert "is no session id: 1 to 200 visible characters" in ended.err
        assert "\x1b" not in ended.err

    def test_an_agent_that_is_spoilt_in_the_middle(self, bot: AgentFolder) -> None:
        file = bot.path / "agents/bot.md"
        good = file.read_text()
        with bot.terminal("chat", "bot") as terminal:
            ready(terminal)
            file.write_text(good.replace("tools:", "confrim:"))
            terminal.send_line("Hi")
            terminal.expect("confrim")
            terminal.expect("Your message was not sent.\n")
            ready(terminal)
            file.write_text(good)
            terminal.send("\x1b[A\n")
            terminal.expect("✅ Hello.")
            say(terminal, "/exit")
            assert terminal.exit_code() == 0
        assert said(bot) == ["Hi"]

    def test_a_session_that_is_deleted_in_the_middle(self, bot: AgentFolder) -> None:
        with bot.terminal("chat", "bot", "--session", "s") as terminal:
            say(terminal, "Hi")
            ready(terminal)
            with bot.store() as store:
                store.sessions.delete("bot", "s", by="api")
            terminal.send_line("And now?")
            terminal.expect("the session s of bot was deleted meanwhile")
            assert terminal.exit_code() == 2
        assert said(bot) == ["Hi"]


def test_line_mode_is_off_only_where_something_is_typed(bot: AgentFolder) -> None:
    bot.file("a.txt")
    with bot.terminal("chat", "bot") as terminal:
        ready(terminal)
        assert not terminal.line_mode
        terminal.send_line("delete")
        terminal.expect("[y/N]: ")
        assert not terminal.line_mode
        terminal.send("\x04")
        assert terminal.exit_code() == 3
        assert terminal.line_mode
