"""An agent with a sandbox does not run where there can be none, and nothing of its tools does; the reason is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_md.isolation.bubblewrap import isolation_problem
from tests.support.agent_folder import AgentFolder, call
from tests.support.server import Server

_TOOLS = """
import pathlib
pathlib.Path(__file__).with_name("imported").touch()

from langchain_core.tools import tool
from agent_md.sdk import tool_options

@tool
@tool_options(sandbox=True)
def it() -> str:
    \"\"\"It.\"\"\"
    return "x"
"""
_INSTALL = "install it with `sudo apt install bubblewrap`"


@pytest.mark.parametrize("setting", ["sandbox: true", ""], ids=["agent", "tool"])
def test_it_is_refused_before_it_begins(folder: AgentFolder, tmp_path: Path, setting: str) -> None:
    folder.tools("kit", _TOOLS)
    folder.agent("worker", [{"calls": [call("it")]}, {"text": "Done."}], f"tools: [kit]\n{setting}")
    nowhere = {"PATH": str(tmp_path)}
    for command, code in ((["run", "worker"], 2), (["run", "worker", "-d"], 2), (["validate"], 1)):
        ended = folder.cli(*command, env=nowhere)
        assert (ended.code, _INSTALL in ended.out + ended.err) == (code, True), (command, ended)
    with Server(folder.path, env=nowhere) as server:
        refused = server.client.post("/agents/worker/run", {})
        assert (refused.status, _INSTALL in refused.body["detail"]) == (422, True)
        assert server.client.get("/executions").body == []
    assert not list(folder.path.rglob("imported"))


def test_what_lacks_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "for Linux only" in (isolation_problem("darwin") or "")
    broken = tmp_path / "bwrap"
    broken.write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    told = isolation_problem("linux") or ""
    assert f"{broken} cannot isolate a process here: No permissions to create new namespace" in told
    assert "user namespaces" in " ".join(told.split())
