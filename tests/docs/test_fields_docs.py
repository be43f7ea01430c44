"""Every field, key, event, variable and code that people meet stands where people look for it."""

from __future__ import annotations

import json
import re
import signal
from functools import cache
from typing import Any, cast

import pytest

from agent_md.agents.parse_spec import FIELDS, RESERVED
from agent_md.api.application import make_application
from agent_md.api.context import ServerContext
from agent_md.api.session_schemas import Webhook
from agent_md.cli.exit_codes import EXIT_OF
from agent_md.error_codes import codes_of
from agent_md.errors import AgentmdError
from agent_md.executions.deliveries import HookEvent
from agent_md.executions.states import EventType
from agent_md.settings import KEYS
from agent_md.webhooks.body import body_of
from tests.support.documents import ROOT, Document
from tests.support.samples import an_execution

SOURCES = {path: path.read_text(encoding="utf-8") for path in (ROOT / "agent_md").rglob("*.py")}
NOT_OURS = {"HTTPValidationError", "ValidationError", "Mistake"}
"""Schemas of FastAPI's own errors."""


@cache
def page(name: str) -> Document:
    return Document(f"docs/{name}.md", (ROOT / f"docs/{name}.md").read_text(encoding="utf-8"))


@cache
def rows(name: str) -> set[str]:
    """What stands in backticks in the first cells of the page's tables."""
    cells = re.findall(r"^\| ([^|]*) \|", page(name).prose, re.MULTILINE)
    return {code for cell in cells for code in re.findall(r"`([^`]+)`", cell)}


@cache
def words(*names: str) -> set[str]:
    """The words in backticks in the text of pages."""
    return {word for name in names for code in page(name).code() for word in re.findall(r"[\w.]+", code)}


def test_every_field_of_an_agent_file_has_a_row() -> None:
    assert {*FIELDS, *RESERVED} - rows("agent-file") == set()


def test_every_key_of_the_configuration_has_a_row_and_no_other() -> None:
    variables = {row for row in rows("configuration") if row.isupper()}
    assert rows("configuration") - variables == set(KEYS)


def test_every_variable_of_ours_has_a_row() -> None:
    used = {name for text in SOURCES.values() for name in re.findall(r"\bAGENTMD_[A-Z_]+\b", text)}
    assert used
    assert used - rows("configuration") == set()


@cache
def schemas() -> dict[str, set[str]]:
    made: dict[str, Any] = make_application(cast(ServerContext, None), None).openapi()["components"]["schemas"]
    return {name: set(schema.get("properties", {})) for name, schema in made.items() if name not in NOT_OURS}


@pytest.mark.parametrize("schema", sorted(schemas()))
def test_every_field_of_the_http_interface_is_explained(schema: str) -> None:
    assert schemas()[schema] - words("http-api", "sessions-api") == set()


@pytest.mark.parametrize("schema", ["ExecutionDetail", "PendingRequest", "AgentDetail"])
def test_every_field_of_what_the_http_interface_is_about_has_a_row(schema: str) -> None:
    assert schemas()[schema] - rows("http-api") == set()


@pytest.mark.parametrize("schema", ["Session", "ChatMessage"])
def test_every_field_of_a_session_and_of_a_message_has_a_row(schema: str) -> None:
    assert schemas()[schema] - rows("sessions-api") == set()


def test_every_stored_event_has_a_row_in_the_streams_and_in_the_log() -> None:
    events = {str(event) for event in EventType}
    assert events - rows("http-api") == set()
    assert events - rows("durability") == set()


def test_every_event_and_field_of_a_webhook_has_a_row() -> None:
    bodies = [body_of(event, "e", an_execution(output="Done."), messages=[]) for event in HookEvent]
    told = {field for body in bodies for field in json.loads(body)}
    assert {"event", "response", "error", "interrupts", "messages"} <= told
    assert told - rows("webhooks") == set()
    assert {str(event) for event in HookEvent} - words("webhooks") == set()
    assert set(Webhook.model_fields) - words("webhooks") == set()


def test_every_event_of_json_is_named() -> None:
    command_line = [text for path, text in SOURCES.items() if "cli" in path.parts or "serialization" in path.parts]
    events = {name for text in command_line for name in re.findall(r'"event": "(\w+)"', text)}
    assert {"recorded", "handed_over", "execution_started"} <= events
    assert events - words("cli") == set()


def test_every_exit_code_has_a_row_and_no_other() -> None:
    constants = r"^_?(?:\w*EXIT\w*|WAITING|INTERRUPTED) = (\d+)$|(?:typer\.Exit|sys\.exit|exit_now)\((\d+)\)"
    written = [
        found for path, text in SOURCES.items() if "cli" in path.parts for found in re.findall(constants, text, re.M)
    ]
    codes = {int(one or other) for one, other in written}
    codes |= {128 + signal.SIGHUP, 128 + signal.SIGTERM, 0, *EXIT_OF.values()}
    codes |= {codes_of(kind.__new__(kind)).exit for kind in subclasses(AgentmdError)}
    assert {int(row) for row in rows("cli") if row.isdigit()} == codes


def subclasses(kind: type[AgentmdError]) -> set[type[AgentmdError]]:
    return {kind}.union(*(subclasses(below) for below in kind.__subclasses__()))


def test_every_error_is_of_a_documented_kind() -> None:
    explained = words("troubleshooting", "tools") - {AgentmdError.__name__}
    ours = {kind for kind in subclasses(AgentmdError) - {AgentmdError} if kind.__module__.startswith("agent_md.")}
    assert {kind for kind in ours if not explained & {above.__name__ for above in kind.__mro__}} == set()
