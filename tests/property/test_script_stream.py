"""Any text and any arguments come through a stream as they are in the script."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage

from agent_md.models.script import ScriptModel
from agent_md.models.script_file import Conversation, Script, ScriptCall, Turn
from agent_md.models.streaming import stream_answer

_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(text=st.text(), args=st.lists(st.dictionaries(st.text(), _json, max_size=3), max_size=3))
def test_a_stream_loses_nothing(text: str, args: list[dict[str, object]]) -> None:
    turn = Turn(line=1, text=text, calls=tuple(ScriptCall("tool", one) for one in args))
    model = ScriptModel(script=Script("play", "play.yaml", (Conversation(None, (turn,)),)), bound=("tool",))
    pieces: list[str] = []
    answer = asyncio.run(stream_answer(model, [HumanMessage("x")], pieces.append))
    assert "".join(pieces) == answer.text == text
    assert [call["args"] for call in answer.tool_calls] == args
    assert answer.invalid_tool_calls == []
