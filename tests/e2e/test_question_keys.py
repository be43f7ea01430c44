"""What can be typed at a question besides an answer, on the way through the whole product."""

from __future__ import annotations

import shlex
import sys

from tests.support.agent_folder import AgentFolder, call

PROGRAM = "".join(f"line {number}\n" for number in range(80))
HINT = "  y yes · n no · n TEXT no, with this reason · e edit · a always · ? everything\n"


def replacing(old: str, new: str) -> dict[str, str | None]:
    """An editor that replaces a text in the file."""
    source = "import sys; p = sys.argv[3]; t = open(p).read(); open(p, 'w').write(t.replace(*sys.argv[1:3]))"
    return {"EDITOR": shlex.join([sys.executable, "-c", source, old, new]), "VISUAL": None, "PAGER": ""}


def writing(folder: AgentFolder, settings: str = "") -> None:
    turns = [{"text": "I write it.", "calls": [call("file_write", path="code.py", content=PROGRAM)]}, {"text": "Done."}]
    folder.agent("coder", turns, settings)


def test_a_long_text_is_named_by_its_size_shown_once_and_edited(folder: AgentFolder) -> None:
    writing(folder, "deny: [file_write(secret/*)]")
    with folder.terminal("run", "coder", env=replacing("line 79", "the end"), columns=200) as terminal:
        before = terminal.expect(f"{HINT}? Confirm file_write code.py (80 lines, new) [y/N]: ")
        assert "🔧 file_write code.py (80 lines, new)\n" in before
        assert before.count("line 79") == 1
        terminal.send_line("?")
        terminal.expect("  request 1-0.0\n  asked by: confirm_tools: file_write\n  digest: ")
        terminal.expect(f"  path: {folder.path}/code.py\n")
        terminal.expect("👤 Begin.\n")
        terminal.expect("💬 I write it.\n")
        terminal.expect("[y/N]: ")
        terminal.send_line("e")
        edited = terminal.expect("? Confirm file_write code.py (80 lines, new) [y/N]: ")
        assert "  +the end\n" in edited
        assert "  edited: `y` approves the call with these arguments\n" in edited
        terminal.send_line("y")
        assert terminal.exit_code() == 0
    assert (folder.path / "code.py").read_text() == PROGRAM.replace("line 79", "the end")
    assert folder.results() == ["The user edited the arguments of this call before approving it. File written: code.py"]


def test_what_a_rule_or_the_sandbox_refuses_does_not_count(folder: AgentFolder) -> None:
    writing(folder, "deny: [file_write(secret/*)]")
    with folder.terminal("run", "coder", env=replacing("code.py", "secret/code.py")) as terminal:
        terminal.expect("[y/N]: ")
        terminal.send_line("e")
        terminal.expect("the edited arguments are refused: file_write with these arguments is not\n  allowed by this")
        terminal.expect("? Confirm file_write code.py (80 lines, new) [y/N]: ")
        terminal.send_line("n keep it")
        assert terminal.exit_code() == 0
    assert folder.results() == ["Action denied by user: keep it"]
    assert not (folder.path / "secret").exists()


def test_an_answer_from_elsewhere_withdraws_what_is_being_edited(folder: AgentFolder) -> None:
    folder.file("a.txt")
    folder.agent("cleaner", [{"calls": [call("file_delete", path="a.txt")]}, {"text": "Done."}])
    with folder.terminal("run", "cleaner", env={"EDITOR": None, "VISUAL": None}) as terminal:
        terminal.expect("[y/N]: ")
        terminal.send_line("e")
        terminal.expect("  path: a.txt")
        assert folder.cli("respond", "1", "--no", "--no-wait").code == 0
        terminal.expect("Withdrawn: answered elsewhere: denied by ")
        assert terminal.exit_code() == 0
    assert (folder.path / "a.txt").exists()


def test_where_nobody_is_asked_a_long_text_is_shown_once_below_the_call(folder: AgentFolder) -> None:
    writing(folder)
    ended = folder.cli("run", "coder")
    assert ended.code == 3
    assert ended.out.index("🔧 file_write code.py (80 lines, new)\n") < ended.out.index("  +++ code.py\n")
    assert ended.out.count("line 79") == 1
    assert ended.err == "execution 1 waits for an answer: agentmd respond 1 --request 1-0.0\n"
    assert "Confirm file_write code.py (80 lines, new)" in folder.cli("pending").out
    answered = folder.cli("respond", "1", "--yes").out
    assert "👉 Confirm file_write code.py (80 lines, new): approved by " in answered
    assert "line 79" not in answered
    assert folder.cli("logs", "-e", "1").out.count(r"line 79\n") == 1


def test_a_question_of_a_tool_says_which_tool_asks(folder: AgentFolder) -> None:
    asks = call("ask_user", question="Where?", kind="choice", options=["here", "there"])
    folder.agent("asker", [{"calls": [asks]}, {"text": "Done."}])
    with folder.terminal("run", "asker", env={"PAGER": ""}) as terminal:
        terminal.expect("Choice: ")
        terminal.send_line("?")
        terminal.expect("  asked by: the tool ask_user\n")
        terminal.expect("Choice: ")
        terminal.send_line("there")
        assert terminal.exit_code() == 0
    assert folder.results() == ["there"]
