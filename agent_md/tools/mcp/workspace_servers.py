"""The MCP servers of a workspace: what its MCP file has, what each server offers, and the tools made of that."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from agent_md.agents.files import file_stamp
from agent_md.agents.mcp_file import McpFile, McpServer, read_mcp_file
from agent_md.errors import ConfigInvalid, UsageError
from agent_md.redaction import Redactor, is_secret_name
from agent_md.settings import Settings
from agent_md.tools.mcp.declared import DeclaredTool, from_stored
from agent_md.tools.mcp.environment import file_variables
from agent_md.tools.mcp.server_log import OpenLog
from agent_md.tools.mcp.servers import Listing, McpServers, Surroundings
from agent_md.tools.mcp.tool import McpTool, mcp_module, source_of
from agent_md.tools.threads import ToolThreads

__all__ = ["Heard", "McpWorkspace"]

log = logging.getLogger(__name__)

Heard = Callable[[str, Sequence[DeclaredTool]], None]
"""Gets what a server named, each time that it does; on a thread of its own."""

_HEADERS = re.compile(r"authorization|cookie|key|token|secret|password", re.IGNORECASE)


class McpWorkspace:
    """Reads the MCP file when it is needed, and again when it has changed. Starts no server until one is asked for."""

    def __init__(
        self,
        settings: Callable[[], Settings],
        threads: ToolThreads,
        open_log: Callable[[Path], OpenLog],
        heard: Heard,
        permit: Callable[[McpServer], None] = lambda _: None,
    ) -> None:
        """`permit` raises UsageError for a server that must not be started or asked as its entry is now."""
        self._settings = settings
        self._permit = permit
        self._read: tuple[object, McpFile] | None = None
        self._env_files: dict[Path, tuple[object, dict[str, str]]] = {}
        around = Surroundings(
            workspace=settings().workspace,
            home=settings().home,
            environ=lambda: settings().environment(),
            open_log=lambda server: open_log(self.log_of(server)),
            redacted=lambda text: self._redactor().text(text),
            heard=heard,
            permit=permit,
        )
        self._servers = McpServers(around, threads)

    @property
    def file(self) -> McpFile:
        """The MCP file as it is now. Raises ConfigInvalid if it is no JSON."""
        path = self._settings().mcp_config
        stamp = (path, file_stamp(path))
        if self._read is None or self._read[0] != stamp:
            self._read = stamp, read_mcp_file(path)
        return self._read[1]

    def entry(self, server: str) -> McpServer:
        """The entry of a server as it is now. Raises ConfigInvalid."""
        return self.file.get(server)

    def permitted(self, server: str) -> McpServer:
        """The same, of a server that may be started or asked. Raises UsageError."""
        entry = self.entry(server)
        self._permit(entry)
        return entry

    def log_of(self, server: str) -> Path:
        """Where there is what a server wrote to its standard error."""
        return self._settings().state_dir / "mcp" / f"{re.sub(r'[^A-Za-z0-9_-]', '_', server)}.log"

    def problems(self, servers: Collection[str]) -> list[UsageError]:
        """What is wrong with the entries of these servers, and which variables are missing; nothing is started."""
        found: list[UsageError] = []
        for name in servers:
            try:
                settings = self._settings()
                self.entry(name).filled(settings.environment(), settings.workspace, settings.home)
            except ConfigInvalid as error:
                found.append(error)
        return list({str(error): error for error in found}.values())

    def listed(self, servers: Collection[str]) -> dict[str, Listing]:
        """What each of the servers offers; starts those that do not run. Blocks as `McpServers.listed` does."""
        entries: list[McpServer] = []
        found: dict[str, Listing] = {}
        for name in servers:
            try:
                entries.append(self.permitted(name))
            except UsageError as error:
                found[name] = Listing(failure=str(error))
        return found | self._servers.listed(entries)

    def tools(self, declared: Collection[DeclaredTool], taken: Collection[str]) -> tuple[list[McpTool], list[str]]:
        """Tools that can be called, and why others cannot be had: their name is `taken`, or another server's."""
        found: dict[str, McpTool] = {}
        wrong = []
        for each in declared:
            if each.name in taken or each.name in found:
                owner = found[each.name].server if each.name in found else None
                whose = f"the MCP server {owner}" if owner else "another tool of the agent"
                wrong.append(
                    f"the tool {each.tool!r} of the MCP server {each.server}: its name {each.name} is taken by {whose}"
                )
            else:
                found[each.name] = McpTool(each, self.permitted, self._servers)
        return list(found.values()), wrong

    def digest_of(self, module: str, last: Callable[[str], Sequence[Mapping[str, object]] | None]) -> str | None:
        """What an approval of a call of the tool that `module` stands for would be bound to now; None if the server or
        the tool is not known any more. `last` gives what a server named last. Starts nothing."""
        for name, entry in self.file.servers.items():
            for tool in from_stored(name, last(name) or ()):
                if mcp_module(tool) == module:
                    return source_of(entry, tool).digest
        return None

    def secrets(self) -> dict[str, str]:
        """The values that servers are given as secrets: of variables whose names say so, and of headers with keys."""
        try:
            servers, settings = self.file.servers, self._settings()
            environ = settings.environment()
        except ConfigInvalid:
            return {}
        found: dict[str, str] = {}
        for server in servers.values():
            try:
                filled = server.filled(environ, settings.workspace, settings.home)
            except ConfigInvalid:
                continue
            found |= {name: value for name, value in filled.env if is_secret_name(name)}
            # Under a name with the server's in it: other values of the same name are secrets too.
            of_file = self._of_env_file(filled, settings.workspace).items()
            found |= {_label(server.name, name): value for name, value in of_file if is_secret_name(name)}
            for name, value in filled.headers:
                if _HEADERS.search(name):
                    label = _label(server.name, name)
                    found[label] = value
                    found[f"{label}_key"] = value.rpartition(" ")[2]  # without the word `Bearer`
        return found

    def close(self) -> None:
        """Ends the servers."""
        self._servers.close()

    def _of_env_file(self, filled: McpServer, workspace: Path) -> dict[str, str]:
        """The variables of its `envFile`, read again when that has changed; none if the server cannot be started."""
        if filled.env_file is None:
            return {}
        path = workspace / filled.env_file
        stamp = file_stamp(path)
        if path not in self._env_files or self._env_files[path][0] != stamp:
            try:
                self._env_files[path] = stamp, file_variables(filled, workspace)
            except ConfigInvalid:
                self._env_files[path] = stamp, {}
        return self._env_files[path][1]

    def _redactor(self) -> Redactor:
        return Redactor({**self._settings().secrets(lenient=True), **self.secrets()})


def _label(server: str, name: str) -> str:
    return re.sub(r"\W", "_", f"{server}_{name}")
