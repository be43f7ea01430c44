"""What has drifted is told beside the question: the agent's file, the defaults of the config, the source of the tool."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_md.executions.requests import Request
from agent_md.executions.states import Drift
from tests.support.driving import Workspace, call, turn

SOURCE = """
    from . import helper

    @tool
    def publish(title: str) -> str:
        '''Publishes.'''
        return effect(title)

    @tool
    def ask(title: str) -> str:
        '''Asks, then publishes.'''
        return effect(title) if request_confirmation("Publish?") else "no"
"""


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path / "ws")
    workspace.tools(SOURCE)
    (workspace.folder / "agents/_config/tools/helper.py").write_text("VALUE = 1\n")
    workspace.agent("tools: [kit]\nconfirm: [publish]")
    workspace.script(
        turn(call("publish", title="A"), call("ask", title="B"), call("file_delete", path="a.txt")), "Done."
    )
    workspace.write("a.txt")
    workspace.start()
    yield workspace
    workspace.close()


def drift(work: Workspace) -> dict[str, tuple[Drift, ...]]:
    """By the call that asks."""
    requests: list[Request] = work.open_requests()
    found = work.app.drift_of(requests)
    return {str(request.position): found[request.id] for request in requests}


def everything(*parts: Drift) -> dict[str, tuple[Drift, ...]]:
    return dict.fromkeys(("0.0", "0.1", "0.2"), parts)


def test_nothing_has_drifted_at_first(work: Workspace) -> None:
    assert drift(work) == everything()
    agent = work.folder / "agents/worker.md"
    agent.write_text(agent.read_text().replace("tools:", "# a comment changes nothing\ntools:"))
    (work.folder / "agents/_config/tools/apart.py").write_text("nor does a module that is not imported")
    assert drift(work) == everything()


def test_the_agent_file(work: Workspace) -> None:
    agent = work.folder / "agents/worker.md"
    agent.write_text(agent.read_text() + "Other words.\n")
    assert drift(work) == everything(Drift.AGENT_FILE)
    agent.unlink()
    assert drift(work) == everything(Drift.AGENT_FILE)


def test_the_config(work: Workspace) -> None:
    (work.folder / "config.yaml").write_text("defaults: {max_tool_calls: 7}\n")
    work.restart()
    assert drift(work) == everything(Drift.CONFIG)
    agent = work.folder / "agents/worker.md"
    agent.write_text(agent.read_text() + "Other words.\n")
    assert drift(work) == everything(Drift.AGENT_FILE, Drift.CONFIG)


def test_a_default_that_the_agent_does_not_use_is_no_drift(work: Workspace) -> None:
    (work.folder / "config.yaml").write_text("defaults: {model: other, provider: ollama}\n")
    work.restart()
    assert drift(work) == everything()


@pytest.mark.parametrize("file", ["kit.py", "helper.py"])
@pytest.mark.parametrize("gone", [False, True], ids=["edited", "gone"])
def test_the_source_of_a_tool_and_what_it_imports(work: Workspace, file: str, gone: bool) -> None:
    path = work.folder / "agents/_config/tools" / file
    if gone:
        path.unlink()
    else:
        path.write_text(path.read_text() + "# edited\n")
    assert drift(work) == {"0.0": (Drift.TOOL,), "0.1": (Drift.TOOL,), "0.2": ()}


def test_a_tool_whose_source_is_again_what_was_asked_about_has_not_drifted(work: Workspace) -> None:
    path = work.folder / "agents/_config/tools/helper.py"
    path.write_text("VALUE = 2\n")
    assert drift(work)["0.0"] == (Drift.TOOL,)
    path.write_text("VALUE = 1\n")
    assert drift(work) == everything()


def test_the_question_that_is_asked_again_has_not_drifted(work: Workspace) -> None:
    (work.folder / "agents/_config/tools/helper.py").write_text("VALUE = 2\n")
    first = next(request for request in work.open_requests() if str(request.position) == "0.0")
    work.answer(first, {"approved": True})
    assert drift(work) == {"0.0": (), "0.1": (Drift.TOOL,), "0.2": ()}


def test_to_look_runs_nothing_of_a_tool_and_imports_no_framework(work: Workspace) -> None:
    path = work.folder / "agents/_config/tools/kit.py"
    path.write_text("raise SystemExit('the module was run')\n")
    code = f"""
import sys
from agent_md.cli.entry import main
sys.argv = ["agentmd", "pending", "-w", {str(work.folder)!r}]
try:
    main()
finally:
    heavy = [name for name in ("langchain_core", "langgraph", "fastapi") if name in sys.modules]
    print("heavy:", heavy)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.count("(drifted: tool)") == 2, done.stdout + done.stderr
    assert "heavy: []" in done.stdout
