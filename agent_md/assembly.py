"""Builds the parts of an agent in a workspace: its prompt, tools, sandbox, prices and budget."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from agent_md.agents.files import touched_lately
from agent_md.agents.mcp_file import McpServer
from agent_md.agents.placeholders import Prompt, render
from agent_md.agents.registry import AgentEntry
from agent_md.agents.rules import asks_to_read, hides
from agent_md.agents.spec import AgentSpec, SandboxSettings
from agent_md.errors import AgentFileInvalid, UsageError
from agent_md.executions.days import local_midnight
from agent_md.executions.execution import Execution
from agent_md.executions.spending import LATE_S, Budget, DayLimit, Scope
from agent_md.models.estimate import estimate_call, estimate_first_call
from agent_md.models.factory import KEY_VARIABLES
from agent_md.models.pricing import Prices, load_prices
from agent_md.redaction import Redactor
from agent_md.secret_values import ReadKeyring, SecretValues
from agent_md.settings import Settings
from agent_md.tools.base import Tool
from agent_md.tools.last_good_modules import LastGoodModules, read_source
from agent_md.tools.remembered import Remembered
from agent_md.tools.threads import MOST_ABANDONED, ToolThreads
from agent_md.tools.tool_modules import Source, ToolModule

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

    from agent_md.isolation.process import Isolation
    from agent_md.tools.http_request import HttpAccess
    from agent_md.tools.mcp.declared import DeclaredTool
    from agent_md.tools.mcp.server_log import OpenLog
    from agent_md.tools.mcp.workspace_servers import Heard, McpWorkspace
    from agent_md.tools.memory import MemoryFile
    from agent_md.tools.path_sandbox import Sandbox
    from agent_md.tools.run_command import CommandAccess

__all__ = ["Assembly"]


_SHORTEST_WITHIN = 4
"""A shorter secret is looked for as a whole value only."""
_PLAIN_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "none", "null"})


def _is_plain(value: str) -> bool:
    """Whether the value is no secret whatever its variable is, so that others may have it too."""
    return len(value) < _SHORTEST_WITHIN or value.lower() in _PLAIN_WORDS or (value.isdecimal() and len(value) < 6)


def _secret_names(spec: AgentSpec | None) -> list[str]:
    """The variables that an agent or this program uses as secrets."""
    if spec is None:
        return [*KEY_VARIABLES, "AGENTMD_API_KEY"]
    targets = [text for target in spec.notify for text in (target.token, target.secret)]
    hooks = [text for text in (*targets, spec.trigger.secret) if text is not None]
    own = [secret.name for secret in spec.secrets]
    return [*KEY_VARIABLES, "AGENTMD_API_KEY", *own, *(text.removeprefix("${").removesuffix("}") for text in hooks)]


def _open_log(path: Path) -> OpenLog:
    """Opens a log of a server, which is this user's alone; one that was full is moved aside."""
    from agent_md.stores.private_files import open_private

    def opened(aside: bool) -> BinaryIO:
        path.parent.mkdir(mode=0o700, exist_ok=True)
        if aside:
            path.replace(path.with_suffix(".1.log"))
        return open(open_private(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), "ab")

    return opened


class Assembly:
    """Makes parts of agents from the workspace's settings."""

    def __init__(
        self,
        settings: Settings,
        on_exhausted: Callable[[str], None] = lambda _: None,
        *,
        heard: Heard = lambda server, tools: None,
        permit_server: Callable[[McpServer], None] = lambda _: None,
        private_hosts: Callable[[], Collection[str]] | None = None,
        permitted_path: Callable[[str, Path, bool], bool] = lambda agent, path, writable: True,
        run_agent: Callable[[AgentSpec, Execution | None], Tool] | None = None,
        found_secrets: dict[str, str] | None = None,
        read_keyring: ReadKeyring | None = None,
    ) -> None:
        """`on_exhausted` is called with the reason when too many threads of tools did not end, `heard` with what MCP
        servers say of their tools. `permit_server` raises Untrusted for an MCP server that must not be used. `private_hosts` are the hosts that may be reached
        on addresses that are not public; None = those of the settings. `permitted_path` says whether a declared path of an
        agent may lead to this real path, to be written to or only read. `run_agent`
        makes the tool that calls other agents, for an execution or for one that does not exist yet; None = nobody has it. `found_secrets` gets the values of secrets that are no variables with
        telling names, `read_keyring` looks for them besides the environment."""
        self.settings = settings
        self._run_agent = run_agent
        self.secret_values = SecretValues(
            lambda: self.settings, {} if found_secrets is None else found_secrets, read_keyring
        )
        self._prices: Prices | None = None
        self.kept_tools: LastGoodModules | None = None
        """Where a broken tool module is used as it was when it could be loaded last; None = it is not."""
        self._remembered = Remembered()
        self.tool_threads = ToolThreads(lambda: on_exhausted(f"{MOST_ABANDONED} threads of tools did not end"))
        """What custom tools of this process run on."""
        self._heard = heard
        self._permit_server = permit_server
        self._private_hosts = private_hosts or (lambda: self.settings.http.allow_hosts)
        self._permitted_path = permitted_path
        self._mcp: McpWorkspace | None = None

    @property
    def mcp(self) -> McpWorkspace:
        """The MCP servers of the workspace."""
        from agent_md.tools.mcp.workspace_servers import McpWorkspace

        if self._mcp is None:
            self._mcp = McpWorkspace(
                lambda: self.settings, self.tool_threads, _open_log, self._heard, self._permit_server
            )
        return self._mcp

    def close(self) -> None:
        """Ends the MCP servers of this process, and what tools left running, as far as it can be ended."""
        if self._mcp is not None:
            self._mcp.close()
        self.tool_threads.close()

    def use(self, settings: Settings, prices: Prices) -> None:
        """Replaces the settings and prices for the parts that are made from now on."""
        self.settings, self._prices = settings, prices

    @property
    def prices(self) -> Prices:
        """What models cost, as it was when first asked for, or given to `use`. Raises ConfigInvalid for a mistake in the
        user's file."""
        if self._prices is None:
            self._prices = load_prices(self.settings.prices)
        return self._prices

    @property
    def scripts_dir(self) -> Path:
        """Where the scripts of script models are."""
        return self.settings.agents_dir / "_config" / "scripts"

    def prompt(self, spec: AgentSpec, args: Sequence[str], message: str | None) -> Prompt:
        """The system and human messages of a new execution. Raises UsageError naming a variable that is missing."""
        environ = self.settings.environment()
        return render(
            *(spec.body, args, message, environ, self._never_in_prompts(spec, environ)),
            placeholders=[secret.name for secret in spec.secrets],
        )

    def redactor(self, spec: AgentSpec | None) -> Redactor:
        """Masks the secrets of an agent in everything that is stored, shown, logged and sent; None = without those of
        an agent. Secrets of an invalid `.env` are unknown."""
        of_servers = self.mcp.secrets() if spec is not None and spec.mcp else {}
        own = [] if spec is None else [secret.name for secret in spec.secrets]
        named = self.secret_values.known(own, of_servers)
        return Redactor({**of_servers, **self.settings.secrets(_secret_names(spec), lenient=True), **named})

    def _never_in_prompts(self, spec: AgentSpec, environ: Mapping[str, str]) -> Collection[str]:
        """The variables that hold a secret: by their name, because it is within their value, or, of any other variable of
        `.env`, because it is their value."""
        names, dotenv = _secret_names(spec), self.settings.dotenv
        secrets = self.settings.secrets(names)
        within = [value for value in secrets.values() if len(value) >= _SHORTEST_WITHIN]
        of_dotenv = (*dotenv.values(), *(environ[name] for name in dotenv))  # the environment wins
        equal = {value for value in of_dotenv if not _is_plain(value)}
        redactor = Redactor(secrets)
        return {
            *(*names, *secrets, *dotenv),
            *(
                name
                for name, value in environ.items()
                if value in equal or any(secret in value for secret in within) or redactor.text(value) != value
            ),
        }

    def budget(
        self,
        spec: AgentSpec,
        history: Sequence[BaseMessage] | None = None,
        declarations: Sequence[Mapping[str, Any]] = (),
        *,
        root: AgentSpec | None = None,
    ) -> Budget | None:
        """What limits the money of a model call with this history, None = of the first one of a new execution. None if
        neither the agent, nor the agent at the top of its family (`root`), nor the workspace has a limit of a day."""
        amounts = {
            Scope.AGENT: spec.settings.max_cost_usd_per_day,
            Scope.ROOT: None if root is None else root.settings.max_cost_usd_per_day,
            Scope.WORKSPACE: self.settings.max_cost_usd_per_day,
        }
        limits = tuple(DayLimit(scope, amount) for scope, amount in amounts.items() if amount is not None)
        if not limits:
            return None
        if history is None:
            estimate = estimate_first_call(spec, self.scripts_dir)
        else:
            estimate = estimate_call(spec, history, declarations, self.prices, self.scripts_dir)
        now = time.time()
        return Budget(limits, local_midnight(now), now - LATE_S, estimate.price, estimate.is_bound)

    def tools(
        self,
        spec: AgentSpec,
        *,
        lenient: bool = False,
        custom: bool = True,
        mcp: Collection[DeclaredTool] = (),
        execution: Execution | None = None,
    ) -> dict[str, Tool]:
        """The tools of an agent by name, for an `execution` of it; of MCP servers those in `mcp`. With `lenient` a module
        that cannot be loaded, and an MCP tool whose name is taken, is left out, else UsageError. Without `custom` no module
        is loaded."""
        from agent_md.graph.foreign_interrupt import foreign_interrupts
        from agent_md.tools.builtin import RESERVED_NAMES, builtin_tools
        from agent_md.tools.custom import load_custom_tools
        from agent_md.tools.http_request import HttpRequest
        from agent_md.tools.long_results import ResultRead
        from agent_md.tools.memory import memory_tools
        from agent_md.tools.run_command import RunCommand
        from agent_md.tools.sandboxed_tool import ToolSandbox

        files = self.sandbox(spec)
        tools = builtin_tools(
            files,
            HttpRequest(spec, self._http_access(spec), self.tool_threads),
            RunCommand(files, self._command_access(spec), self.tool_threads),
            ResultRead(spec.settings.max_tool_result_bytes),
            lambda path: hides(spec, path),
            self.tool_threads,
            unread=lambda path: asks_to_read(spec, path),
            redact=lambda: self.redactor(spec).text,
        )
        tools += memory_tools(self.memory(spec), self.tool_threads)
        modules = list(spec.tools) if custom else []
        for group in [[module] for module in modules] if lenient else [modules]:
            try:
                tools += load_custom_tools(
                    self.settings.tools_dir,
                    group,
                    reserved=RESERVED_NAMES,
                    surroundings=foreign_interrupts,
                    workspace=self.settings.workspace,
                    threads=self.tool_threads,
                    kept=self.kept_tools,
                    sandbox=ToolSandbox(
                        lambda writable: self._isolation(spec, writable=writable),
                        self._remembered,
                        always=spec.sandbox is not None,
                        surroundings="agent_md.graph.foreign_interrupt:foreign_interrupts",
                    ),
                    files=files,
                )
            except UsageError:
                if not lenient:
                    raise
        if spec.agents and self._run_agent is not None:
            tools.append(self._run_agent(spec, execution))
        if mcp:
            of_servers, wrong = self.mcp.tools(mcp, {*RESERVED_NAMES, *(tool.name for tool in tools)})
            if wrong and not lenient:
                raise AgentFileInvalid("\n".join(wrong))
            tools += of_servers
        return {tool.name: tool for tool in tools}

    def memory(self, spec: AgentSpec) -> MemoryFile:
        """The memory of an agent."""
        from agent_md.tools.memory import MemoryFile

        return MemoryFile(self.settings.agents_dir, spec.name, self.settings.state_dir)

    def _isolation(self, spec: AgentSpec, *, writable: bool) -> Isolation:
        """What a sandboxed process of the agent's tools is given now; without `writable` it only looks. Raises ToolError."""
        from agent_md.isolation.process import Isolation
        from agent_md.isolation.proxy import OutboundProxy
        from agent_md.tools.forbidden import real_path
        from agent_md.tools.sandboxed_leftovers import Leftovers
        from agent_md.tools.sandboxed_view import view_of

        limits, settings = spec.sandbox or SandboxSettings(), self.settings
        environ = settings.environment()
        networked = writable and spec.allow_hosts
        files = self.sandbox(spec)
        return Isolation(
            view_of(files, settings.tools_dir, writable=writable),
            real_path(settings.workspace),
            {name: environ[name] for name in limits.environment if name in environ},
            limits.memory_mb * 2**20,
            OutboundProxy(spec.allow_hosts, self._private_hosts) if networked else None,
            Leftovers(files).set_aside if writable else None,
        )

    def _command_access(self, spec: AgentSpec) -> CommandAccess:
        from agent_md.tools.run_command import CommandAccess, command_environment

        return CommandAccess(
            lambda: command_environment(self.settings.environment(), spec.command_environment),
            None if spec.sandbox is None else lambda: self._isolation(spec, writable=True),
        )

    def _http_access(self, spec: AgentSpec) -> HttpAccess:
        from agent_md.outbound.transport import GuardedTransport
        from agent_md.tools.http_request import HttpAccess

        return HttpAccess(
            self._private_hosts,
            self.secret_values.value,
            lambda: self.redactor(spec),
            lambda: GuardedTransport(self._private_hosts),
        )

    def being_saved(self, agent: AgentEntry) -> bool:
        """Whether a file that an execution of the agent would be made of was written a moment ago: it may be half saved."""
        settings = self.settings
        config = (settings.workspace / "config.yaml", settings.workspace / ".env", settings.user_config)
        modules = (settings.tools_dir / f"{name}.py" for name in agent.spec.tools)
        servers = [settings.mcp_config] if agent.spec.mcp else []
        return touched_lately((agent.path, *config, *modules, *servers), time.time())

    def tool_source(self, module: str) -> Source:
        """The source of a tool module as it is used now. Raises ModuleUnusable."""
        return read_source(ToolModule(self.settings.tools_dir, module), self.kept_tools)

    def sandbox(self, spec: AgentSpec) -> Sandbox:
        """What its file tools may reach."""
        from agent_md.tools.forbidden import Forbidden
        from agent_md.tools.path_sandbox import Sandbox
        from agent_md.tools.user_files import UserFiles, home_folders

        settings = self.settings
        config_home = settings.user_config.parent.parent
        forbidden = Forbidden(
            settings.agents_dir,
            of_user=UserFiles(
                homes=home_folders(settings.home),
                # An odd one, such as the home folder itself, must not forbid the whole workspace.
                config_homes=() if settings.workspace.is_relative_to(config_home) else (config_home,),
            ),
            folders=(settings.state_dir, settings.tools_dir, settings.skills_dir),
            files=(
                settings.database,
                settings.checkpoint_database,
                settings.mcp_config,
                settings.workspace / "config.yaml",  # it says what is guarded
                settings.workspace / ".env",  # also under the name of what it links to
                *([] if settings.prices is None else [settings.prices]),  # limits on money are kept by it
            ),
        )
        return Sandbox(settings.workspace, spec.paths, forbidden, permitted=partial(self._permitted_path, spec.name))
