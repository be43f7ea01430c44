"""Finish reasons: one table per provider that maps its words to what may be done with the answer.

A word that is not in a table is of a provider newer than it: nothing that came with it is run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

__all__ = ["REASONS", "AnswerEnd", "EndKind", "cut_reason", "end_of", "worst_end"]


class EndKind(IntEnum):
    """What may be done with an answer; of several words in one stream, the greatest counts."""

    WHOLE = 0
    """All of it: its text is shown, its calls are run."""
    CUT = 1
    """It stopped before its end. Its text is kept and marked; its calls are not run."""
    FAILED = 2
    """The provider made a mistake: nothing of it counts, and it may be asked again."""
    BLOCKED = 3
    """The provider or the model refused: nothing of it counts, and another attempt would end in the same way."""


@dataclass(frozen=True, slots=True)
class AnswerEnd:
    """The end of one answer; `reason` is the provider's own word."""

    kind: EndKind
    reason: str


def _table(whole: str = "", cut: str = "", failed: str = "", blocked: str = "") -> dict[str, EndKind]:
    groups = ((whole, EndKind.WHOLE), (cut, EndKind.CUT), (failed, EndKind.FAILED), (blocked, EndKind.BLOCKED))
    return {word: kind for words, kind in groups for word in words.split()}


REASONS: Mapping[str, Mapping[str, EndKind]] = {
    "google_genai": _table(
        whole="STOP",
        cut="MAX_TOKENS",
        failed="MALFORMED_FUNCTION_CALL MALFORMED_RESPONSE UNEXPECTED_TOOL_CALL TOO_MANY_TOOL_CALLS"
        " MISSING_THOUGHT_SIGNATURE OTHER NO_IMAGE IMAGE_OTHER",
        blocked="SAFETY RECITATION LANGUAGE BLOCKLIST PROHIBITED_CONTENT SPII MODEL_ARMOR"
        " IMAGE_SAFETY IMAGE_PROHIBITED_CONTENT IMAGE_RECITATION",
    ),
    # Also the words of servers that speak like OpenAI.
    "openai": _table(
        whole="stop tool_calls function_call eos eos_token stop_sequence end_turn tool_use tool_call",
        cut="length max_tokens model_length model_context_window_exceeded",
        failed="error abort cancelled network_error insufficient_system_resource",
        blocked="content_filter refusal safety sensitive",
    ),
    "openai responses": _table(
        whole="completed",
        cut="max_output_tokens max_tokens",
        failed="failed cancelled",
        blocked="content_filter refusal",
    ),
    "anthropic": _table(
        whole="end_turn stop_sequence tool_use",
        cut="max_tokens model_context_window_exceeded pause_turn",
        blocked="refusal",
    ),
    "ollama": _table(whole="stop", cut="length", failed="load unload"),
    "script": _table(whole="stop", cut="length", blocked="blocked"),
}
"""What the words of each provider mean, by what its client calls itself in a message (`model_provider`)."""

_UNSAID = ("FINISH_REASON_UNSPECIFIED", "in_progress", "queued")
"""Words that say nothing."""


def end_of(message: BaseMessage) -> AnswerEnd | None:
    """How the answer that the message is ended, as far as its provider said it; also of a piece of an answer."""
    told = message.response_metadata
    provider = told.get("model_provider", "")
    if provider == "openai" and told.get("object") == "response":
        provider = "openai responses"
        words = [(told.get("incomplete_details") or {}).get("reason") or told.get("status")]
        words += ["refusal"] if _refuses(message.content) else []
    else:
        words = [told.get(key) for key in ("finish_reason", "stop_reason", "done_reason")]
        words += ["refusal"] if message.additional_kwargs.get("refusal") else []
    table = REASONS.get(provider, {})
    return worst_end(
        AnswerEnd(table.get(word, EndKind.CUT), word)
        for word in map(str, filter(None, words))
        if table and word not in _UNSAID
    )


def _refuses(content: Any) -> bool:
    return isinstance(content, list) and any(
        isinstance(block, dict) and block.get("type") == "refusal" for block in content
    )


def worst_end(ends: Iterable[AnswerEnd | None]) -> AnswerEnd | None:
    """The end that allows the least; the first of equal ones."""
    return max((end for end in ends if end is not None), key=lambda end: end.kind, default=None)


def cut_reason(message: BaseMessage) -> str | None:
    """The provider's word for why the message stopped before its end; None if it is whole."""
    end = end_of(message)
    return end.reason if end is not None and end.kind is EndKind.CUT else None
