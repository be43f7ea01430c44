"""Finds everything that prevents an agent from running, without running it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from agent_md.agents.mcp_names import is_all_of, of_server
from agent_md.agents.names import name_key
from agent_md.agents.registry import Registry
from agent_md.agents.rules import EVERYTHING, parse_rule, unknown_tools
from agent_md.agents.spec import AgentSpec
from agent_md.assembly import Assembly
from agent_md.errors import AgentFileInvalid, UnknownAgent, UsageError
from agent_md.executions.execution import Claim, Execution
from agent_md.executions.ids import ExecutionId, WorkerId
from agent_md.executions.spending import DAILY_LIMIT
from agent_md.executions.states import Status, TriggerKind
from agent_md.models.factory import check_model, with_address
from agent_md.models.pricing import price_of
from agent_md.models.script_file import load_script
from agent_md.ports.store import Store
from agent_md.tools.base import Tool

if TYPE_CHECKING:
    from agent_md.runner.loop import MakeBench
    from agent_md.tools.mcp.declared import DeclaredTool
    from agent_md.tools.mcp.servers import Listing

__all__ = ["Preflight", "without_effect"]

_MONEY = ("max_cost_usd", DAILY_LIMIT)
_NOT_YET = ("skills",)


class Preflight:
    """Checks agents of one workspace. `make_run_context` and `store` are asked for only when a graph is built."""

    def __init__(
        self,
        parts: Assembly,
        registry: Callable[[], Registry],
        make_run_context: MakeBench,
        store: Callable[[], Store],
        allowed: Callable[[AgentSpec], bool],
    ) -> None:
        """`allowed`: whether an agent may be looked into further than its file; the tools of another one are not loaded."""
        self._parts = parts
        self._registry = registry
        self._make_run_context = make_run_context
        self._store = store
        self._allowed = allowed

    def problems(self, spec: AgentSpec) -> list[UsageError]:
        """Everything that would keep a parsed agent from running: model and key, limits, tools, rules."""
        return self._problems(spec, lambda: self._listed_for_rules(spec))

    def _problems(self, spec: AgentSpec, listed: Callable[[], Mapping[str, Listing]]) -> list[UsageError]:
        """`listed` gives what is known of the agent's MCP servers; it is asked when nothing else is wrong with them."""
        found = self.problems_without_tools(spec)
        listings = listed() if spec.mcp and not self._mcp_problems(spec) else {}
        try:
            tools = self._parts.tools(spec, mcp=_tools_in(listings))
        except UsageError as error:
            return [*found, error]
        return found + self._unknown_rules(spec, tools, listings)

    def problems_without_tools(self, spec: AgentSpec) -> list[UsageError]:
        """The problems of an agent that can be found without loading its tools: model and key, limits, variables."""
        found: list[UsageError] = []
        for check in (self._check_model, self._check_price, self._check_prompt, self._check_agents):
            try:
                check(spec)
            except UsageError as error:
                found.append(error)
        return found + self._mcp_problems(spec) + self._secrets_without_value(spec)

    def _mcp_problems(self, spec: AgentSpec) -> list[UsageError]:
        """What is wrong with the entries of the agent's MCP servers; none is started."""
        return self._parts.mcp.problems(spec.mcp) if spec.mcp else []

    def mcp_listings(self, spec: AgentSpec) -> dict[str, Listing]:
        """What each MCP server of the agent offers, or why it cannot be used; starts those that do not run."""
        return self._parts.mcp.listed(spec.mcp) if spec.mcp and not self._mcp_problems(spec) else {}

    def _listed_for_rules(self, spec: AgentSpec) -> dict[str, Listing]:
        """What the servers offer that a rule names a tool of: a rule that is misspelt would guard nothing."""
        rules = [parse_rule(text) for text in _rules_of(spec) if text != EVERYTHING]
        named = [
            server
            for server in spec.mcp
            if any(of_server(rule.tool, server) and not is_all_of(rule.tool, server) for rule in rules)
        ]
        return self._parts.mcp.listed(named) if named else {}

    def _check_model(self, spec: AgentSpec) -> None:
        environ = self._parts.settings.environment()
        check_model(with_address(spec.model, environ), environ, self._parts.scripts_dir)

    def _check_price(self, spec: AgentSpec) -> None:
        """A limit on money that cannot be kept is refused, never ignored."""
        price = price_of(spec.model, self._parts.prices)  # a mistake in them is told, whether there is a limit or not
        limits = [f"settings.{name}" for name in _MONEY if getattr(spec.settings, name) is not None]
        limits += [f"{DAILY_LIMIT} of the workspace"] * (self._parts.settings.max_cost_usd_per_day is not None)
        if not limits or spec.model.provider == "script" or price is not None:
            return
        raise UsageError(
            f"{spec.name}: {limits[0]} is set, but the price of {spec.model} is unknown, so the limit cannot hold. Give it "
            "in a file that `prices` in config.yaml names, or remove the limit and use max_execution_tokens"
        )

    def _secrets_without_value(self, spec: AgentSpec) -> list[UsageError]:
        found = []
        for secret in spec.secrets:
            try:
                self._parts.secret_values.value(secret.name)
            except UsageError as error:
                found.append(UsageError(f"{spec.source_path}: secrets: {error}"))
        return found

    def _check_prompt(self, spec: AgentSpec) -> None:
        self._parts.prompt(spec, (), None)

    def _check_agents(self, spec: AgentSpec) -> None:
        """Agents that it may call must exist. One whose file is invalid is told to the model when it is called."""
        for name in spec.agents:
            if name_key(name) == name_key(spec.name):
                raise AgentFileInvalid(f"{spec.source_path}: agents: {spec.name} cannot call itself; remove it")
            try:
                self._registry().get(name)
            except UnknownAgent as error:
                raise AgentFileInvalid(f"{spec.source_path}: agents: {error}") from error
            except AgentFileInvalid:
                pass

    def _unknown_rules(
        self, spec: AgentSpec, tools: Mapping[str, Tool], listings: Mapping[str, Listing]
    ) -> list[UsageError]:
        from agent_md.tools.builtin import RESERVED_NAMES

        known = {*RESERVED_NAMES, *tools}
        wrong = unknown_tools(spec, known)
        if any(rule in spec.confirm_tools for rule, _ in wrong):
            wrong = unknown_tools(spec, known, elsewhere=self._tools_of_all_agents())
        return [
            AgentFileInvalid(
                f"{_place_of(rule, spec)}: the rule {rule!r} names no tool of {spec.name}"
                + (f"; did you mean {near!r}?" if near else f"; its tools are: {', '.join(sorted(tools))}")
            )
            for rule, near in wrong
            if not self._may_name_mcp_tool(rule, spec, listings)
        ]

    def _may_name_mcp_tool(self, rule: str, spec: AgentSpec, listings: Mapping[str, Listing]) -> bool:
        """Whether a rule is for an MCP server whose tools are not known here; one that all agents share, for any server."""
        named = parse_rule(rule).tool
        usable = {server for server, listing in listings.items() if listing.failure is None}
        if any(is_all_of(named, server) or (server not in usable and of_server(named, server)) for server in spec.mcp):
            return True
        if rule in (*spec.confirm, *spec.auto_approve, *spec.deny):
            return False
        try:
            servers = self._parts.mcp.file.servers
        except UsageError:
            return False
        return any(of_server(named, server) for server in servers if server not in spec.mcp)

    def _tools_of_all_agents(self) -> set[str]:
        """`defaults.confirm_tools` is for all agents, and may name a tool that only some of them have."""
        entries = [entry for entry in self._registry().agents if self._allowed(entry.spec)]
        return {name for entry in entries for name in self._parts.tools(entry.spec, lenient=True)}

    def check(self, spec: AgentSpec) -> list[str]:
        """Everything that is wrong with a parsed agent: what `problems` and `trigger_problems` find, and what building its
        graph does."""
        listings = self.mcp_listings(spec)
        problems = [str(problem) for problem in self._problems(spec, lambda: listings)]
        problems += [
            f"the MCP server {server} cannot be used: {listing.failure}"
            for server, listing in listings.items()
            if listing.failure is not None
        ]
        problems += self._script_mistakes(spec, listings) + self.trigger_problems(spec)
        try:
            self._build(spec)
        except Exception as error:  # of whatever library: an agent that cannot be built must not pass
            if str(error) not in problems:
                problems.append(f"its graph cannot be built: {type(error).__name__}: {error}")
        return problems

    def check_static(self, spec: AgentSpec) -> list[str]:
        """What is wrong with a parsed agent, as far as it is seen without running anything: no tool module is loaded."""
        return [str(problem) for problem in self.problems_without_tools(spec)] + self.trigger_problems(spec)

    def trigger_problems(self, spec: AgentSpec) -> list[str]:
        """What keeps its trigger from starting it; it may be run all the same."""
        if spec.trigger.type != "webhook":
            return []
        from agent_md.webhooks.incoming import hook_secret

        try:
            hook_secret(spec.trigger, self._parts.settings.environment())
        except ValueError as error:
            return [f"{error}; until then every delivery is refused"]
        return []

    def unasked(self, spec: AgentSpec, *, static: bool = False) -> list[str]:
        """A sentence about the tools of the agent that may change something without asking; none if there are none. A
        `static` look says nothing of custom tools."""
        from agent_md.agents.explained_rules import unasked_changes
        from agent_md.tools.facts import facts_of

        try:
            tools = self._parts.tools(spec, custom=not static)
        except UsageError:  # told by `problems`
            return []
        names = unasked_changes(spec, map(facts_of, tools.values()))
        if not names:
            return []
        return [
            f"{_listed(names)} may change something without asking; `confirm` in {spec.source_path} makes such calls ask"
        ]

    def notes(self, spec: AgentSpec, *, static: bool = False) -> list[str]:
        """What keeps nothing from running, and is not as somebody who wrote it expects. `static` as for `unasked`."""
        found = [text] if (text := without_effect(spec)) is not None else []
        found += self.unasked(spec, static=static)
        if not spec.body.strip():
            found.append(
                f"{spec.source_path} has no text below its settings: the model is not told what {spec.name} is for"
            )
        if spec.trigger.type == "watch":
            from agent_md.triggers.watched_files import WatchedFiles

            outside = WatchedFiles(spec.trigger, self._parts.sandbox(spec)).outside()
            found += [f"trigger.paths: {text} leads out of what {spec.name} may reach" for text in outside]
        if spec.notify:
            from agent_md.webhooks.warnings import target_warnings

            found += target_warnings(spec, self._parts.settings.environment(), self._parts.settings.http.allow_hosts)
        return found

    def _build(self, spec: AgentSpec) -> None:
        from agent_md.graph.build import build_graph

        execution = Execution(ExecutionId(0), spec.name, spec.digest, TriggerKind.MANUAL, Status.QUEUED, created_at=0)
        journal = self._store().journal(Claim(execution.id, WorkerId(""), 0))
        build_graph(self._make_run_context(execution, spec, journal, _Nobody()), None)

    def _script_mistakes(self, spec: AgentSpec, listings: Mapping[str, Listing]) -> list[str]:
        """Calls of a script to tools that the agent does not have; they would end an execution."""
        if spec.model.provider != "script":
            return []
        try:
            script = load_script(self._parts.scripts_dir, spec.model.name)
            tools = self._parts.tools(spec, mcp=_tools_in(listings))
        except UsageError:  # told by `problems`
            return []
        names = {call.name for talk in script.conversations for turn in talk.turns for call in turn.calls}
        return [
            f"the script {spec.model.name} calls {name!r}, which is no tool of {spec.name}; "
            f"its tools are: {', '.join(sorted(tools))}"
            for name in sorted(names - tools.keys())
        ]


def without_effect(spec: AgentSpec) -> str | None:
    """Which fields of the agent nothing acts on: `skills and allow_hosts of helper have no effect in this version`."""
    names = [name for name in _NOT_YET if getattr(spec, name)]
    if not names:
        return None
    return f"{_listed(names)} of {spec.name} {'have' if len(names) > 1 else 'has'} no effect in this version"


def _listed(names: list[str]) -> str:
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _tools_in(listings: Mapping[str, Listing]) -> list[DeclaredTool]:
    return [tool for listing in listings.values() for tool in listing.tools]


def _rules_of(spec: AgentSpec) -> tuple[str, ...]:
    return (*spec.confirm, *spec.auto_approve, *spec.deny, *spec.confirm_tools)


def _place_of(rule: str, spec: AgentSpec) -> str:
    own = rule in (*spec.confirm, *spec.auto_approve, *spec.deny)
    return spec.source_path if own else "defaults.confirm_tools in config.yaml"


class _Nobody:
    """A sink for a graph that is built and never run."""

    def stored(self) -> None: ...

    def delta(self, execution_id: ExecutionId, turn: int, text: str) -> None: ...

    def restart(self, execution_id: ExecutionId, turn: int, attempt: int, attempts: int) -> None: ...
