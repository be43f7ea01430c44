"""Parses an agent file into an AgentSpec: validates every field and resolves every default."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import cast

from agent_md.agents import value_formats
from agent_md.agents.defaults import HISTORY, ON_PENDING, SETTINGS, Defaults, read_settings, rule
from agent_md.agents.frontmatter import Document, read_document
from agent_md.agents.names import agent_name, default_icon
from agent_md.agents.nested_fields import (
    read_model,
    read_notify,
    read_paths,
    read_sandbox,
    read_secrets,
    schedule_line,
    trigger_of,
)
from agent_md.agents.rules import EVERYTHING
from agent_md.agents.source import Mark
from agent_md.agents.spec import AgentSpec, OnPending
from agent_md.agents.typed_values import Section, json_safe, note_cut_texts
from agent_md.agents.yaml_positions import Entry, Scalar
from agent_md.errors import AgentFileInvalid

__all__ = ["FIELDS", "RESERVED", "Parsed", "parse_agent", "read_agent"]

FIELDS = (
    "name",
    "description",
    "icon",
    "enabled",
    "model",
    "settings",
    "trigger",
    "history",
    "confirm",
    "auto_approve",
    "deny",
    "allow_hosts",
    "on_pending",
    "confirm_timeout",
    "paths",
    "tools",
    "custom_tools",
    "mcp",
    "skills",
    "agents",
    "secrets",
    "command_environment",
    "sandbox",
    "notify",
    "metadata",
)
RESERVED = ("inputs", "output", "imports", "hooks")
_INSTRUCTIONS = ("prompt", "system_prompt", "system", "instructions")
"""Keys that other programs have for what is the body here."""
_ELSEWHERE = {key: f"settings.{key}" for key in SETTINGS} | {
    "provider": "model.provider",
    "base_url": "model.base_url",
    "allowed_tools": "confirm, auto_approve or deny",
    "permissions": "confirm, auto_approve or deny",
    "timezone": "trigger.timezone",
    "confirm_tools": "confirm (defaults.confirm_tools is in config.yaml)",
}


@dataclass(frozen=True, slots=True)
class Parsed:
    """A parsed agent file: its spec, or its errors, and its name if that can be read."""

    spec: AgentSpec | None
    name: str | None
    error: str = ""
    """One line a mistake, `file:line:column: text`."""


def parse_agent(data: bytes, source_path: str, defaults: Defaults) -> AgentSpec:
    """The spec of an agent file's bytes. Raises AgentFileInvalid with every mistake.

    `source_path` is relative to the workspace, with `/`; it names the file in messages, and its stem is the name of
    the agent if the file gives none.
    """
    parsed = read_agent(data, source_path, defaults)
    if parsed.spec is None:
        raise AgentFileInvalid(parsed.error)
    return parsed.spec


def read_agent(data: bytes, source_path: str, defaults: Defaults) -> Parsed:
    """As `parse_agent`, for those who go on with an invalid file. Never raises."""
    try:
        document = read_document(data, source_path)
    except AgentFileInvalid as error:
        return Parsed(None, None, str(error))
    if document.settings is None:
        return Parsed(None, _written_name(document.source.text), document.source.message)
    section = Section(document.source, document.settings)
    name = _name(section, source_path)
    spec = _spec(section, document, name or "", source_path, defaults)
    mistakes = document.source.message
    return Parsed(None, name, mistakes) if mistakes else Parsed(spec, name)


def _spec(section: Section, document: Document, name: str, source_path: str, defaults: Defaults) -> AgentSpec:
    _check_keys(section)
    settings = section.section("settings")
    settings.check_keys(SETTINGS)
    tools = section.alias("tools", "custom_tools")
    on_pending = section.word("on_pending", ON_PENDING, defaults.on_pending)
    history = section.word("history", HISTORY, None)
    return AgentSpec(
        name=name,
        body=document.body,
        model=read_model(section, defaults),
        description=section.prose("description", ""),
        icon=section.text("icon", value_formats.icon, default_icon(name)),
        enabled=section.flag("enabled", True),
        settings=read_settings(settings, defaults.settings),
        trigger=trigger_of(section),
        history=HISTORY[history] if history else defaults.history,
        confirm_tools=defaults.confirm_tools,
        confirm=_rules(section, "confirm"),
        auto_approve=_auto_approve(section),
        deny=_rules(section, "deny"),
        allow_hosts=_allow_hosts(section),
        on_pending=cast(OnPending, on_pending),
        confirm_timeout=section.text("confirm_timeout", value_formats.time_limit, defaults.confirm_timeout),
        paths=read_paths(section.section("paths")),
        tools=section.texts(tools, value_formats.simple_name, ()),
        mcp=section.texts("mcp", value_formats.simple_name, ()),
        skills=section.texts("skills", value_formats.simple_name, ()),
        agents=section.texts("agents", agent_name, ()),
        secrets=read_secrets(section, "secrets"),
        command_environment=section.texts("command_environment", value_formats.variable, ()),
        sandbox=read_sandbox(section),
        notify=read_notify(section, "notify"),
        metadata=_metadata(section),
        source_path=source_path,
    )


def _check_keys(section: Section) -> None:
    for key in RESERVED:
        if entry := section.mapping.entries.get(key):
            section.source.note(entry.mark, f"{key}: not supported yet; remove it")
    section.check_keys((*FIELDS, *RESERVED), _ELSEWHERE, _advice)


def _advice(entry: Entry) -> str | None:
    if entry.key in ("schedule", "cron", "every"):
        return schedule_line(entry)
    if entry.key not in _INSTRUCTIONS:
        return None
    return "what the agent is told is the text below the second ---; write it there, and remove this"


def _name(section: Section, source_path: str) -> str | None:
    if section.node("name") is not None:
        return section.text("name", agent_name, None)
    stem = PurePosixPath(source_path).stem
    try:
        return agent_name(stem)
    except ValueError as error:
        first = Mark(section.source.first_line, 1)
        section.source.note(first, f"name: the file's own name cannot be the agent's: {error}; add a name")
    return None


def _written_name(text: str) -> str | None:
    """The name in settings that YAML cannot read, so that asking for the agent says why it cannot be had."""
    found = re.search(r"^name:[ \t]+([^\n#]+)", text, re.MULTILINE)
    return found[1].strip().strip("\"'") if found else None


def _rules(section: Section, key: str, parse: Callable[[str], str] = rule) -> tuple[str, ...]:
    node = section.node(key)
    if isinstance(node, Scalar) and node.kind == "bool":
        every = '"*" for all calls, or ' if key == "auto_approve" else ""
        section.note(
            key,
            f"expected names of tools, read {node.text}; write {key}: {every}[file_write, file_delete], or remove it",
        )
        return ()
    return section.texts(key, parse, ())


def _auto_approve(section: Section) -> tuple[str, ...]:
    rules = _rules(section, "auto_approve", _liftable)
    return (EVERYTHING,) if EVERYTHING in rules else rules


def _liftable(text: str) -> str:
    return EVERYTHING if text in (EVERYTHING, "all") else rule(text)


def _allow_hosts(section: Section) -> tuple[str, ...]:
    hosts = section.texts("allow_hosts", value_formats.host, ())
    if section.items("allow_hosts") == ():
        section.note(
            "allow_hosts", "an empty list allows nothing; remove it for any public host, or write deny: http_request"
        )
    return hosts


def _metadata(section: Section) -> dict[str, object]:
    metadata = section.section("metadata")
    note_cut_texts(section.source, metadata.mapping, "metadata")
    return {entry.key: json_safe(entry.value) for entry in metadata.mapping.entries.values()}
