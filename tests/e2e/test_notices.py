"""A question calls somebody to the terminal, if that is set: once, and only there."""

from __future__ import annotations

import pytest

from tests.support.agent_folder import AgentFolder, call

NOTICE = '\x1b]9;agentmd: cleaner asks: Confirm file_delete {"path": "a.txt"}\x1b\\\a'


@pytest.fixture
def work(folder: AgentFolder) -> AgentFolder:
    for name in ("a.txt", "b.txt", "c.txt"):
        folder.file(name)
    twice = [call("file_delete", path="a.txt"), call("file_delete", path="b.txt")]
    folder.agent("cleaner", [{"calls": twice}, {"calls": [call("file_delete", path="c.txt")]}, {"text": "Done."}])
    return folder


def test_it_rings_for_new_questions_and_not_for_one_that_was_seen(work: AgentFolder) -> None:
    (work.path / "config.yaml").write_text("terminal: {bell: true, notice: osc9}\n")
    with work.terminal("run", "cleaner") as terminal:
        first = terminal.expect("[y/N]: ")
        assert first.count(NOTICE) == first.count("\a") == 1
        terminal.answer("n")
        assert "\a" not in terminal.expect("[y/N]: ")
        terminal.answer("n")
        assert terminal.expect("[y/N]: ").count("\a") == 1
        terminal.send("\x03")
        assert terminal.exit_code() == 130
    with work.terminal("respond", "1") as terminal:
        assert "\a" not in terminal.expect("[y/N]: ")
        terminal.answer("n")
        assert terminal.exit_code() == 0


def test_nothing_is_told_unless_it_is_set_nor_where_nobody_is_asked(work: AgentFolder) -> None:
    with work.terminal("run", "cleaner") as terminal:
        assert "\a" not in terminal.expect("[y/N]: ")
        terminal.send("\x04")
        assert terminal.exit_code() == 3
    (work.path / "config.yaml").write_text("terminal: {bell: true, notice: osc777}\n")
    piped = work.cli("respond", "1", "--all", "--no")
    assert piped.code == 3
    assert "\a" not in piped.out + piped.err


def test_a_form_that_is_not_known(work: AgentFolder) -> None:
    (work.path / "config.yaml").write_text("terminal: {notice: osc99}\n")
    refused = work.cli("run", "cleaner")
    assert refused.code == 2
    assert "config.yaml:1:20: terminal.notice: expected one of off, osc9, osc777" in refused.err.replace("\n", " ")
