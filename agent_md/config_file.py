"""Reads a config.yaml, and defines all its keys."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from agent_md.agents import value_formats
from agent_md.agents.defaults import HISTORY, ON_PENDING, PROVIDERS, SETTINGS, non_empty, read_settings, rule
from agent_md.agents.files import Unreadable, decode, read_file
from agent_md.agents.names import agent_name
from agent_md.agents.source import Source
from agent_md.agents.spec import RunSettings
from agent_md.agents.typed_values import Section
from agent_md.agents.yaml_positions import MAX_BYTES, Scalar, load_mapping

__all__ = ["KEYS", "ConfigFile", "Layer", "NamedKey", "database_path", "log_level", "read_config"]

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
ROLES = ("user", "assistant", "system", "tool")


Layer = Mapping[str, Any]
"""Values by their dotted keys."""


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """The content of one file: the valid values, the errors (one line each, empty if there are none), and the keys that
    belong to another program."""

    values: Layer = field(default_factory=dict)
    mistakes: str = ""
    foreign: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NamedKey:
    """A person's key for the web page: the variable that holds it. As text it is what the file says."""

    name: str
    variable: str

    def __str__(self) -> str:
        return f"{self.name}: ${{{self.variable}}}"


_Reader = Callable[[Section, str], Any]


def _one_of(words: tuple[str, ...]) -> _Reader:
    return lambda section, key: section.word(key, words, None)


def _as(parse: Callable[[str], Any]) -> _Reader:
    return lambda section, key: section.text(key, parse, None)


def _list_of(parse: Callable[[str], Any]) -> _Reader:
    return lambda section, key: section.texts(key, parse, ())


def _whole(low: int, high: int = 10**9) -> _Reader:
    return lambda section, key: section.integer(key, None, low, high)


def _whole_or_none(low: int) -> _Reader:
    return lambda section, key: section.integer_or_none(key, None, low)


def _setting(section: Section, key: str) -> Any:
    return getattr(read_settings(section, RunSettings()), key)


def _history(section: Section, key: str) -> Any:
    return HISTORY.get(section.word(key, HISTORY, ""))


def _days(section: Section, key: str) -> Any:
    return section.integer_or_none(key, None, 0) or None


def database_path(text: str) -> str:
    """The path that a path or URL names. Raises ValueError for what is no SQLite file."""
    if "://" not in text and not text.startswith(("file:", "sqlite:")):
        return value_formats.path(text)
    parts = urlsplit(text)
    if parts.scheme not in ("file", "sqlite"):
        raise ValueError(f"databases of kind {parts.scheme} are not supported yet; write the path of an SQLite file")
    local = parts.netloc in (("", "localhost") if parts.scheme == "file" else ("",))
    path = unquote(parts.path.removeprefix("/") if parts.scheme == "sqlite" else parts.path)
    if not local or parts.query or parts.fragment or path in ("", ":memory:"):
        raise ValueError("expected a file on this machine, such as sqlite:///data/agentmd.db, with nothing behind it")
    return path


def _database_text(text: str) -> str:
    database_path(text)
    return text


def _role(text: str) -> str:
    if text not in ROLES:
        raise ValueError(f'"{text}" is not a role; the roles are {", ".join(ROLES)}')
    return text


def _file_system(text: str) -> str:
    if not text or any(not char.isprintable() or char.isspace() for char in text):
        raise ValueError(f'"{text}" is not the type of a file system such as fuse.gocryptfs')
    return text


def _named_keys(section: Section, key: str) -> tuple[NamedKey, ...]:
    """Notes what is no name, and a value that is not one variable; a key itself is never shown."""
    found = []
    people = section.section(key)
    for name, entry in people.mapping.entries.items():
        text = entry.value.text if isinstance(entry.value, Scalar) else ""
        placeholder = re.fullmatch(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}", text)
        if placeholder is None:
            section.note(key, f'the value of "{name}" must be the variable that holds the key, such as ${{ANN_KEY}}')
        elif not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}", name):
            section.note(key, f'"{name}" is not a name: write letters, digits and . _ @ - for a person')
        else:
            found.append(NamedKey(name, placeholder[1]))
    return tuple(found)


def _variable(text: str) -> str:
    if not text.isidentifier() or not text.isascii():
        raise ValueError(f'"{text}" is not the name of a variable')
    return text


def log_level(text: str) -> str:
    if text.upper() not in LOG_LEVELS:
        raise ValueError(f'"{text}" is not a level; the levels are {", ".join(LOG_LEVELS)}')
    return text.upper()


_READERS: dict[str, _Reader] = {
    "agents_dir": _as(value_formats.path),
    "state_dir": _as(value_formats.path),
    "database": _as(_database_text),
    "tools_dir": _as(value_formats.path),
    "skills_dir": _as(value_formats.path),
    "mcp_config": _as(value_formats.path),
    "defaults.provider": _one_of(PROVIDERS),
    "defaults.model": _as(non_empty),
    **{f"defaults.{key}": _setting for key in SETTINGS},
    "defaults.history": _history,
    "defaults.on_pending": _one_of(ON_PENDING),
    "defaults.confirm_timeout": _as(value_formats.time_limit),
    "defaults.confirm_tools": _list_of(rule),
    "defaults.checkpoint_retention_days": _days,
    "defaults.max_agent_depth": _whole(0, 100),
    "server.host": _as(value_formats.host),
    "server.port": _whole(0, 65_535),
    "server.api_key": lambda section, key: section.secret(key, non_empty),
    "server.keys": _named_keys,
    "server.allowed_hosts": _list_of(value_formats.host),
    "server.max_concurrent": _whole(1),
    "server.max_sessions": _whole_or_none(1),
    "server.session_ttl": _as(value_formats.time_limit),
    "server.default_agent": _as(agent_name),
    "server.allow_custom_ids": lambda section, key: section.flag(key, False),
    "server.trusted_roles": _list_of(_role),
    "terminal.bell": lambda section, key: section.flag(key, False),
    "terminal.notice": _one_of(("off", "osc9", "osc777")),
    "webhooks.interrupt_delay": _as(value_formats.duration),
    "retention.executions_days": _days,
    "http.allow_hosts": _list_of(value_formats.host),
    "max_cost_usd_per_day": lambda section, key: section.number_or_none(key, None, 0),
    "prices": _as(value_formats.path),
    "log_level": _as(log_level),
    "allow_state_on": _list_of(_file_system),
    "redact_except": _list_of(_variable),
    "trust.environment": _list_of(_variable),
    "trust.hosts": _list_of(value_formats.host),
}
_OF_USER = ("allow_state_on", "redact_except", "trust")
"""Keys and sections of the user's config alone: a workspace may come from elsewhere, and does not say what this machine's
disks are, or what it is trusted with."""
_FOREIGN = ("workspace", "db_path")
"""Keys that another program of this name kept in the same file of the user's."""
KEYS = tuple(_READERS)
"""Every key of config.yaml, dotted."""

_SECTIONS = tuple(dict.fromkeys(key.partition(".")[0] for key in KEYS if "." in key))
_ELSEWHERE = {key.partition(".")[2]: key for key in KEYS if "." in key}


def read_config(path: Path, *, of_user: bool) -> ConfigFile:
    """The file's values; none if there is no file. Never raises."""
    if not os.path.lexists(path):
        return ConfigFile()
    try:
        source = Source(str(path), decode(read_file(path, MAX_BYTES)))
        mapping = load_mapping(source)
    except Unreadable as error:
        return ConfigFile(mistakes=f"{path}: the file {error}")
    if mapping is None:
        return ConfigFile(mistakes=source.message)
    foreign = tuple(key for key in mapping.entries if of_user and key in _FOREIGN)
    values = _read_keys(Section(source, mapping), of_user=of_user)
    return ConfigFile(values, source.message, foreign)


def _read_keys(top: Section, *, of_user: bool) -> Layer:
    own = (*(key for key in KEYS if "." not in key), *_SECTIONS)
    if not of_user:
        for key in _OF_USER:
            if key in top.mapping.entries:
                top.note(key, "only the user's own config may say so; see `agentmd info` for what is in effect")
    sections = {name: top.section(name) for name in _SECTIONS}
    top.check_keys((*own, *_FOREIGN) if of_user else own, _ELSEWHERE)
    for name, section in sections.items():
        section.check_keys([key.partition(".")[2] for key in KEYS if key.startswith(f"{name}.")])
    values = {}
    for key, read in _READERS.items():
        name, dotted, rest = key.partition(".")
        section, last = (sections[name], rest) if dotted else (top, key)
        if section.node(last) is not None:
            values[key] = read(section, last)
    wrong = {mistake.text.partition(":")[0] for mistake in top.source.mistakes}
    return {key: value for key, value in values.items() if key not in wrong}
