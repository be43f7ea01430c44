"""To whom which requests were shown: an answer that names none counts only for one that its giver has seen."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Protocol

from agent_md.executions.ids import RequestId
from agent_md.executions.requests import Request

__all__ = ["Showings"]


class Showings(Protocol):
    """Requests that were shown, by who saw them: a name as it stands in `answered_by`."""

    def record(self, requests: Iterable[Request], to: str) -> None:
        """Records that the open ones of these requests were shown. Raises nothing and does not wait for long: where the
        store cannot be written, the record is lost."""

    def shown(self, request_ids: Collection[RequestId], to: str) -> frozenset[RequestId]:
        """Which of them were shown to `to`."""
