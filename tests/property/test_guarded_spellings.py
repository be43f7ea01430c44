"""However a guarded call is spelled, it never runs unasked: what runs is really done, and looked at for what it changed
and told."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages.tool import ToolCall

from agent_md.agents.rules import asks_to_read, hides
from agent_md.agents.spec import AgentSpec, ModelRef
from agent_md.errors import ToolError
from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import Decision
from agent_md.graph.gate import propose
from agent_md.tools.base import Tool
from agent_md.tools.file_work import Commit
from agent_md.tools.files import FileTool
from tests.support.builtins import given_tools
from tests.support.file_sandbox import sandbox_on

CANARY = "canary-4711"
FILES = {"secret/key": "s", "private/note": CANARY, "locked/in/x": "l", "open/a.txt": "a", "b.txt": "b"}
LINKS = {
    "to-secret": "secret",
    "to-note": "private/note",
    "open/up": "..",
    "open/locked": "../locked",
    "secret/out": "../open",
    "chain": "open/locked/in",
}
SPEC = AgentSpec(
    "worker",
    "",
    ModelRef("script", "worker"),
    confirm_tools=(),
    confirm=("write(secret/*)", "read(private/*)", "write(private/*)"),
    deny=("write(locked/*)",),
    auto_approve=("write(open/*)", "read(open/*)", "write(secret/out/*)"),
)

NAMES = sorted({name for path in (*FILES, *LINKS) for name in path.split("/")} | {"new", "SECRET", "secret ", "ſecret"})
PARTS = st.one_of(st.sampled_from(NAMES), st.sampled_from([".", "..", "", "*", "?"]))
PATHS = st.builds(
    lambda start, parts, slash, end: start + slash.join(parts) + end,
    st.sampled_from(["", "", "./", "/", "WORKSPACE/", "WORKSPACE/../ws/", "{alias}/", "//"]),
    st.lists(PARTS, min_size=1, max_size=5),
    st.sampled_from(["/", "/", "//", "/./"]),
    st.sampled_from(["", "", "", "/", "/."]),
)
OLD = st.sampled_from(["a", "s", "l", "b", "x"])
CALLS = st.one_of(
    st.builds(lambda path: ("file_read", {"path": path}), PATHS),
    st.builds(lambda path: ("file_write", {"path": path, "content": "new"}), PATHS),
    st.builds(lambda path, old: ("file_edit", {"path": path, "old_text": old, "new_text": "new"}), PATHS, OLD),
    st.builds(lambda one, other: ("file_move", {"source": one, "destination": other}), PATHS, PATHS),
    st.builds(lambda path: ("file_delete", {"path": path}), PATHS),
    st.builds(lambda path: ("file_glob", {"pattern": path}), PATHS),
    st.builds(lambda path: ("file_search", {"pattern": "canary", "files": path}), PATHS),
)


class World:
    """A workspace as `FILES` and `LINKS` say, made anew when a call has changed it."""

    def __init__(self) -> None:
        self._folder = Path(tempfile.mkdtemp()).resolve()
        self.workspace = self._folder / "ws"
        self.make()
        sandbox = sandbox_on(self.workspace)
        tools = given_tools(
            sandbox,
            lambda path: hides(SPEC, path),
            unread=lambda path: asks_to_read(SPEC, path),
        )
        self.tools: dict[str, Tool] = {tool.name: tool for tool in tools}

    def make(self) -> None:
        shutil.rmtree(self.workspace, ignore_errors=True)
        for name, text in FILES.items():
            path = self.workspace / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        for name, target in LINKS.items():
            os.symlink(target, self.workspace / name)

    def seen(self, top: str = "") -> dict[str, str]:
        found = {}
        for folder, _, names in os.walk(self.workspace / top):
            for name in names:
                path = Path(folder, name)
                found[str(path.relative_to(self.workspace))] = (
                    os.readlink(path) if path.is_symlink() else path.read_text()
                )
        return found

    def close(self) -> None:
        shutil.rmtree(self._folder)

    def run(self, name: str, args: dict[str, Any]) -> None:
        """Does what the gate lets run at once, and fails if it did what it should have asked for."""
        given_args = {key: value.replace("WORKSPACE", str(self.workspace)) for key, value in args.items()}
        call = ToolCall(name=name, args=given_args, id="c")
        (proposal,) = propose(SPEC, self.tools, ExecutionId(1), 0, [call], 50, {})
        if proposal.decision is not Decision.RUN:
            return
        before = self.seen()
        tool = self.tools[name]
        assert isinstance(tool, FileTool)
        try:
            told = tool.perform(proposal.args, tool.plan(proposal.args), Commit())
        except ToolError as error:
            told = str(error)
        assert CANARY not in told, (name, args)
        after = self.seen()
        if after != before:
            changed = {path for path in {*before, *after} if before.get(path) != after.get(path)}
            self.make()
            guarded = [path for path in changed if path.split("/")[0] in ("secret", "private", "locked")]
            assert not guarded, (name, args, changed)


def check(count: int) -> None:
    world = World()

    @settings(max_examples=count, deadline=None)
    @given(CALLS)
    def never_unasked(call: tuple[str, dict[str, Any]]) -> None:
        world.run(*call)

    try:
        never_unasked()
    finally:
        world.close()


def test_a_thousand_spellings() -> None:
    check(1000)


@pytest.mark.stress
def test_ten_thousand_spellings() -> None:
    check(10_000)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("file_write", {"path": "secret/key", "content": "new"}),
        ("file_delete", {"path": "private/note"}),
        ("file_write", {"path": "locked/in/x", "content": "new"}),
    ],
)
def test_the_oracle_sees_what_runs_although_it_should_not(
    name: str, args: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World()
    monkeypatch.setattr("tests.property.test_guarded_spellings.SPEC", AgentSpec("w", "", SPEC.model, confirm_tools=()))
    try:
        with pytest.raises(AssertionError):
            world.run(name, args)
    finally:
        world.close()
