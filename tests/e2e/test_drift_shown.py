"""What has drifted is said where a question is shown: in `pending`, at the prompt, and before an answer of `respond`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.agent_folder import AgentFolder, call

TOOLS = """
from langchain_core.tools import tool
from . import helper

@tool
def publish(title: str) -> str:
    '''Publishes.'''
    return helper.upload(title)
"""
CONFIG = "the defaults in config.yaml have changed since this execution started, which goes on with the old ones"
TOOL = "the source of publish has changed since this was asked: a yes will be asked again before it runs"


@pytest.fixture
def drifted(tmp_path: Path) -> AgentFolder:
    """An execution that waits for a yes, with a helper of its tool and the config edited since."""
    folder = AgentFolder(tmp_path)
    folder.tools("pages", TOOLS)
    folder.tools("helper", "def upload(title): return f'shown {title}'")
    folder.agent(
        "press", [{"calls": [call("publish", title="A")]}, {"text": "Done."}], "tools: [pages]\nconfirm: [publish]"
    )
    assert folder.cli("run", "press").code == 3
    folder.tools("helper", "def upload(title): return f'edited {title}'")
    folder.file("config.yaml", "defaults: {history: high}\n")
    return folder


def test_pending_names_what_drifted(drifted: AgentFolder) -> None:
    assert drifted.cli("pending").out.splitlines()[2].endswith('"A"} (drifted: config, tool)')
    (shown,) = json.loads(drifted.cli("pending", "--json").out)
    assert (shown["drifted"], shown["drift"]) == (True, [{"what": "config"}, {"what": "tool"}])


def test_respond_says_it_before_it_records_and_the_yes_is_asked_again(drifted: AgentFolder) -> None:
    answered = drifted.cli("respond", "1", "--yes")
    assert answered.code == 3
    assert [line for line in answered.err.splitlines() if line.startswith("note:")] == [
        f"note: {CONFIG}",
        f"note: {TOOL}",
    ]
    assert "(its source was changed since this was approved) (drifted: config)" in drifted.cli("pending").out
    assert "edited A" in drifted.cli("respond", "1", "--yes").out


def test_the_prompt_says_it_above_the_question(drifted: AgentFolder) -> None:
    with drifted.terminal("respond", "1") as terminal:
        terminal.expect("⚠ the defaults in config.yaml have changed since")
        terminal.expect("⚠ the source of publish has changed since")
        terminal.expect("[y/N]: ")
        terminal.send("n\r")
        terminal.expect("denied by")
