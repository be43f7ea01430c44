"""Long results of custom tools: a bounded part for the model, the whole in the store, and a way to read on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_md.executions.positions import Position
from agent_md.tools.long_results import for_model
from tests.support.driving import Workspace, call, turn

LIMIT = 100_000
TOOLS = """
    @tool
    def dump(size: int, sign: str = "x") -> str:
        '''Much text.'''
        return sign * size + "END"

    @tool
    def fails(size: int) -> str:
        '''Fails at length.'''
        raise ValueError("x" * size)
"""


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path / "ws")
    workspace.tools(TOOLS)
    workspace.agent("tools: [kit]")
    yield workspace
    workspace.close()


def test_the_model_gets_the_beginning_and_the_store_the_whole(work: Workspace) -> None:
    work.script(turn(call("dump", size=600_000)), "Done.")
    work.start()
    work.check_succeeded()
    (seen,) = work.results_seen()
    assert len(seen.encode()) <= LIMIT
    body, _, note = seen.rpartition("\n")
    assert note == (
        f"[The result has 600003 bytes; its first {len(body)} are shown. Read on with result_read: "
        f"id=1-0.0, byte={len(body) + 1}.]"
    )
    assert work.result() == "x" * 600_000 + "END"
    (event,) = [event for event in work.events() if event.key == "result:0.0"]
    assert event.message == work.result()


@pytest.mark.parametrize("sign", ["ä", "🙂"])
def test_everything_can_be_read_on_part_by_part(work: Workspace, sign: str) -> None:
    work.agent("tools: [kit]\nsettings: {max_tool_result_bytes: 2000}")
    whole = sign * 3000 + "END"
    shown, byte = _cut(for_model(whole, "1-0.0", 2000))
    parts = [shown]
    first = turn(call("dump", size=3000, sign=sign))
    while byte:
        work.script(first, turn(call("result_read", id=f"{len(parts)}-0.0", byte=byte)), "Done.")
        work.start()
        work.check_succeeded()
        (seen,) = work.results_seen()
        assert len(seen.encode()) <= 2000
        shown, byte = _cut(seen)
        parts.append(shown)
    assert len(parts) > 2
    assert "".join(parts) == whole


def _cut(text: str) -> tuple[str, int]:
    """What is shown, and the byte to read on at; 0 = the end is shown."""
    found = re.search(r"\n\[[^\n]*byte=(\d+)\.\]\Z", text)
    return (text, 0) if found is None else (text[: found.start()], int(found.group(1)))


def test_after_a_lost_checkpoint_the_model_is_told_the_same(work: Workspace) -> None:
    work.script(turn(call("dump", size=200_000)), turn(call("ask_user", question="Go on?")), "Done.")
    work.start()
    work.restart(lose_checkpoints=True)
    work.answer(work.the_request(), {"text": "yes"})
    work.check_succeeded()
    contents = [message.text for message in work.histories[-1] if message.type == "tool"]
    assert contents[0] == for_model(work.result(), "1-0.0", LIMIT)


def test_a_later_turn_of_the_session_reads_on_and_nobody_else(work: Workspace) -> None:
    work.script(turn(call("dump", size=200_000)), "Done.")
    work.start(session_id="s")
    work.script(turn(call("result_read", id="1-0.0", byte=199_999)), "Done.")
    work.start(session_id="s")
    assert work.results_seen() == ["xxEND"]
    for other in ({"session_id": "t"}, {}):
        work.start(**other)
        assert work.results_seen() == [
            "Error: there is no result '1-0.0' in this conversation; give the id that a cut result names"
        ]


@pytest.mark.parametrize("result_id", ["1-0.9", "9-0.0", "0.0", "x", "1-0.0 ", "999999999999999999-0.0"])
def test_an_id_that_is_none_is_an_error(work: Workspace, result_id: str) -> None:
    work.script(turn(call("dump", size=1)), turn(call("result_read", id=result_id)), "Done.")
    work.start()
    work.check_succeeded()
    assert "there is no result" in work.results_seen()[0]


def test_a_byte_within_a_character_and_one_behind_the_end(work: Workspace) -> None:
    reads = [call("result_read", id="1-0.0", byte=byte) for byte in (1, 3, 8, 100)]
    work.script(turn(call("dump", size=2, sign="🙂")), turn(*reads), "Done.")
    work.start()
    work.check_succeeded()
    assert work.results_seen() == ["🙂🙂END", "🙂🙂END", "🙂END", "[The result has only 11 bytes.]"]


def test_the_limit_is_a_setting(work: Workspace) -> None:
    work.agent("tools: [kit]\nsettings: {max_tool_result_bytes: 2000}")
    work.script(turn(call("dump", size=1997), call("dump", size=1998)), "Done.")
    work.start()
    work.check_succeeded()
    whole, cut = work.results_seen()
    assert whole == "x" * 1997 + "END"
    assert len(cut.encode()) <= 2000
    assert "id=1-0.1" in cut


def test_a_direct_answer_is_whole(work: Workspace) -> None:
    work.tools(TOOLS.replace("@tool\n    def dump", "@tool(return_direct=True)\n    def dump"))
    work.script(turn(call("dump", size=300_000)))
    work.start()
    work.check_succeeded("x" * 300_000 + "END")
    found = work.app.store.call(work.execution.id, Position(0, 0))
    assert found is not None
    assert found.result == work.execution.output
