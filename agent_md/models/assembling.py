"""From the chunks of a stream to one message, or to the failure that they are not a whole answer.

What providers do differently is known by `model_provider`, which their clients write into a message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from langchain_core.messages import AIMessage, AIMessageChunk, InvalidToolCall, ToolCall, message_chunk_to_message
from langchain_core.messages.tool import ToolCallChunk, invalid_tool_call, tool_call

from agent_md.executions.json_values import parse_strictly
from agent_md.models.failures import ProviderFailure

__all__ = ["assemble"]

_MISHAPS = {"MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE", "UNEXPECTED_TOOL_CALL", "OTHER"}
"""Gemini's reasons to finish without an answer that do not come again when the model is asked again."""

_FULL = {"length", "MAX_TOKENS", "max_tokens", "max_output_tokens", "model_context_window_exceeded"}
"""Reasons of all providers to stop where the tokens ran out, in the middle of a call too."""


def assemble(chunks: Sequence[AIMessageChunk]) -> AIMessage:
    """The message that the chunks (at least one) are parts of. Raises ProviderFailure if it has no proper end.

    A call whose arguments are not one whole JSON object is an invalid one: nothing of half an argument is guessed.
    """
    _count_once(chunks)
    # One sum over all: adding them one by one copies the growing message at every chunk.
    summed = chunks[0] + list(chunks[1:])
    message = cast(AIMessage, message_chunk_to_message(summed))
    message.tool_calls, message.invalid_tool_calls = _calls(summed.tool_call_chunks, _is_full(message))
    finish = _FINISHES.get(message.response_metadata.get("model_provider", ""))
    if finish is not None:
        finish(message)
    return message


def _count_once(chunks: Sequence[AIMessageChunk]) -> None:
    """Servers that speak like OpenAI may tell the usage more than once, each time of the whole answer so far."""
    if all(chunk.response_metadata.get("model_provider") != "openai" for chunk in chunks):
        return
    counted = [chunk for chunk in chunks if chunk.usage_metadata]
    for chunk in counted[:-1]:
        chunk.usage_metadata = None


def _is_full(message: AIMessage) -> bool:
    told = message.response_metadata
    return not _FULL.isdisjoint((told.get("finish_reason"), told.get("stop_reason"), _incomplete(message)))


def _incomplete(message: AIMessage) -> str | None:
    """Why an answer of OpenAI's Responses API is not complete."""
    reason: str | None = (message.response_metadata.get("incomplete_details") or {}).get("reason")
    return reason


def _calls(chunks: Sequence[ToolCallChunk], full: bool) -> tuple[list[ToolCall], list[InvalidToolCall]]:
    calls: list[ToolCall] = []
    invalid: list[InvalidToolCall] = []
    for chunk in chunks:
        name, text, call_id = chunk["name"], chunk["args"], chunk["id"]
        args = _arguments(text or ("" if full else "{}"))
        if args is None:
            invalid.append(invalid_tool_call(name=name, args=text, id=call_id))
        else:
            calls.append(tool_call(name=name or "", args=args, id=call_id))
    return calls, invalid


def _arguments(text: str) -> dict[str, Any] | None:
    try:
        # Line breaks inside of texts are a common slip of models, and mean what they seem to.
        args = parse_strictly(text, line_breaks=True)
    except ValueError:
        return None
    return args if isinstance(args, dict) else None


# What each provider's answers need at their end


def _finish_gemini(message: AIMessage) -> None:
    """A stream that was cut between two chunks ends like a whole one, but for its reason to finish."""
    blocked = (message.response_metadata.get("prompt_feedback") or {}).get("block_reason")
    if blocked:
        raise ProviderFailure(f"the prompt was blocked: {getattr(blocked, 'value', blocked)}", transient=False)
    reason = _reason(message, "finish_reason")
    if reason not in ("STOP", "MAX_TOKENS") and not message.text and not message.tool_calls:
        raise ProviderFailure(f"no answer, finish reason {reason}", transient=reason in _MISHAPS)
    # The last call of the message once more; from chunks of several calls it is their texts in one.
    message.additional_kwargs.pop("function_call", None)


def _finish_openai(message: AIMessage) -> None:
    if message.response_metadata.get("object") == "response":
        _finish_response(message)
        return
    reason = _reason(message, "finish_reason")
    calls = message.tool_calls or message.invalid_tool_calls
    if message.additional_kwargs.get("refusal") and not message.text and not calls:
        raise ProviderFailure("the model refused to answer", transient=False)
    if reason.startswith("content_filter") and not message.text and not calls:
        raise ProviderFailure("no answer, finish reason content_filter", transient=False)
    if reason.startswith("tool_calls") and not calls:
        raise ProviderFailure("the answer is to call tools, and names none", transient=True)


def _finish_response(message: AIMessage) -> None:
    calls = message.tool_calls or message.invalid_tool_calls
    blocks = [block for block in message.content if isinstance(block, dict)]
    if any(block.get("type") == "refusal" for block in blocks) and not message.text and not calls:
        raise ProviderFailure("the model refused to answer", transient=False)
    if _incomplete(message) == "content_filter" and not message.text and not calls:
        raise ProviderFailure("no answer, incomplete for content_filter", transient=False)
    broken = {call["id"] for call in message.invalid_tool_calls}
    for block in blocks:
        if block.get("type") == "function_call" and block.get("call_id") in broken:
            block["arguments"] = "{}"  # what the call is told to have had; half a JSON is not taken back


def _finish_claude(message: AIMessage) -> None:
    if _reason(message, "stop_reason") == "refusal":
        raise ProviderFailure("the model refused to answer", transient=False)
    if isinstance(message.content, list):
        args = {call["id"]: call["args"] for call in message.tool_calls}
        message.content = [_block(block, args) if isinstance(block, dict) else block for block in message.content]


def _block(block: dict[str, Any], args: dict[str | None, dict[str, Any]]) -> dict[str, Any]:
    """The block as it would have come without a stream; Claude takes no other back."""
    whole = {
        name: value for name, value in block.items() if name not in ("index", "partial_json") and value is not None
    }
    return {**whole, "input": args.get(block.get("id"), {})} if block.get("type") == "tool_use" else whole


def _reason(message: AIMessage, key: str) -> str:
    """Why the answer ended; a stream that was cut between two chunks does not say it."""
    reason = message.response_metadata.get(key)
    if not reason:
        raise ProviderFailure("the stream broke off before the end of the answer", transient=True)
    return str(reason)


_FINISHES: dict[str, Callable[[AIMessage], None]] = {
    "google_genai": _finish_gemini,
    "openai": _finish_openai,
    "anthropic": _finish_claude,
}
"""Ollama's client raises by itself when a stream has no end."""
