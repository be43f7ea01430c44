"""Mistakes of the first hour, and answers that are given twice."""

from __future__ import annotations

from tests.support.agent_folder import AgentFolder, call


def test_looking_for_an_execution_makes_no_state(folder: AgentFolder) -> None:
    folder.agent("cleaner", [{"text": "Done."}])
    for args in (("respond", "1", "--yes"), ("cancel", "1"), ("resume", "1")):
        ended = folder.cli(*args)
        assert ended.code == 2, ended
        assert "there is no execution 1" in ended.err
    assert folder.cli("resume", "--all").code == 0
    assert not (folder.path / ".agentmd").exists()


def test_validate_finds_what_a_run_would_stumble_over(folder: AgentFolder) -> None:
    folder.agent("cleaner", [{"calls": [call("file_delte", path="a.txt")]}])
    (folder.path / "agents/variable.md").write_text(
        "---\nmodel: {provider: script, name: cleaner}\n---\nUse ${NOT_SET_ANYWHERE}.\n"
    )
    ended = folder.cli("validate")
    assert ended.code == 1
    assert "calls 'file_delte', which is no tool of cleaner" in ended.out
    assert "NOT_SET_ANYWHERE" in ended.out


def test_a_repeated_command_answers_no_later_question(folder: AgentFolder) -> None:
    for name in ("a.txt", "b.txt"):
        folder.file(name)
    folder.agent(
        "cleaner", [{"calls": [call("file_delete", path=name)]} for name in ("a.txt", "b.txt")] + [{"text": "."}]
    )
    first = folder.cli("run", "cleaner").err.strip().rpartition("agentmd ")[2].split()
    assert first[:2] == ["respond", "1"]
    assert folder.cli(*first, "--yes").code == 3
    assert folder.cli(*first, "--yes").code == 3
    assert not (folder.path / "a.txt").exists()
    assert (folder.path / "b.txt").exists()


def test_an_execution_whose_script_is_gone_stays_queued(folder: AgentFolder) -> None:
    folder.file("a.txt")
    folder.agent("cleaner", [{"calls": [call("file_delete", path="a.txt")]}, {"text": "Done."}])
    assert folder.cli("run", "cleaner").code == 3
    script = next((folder.path / "agents/_config/scripts").iterdir())
    kept = script.read_text()
    script.unlink()
    ended = folder.cli("respond", "1", "--yes")
    assert ended.code == 1, ended
    assert "What was answered is kept" in ended.err
    assert "agentmd resume 1" in ended.err
    script.write_text(kept)
    assert folder.cli("resume", "1").code == 0
    assert not (folder.path / "a.txt").exists()


def test_without_a_terminal_the_question_of_a_tool_is_shown(folder: AgentFolder) -> None:
    folder.agent(
        "cleaner",
        [{"calls": [call("ask_user", question="Which one?", kind="choice", options=["a", "b"])]}, {"text": "."}],
    )
    ended = folder.cli("run", "cleaner")
    assert "? Which one? [a | b]" in ended.err


def test_a_wrong_rule_of_the_config_is_told_as_such(folder: AgentFolder) -> None:
    folder.agent("cleaner", [{"text": "Done."}])
    (folder.path / "config.yaml").write_text("defaults: {confirm_tools: [file_delte]}\n")
    ended = folder.cli("run", "cleaner")
    assert ended.code == 2
    assert "defaults.confirm_tools in config.yaml" in ended.err
    assert "did you mean 'file_delete'" in ended.err
