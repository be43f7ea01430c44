"""Which requests were shown to whom."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable

from agent_md.errors import StoreError
from agent_md.executions.ids import RequestId
from agent_md.executions.requests import Request
from agent_md.ports.clock import Clock
from agent_md.stores.sqlite.database import Database
from agent_md.stores.sqlite.rows import dump

__all__ = ["SqliteShowings"]

log = logging.getLogger(__name__)


class SqliteShowings:
    """`agent_md.ports.Showings` on SQLite."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self._db = db
        self._clock = clock

    def record(self, requests: Iterable[Request], to: str) -> None:
        ids = [request.id for request in requests if request.open]
        try:
            known = self.shown(ids, to)
            missing = [request_id for request_id in ids if request_id not in known]
            if missing:
                with self._db.write(patient=False):
                    self._db.run(
                        "INSERT OR IGNORE INTO showings (request_id, shown_to, shown_at)"
                        " SELECT id, ?, ? FROM requests WHERE id IN (SELECT value FROM json_each(?))",
                        *(to, self._clock(), dump(missing)),
                    )
        except StoreError as error:
            log.info("it is not recorded that %s was shown to %s: %s", ", ".join(ids), to, error)

    def shown(self, request_ids: Collection[RequestId], to: str) -> frozenset[RequestId]:
        if not request_ids:
            return frozenset()
        rows = self._db.all(
            "SELECT request_id FROM showings WHERE shown_to = ? AND request_id IN (SELECT value FROM json_each(?))",
            *(to, dump(list(request_ids))),
        )
        return frozenset(RequestId(row[0]) for row in rows)
