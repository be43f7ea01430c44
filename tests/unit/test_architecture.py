"""What holds of the package as a whole: light imports, one table of errors, a public SDK."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import agent_md
from agent_md import errors, sdk
from agent_md.error_codes import codes_of
from agent_md.errors import AgentmdError

_HEAVY = ("langgraph", "langchain_core", "langchain_google_genai", "fastapi", "uvicorn", "jsonschema", "prompt_toolkit")


@pytest.mark.parametrize("module", ["agent_md", "agent_md.app", "agent_md.sdk", "agent_md.cli.main"])
def test_nothing_heavy_is_imported_until_it_is_needed(module: str) -> None:
    program = f"import sys, {module}; print(*{{name.partition('.')[0] for name in sys.modules}})"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert set(ended.stdout.split()).isdisjoint(_HEAVY)


def test_the_public_names_of_the_sdk() -> None:
    assert sorted(sdk.__all__) == [
        "Context",
        "Pause",
        "RequestDenied",
        "RequestExpired",
        "StepUnknown",
        "ToolOptions",
        "context",
        "interrupt",
        "request_choice",
        "request_confirmation",
        "request_input",
        "request_questions",
        "step",
        "tool_options",
    ]
    assert all(inspect.getdoc(getattr(sdk, name)) for name in sdk.__all__)


def test_every_error_of_the_tree_is_public_and_has_a_sentence() -> None:
    classes = [value for value in vars(errors).values() if inspect.isclass(value) and issubclass(value, AgentmdError)]
    assert {kind.__name__ for kind in classes} == set(errors.__all__)
    assert all(inspect.getdoc(kind) for kind in classes)


def test_every_error_has_codes_of_its_own_kind() -> None:
    for kind in (value for value in vars(errors).values() if inspect.isclass(value)):
        if not issubclass(kind, AgentmdError):
            continue
        codes = codes_of(kind.__new__(kind))
        assert codes.exit == 2 if issubclass(kind, errors.UsageError) else codes.exit in (1, 4, 5, 6)
        assert (400 <= codes.http < 500) == (codes.exit in (2, 6))


def test_one_view_says_which_requests_are_open() -> None:
    """Whoever asks the tables of requests and answers for that would not know of retractions."""
    folder = Path(agent_md.__file__).parent
    texts = {path.relative_to(folder).as_posix(): path.read_text() for path in folder.rglob("*.py")}
    asks = re.compile(r"(FROM|JOIN)\s+(answers|retractions)\b")
    found = {f"{name}: {match[0]}" for name, text in texts.items() for match in asks.finditer(text)}
    assert found == {
        "stores/sqlite/answering.py: FROM retractions",  # of the answers that a call acts on
        "stores/sqlite/removing.py: FROM answers",
        "stores/sqlite/removing.py: FROM retractions",
    }
