"""The one editor of questions and chats: keys, history, completion, Ctrl-C, Ctrl-Z, and the terminal's mode afterwards."""

from __future__ import annotations

import signal
import stat

import pytest

from tests.support.agent_folder import AgentFolder, call
from tests.support.asking import asking, response_of
from tests.support.chatting import ready, say
from tests.support.forked_terminal import ForkedTerminal


@pytest.fixture
def bot(folder: AgentFolder) -> AgentFolder:
    folder.agent("bot", [{"text": "Hello."}])
    return folder


def messages(folder: AgentFolder) -> list[str]:
    """What was said to the agent, oldest first."""
    with folder.store() as store:
        seeds = (store.seed(execution.id)[-1] for execution in reversed(store.executions()))
        return [seed["data"]["content"] for seed in seeds]


def ended(terminal: ForkedTerminal) -> None:
    say(terminal, "/exit")
    assert terminal.exit_code() == 0


@pytest.mark.parametrize(
    ("typed", "text"),
    [
        ("one two\x1bb\x1bbnow \x1bf!", "now one! two"),
        ("one three\x1b[1;5Dtwo ", "one two three"),
        ("one two\x17three", "one three"),
        ("two\x01one \x05 three", "one two three"),
        ("one\x1b\ntwo\x1b[A\x1b[H>", ">one\ntwo"),
        ("one\x03two", "two"),
        ("a\tb", "ab"),
    ],
)
def test_keys_of_a_shell_edit_an_answer(typed: str, text: str) -> None:
    with asking("input") as terminal:
        terminal.expect("> ")
        terminal.send(typed)
        terminal.send_line()
        assert response_of(terminal) == {"text": text}


def test_ctrl_c_clears_a_half_typed_answer_and_leaves_an_empty_one() -> None:
    with asking("confirm") as terminal:
        terminal.expect("[y/N]: ")
        terminal.send("yes")
        terminal.expect("yes")
        terminal.send("\x03")
        terminal.expect("\x1b[K")
        terminal.send("\x03")
        terminal.expect("withdrawn\nleft: b''\n")
        assert terminal.exit_code() == 0
        assert terminal.line_mode


def test_an_answer_cannot_be_called_back_at_the_next_question() -> None:
    with asking("questions") as terminal:
        terminal.expect("Choice: ")
        terminal.send_line("3")
        terminal.expect("Other: ")
        terminal.send_line("secret")
        terminal.expect("Choice: ")
        terminal.send("\x1b[A1\n")
        assert response_of(terminal) == {"answers": {"How?": "secret", "What?": ["A"]}}


def test_ctrl_z_leaves_the_terminal_to_the_shell_and_comes_back_with_what_was_typed() -> None:
    with asking("input", shell=True) as terminal:
        terminal.expect("> ")
        terminal.send("half")
        terminal.expect("half")
        terminal.send("\x1a")
        terminal.expect("stopped\n")
        terminal.expect("> half")
        terminal.send_line(" and half")
        assert response_of(terminal) == {"text": "half and half"}
        assert terminal.line_mode


def test_ctrl_c_right_after_enter_takes_the_answer_back() -> None:
    with asking("confirm") as terminal:
        terminal.expect("[y/N]: ")
        terminal.send("y\n\x03")
        terminal.expect("withdrawn\nleft: b''\n")
        assert terminal.exit_code() == 0


@pytest.mark.parametrize("columns", [20, 60, 200])
def test_a_question_is_whole_at_any_width(columns: int) -> None:
    with asking("confirm", columns=columns) as terminal:
        terminal.expect("\x1b[?7h")
        terminal.send_line("n REASON")
        assert response_of(terminal) == {"approved": False, "reason": "REASON"}
        shown = "".join(terminal.shown.split())
    assert '?everything?Confirmfile_delete{"path":"output/stale.log"}[y/N]:nREASONresponse:' in shown


def test_a_wide_answer_at_a_narrow_terminal() -> None:
    with asking("input", columns=20) as terminal:
        terminal.expect("> ")
        terminal.send("日本語" * 8)
        terminal.expect("日本語")
        terminal.send("\x1b[D\x7f!")
        terminal.send_line()
        assert response_of(terminal) == {"text": "日本語" * 7 + "日!語"}


def test_messages_are_called_back_in_the_next_chat(bot: AgentFolder) -> None:
    with bot.terminal("chat", "bot") as terminal:
        say(terminal, "the first")
        say(terminal, "the second")
        ended(terminal)
    file = bot.path / ".agentmd/chat-history.jsonl"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with bot.terminal("chat", "bot") as terminal:
        ready(terminal)
        terminal.send("\x1b[A\x1b[A!\n")
        terminal.expect("✅ Hello.")
        ready(terminal)
        terminal.send("\x12first")
        terminal.expect("I-search backward: ")
        terminal.expect("first")
        terminal.send_line()
        terminal.expect("\x1b[K")
        terminal.expect("\x1b[?25h")
        terminal.send_line()
        terminal.expect("✅ Hello.")
        ended(terminal)
    assert messages(bot) == ["the first", "the second", "the second!", "the first"]


def test_answers_are_not_in_the_history(folder: AgentFolder) -> None:
    folder.agent("bot", [{"calls": [call("ask_user", question="The password?")]}, {"text": "Thanks."}])
    with folder.terminal("chat", "bot") as terminal:
        say(terminal, "Hello")
        terminal.expect("? The password?")
        terminal.expect("> ")
        terminal.send_line("hunter2")
        terminal.expect("Thanks.")
        ended(terminal)
    assert (folder.path / ".agentmd/chat-history.jsonl").read_text() == '"Hello"\n"/exit"\n'


def test_tab_completes_commands_and_files(bot: AgentFolder) -> None:
    (bot.path / "reports").mkdir()
    bot.file("reports/may.csv")
    with bot.terminal("chat", "bot") as terminal:
        ready(terminal)
        for typed, completed in (("Read @rep\t", "orts/"), ("\t", "may.csv"), (" please\n", "✅ Hello.")):
            terminal.send(typed)
            terminal.expect(completed)
        ready(terminal)
        terminal.send("/ex\t")
        terminal.expect("it")
        terminal.send_line()
        assert terminal.exit_code() == 0
    assert messages(bot) == ["Read @reports/may.csv please"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
class TestSignals:
    """Every way out leaves the terminal as a shell wants it."""

    def test_at_a_question_of_a_run(self, folder: AgentFolder, number: signal.Signals) -> None:
        folder.file("a.txt")
        folder.agent("cleaner", [{"calls": [call("file_delete", path="a.txt")]}, {"text": "Done."}])
        with folder.terminal("run", "cleaner") as terminal:
            terminal.expect("[y/N]: ")
            terminal.send("half")
            terminal.signal(number)
            terminal.expect("execution 1 waits for an answer")
            assert terminal.exit_code() == 128 + number
            assert terminal.line_mode

    def test_at_a_question_of_new(self, bot: AgentFolder, number: signal.Signals) -> None:
        with bot.terminal("new", "helper") as terminal:
            terminal.expect("> ")
            terminal.signal(number)
            assert terminal.exit_code() == -number
            assert terminal.line_mode
        assert not (bot.path / "agents/helper.md").exists()

    def test_where_a_message_is_awaited(self, bot: AgentFolder, number: signal.Signals) -> None:
        with bot.terminal("chat", "bot") as terminal:
            ready(terminal)
            terminal.send("half")
            terminal.signal(number)
            assert terminal.exit_code() == 128 + number
            assert terminal.line_mode


def test_new_takes_instructions_of_several_lines_and_a_description_of_one(bot: AgentFolder) -> None:
    with bot.terminal("new", "helper") as terminal:
        terminal.expect("> ")
        terminal.send("one\ntwo\n")
        terminal.expect("two")
        terminal.send_line()
        terminal.expect("2 lines came at once, and none of them counts: one line is wanted")
        terminal.expect("> ")
        terminal.send_line("one")
        terminal.expect("? What is it to do?")
        terminal.expect("> ")
        terminal.send("Be brief.\nBe kind.")
        terminal.expect("Be kind.")
        terminal.send_line()
        terminal.expect("Model [1]: ")
        terminal.send_line()
        assert terminal.exit_code() == 0
    text = (bot.path / "agents/helper.md").read_text()
    assert text.endswith("---\nBe brief.\nBe kind.\n")
    assert "description: one\n" in text
