"""The order of providers, made from whatever order and gaps the stored messages have."""

from __future__ import annotations

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from agent_md.graph.message_order import provider_order
from tests.support.provider_shape import check_provider_shape

ASKED = HumanMessage("Hello")


def ai(*ids: str) -> AIMessage:
    return AIMessage("", tool_calls=[{"name": f"tool-{call_id}", "args": {}, "id": call_id} for call_id in ids])


def result(call_id: str, text: str = "ok") -> ToolMessage:
    return ToolMessage(text, tool_call_id=call_id, name=f"tool-{call_id}")


def shaped(*messages: BaseMessage) -> list[BaseMessage]:
    given = provider_order(messages)
    check_provider_shape(given)
    return given


def test_a_good_history_is_left_as_it_is() -> None:
    history = [SystemMessage("Work."), ASKED, ai("1", "2"), result("1"), result("2")]
    assert shaped(*history) == history


def test_results_come_in_the_order_of_the_calls() -> None:
    assert [m.content for m in shaped(ASKED, ai("1", "2", "3"), *map(result, "312", "cab"))[2:]] == ["a", "b", "c"]


def test_a_missing_result_is_closed() -> None:
    *_, closed, kept = shaped(ASKED, ai("1", "2"), result("2"))
    assert isinstance(closed, ToolMessage)
    assert (closed.tool_call_id, closed.name, closed.status) == ("1", "tool-1", "error")
    assert closed.content == "Not executed: the execution ended before this call"
    assert kept == result("2")


def test_a_result_without_a_call_is_left_out() -> None:
    assert shaped(result("0"), ASKED, ai("1"), result("9"), result("1"), result("1", "again")) == [
        *(ASKED, ai("1"), result("1"))
    ]


def test_an_id_that_comes_again_gets_a_number() -> None:
    given = shaped(
        *(
            ASKED,
            ai("1", "2"),
            result("2", "b"),
            result("1", "a"),
            ai("1", "1_2"),
            result("1_2", "d"),
            result("1", "c"),
        ),
        *(ai("1"), result("1", "e")),
    )
    named = [(m.tool_call_id, m.content) for m in given if isinstance(m, ToolMessage)]
    assert named == [("1", "a"), ("2", "b"), ("1_3", "c"), ("1_2", "d"), ("1_4", "e")]
    assert shaped(ASKED, ai("1"), ai("1"), result("1", "second"))[2].content.startswith("Not executed")


def test_a_call_in_the_content_goes_with_its_id() -> None:
    content = [{"type": "text", "text": "So:"}, {"type": "tool_use", "id": "1", "name": "tool-1", "input": {}}]
    message = ai("1").model_copy(update={"content": content})
    again = shaped(ASKED, message, result("1"), message, result("1"))[3]
    assert again.content == [content[0], {**content[1], "id": "1_2"}]
    assert message.content == content


def test_provider_data_by_call_goes_with_its_id() -> None:
    message = ai("1").model_copy(update={"additional_kwargs": {"signatures": {"1": "c2ln"}, "other": "1"}})
    again = shaped(ASKED, message, result("1"), message, result("1"))[3]
    assert again.additional_kwargs == {"signatures": {"1_2": "c2ln"}, "other": "1"}


def test_provider_data_stays() -> None:
    message = ai("1").model_copy(update={"additional_kwargs": {"signature": "c2ln"}, "id": "x"})
    assert shaped(ASKED, message, result("1"))[1] is message
