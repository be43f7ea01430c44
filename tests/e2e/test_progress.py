"""What a terminal shows while something works, and the model's text as it comes; and that none of it stays."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from typing import Any

import langchain_google_genai  # noqa: F401 - so that forks have it
import pytest

from agent_md.cli.command_context import login
from agent_md.visible_text import visible
from tests.support.agent_folder import AgentFolder, call
from tests.support.dripping import DrippingModel
from tests.support.gates import GATES, open_gate, until_begun
from tests.support.hostile import HOSTILE, assert_shown
from tests.support.waiting import until

KEY = {"GOOGLE_API_KEY": "test"}


@pytest.fixture
def gated(folder: AgentFolder) -> AgentFolder:
    folder.tools("gates", GATES)
    turns: list[dict[str, Any]] = [{"text": "I wait.", "calls": [call("gated")]}, {"text": "Done."}]
    folder.agent("waiter", turns, "tools: [gates]")
    folder.agent("asker", turns, "tools: [gates]\nconfirm: [gated]")
    return folder


@pytest.fixture
def model() -> Iterator[DrippingModel]:
    with DrippingModel() as dripping:
        yield dripping


@pytest.fixture
def talker(folder: AgentFolder, model: DrippingModel) -> AgentFolder:
    """An agent whose model says what the test has it say."""
    (folder.path / "agents/talker.md").write_text(f"---\nmodel: {model.reference}\n---\nTalk.\n")
    return folder


def masked(text: str) -> str:
    """What was shown from the header of the run on, without its times."""
    return re.sub(r"\b\d\d:\d\d:\d\d\b", "HH:MM:SS", text[text.find("▶") :])


WAITED = (
    "▶ Running waiter  script/waiter\n\n"
    "HH:MM:SS waiter 💬 I wait.\n"
    "HH:MM:SS waiter 🔧 gated → {}\n"
    "HH:MM:SS waiter 📎 gated ← through\n"
    "HH:MM:SS waiter ✅ Done.\n"
)


@pytest.mark.parametrize("env", [{}, {"NO_COLOR": None}])
def test_a_tool_that_works_is_named_until_it_ends(gated: AgentFolder, env: dict[str, str | None]) -> None:
    with gated.terminal("run", "waiter", env=env) as terminal:
        terminal.expect("waiter · gated…")
        terminal.expect("waiter · gated… 1 s")
        open_gate(gated.path)
        assert terminal.exit_code() == 0
        assert masked(terminal.shown) == WAITED
        assert ("\x1b[2m" in terminal.screen) is (env != {})


def test_a_model_that_thinks_is_said_to(talker: AgentFolder, model: DrippingModel) -> None:
    with talker.terminal("run", "talker", env=KEY) as terminal:
        terminal.expect("talker · thinking…")
        model.say("Done.")
        model.end()
        assert terminal.exit_code() == 0
        assert masked(terminal.shown).endswith("\n\nHH:MM:SS talker ✅ Done.\n15 tokens, <$0.0001\n")


@pytest.mark.parametrize(("args", "env"), [((), {"TERM": "dumb"}), ((), {"CI": "1"}), (("-q",), {}), (("--json",), {})])
def test_where_no_progress_is_shown(gated: AgentFolder, args: tuple[str, ...], env: dict[str, str]) -> None:
    with gated.terminal("run", "waiter", *args, env=env) as terminal:
        until_begun(gated.path)
        open_gate(gated.path)
        assert terminal.exit_code() == 0
        assert "\x1b" not in terminal.screen
        assert "…" not in terminal.screen


def test_a_pipe_gets_none_of_it(talker: AgentFolder, model: DrippingModel) -> None:
    run = talker.cli.start("run", "talker", env=KEY)
    model.say("One ", "two")
    until(lambda: "Running" in run.printed())
    model.end()
    ended = run.wait()
    assert (ended.code, ended.err) == (0, "15 tokens, <$0.0001\n")
    assert masked(ended.out).splitlines()[1:] == ["", "HH:MM:SS talker ✅ One two"]


def test_a_question_is_asked_on_a_clean_line(gated: AgentFolder) -> None:
    open_gate(gated.path)
    with gated.terminal("run", "asker") as terminal:
        terminal.expect("[y/N]: ")
        terminal.send_line("y")
        assert terminal.exit_code() == 0
        assert "\n? Confirm gated {} [y/N]: y\n\nHH:MM:SS asker 📎 gated ← through\n" in masked(terminal.shown)


def test_what_another_process_does_is_shown_too(gated: AgentFolder) -> None:
    with gated.terminal("run", "asker") as terminal:
        terminal.expect("[y/N]: ")
        other = gated.cli.start("respond", "1", "--yes")
        terminal.expect("Withdrawn: ")
        terminal.expect("asker · gated…")
        open_gate(gated.path)
        assert other.wait().code == 0
        assert terminal.exit_code() == 0
        assert "…" not in terminal.shown


def test_ctrl_c_and_typing_leave_no_rows(gated: AgentFolder) -> None:
    with gated.terminal("run", "waiter") as terminal:
        terminal.expect("waiter · gated…")
        terminal.send("what is this\n\n")
        terminal.send("\x03")
        terminal.expect("leave at once\n")
        assert terminal.exit_code() == 130
        assert masked(terminal.shown).splitlines()[-5:] == [
            "cancelling execution 1; press Ctrl-C again to leave at once",
            "HH:MM:SS waiter 📎 gated ← Unknown: the call may have run. It was started and",
            "  its end was not seen; it is not run again",
            f"HH:MM:SS waiter 🛑 aborted: cancelled by {login()}",
            "1 call of execution 1 may have run: agentmd logs -e 1",
        ]


def test_a_signal_leaves_no_rows(gated: AgentFolder) -> None:
    with gated.terminal("run", "waiter") as terminal:
        terminal.expect("waiter · gated…")
        terminal.signal(signal.SIGTERM)
        assert terminal.exit_code() == 143
        assert terminal.shown.endswith("→ {}\nexecution 1 was left as it is; `agentmd resume 1` goes on\n")


def test_the_text_of_the_model_appears_as_it_comes(talker: AgentFolder, model: DrippingModel) -> None:
    with talker.terminal("run", "talker", env=KEY) as terminal:
        model.say("First ", "words")
        terminal.expect("talker 💬 First words")
        terminal.expect("talker · writing…")
        model.say(" and more.\nA second line.")
        terminal.expect("talker 💬 First words and more.")
        terminal.expect("  A second line.")
        model.end()
        assert terminal.exit_code() == 0
        lines = masked(terminal.shown).splitlines()
        assert lines[2:-1] == ["HH:MM:SS talker ✅ First words and more.", "  A second line."]


def test_a_text_that_comes_with_calls_stays_once(talker: AgentFolder, model: DrippingModel) -> None:
    talker.file("a.txt")
    with talker.terminal("run", "talker", env=KEY) as terminal:
        model.say("I look.")
        terminal.expect("talker 💬 I look.")
        model.call("file_read", path="a.txt")
        model.end()
        terminal.expect("📎 file_read")
        model.say("Seen.")
        model.end()
        assert terminal.exit_code() == 0
        assert [line.split(" ", 2)[2] for line in masked(terminal.shown).splitlines()[2:-1]] == [
            "💬 I look.",
            '🔧 file_read → {"path": "a.txt"}',
            "📎 file_read ← text",
            "✅ Seen.",
        ]


def test_an_answer_that_broke_off_is_taken_back(talker: AgentFolder, model: DrippingModel) -> None:
    with talker.terminal("run", "talker", env=KEY) as terminal:
        model.say("Wrong words")
        terminal.expect("Wrong words")
        model.break_off()
        terminal.expect("talker · retrying 2/4…")
        model.say("Right words")
        terminal.expect("💬 Right words")
        model.end()
        assert terminal.exit_code() == 0
        assert masked(terminal.shown).splitlines()[2:-1] == ["HH:MM:SS talker ✅ Right words"]


@pytest.mark.parametrize("columns", [30, 80])
def test_a_text_longer_than_the_screen_is_there_once_in_order(
    talker: AgentFolder, model: DrippingModel, columns: int
) -> None:
    lines = [f"line {number} of a long answer, wider than thirty columns" for number in range(60)]
    with talker.terminal("run", "talker", env=KEY, columns=columns, rows=20) as terminal:
        model.say(*(f"{line}\n" for line in lines[:50]))
        terminal.expect("💬 …")
        terminal.expect("line 49")
        model.say(*(f"{line}\n" for line in lines[50:]))
        terminal.expect("line 59")
        model.end()
        assert terminal.exit_code() == 0
        shown = masked(terminal.shown).splitlines()[:-1]
        shown = shown[shown.index("") + 1 :]
        assert shown[0].startswith("HH:MM:SS talker ✅ line")
        assert all(row.startswith("  ") for row in shown[1:])
        assert " ".join(shown).split()[3:] == " ".join(lines).split()


def test_hostile_text_in_pieces_is_never_obeyed(talker: AgentFolder, model: DrippingModel) -> None:
    texts = [text for name, text in HOSTILE.items() if name != "surrogates"]
    with talker.terminal("run", "talker", env=KEY, columns=200, rows=100) as terminal:
        for text in texts:
            model.say(*text, "\n")
        terminal.expect(visible(texts[-1]))
        model.end()
        assert terminal.exit_code() == 0
        assert_shown(terminal.shown, [name for name in HOSTILE if name != "surrogates"])


def test_json_has_no_pieces(talker: AgentFolder, model: DrippingModel) -> None:
    model.say("One ", "two")
    model.end()
    ended = talker.cli("run", "talker", "--json", env=KEY)
    assert re.findall(r'^\{"event": "([a-z_]+)"', ended.out, re.MULTILINE) == [
        "execution_started",
        "human",
        "ai",
        "final_answer",
        "complete",
    ]
