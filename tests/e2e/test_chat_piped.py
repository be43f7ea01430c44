"""`agentmd chat` without a terminal: messages, one a line, and never an answer to a question."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agent_md.executions.states import Status
from tests.support.agent_folder import AgentFolder
from tests.support.chatting import Piped
from tests.support.children import open_streams
from tests.support.processes import Finished, Running
from tests.support.trusting import TRUSTING
from tests.support.waiting import until

ROOT = Path(__file__).parents[2]
SCRIPT = """
conversations:
  - match: {user: delete}
    turns: [{calls: [{name: file_delete, args: {path: a.txt}}]}, {text: Deleted.}]
  - match: {user: fail}
    turns: [{error: {kind: bad_request, message: out of order}}]
  - match: {user: slow}
    turns: [{calls: [{name: wait, args: {}}]}, {text: Late.}]
  - match: {user: read}
    turns: [{calls: [{name: read_all, args: {}}]}, {text: Read.}]
  - match: {user: two}
    turns: [{text: Second.}]
  - turns: [{text: First.}]
"""
TOOLS = """
import asyncio, subprocess, sys
from langchain_core.tools import tool
from agent_md.sdk import context

@tool
async def wait() -> str:
    \"\"\"Waits.\"\"\"
    (context().workspace / "begun").touch()
    await asyncio.sleep(60)
    return "waited"

@tool
def read_all() -> str:
    \"\"\"Reads standard input, itself and by a child.\"\"\"
    return "found: " + repr(subprocess.run(["cat"], capture_output=True).stdout) + repr(sys.stdin.read())
"""


@pytest.fixture
def bot(folder: AgentFolder) -> AgentFolder:
    folder.agent("bot", SCRIPT, "tools: [kit]")
    folder.tools("kit", TOOLS)
    return folder


def chat(folder: AgentFolder, data: str | bytes) -> Finished:
    return Piped(folder, "bot", "--session", "s").end(data)


def answers(ended: Finished) -> list[str]:
    """What stands behind the time and the agent's name in each line."""
    assert all(re.match(r"\d\d:\d\d:\d\d bot ", line) for line in ended.out.splitlines())
    return [line[13:] for line in ended.out.splitlines()]


def said(folder: AgentFolder) -> list[str]:
    with folder.store() as store:
        return [store.seed(x.id)[-1]["data"]["content"] for x in reversed(store.executions())]


@pytest.mark.parametrize("data", ["one\ntwo\n", "one\r\ntwo", "\n  \none\n\ntwo\n\n"])
def test_each_line_is_a_turn(bot: AgentFolder, data: str) -> None:
    ended = chat(bot, data)
    assert (ended.code, answers(ended)) == (0, ["✅ First.", "✅ Second."])
    assert ended.err == (
        "▶ Chat with bot  script/bot\n  Session s\n2 turns, 0 tokens, $0.0000\n"
        "This session goes on with: agentmd chat bot --session s\n"
    )
    assert said(bot) == ["one", "two"]


def test_an_open_pipe_is_answered_line_by_line(bot: AgentFolder) -> None:
    chat = Piped(bot, "bot")
    chat.send("one\ntw")
    chat.expect("✅ First.\n")
    chat.send("o\n")
    chat.expect("✅ Second.\n")
    assert chat.end().code == 0


def test_without_a_line_nothing_happens(bot: AgentFolder) -> None:
    ended = chat(bot, "")
    assert (ended.code, ended.out) == (0, "")
    assert ended.err == "▶ Chat with bot  script/bot\n  Session s\n"
    assert said(bot) == []


def test_a_closed_standard_input_has_no_line(bot: AgentFolder) -> None:
    command = [sys.executable, "-m", "agent_md.cli.main", "chat", "bot"]
    env = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "PYTHONPATH": str(ROOT), **TRUSTING}
    ended = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *command],
        cwd=bot.path,
        env=env,
        capture_output=True,
        text=True,
        timeout=20,
    )
    assert (ended.returncode, ended.stdout) == (0, "")


def test_a_pause_ends_it_and_no_line_answers(bot: AgentFolder) -> None:
    file = bot.file("a.txt")
    ended = chat(bot, "delete\ny\ntwo\n")
    assert ended.code == 3
    assert answers(ended) == ['🔧 file_delete → {"path": "a.txt"}']
    assert (
        "execution 1 waits for an answer: agentmd respond 1 --request 1-0.0\n"
        "What follows on standard input was not sent.\n"
    ) in ended.err
    assert said(bot) == ["delete"]
    assert file.exists()
    again = chat(bot, "y\n")
    assert (again.code, again.out) == (3, "")
    assert "Execution 1, a turn of this session, waits for an answer; that comes first.\n" in again.err
    assert bot.execution().status is Status.WAITING
    assert bot.cli("respond", "1", "--yes").code == 0
    assert answers(chat(bot, "two\n")) == ["✅ Second."]


@pytest.mark.parametrize(("data", "code"), [("fail\none\n", 0), ("one\nfail\n", 1), ("one\nfail\n/exit\ntwo\n", 0)])
def test_the_exit_code_is_that_of_the_last_turn(bot: AgentFolder, data: str, code: int) -> None:
    ended = chat(bot, data)
    assert ended.code == code
    assert ended.out.count("out of order") == ended.out.count("✅ First.") == 1
    assert len(said(bot)) == 2


def test_every_line_but_the_ends_is_a_message(bot: AgentFolder) -> None:
    assert chat(bot, "/help\n/exti\n/quit\none\n").code == 0
    assert said(bot) == ["/help", "/exti"]


def test_bytes_that_are_no_text_are_shown_as_escapes(bot: AgentFolder) -> None:
    assert chat(bot, b"caf\xe9 \xff\n\xc3\xa9\n").code == 0
    assert said(bot) == ["caf\\udce9 \\udcff", "é"]


def test_tools_take_no_message_away(bot: AgentFolder) -> None:
    ended = chat(bot, "read\ntwo\n")
    assert answers(ended) == ["🔧 read_all → {}", "📎 read_all ← found: b''''", "✅ Read.", "✅ Second."]


def test_ctrl_c_cancels_the_turn_and_ends_it(bot: AgentFolder) -> None:
    chat = Piped(bot, "bot")
    chat.send("slow\ntwo\n")
    until((bot.path / "begun").exists)
    chat.process.kill(signal.SIGINT)
    ended = chat.end()
    assert ended.code == 130
    assert said(bot) == ["slow"]
    assert bot.execution().status is Status.ABORTED


def test_ctrl_c_while_it_waits_for_a_line(bot: AgentFolder) -> None:
    chat = Piped(bot, "bot")
    chat.send("one\n")
    chat.expect("✅ First.\n")
    chat.process.kill(signal.SIGINT)
    ended = chat.process.wait()
    assert ended.code == 130
    assert "1 turn, 0 tokens" in ended.err


def test_it_does_nothing_while_it_waits_for_a_line(bot: AgentFolder) -> None:
    chat = Piped(bot, "bot")
    chat.send("one\n")
    chat.expect("✅ First.\n")
    before = cpu_ticks(chat.process.pid)
    for _ in range(100):
        bot.execution()
    assert cpu_ticks(chat.process.pid) - before <= 5
    assert chat.end().code == 0


def cpu_ticks(pid: int) -> int:
    """The hundredths of a second that a process has computed."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return int(fields[11]) + int(fields[12])


def begin_chat(folder: AgentFolder, *, given: int, out: int) -> Running:
    """A chat whose standard input and output are these descriptors, which are closed here."""

    def connect() -> None:
        os.dup2(given, 0)
        os.dup2(out, 1)
        os.closerange(3, 256)
        open_streams()

    try:
        return folder.cli.start("chat", "bot", "--session", "s", prepare=connect)
    finally:
        os.close(given)
        os.close(out)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_in_the_last_moment_of_a_turn_ends_it_too(folder: AgentFolder, number: signal.Signals) -> None:
    """The answer does not fit into the pipe: the signal comes while it is printed."""
    folder.agent("bot", [{"text": "x" * 200_000}])
    out, write = os.pipe()
    chat = begin_chat(folder, given=os.open(folder.file("lines", "one\ntwo\n"), os.O_RDONLY), out=write)
    with os.fdopen(out, "rb") as printed:
        printed.read(1)
        chat.kill(number)
        printed.read()
    assert chat.wait().code == 128 + number
    assert said(folder) == ["one"]


def shell(folder: AgentFolder, line: str) -> subprocess.CompletedProcess[str]:
    """A line of a shell in the workspace, in which `chat` is the command."""
    program = f'chat() {{ "{sys.executable}" -m agent_md.cli.main chat bot --session s; }}; {line}'
    env = {
        "PATH": os.environ["PATH"],
        "HOME": os.environ["HOME"],
        "PYTHONPATH": str(ROOT),
        "LANG": "C.UTF-8",
        **TRUSTING,
    }
    return subprocess.run(["bash", "-c", program], cwd=folder.path, env=env, capture_output=True, text=True, timeout=30)


@pytest.mark.parametrize("sink", ["a reader that left", "/dev/full"])
def test_nothing_more_is_sent_when_nobody_gets_the_answers(bot: AgentFolder, sink: str) -> None:
    if sink == "/dev/full":
        out = os.open(sink, os.O_WRONLY)
    else:
        left, out = os.pipe()
        os.close(left)
    with subprocess.Popen(["yes", "one"], stdout=subprocess.PIPE) as lines:
        assert lines.stdout is not None
        ended = begin_chat(bot, given=os.dup(lines.stdout.fileno()), out=out).wait()
        lines.kill()
    assert ended.code == 0
    assert "Nobody gets the answers any more; no further message is sent.\n" in ended.err
    assert said(bot) == ["one"]


def test_a_signal_that_was_ignored_before_stays_so(bot: AgentFolder) -> None:
    chat = f"exec {sys.executable} -m agent_md.cli.main chat bot --session s"
    ended = shell(
        bot,
        f"trap '' HUP; mkfifo in out; ({chat} < in > out) & exec 3> in 4< out; echo one >&3; "
        "read -r answer <&4; kill -HUP $!; echo two >&3; exec 3>&-; wait $!; code=$?; echo $answer; exit $code",
    )
    assert (ended.returncode, ended.stdout[13:], said(bot)) == (0, "✅ First.\n", ["one", "two"])


def test_an_input_that_cannot_be_read(bot: AgentFolder) -> None:
    ended = shell(bot, "chat 0> out")
    assert ended.returncode == 2
    assert ended.stderr.endswith("agentmd: standard input cannot be read: Bad file descriptor\n")


def test_a_line_without_an_end(bot: AgentFolder) -> None:
    with open(os.devnull, "wb") as null:
        ended = begin_chat(bot, given=os.open("/dev/zero", os.O_RDONLY), out=os.dup(null.fileno())).wait()
    assert ended.code == 2
    assert "agentmd: a line of standard input is longer than 8 MiB; nothing of it was sent\n" in ended.err
    assert said(bot) == []
