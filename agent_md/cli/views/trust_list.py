"""What a workspace would run, send and change, as it is shown before the question whether to trust it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from agent_md.cli.views.pairs import Pairs
from agent_md.trust.items import Item, Kind
from agent_md.visible_text import one_line

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["trust_lines"]

_LABELS = {
    Kind.TOOLS: "runs the code of",
    Kind.MCP: "starts the MCP server",
    Kind.SKILLS: "has the scripts of",
    Kind.MODEL: "asks its model at",
    Kind.ENVIRONMENT: "uses the variable",
    Kind.NOTIFY: "reports to",
    Kind.HOSTS: "sends to",
    Kind.SECRET: "sends the secret",
    Kind.PATHS: "reaches outside",
    Kind.GUARDS: "does not ask before",
    Kind.TRIGGER: "starts by itself",
    Kind.STATE: "keeps its state in",
    Kind.SERVER: "sets of the server",
    Kind.DOTENV: ".env sets",
}
_OF_ALL = {
    Kind.HOSTS: "reaches private hosts",
    Kind.PATHS: "reads outside",
    Kind.GUARDS: "asks less",
}
_EVERYBODY = "All agents"


def trust_lines(items: Sequence[Item]) -> Iterator[RenderableType]:
    """The items in groups: those of all agents, then those of each agent."""
    for agent in dict.fromkeys(item.agent for item in sorted(items, key=lambda item: item.agent or "")):
        yield _EVERYBODY if agent is None else one_line(agent)
        yield Pairs(list(_pairs([item for item in items if item.agent == agent], agent)))


def _pairs(items: Sequence[Item], agent: str | None) -> Iterator[tuple[str, str]]:
    before = None
    for item in sorted(items, key=lambda item: list(Kind).index(item.kind)):
        label = _LABELS[item.kind] if agent is not None else _OF_ALL.get(item.kind, _LABELS[item.kind])
        yield ("" if item.kind is before else label), item.text
        before = item.kind
