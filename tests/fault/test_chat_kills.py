"""kill -9 right before any write of a chat: the session goes on, each effect at most once, nothing left open."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import CallOutcome, Status
from agent_md.graph.message_order import provider_order
from agent_md.graph.messages import from_stored
from tests.support.agent_folder import AgentFolder
from tests.support.driving import KIT
from tests.support.processes import Finished
from tests.support.provider_shape import check_provider_shape

SCRIPT = """
conversations:
  - match: {user: one}
    turns: [{calls: [{name: plain, args: {key: A}}, {name: plain, args: {key: B}}]}, {text: Done.}]
  - match: {user: two}
    turns: [{calls: [{name: plain, args: {key: C}}]}, {text: Done.}]
  - turns: [{text: Yes.}]
"""
TURNS = {"one": ("A", "B"), "two": ("C",), "three": ()}


def bot(path: Path) -> AgentFolder:
    folder = AgentFolder(path)
    folder.agent("bot", [], "tools: [kit]")
    folder.tools("kit", KIT)
    (path / "agents/_config/scripts/bot.yaml").write_text(SCRIPT)
    return folder


def chat(folder: AgentFolder, lines: str, kill_before_write: int | None = None) -> Finished:
    given = folder.file("lines", lines)

    def read_lines() -> None:
        os.dup2(os.open(given, os.O_RDONLY), 0)

    return folder.cli("chat", "bot", "--session", "s", prepare=read_lines, kill_before_write=kill_before_write)


def check(folder: AgentFolder) -> None:
    """The last turn knows of all that happened, in order."""
    log = folder.path / "world.log"
    effects = log.read_text().split() if log.exists() else []
    assert len(effects) == len(set(effects)), effects
    with folder.store() as store:
        turns = list(reversed(store.executions()))
        assert {turn.status for turn in turns} == {Status.SUCCESS}
        messages = from_stored(store.seed(turns[-1].id))
        calls = [call for turn in turns for call in store.calls(ExecutionId(turn.id))]
    check_provider_shape(provider_order(messages))
    said = [str(message.content) for message in messages if message.type == "human"]
    assert said == [word for word in TURNS if word in said]
    assert said[-1] == "three"
    assert [call.args["key"] for call in calls] == [key for word in said for key in TURNS[word]]
    results = [str(message.content) for message in messages if message.type == "tool"]
    for call, result in zip(calls, results, strict=True):
        if call.outcome is CallOutcome.DONE:
            assert (result, effects.count(call.args["key"])) == (f"did {call.args['key']}", 1)
        else:
            assert (call.outcome, "may have run" in result) == (CallOutcome.UNKNOWN, True)


def points(tmp_path: Path) -> range:
    folder = bot(tmp_path / "count")
    assert chat(folder, "one\ntwo\n").code == 0
    return range(1, folder.cli.writes_of_last() + 1)


def check_kill(folder: AgentFolder, number: int, *, lose: bool) -> None:
    assert chat(folder, "one\ntwo\n", number).killed
    if lose:
        for file in (folder.path / ".agentmd").glob("agentmd_checkpoints.db*"):
            file.unlink()
    ended = chat(folder, "three\n")
    try:
        assert (ended.code, ended.out.count("✅ Yes.")) == (0, 1), ended
        check(folder)
    except AssertionError as error:
        raise AssertionError(f"killed before write {number}: {error}") from error


def test_killed_before_one_write_in_forty(tmp_path: Path) -> None:
    for number in points(tmp_path)[random.randrange(40) :: 40]:
        check_kill(bot(tmp_path / str(number)), number, lose=random.random() < 0.5)


@pytest.mark.stress
@pytest.mark.parametrize("lose", [False, True], ids=["kept", "lost"])
def test_killed_before_every_write(tmp_path: Path, lose: bool) -> None:
    for number in points(tmp_path):
        check_kill(bot(tmp_path / str(number)), number, lose=lose)
