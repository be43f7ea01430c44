"""Which agents of a running server may not start, since they would do more than the user has said yes to."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from pathlib import Path

from agent_md.errors import TrustUnusable
from agent_md.reloading.loop import ChangeReport
from agent_md.trust.items import Item

__all__ = ["BlockedAgents", "TrustChanges"]

log = logging.getLogger(__name__)


BlockedAgents = Callable[[], dict[str, list[Item]]]
"""Gives the agents that may not start, each with what was not allowed. Raises TrustUnusable."""


class TrustChanges:
    """Announces agents that became untrusted. What they ask for is looked at whenever files are."""

    def __init__(self, blocked: BlockedAgents) -> None:
        self._blocked = blocked
        self._known: dict[str, list[str]] = {}

    @property
    def untrusted(self) -> dict[str, list[str]]:
        """The agents that may not start, each with what is to be said yes to."""
        return self._known

    def folders(self) -> Iterable[Path]:
        return ()  # those of the agents and the configuration are followed by others

    def look(self, *, at_once: bool) -> ChangeReport:
        """Announces each agent that asks for something that it did not ask for at the last look."""
        before = self._known
        try:
            blocked = self._blocked()
        except TrustUnusable:  # told to whoever starts an agent
            return ChangeReport()
        self._known = {name: [f"{item.kind}: {item.text}" for item in items] for name, items in blocked.items()}
        news = [(name, items) for name, items in self._known.items() if not set(items) <= set(before.get(name, ()))]
        for name, items in news:
            log.warning("%s is not trusted with %s; it starts no more until `agentmd trust`", name, "; ".join(items))
        return ChangeReport([("untrusted", {"agent_name": name, "items": items}) for name, items in news])
