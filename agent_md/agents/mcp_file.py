"""The MCP file: which servers there are, and how each is started or reached.

Three shapes are read: `{"mcpServers": {NAME: …}}` as Claude Code and Cursor write it, `{"servers": {NAME: …}}` as
VS Code does, and the bare map. Comments and trailing commas are taken, as VS Code takes them.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agent_md.agents.files import Unreadable, decode, read_file
from agent_md.agents.mcp_names import prefix
from agent_md.agents.mcp_values import expanded, variables
from agent_md.agents.names import nearest
from agent_md.errors import ConfigInvalid

__all__ = ["McpFile", "McpServer", "parse_mcp_file", "read_mcp_file"]

MAX_BYTES = 1 << 20

_CONNECT_S = 30.0
_CALL_S = 60.0
_LONGEST_S = 3600.0

_IGNORED = frozenset(
    {"disabled", "autoApprove", "alwaysAllow", "trust", "description", "gallery", "version", "dev", "icon"}
)
"""Keys of other programs. None of them lifts a question here."""
_KEYS = frozenset(
    {"type", "command", "args", "env", "envFile", "cwd", "url", "headers", "connect_timeout", "timeout", "idempotent"}
)
_HTTP = frozenset({"http", "streamable-http", "streamable_http", "streamableHttp"})


@dataclass(frozen=True, slots=True)
class McpServer:
    """One server, as the file has it: values still have their placeholders. Times in seconds.

    It has a `command`, which is started and spoken with over its standard input and output, or a `url`. `idempotent`
    names the tools, as the server calls them, whose calls may be made twice; None = all of them.
    """

    name: str
    command: str | None = None
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    env_file: str | None = None
    cwd: str | None = None
    url: str | None = None
    headers: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    connect_timeout: float = _CONNECT_S
    timeout: float = _CALL_S
    idempotent: frozenset[str] | None = frozenset()

    @property
    def digest(self) -> str:
        """SHA-256 of what is started or reached, and of which calls may be made twice. Values of variables are not in it,
        as they are not in the file."""
        twice = None if self.idempotent is None else sorted(self.idempotent)
        parts = [self.command, self.args, self.env, self.env_file, self.cwd, self.url, self.headers, twice]
        return hashlib.sha256(json.dumps(parts).encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variables that it is given values of, by name."""
        return tuple(dict.fromkeys(name for text in self._texts() for name in variables(text)))

    @property
    def place(self) -> tuple[str, ...]:
        """What says which program is started where, or which address is asked: all but what that is given."""
        return *filter(None, (self.command, self.url)), *self.args, *filter(None, (self.cwd, self.env_file))

    def is_idempotent(self, tool: str) -> bool:
        """Whether the file declares that a call of this tool may be made twice."""
        return self.idempotent is None or tool in self.idempotent

    def in_words(self) -> str:
        """The command line, or the address, as the file has it."""
        return self.url if self.url is not None else " ".join([self.command or "", *self.args])

    def filled(self, environ: Mapping[str, str], workspace: Path, home: Path) -> McpServer:
        """The same with its placeholders filled in. Raises ConfigInvalid naming what is missing."""

        def fill(text: str) -> str:
            return expanded(text, environ, workspace, home, f"the MCP server {self.name}")

        return replace(
            self,
            command=None if self.command is None else fill(self.command),
            args=tuple(map(fill, self.args)),
            env=tuple((name, fill(value)) for name, value in self.env),
            env_file=None if self.env_file is None else fill(self.env_file),
            cwd=None if self.cwd is None else fill(self.cwd),
            url=None if self.url is None else fill(self.url),
            headers=tuple((name, fill(value)) for name, value in self.headers),
        )

    def _texts(self) -> Iterable[str]:
        yield from self.place
        yield from (value for _, value in (*self.env, *self.headers))


@dataclass(frozen=True, slots=True)
class McpFile:
    """What a file has: its servers by name, and for each entry that cannot be used what is wrong with it."""

    path: Path
    servers: Mapping[str, McpServer] = field(default_factory=dict)
    mistakes: Mapping[str, str] = field(default_factory=dict)

    def get(self, name: str) -> McpServer:
        """The server of this name. Raises ConfigInvalid, with the nearest name if there is none."""
        if name in self.mistakes:
            raise ConfigInvalid(self.mistakes[name])
        if name not in self.servers:
            near = nearest(name, self.servers)
            there = f"it has: {', '.join(sorted(self.servers))}" if self.servers else "it has none"
            raise ConfigInvalid(
                f"mcp: {self.path} has no server {name!r}; " + (f"did you mean {near!r}?" if near else there)
            )
        return self.servers[name]


def read_mcp_file(path: Path) -> McpFile:
    """The file at the path, without servers if it is not there. Raises ConfigInvalid for one that is no JSON."""
    if not os.path.lexists(path):
        return McpFile(path)
    try:
        text = decode(read_file(path, MAX_BYTES))
    except Unreadable as error:
        raise ConfigInvalid(f"{path}: {error}") from None
    return parse_mcp_file(text, path)


def parse_mcp_file(text: str, path: Path) -> McpFile:
    """What the text has. Raises ConfigInvalid with line and column for what is no JSON, and for a wrong shape."""
    data = _loaded(text, path)
    if not isinstance(data, dict):
        raise ConfigInvalid(f'{path}: must be an object, such as {{"mcpServers": {{NAME: {{"command": …}}}}}}')
    key = next((key for key in ("mcpServers", "servers") if key in data), None)
    entries = data if key is None else data[key]
    if not isinstance(entries, dict):
        raise ConfigInvalid(f"{path}: {key} must be an object of servers by name, not {_kind(entries)}")
    servers: dict[str, McpServer] = {}
    mistakes: dict[str, str] = {}
    for name, entry in entries.items():
        if key is None and name == "$schema":
            continue
        place = name if key is None else f"{key}.{name}"
        try:
            servers[name] = _server(name, entry)
        except ValueError as error:
            mistakes[name] = f"{path}: {place}{error}"
    return McpFile(path, servers, {**mistakes, **_alike(servers, path)})


def _alike(servers: Mapping[str, McpServer], path: Path) -> dict[str, str]:
    """Servers whose tools would have the same names."""
    by_prefix: dict[str, list[str]] = {}
    for name in servers:
        by_prefix.setdefault(prefix(name).lower(), []).append(name)
    return {
        name: f"{path}: the names {' and '.join(map(repr, names))} are too much alike; rename one of them"
        for names in by_prefix.values()
        if len(names) > 1
        for name in names
    }


def _loaded(text: str, path: Path) -> Any:
    try:
        return json.loads(_plain_json(text), object_pairs_hook=_no_twins)
    except json.JSONDecodeError as error:
        raise ConfigInvalid(f"{path}:{error.lineno}: is no JSON: {error.msg} (column {error.colno})") from None
    except RecursionError:
        raise ConfigInvalid(f"{path}: is nested too deeply") from None
    except ValueError as error:
        raise ConfigInvalid(f"{path}: {error}") from None


_PIECES = re.compile(r'"(?:[^"\\]|\\.)*"|//[^\n]*|/\*.*?\*/|,(?=(?:\s|//[^\n]*|/\*.*?\*/)*[}\]])', re.DOTALL)


def _plain_json(text: str) -> str:
    """The text without comments and trailing commas; everything else stays in its line and column."""
    return _PIECES.sub(lambda piece: piece[0] if piece[0][0] == '"' else re.sub(r"[^\n]", " ", piece[0]), text)


def _no_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twin = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{twin!r} is given twice in one object; keep one")
    return found


def _server(name: str, entry: Any) -> McpServer:
    """Raises ValueError with the place in the entry, and what is wrong there."""
    if not name.strip() or not name.isprintable() or len(name) > 100:
        raise ValueError(": is no name for a server; use letters, digits, - and _")
    if not isinstance(entry, dict):
        raise ValueError(f" must be an object with `command` or `url`, not {_kind(entry)}")
    for key in entry:
        if key not in _KEYS and key not in _IGNORED:
            near = nearest(key, _KEYS)
            raise ValueError(f".{key}: unknown key; " + (f"did you mean {near}?" if near else _known()))
    _check_kind(entry)
    return McpServer(
        name=name,
        command=_text(entry, "command"),
        args=_texts(entry, "args"),
        env=_pairs(entry, "env"),
        env_file=_text(entry, "envFile"),
        cwd=_text(entry, "cwd"),
        url=_address(entry),
        headers=_pairs(entry, "headers"),
        connect_timeout=_seconds(entry, "connect_timeout", _CONNECT_S),
        timeout=_seconds(entry, "timeout", _CALL_S),
        idempotent=_tools(entry, "idempotent"),
    )


def _known() -> str:
    return f"known are: {', '.join(sorted(_KEYS))}"


def _check_kind(entry: Mapping[str, Any]) -> None:
    """Whether it is one of the two kinds, and has nothing of the other."""
    kind = entry.get("type")
    if kind == "sse":
        raise ValueError(".type: the SSE transport is not supported; use the server's streamable HTTP address")
    if kind is not None and kind != "stdio" and kind not in _HTTP:
        raise ValueError(f'.type: must be "stdio" or "http", not {json.dumps(kind)}')
    both = [key for key in ("command", "url") if key in entry]
    if len(both) != 1:
        raise ValueError(" has both `command` and `url`; keep one" if both else " has neither `command` nor `url`")
    wanted = "command" if kind == "stdio" else "url" if kind in _HTTP else both[0]
    if wanted not in entry:
        raise ValueError(f'.type: is "{kind}", which goes with `{wanted}`')
    foreign = ("url", "headers") if wanted == "command" else ("command", "args", "env", "envFile", "cwd")
    for key in foreign:
        if key in entry:
            raise ValueError(f".{key}: goes with `{'url' if wanted == 'command' else 'command'}` only")


def _text(entry: Mapping[str, Any], key: str) -> str | None:
    if key not in entry:
        return None
    value = entry[key]
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueError(f".{key}: must be a text that is not empty, not {_kind(value)}")
    return value


def _address(entry: Mapping[str, Any]) -> str | None:
    url = _text(entry, "url")
    if url is not None and not url.startswith(("http://", "https://", "${")):
        raise ValueError(".url: must begin with http:// or https://")
    return url


def _texts(entry: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = entry.get(key, [])
    if not isinstance(value, list):
        raise ValueError(f".{key}: must be a list of texts, not {_kind(value)}")
    for number, item in enumerate(value):
        if not isinstance(item, str) or "\0" in item:
            raise ValueError(f".{key}[{number}]: must be a text, not {_kind(item)}; put it in quotes")
    return tuple(value)


def _pairs(entry: Mapping[str, Any], key: str) -> tuple[tuple[str, str], ...]:
    value = entry.get(key, {})
    if not isinstance(value, dict):
        raise ValueError(f".{key}: must be an object of texts by name, not {_kind(value)}")
    found = []
    for name, item in value.items():
        if not name or "=" in name or "\0" in name:
            raise ValueError(f".{key}: {name!r} is no name")
        if isinstance(item, bool) or not isinstance(item, str | int | float) or "\0" in str(item):
            raise ValueError(f".{key}.{name}: must be a text, not {_kind(item)}; put it in quotes")
        found.append((name, str(item)))
    return tuple(found)


def _seconds(entry: Mapping[str, Any], key: str, default: float) -> float:
    value = entry.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _LONGEST_S:
        raise ValueError(f".{key}: must be a number of seconds, at most {_LONGEST_S:g}, not {json.dumps(value)}")
    return float(value)


def _tools(entry: Mapping[str, Any], key: str) -> frozenset[str] | None:
    value = entry.get(key, [])
    if isinstance(value, bool):
        return None if value else frozenset()
    return frozenset(_texts(entry, key))


def _kind(value: Any) -> str:
    return "null" if value is None else f"{json.dumps(value, ensure_ascii=False)[:60]}"
