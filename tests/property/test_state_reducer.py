"""The reducer of messages gives the same whatever way LangGraph batches the writes, and takes a repeat for nothing."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage

from agent_md.graph.state import append_messages

messages = st.builds(
    lambda number, text, ai: (
        AIMessage(text, id=f"m{number}") if ai else ToolMessage(text, id=f"m{number}", tool_call_id="c")
    ),
    st.integers(0, 6),
    st.sampled_from("abc"),
    st.booleans(),
)
writes = st.lists(st.lists(messages, max_size=4), max_size=6)


def apply(start: list[BaseMessage], batches: list[list[list[BaseMessage]]]) -> list[BaseMessage]:
    for batch in batches:
        start = append_messages(start, batch)
    return start


@given(writes, st.lists(st.integers(0, 6), max_size=4))
def test_batching_changes_nothing(all_writes: list[list[BaseMessage]], cuts: list[int]) -> None:
    ends = [0, *sorted(min(cut, len(all_writes)) for cut in cuts), len(all_writes)]
    batches = [all_writes[start:end] for start, end in pairwise(ends)]
    assert apply([], batches) == apply([], [all_writes]) == apply([], [[write] for write in all_writes])


@given(writes)
def test_a_repeated_step_changes_nothing(all_writes: list[list[BaseMessage]]) -> None:
    once = append_messages([], all_writes)
    assert append_messages(once, all_writes) == once
    assert len({message.id for message in once}) == len(once)


@given(writes, writes)
def test_what_is_there_stays_and_what_is_new_comes_after_it(
    first: list[list[BaseMessage]], second: list[list[BaseMessage]]
) -> None:
    before = append_messages([], first)
    kept = list(before)
    after = append_messages(before, second)
    assert before == kept
    assert after[: len(before)] == before
