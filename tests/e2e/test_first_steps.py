"""Mistakes of the first hour, and answers that are given twice."""

from __future__ import annotations

from agent_md.cli.agent_notes import NO_SERVER
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


UNASKED = "file_edit and file_move may change something without asking; `confirm` in"


def test_what_changes_something_unasked_is_told(folder: AgentFolder) -> None:
    folder.agent("open", [{"text": "Done."}], 'auto_approve: ["file_write(out/*)"]\ntools: [kit]')
    folder.agent("shut", [{"text": "Done."}], "confirm: [file_edit, file_move]")
    folder.tools(
        "kit", "from langchain_core.tools import tool\n\n@tool\ndef send(to: str) -> str:\n    'S.'\n    return to\n"
    )
    told = "file_edit, file_move, some calls of file_write and send may change something without asking"
    assert told in folder.cli("validate", "open").out
    assert told in folder.cli("explain", "open").out
    with folder.terminal("run", "open", columns=200) as first:
        assert first.exit_code() == 0
        assert told in first.shown
    with folder.terminal("run", "open", columns=200) as second:
        assert second.exit_code() == 0
        assert "without asking" not in second.shown
    assert "without asking" not in folder.cli("validate", "shut").out + folder.cli("explain", "shut").out


def test_what_has_no_effect_is_a_note_wherever_somebody_looks(folder: AgentFolder) -> None:
    fields = "skills: [write]\nnotify: [{url: 'http://127.0.0.1:9', token: '${HOOK}', events: [interrupt.requested]}]"
    folder.agent("helper", [{"text": "Done."}], fields)
    folder.agent("timed", [{"text": "Done."}], "trigger: {type: schedule, every: 5m}")
    folder.agent("watching", [{"text": "Done."}], "trigger: {type: watch, paths: [in]}")
    notes = ["note: skills of helper has no effect in this version"]
    told = folder.cli("run", "helper").err
    assert told.startswith(f"{notes[0]}\nnote: no server runs here: `notify` of helper")
    assert folder.cli("run", "timed").err == ""
    assert folder.cli("run", "watching").err == ""
    notes += [
        f"note: {UNASKED} agents/helper.md makes such calls ask",
        "note: the variable HOOK of `notify` is not set; put it into .env or the environment; until then nothing is sent "
        "to 127.0.0.1",
        "note: 127.0.0.1, a host of `notify`, is no address of the public internet: nothing is sent there. If it is meant, "
        "add it to `http.allow_hosts` in config.yaml",
        f"note: {NO_SERVER.format(agent='helper')}",
    ]
    validated = folder.cli("validate", "helper")
    assert (validated.code, validated.out.splitlines()[1:]) == (0, [f"    {note}" for note in notes])
    explained = folder.cli("explain", "helper")
    assert explained.out.splitlines()[-5:] == notes
    assert "  Trigger     every 5m\n" in folder.cli("explain", "timed").out
    assert "watch in " in folder.cli("list").out
    assert "  Trigger     watch in\n" in folder.cli("explain", "watching").out
    folder.agent("watching", [{"text": "Done."}], "trigger: {type: watch, paths: [in, ../out]}")
    assert "note: trigger.paths: ../out leads out of what watching may reach" in folder.cli("validate", "watching").out


def test_a_broken_file_of_prices_is_told_once(folder: AgentFolder) -> None:
    folder.file("config.yaml", "prices: prices.yaml\n")
    folder.file("prices.yaml", "prices: [\n")
    folder.agent("helper", [{"text": "Done."}])
    ended = folder.cli("validate")
    assert ended.code == 1
    assert ended.out.count("prices.yaml, line 2") == 1
    assert "cannot be built" not in ended.out


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
