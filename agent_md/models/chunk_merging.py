"""Merges the chunks of a stream into one message, or raises the failure of an incomplete stream.

What providers do differently is known by `model_provider`, which their clients write into a message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from langchain_core.messages import AIMessage, AIMessageChunk, InvalidToolCall, ToolCall, message_chunk_to_message
from langchain_core.messages.tool import ToolCallChunk, invalid_tool_call, tool_call

from agent_md.executions.json_values import parse_strictly
from agent_md.models.failures import ProviderFailure
from agent_md.models.finish_reasons import AnswerEnd, EndKind, end_of, worst_end

__all__ = ["assemble"]

_LASTING = {"TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE", "NO_IMAGE"}
"""Reasons of a failed answer that come again when the same is asked again."""

_MUST_SAY = ("google_genai", "openai", "anthropic", "script")
"""Whose answers always tell how they ended: one that does not was cut between two chunks. Ollama's client raises by
itself when a stream has no end."""


def assemble(chunks: Sequence[AIMessageChunk]) -> AIMessage:
    """The message that the chunks (at least one) are parts of. Raises ProviderFailure if it has no proper end, if it was
    blocked, or if there is nothing in it because it was cut.

    A call whose arguments are not one whole JSON object is an invalid one: nothing of half an argument is guessed.
    Whether the calls may be run says `endings.end_of`.
    """
    _count_once(chunks)
    told = worst_end(end_of(chunk) for chunk in chunks)
    # One sum over all: adding them one by one copies the growing message at every chunk.
    summed = chunks[0] + list(chunks[1:])
    message = cast(AIMessage, message_chunk_to_message(summed))
    _say_once(message, told)
    end = worst_end((told, end_of(message)))
    full = end is not None and end.kind is not EndKind.WHOLE
    message.tool_calls, message.invalid_tool_calls = _calls(summed.tool_call_chunks, full)
    _refuse_unusable(message, end)
    finish = _FINISHES.get(message.response_metadata.get("model_provider", ""))
    if finish is not None:
        finish(message)
    return message


def _say_once(message: AIMessage, end: AnswerEnd | None) -> None:
    """Some servers tell the reason in more than one chunk, and the sum has them in one word."""
    for key in ("finish_reason", "stop_reason", "done_reason"):
        if end is not None and message.response_metadata.get(key):
            message.response_metadata[key] = end.reason


def _refuse_unusable(message: AIMessage, end: AnswerEnd | None) -> None:
    """Raises ProviderFailure for an answer of which nothing may be used."""
    told = message.response_metadata
    blocked = (told.get("prompt_feedback") or {}).get("block_reason")
    if blocked:
        raise ProviderFailure(f"the prompt was blocked: {getattr(blocked, 'value', blocked)}", transient=False)
    if end is None:
        if told.get("model_provider") in _MUST_SAY:
            raise ProviderFailure("the stream broke off before the end of the answer", transient=True)
        return
    calls = message.tool_calls or message.invalid_tool_calls
    match end.kind:
        case EndKind.BLOCKED if end.reason == "refusal":
            raise ProviderFailure(f"the model refused to answer{_words_of_refusal(message)}", transient=False)
        case EndKind.BLOCKED:
            said = told.get("finish_message")
            raise ProviderFailure(
                f"the answer was blocked, finish reason {end.reason}{f': {said}' if said else ''}", transient=False
            )
        case EndKind.FAILED:
            raise ProviderFailure(f"no answer, finish reason {end.reason}", transient=end.reason not in _LASTING)
        case EndKind.CUT if not message.text.strip() and not calls:
            raise ProviderFailure(
                f"the answer was cut before there was anything in it, finish reason {end.reason}; raise "
                "settings.max_tokens of the agent if it is set",
                transient=False,
            )


def _words_of_refusal(message: AIMessage) -> str:
    said = [message.additional_kwargs.get("refusal")]
    if isinstance(message.content, list):
        said += [block.get("refusal") for block in message.content if isinstance(block, dict)]
    words = " ".join(" ".join(str(words).split()) for words in said if words)
    return f": {words}" if words else ""


def _count_once(chunks: Sequence[AIMessageChunk]) -> None:
    """Servers that speak like OpenAI may tell the usage more than once, each time of the whole answer so far."""
    if all(chunk.response_metadata.get("model_provider") != "openai" for chunk in chunks):
        return
    counted = [chunk for chunk in chunks if chunk.usage_metadata]
    for chunk in counted[:-1]:
        chunk.usage_metadata = None


def _calls(chunks: Sequence[ToolCallChunk], full: bool) -> tuple[list[ToolCall], list[InvalidToolCall]]:
    calls: list[ToolCall] = []
    invalid: list[InvalidToolCall] = []
    for chunk in chunks:
        name, text, call_id = chunk["name"], chunk["args"], chunk["id"]
        args = _arguments(text or "", full)
        if args is None:
            invalid.append(invalid_tool_call(name=name, args=text, id=call_id))
        else:
            calls.append(tool_call(name=name or "", args=args, id=call_id))
    return calls, invalid


def _is_nothing(arguments: str) -> bool:
    return arguments.strip() in ("", "null")


def _arguments(text: str, full: bool) -> dict[str, Any] | None:
    """The arguments that the text is; None if it is no whole object. No text, or `null`, is no arguments, unless the
    answer was cut, where it may be the beginning of some."""
    if _is_nothing(text):
        return None if full else {}
    try:
        # Line breaks inside of texts are a common slip of models, and mean what they seem to.
        args = parse_strictly(text, line_breaks=True)
    except ValueError:
        return None
    return args if isinstance(args, dict) else None


# What each provider's answers need at their end


def _finish_gemini(message: AIMessage) -> None:
    # The last call of the message once more; from chunks of several calls it is their texts in one.
    message.additional_kwargs.pop("function_call", None)


def _finish_openai(message: AIMessage) -> None:
    if message.response_metadata.get("object") == "response":
        _finish_response(message)
        return
    calls = message.tool_calls or message.invalid_tool_calls
    if message.response_metadata.get("finish_reason") == "tool_calls" and not calls:
        raise ProviderFailure("the answer is to call tools, and names none", transient=True)


def _finish_response(message: AIMessage) -> None:
    broken = {call["id"] for call in message.invalid_tool_calls}
    for block in message.content:
        if not isinstance(block, dict) or block.get("type") != "function_call":
            continue
        if block.get("call_id") in broken or _is_nothing(block.get("arguments") or ""):
            block["arguments"] = "{}"  # what the call is told to have had; half a JSON is not taken back


def _finish_claude(message: AIMessage) -> None:
    if isinstance(message.content, list):
        args = {call["id"]: call["args"] for call in message.tool_calls}
        message.content = [_block(block, args) if isinstance(block, dict) else block for block in message.content]


def _block(block: dict[str, Any], args: dict[str | None, dict[str, Any]]) -> dict[str, Any]:
    """The block as it would have come without a stream; Claude takes no other back."""
    whole = {
        name: value for name, value in block.items() if name not in ("index", "partial_json") and value is not None
    }
    return {**whole, "input": args.get(block.get("id"), {})} if block.get("type") == "tool_use" else whole


_FINISHES: dict[str, Callable[[AIMessage], None]] = {
    "google_genai": _finish_gemini,
    "openai": _finish_openai,
    "anthropic": _finish_claude,
}
