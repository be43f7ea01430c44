"""What every provider insists on in a history, checked message by message."""

from __future__ import annotations

from collections.abc import Sequence

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

__all__ = ["check_provider_shape", "shape_fault"]


def check_provider_shape(messages: Sequence[BaseMessage]) -> None:
    """Fails, with all messages shown, if a provider would refuse them as the history of a model call."""
    fault = shape_fault(messages)
    assert fault is None, f"{fault}:\n" + "\n".join(message.pretty_repr() for message in messages)


def shape_fault(messages: Sequence[BaseMessage]) -> str | None:
    """What is wrong with the messages; None if nothing is.

    A system message may only be the first, then comes a human message. Every call has an id, unique in the history,
    and is answered once, at once and in the order of the calls. The last message is the human's or a result.
    """
    rest = list(messages[1:] if messages and isinstance(messages[0], SystemMessage) else messages)
    if not rest or not isinstance(rest[0], HumanMessage):
        return "the conversation does not begin with a human message"
    if isinstance(rest[-1], AIMessage):
        return "the last message is the model's"
    expected: list[tuple[str, str]] = []
    known: set[str] = set()
    for index, message in enumerate(rest):
        if isinstance(message, ToolMessage):
            answered = (message.tool_call_id, message.name)
            if not expected or expected.pop(0) != answered:
                return f"message {index} answers {answered}, which is not the call that is due"
        elif expected:
            return f"message {index} comes before the results of {expected}"
        elif isinstance(message, AIMessage):
            expected = [(call["id"] or "", call["name"]) for call in message.tool_calls]
            ids = [call_id for call_id, _ in expected]
            fresh = all(ids) and len({*ids} - known) == len(ids)
            known.update(ids)
            if isinstance(rest[index - 1], AIMessage) or not fresh:
                return f"message {index} follows one of the model, or has calls without an id of their own"
        elif not isinstance(message, HumanMessage):
            return f"message {index} is a {message.type}"
    return f"the calls {expected} have no results" if expected else None
