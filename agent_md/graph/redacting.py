"""Masks secrets in requests, calls and streamed text before they are stored."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from langchain_core.messages.tool import ToolCall

from agent_md.errors import InvalidArguments
from agent_md.executions.calls import Proposal
from agent_md.executions.requests import NewRequest, Preview
from agent_md.executions.states import RequestSource
from agent_md.redaction import Redactor

__all__ = ["DeltaRedaction", "redacted_proposals", "redacted_request", "refuse_secrets", "with_marks"]

_MASKED_DIFF = "secrets in the difference are masked"


def redacted_request(redactor: Redactor, request: NewRequest) -> NewRequest:
    """The request as it is stored and shown. The arguments of a call to confirm stay as they are: what has a secret in
    them is refused before."""
    preview = _redacted_preview(redactor, request.preview)
    message = redactor.text(request.message)
    if preview is not request.preview:
        message = f"{message} ({_MASKED_DIFF})"
    if request.source is RequestSource.GATE:
        return replace(request, message=message, preview=preview)
    return replace(
        request,
        message=message,
        preview=preview,
        tool_args=redactor.value(request.tool_args),
        options=redactor.value(request.options),
        questions=redactor.value(request.questions),
        payload=redactor.value(request.payload),
    )


def _redacted_preview(redactor: Redactor, preview: Preview | None) -> Preview | None:
    if preview is None or preview.diff is None:
        return preview
    diff = redactor.text(preview.diff)
    return preview if diff is preview.diff else replace(preview, diff=diff)


def redacted_proposals(redactor: Redactor, proposals: Sequence[Proposal]) -> list[Proposal]:
    """The proposals with what they ask."""
    return [
        proposal
        if proposal.request is None
        else replace(proposal, request=redacted_request(redactor, proposal.request))
        for proposal in proposals
    ]


def with_marks(redactor: Redactor, calls: Sequence[ToolCall]) -> Mapping[str, str]:
    """By call id, the reason to refuse calls whose arguments contain the mask of a secret: the model does not mean the
    mask itself, and it would be useless in a file."""
    found = {call["id"] or "": redactor.marked(call["args"]) for call in calls}
    return {
        call_id: f"the arguments hold [secret {name}], which stands for a value that is not given to models; nothing was "
        "done. Do it without that text"
        for call_id, name in found.items()
        if name is not None
    }


def refuse_secrets(redactor: Redactor, args: Mapping[str, Any]) -> None:
    """Raises InvalidArguments for arguments that a human edited and that hold a secret, or the mark of one."""
    name = redactor.marked(redactor.value(args))
    if name is not None:
        raise InvalidArguments(
            f"they hold the secret {name}, or [secret {name}], which stands for it; arguments are stored and shown. "
            "http_request takes ${NAME} of a secret that the agent has"
        )


class DeltaRedaction:
    """Passes on the text of one answer piece by piece, without secrets."""

    def __init__(self, redactor: Redactor, pass_on: Callable[[str], None]) -> None:
        self._redactor = redactor
        self._pass_on = pass_on
        self._stream = redactor.stream()

    def add(self, piece: str) -> None:
        self._give(self._stream.feed(piece))

    def end(self) -> None:
        """Passes on what was kept back: the answer is whole."""
        self._give(self._stream.rest())

    def restart(self) -> None:
        """What came does not count: the model is asked again."""
        self._stream = self._redactor.stream()

    def _give(self, text: str) -> None:
        if text:
            self._pass_on(text)
