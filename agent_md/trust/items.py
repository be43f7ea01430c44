"""What a workspace would run, send and change, as items that a person says yes to. Pure data."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Item", "Kind", "not_granted", "of_agents"]


class Kind(StrEnum):
    """What an item is about. The values are stored."""

    TOOLS = "tools"
    MCP = "mcp"
    SKILLS = "skills"
    MODEL = "model"
    ENVIRONMENT = "environment"
    NOTIFY = "notify"
    HOSTS = "hosts"
    SECRET = "secret"  # noqa: S105 - the name of a kind
    PATHS = "paths"
    GUARDS = "guards"
    TRIGGER = "trigger"
    STATE = "state"
    SERVER = "server"
    DOTENV = "dotenv"


@dataclass(frozen=True, slots=True, order=True)
class Item:
    """One thing that an agent does, or the whole workspace if `agent` is None. `text` is shown; it is another item if
    `detail`, which is not shown, is another one."""

    agent: str | None
    kind: Kind
    text: str
    detail: str = ""

    @property
    def digest(self) -> str:
        """SHA-256: equal for equal items only."""
        parts = json.dumps([self.agent, self.kind, self.text, self.detail], ensure_ascii=True)
        return hashlib.sha256(parts.encode()).hexdigest()


def not_granted(items: Iterable[Item], granted: Collection[str]) -> list[Item]:
    """The items whose digest is not `granted`, in their order. What is no longer asked for is no difference."""
    return [item for item in items if item.digest not in granted]


def of_agents(items: Iterable[Item], names: Collection[str]) -> dict[str, list[Item]]:
    """The items that concern each agent: its own and those of the workspace. Agents without any are left out."""
    found = list(items)
    each = {name: [item for item in found if item.agent in (None, name)] for name in names}
    return {name: concerned for name, concerned in each.items() if concerned}
