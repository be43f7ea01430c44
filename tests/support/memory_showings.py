"""Which requests were shown to whom, in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from agent_md.executions.ids import RequestId
from agent_md.executions.requests import Request

__all__ = ["MemoryShowings"]


class MemoryShowings:
    """The `Showings` port."""

    def __init__(self) -> None:
        self._shown: set[tuple[RequestId, str]] = set()

    def record(self, requests: Iterable[Request], to: str) -> None:
        self._shown |= {(request.id, to) for request in requests if request.open}

    def shown(self, request_ids: Collection[RequestId], to: str) -> frozenset[RequestId]:
        return frozenset(request_id for request_id in request_ids if (request_id, to) in self._shown)
