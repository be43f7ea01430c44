"""The one place that decides whether something of a workspace may run: every way of starting an agent asks here."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from agent_md.agents.mcp_file import McpServer
from agent_md.agents.registry import Registry
from agent_md.agents.spec import AgentSpec
from agent_md.errors import ConfigInvalid, StateDirUnusable, Untrusted
from agent_md.settings import Settings
from agent_md.trust.addresses import model_item
from agent_md.trust.items import Item, Kind, not_granted, of_agents
from agent_md.trust.listing import items_of_agent, items_of_workspace, list_items, mcp_item, path_item
from agent_md.trust.ownership import of_others
from agent_md.trust.record import TrustRecord, user_state
from agent_md.trust.state_mark import StateFolder, StateMark

__all__ = ["WorkspaceTrust"]

_VARIABLE = "AGENTMD_TRUST"
_NAMED = 3
"""So many items are named in an error; `agentmd trust` shows all of them."""


class WorkspaceTrust:
    """What one user allows one workspace. Settings and agents are those of the moment."""

    def __init__(self, settings: Callable[[], Settings], registry: Callable[[], Registry]) -> None:
        self._settings = settings
        self._registry = registry
        now = settings()
        self._workspace = Path(os.path.realpath(now.workspace))
        self._record = TrustRecord(user_state(now.environ, now.home))

    @property
    def by_environment(self) -> bool:
        """Whether `AGENTMD_TRUST` of the real environment is the yes. Raises ConfigInvalid for a value that it cannot
        have."""
        value = self._settings().environ.get(_VARIABLE, "")
        if value not in ("", "0", "1", "adopt"):
            raise ConfigInvalid(
                f"the environment variable {_VARIABLE} is {value!r}; it may be 1 (this workspace is trusted) or adopt "
                "(so is its state folder)"
            )
        return value in ("1", "adopt")

    @property
    def adopts(self) -> bool:
        """Whether any state folder counts as this user's."""
        return self._settings().environ.get(_VARIABLE) == "adopt"

    # What is asked for

    def items(self) -> list[Item]:
        """Everything the workspace would do that needs a yes."""
        return list_items(self._settings(), self._registry())

    def new_items(self) -> list[Item]:
        """Those nobody said yes to. Raises TrustUnusable."""
        return [] if self.by_environment else self.unrecorded_items()

    def unrecorded_items(self) -> list[Item]:
        """Those that the record has no yes for, whatever the environment says. Raises TrustUnusable."""
        return not_granted(self.items(), self._granted() or frozenset())

    def blocked(self) -> dict[str, list[Item]]:
        """The agents that may not start, each with what was not allowed of it. Raises TrustUnusable."""
        new = self.new_items()
        return of_agents(new, [entry.spec.name for entry in self._registry().agents]) if new else {}

    def _not_granted(self, items: Sequence[Item]) -> list[Item]:
        if not items or self.by_environment:
            return []
        return not_granted(items, self._granted() or frozenset())

    def _granted(self) -> frozenset[str] | None:
        return self._record.granted(self._workspace, os.geteuid())

    @property
    def is_recorded(self) -> bool:
        """Whether the user has ever said yes to this workspace. Raises TrustUnusable."""
        return self._granted() is not None

    @property
    def is_admitted(self) -> bool:
        """Whether the user said yes to this workspace, so that a state folder of an earlier version is taken over. Raises
        TrustUnusable."""
        return self.by_environment or self.is_recorded

    @property
    def is_known(self) -> bool:
        """Whether something of this workspace may run: it was trusted, its state is this user's, or it asks for nothing.
        Raises TrustUnusable."""
        if self.is_admitted or self.state() is StateFolder.OURS:
            return True
        return not self.items()

    # Decisions

    def require_owner(self) -> None:
        """Raises Untrusted if a file that says what runs here belongs to another user."""
        other = of_others(self._settings(), self._registry())
        if other is not None:
            raise Untrusted(
                f"{other} belongs to another user, who could have anything run as you; nothing was run. Change its owner "
                "if it is yours, or name another workspace with --workspace"
            )

    def require(self, spec: AgentSpec) -> None:
        """Raises Untrusted if the agent would do something that the user has not said yes to."""
        self.require_owner()
        settings = self._settings()
        new = self._not_granted([*items_of_workspace(settings), *items_of_agent(spec, settings)])
        if new:
            raise self.untrusted(new, spec.name)

    def allows(self, spec: AgentSpec) -> bool:
        """Whether `require` would pass."""
        try:
            self.require(spec)
        except Untrusted:
            return False
        return True

    def require_known(self) -> None:
        """Raises Untrusted, or StateDirUnusable, if nothing of this workspace may run."""
        self.require_owner()
        self.admit_state()
        if not self.is_known:
            raise self.untrusted(self.new_items(), None)

    def require_address(self, spec: AgentSpec) -> None:
        """Raises Untrusted if the model of a stored spec is asked where nobody allowed: an address may hold variables, and
        these may have changed since."""
        settings = self._settings()
        asked = model_item(spec, settings, settings.environment())
        if asked is not None and self._not_granted([asked]):
            raise Untrusted(
                f"the model of {spec.name} would be asked at {asked.text}, which was not allowed; nothing was sent. "
                f"{_REMEDY}",
                (asked.text,),
            )

    def require_server(self, server: McpServer) -> None:
        """Raises Untrusted if the MCP server, as its entry and the variables in it are now, was allowed to no agent: both
        are looked up again while executions go on."""
        if self.by_environment:
            return
        settings = self._settings()
        granted, agents = self._granted() or frozenset(), self._record.agents(self._workspace, os.geteuid())
        if not any(mcp_item(agent, server, settings).digest in granted for agent in agents):
            raise self.untrusted([mcp_item(None, server, settings)], f"the MCP server {server.name}")

    def permits_path(self, agent: str, path: Path, writable: bool) -> bool:
        """Whether a declared path of the agent may lead to this one: a link may have been changed since the agent was
        started, and stored specs are not looked at again. Raises TrustUnusable."""
        item = path_item(agent, path, self._settings(), writable)
        return item is None or not self._not_granted([item])

    def private_hosts(self) -> tuple[str, ...]:
        """Those of `http.allow_hosts` that the user allowed: executions that go on do not reach what was added since."""
        settings = self._settings()
        hosts = settings.http.allow_hosts
        if not hosts or self.by_environment:
            return hosts
        refused = {item.text for item in self._not_granted(items_of_workspace(settings)) if item.kind is Kind.HOSTS}
        return tuple(host for host in hosts if host not in refused)

    def untrusted(self, items: Sequence[Item], agent: str | None) -> Untrusted:
        """The error that names what was not allowed."""
        ordered = sorted(items, key=lambda item: list(Kind).index(item.kind))
        names = [f"{item.kind}: {item.text}".replace("\n", "\\n") for item in ordered]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        who = "this workspace" if agent is None else agent
        return Untrusted(
            f"{who} is not trusted with {'; '.join(names[:_NAMED])}{more}. Nothing was run. {_REMEDY}", tuple(names)
        )

    def grant(self, items: Sequence[Item]) -> None:
        """Records the user's yes. Raises TrustUnusable."""
        self._record.add(self._workspace, os.geteuid(), items)

    def withdraw(self) -> bool:
        """Forgets every yes to this workspace; whether there was one. Raises TrustUnusable."""
        return self._record.forget(self._workspace)

    # The state folder

    @property
    def _mark(self) -> StateMark:
        return StateMark(self._settings(), self._record)

    def state(self) -> StateFolder:
        """What the state folder is to this user. Raises TrustUnusable."""
        return self._mark.look()

    def admit_state(self) -> None:
        """Raises Untrusted or StateDirUnusable, the folder unchanged, unless it may be used and written."""
        if self.adopts:
            return
        found = self.state()
        settings = self._settings()
        if found is StateFolder.LINKED:
            raise StateDirUnusable(
                f"the state folder {settings.state_dir}, or its database, is a link, or is no folder; it was left "
                "untouched. Remove it, or set `state_dir` in config.yaml to the folder that is meant"
            )
        if found is StateFolder.TRACKED:
            raise Untrusted(
                f"git tracks files of the state folder {settings.state_dir}, so whoever you pull from could have anything "
                f"run; it was left untouched. Run `git rm -r --cached {settings.state_dir.name}`, or set AGENTMD_TRUST=adopt"
            )
        if found is StateFolder.UNMARKED:
            raise Untrusted(
                f"the state folder {settings.state_dir} was not made by you here: what is queued in it would run. It was "
                "left untouched. `agentmd trust --adopt-state` shows what waits in it and takes it over; where nobody can "
                "be asked, set AGENTMD_TRUST=adopt"
            )
        if found is StateFolder.EARLIER and not self.is_admitted:
            raise Untrusted(
                f"the state folder {settings.state_dir} is of an earlier version, which made no mark in it; it was left "
                f"untouched. {_REMEDY}"
            )

    def require_own_server(self) -> None:
        """Raises StateDirUnusable if the state folder is a link or, outside of the workspace, is not this user's for it: a
        server found there may be that of another workspace."""
        settings = self._settings()
        found = self.state()
        elsewhere = not settings.state_dir.is_relative_to(settings.workspace)
        if found is StateFolder.LINKED or (
            elsewhere and found in (StateFolder.UNMARKED, StateFolder.TRACKED) and not self.adopts
        ):
            raise StateDirUnusable(
                f"the state folder {settings.state_dir} is a link, or not made by you for this workspace; a server that is "
                "found in it may be that of another one, and was left alone"
            )

    def mark_state(self) -> None:
        """Marks a state folder that was admitted, if it has no mark of this user yet. Raises StateDirUnusable."""
        if self.adopts:
            if self.state() is not StateFolder.OURS:
                self._mark.put_if_possible()
            return
        if self.state() is not StateFolder.OURS:
            try:
                self._mark.put()
            except OSError as error:
                raise StateDirUnusable(
                    f"the state folder {self._settings().state_dir} cannot be written: {error.strerror}; nothing was started"
                ) from error

    def adopt_state(self) -> None:
        """Takes the state folder over as it is, for good. Raises OSError, TrustUnusable."""
        self._mark.put()


_REMEDY = "`agentmd trust` shows everything and records your yes; where nobody can be asked, set AGENTMD_TRUST=1"
