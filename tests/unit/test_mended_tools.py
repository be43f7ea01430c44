"""Ways around a guard or a limit of the file tools and the rules, each closed."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest

from agent_md.agents.rules import Match, decide, hides, match, parse_rule
from agent_md.agents.spec import AgentSpec, ModelRef, PathMount
from agent_md.errors import ToolError
from agent_md.executions.states import Decision
from agent_md.tools.base import TargetChanged, Tool
from agent_md.tools.globbing import Hidden, nothing_hidden
from agent_md.tools.path_sandbox import Sandbox
from tests.support.builtins import given_tools
from tests.support.file_sandbox import make_workspace, sandbox_on


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return make_workspace(tmp_path)


def tools_on(sandbox: Sandbox, hidden: Hidden = nothing_hidden) -> dict[str, Tool]:
    return {tool.name: tool for tool in given_tools(sandbox, hidden)}


def call(tool: Tool, **args: Any) -> str:
    valid = tool.validate(args)
    return asyncio.run(tool.run(valid, tool.plan(valid)))


def spec(**fields: Any) -> AgentSpec:
    return AgentSpec("worker", "Work.", ModelRef("script", "worker"), **fields)


class TestConfigFile:
    @pytest.fixture
    def bare(self, workspace: Path) -> Path:
        """The same workspace, which has no config.yaml yet."""
        (workspace / "config.yaml").unlink()
        return workspace

    @pytest.mark.parametrize("path", ["config.yaml", "Config.YAML", "sub/../config.yaml", "link.yaml"])
    def test_it_is_not_made(self, bare: Path, path: str) -> None:
        (bare / "link.yaml").symlink_to("config.yaml")
        with pytest.raises(ToolError, match="is not a path"):
            call(tools_on(sandbox_on(bare))["file_write"], path=path, content="defaults: {}")

    def test_nothing_is_moved_onto_it(self, bare: Path) -> None:
        with pytest.raises(ToolError, match="is not a path"):
            call(tools_on(sandbox_on(bare))["file_move"], source="notes.txt", destination="config.yaml")
        assert (bare / "notes.txt").exists()

    def test_it_is_not_reached_where_it_links_to(self, bare: Path) -> None:
        (bare / "real.txt").write_text("secret")
        (bare / "config.yaml").symlink_to("real.txt")
        for path in ("real.txt", "config.yaml"):
            with pytest.raises(ToolError, match="is not a path"):
                sandbox_on(bare).resolve(path, write=False)

    def test_it_is_not_found(self, workspace: Path) -> None:
        assert "config" not in call(tools_on(sandbox_on(workspace))["file_glob"], pattern="**")

    def test_others_of_this_name_are_files_like_any(self, workspace: Path) -> None:
        assert sandbox_on(workspace).resolve("sub/config.yaml", write=True).subject == "sub/config.yaml"


@pytest.mark.parametrize("path", ["/proc/self/environ", "/sys/kernel/notes", "/dev/sda", "/proc"])
def test_the_system_folders_are_no_files_of_an_agent(workspace: Path, path: str) -> None:
    sandbox = sandbox_on(workspace, [PathMount("all", "/"), PathMount("proc", "/proc"), PathMount("one", path)])
    for way in (path, f"all{path}", "proc/self/environ", "one"):
        with pytest.raises(ToolError, match="is not a path"):
            sandbox.resolve(way, write=False)


@pytest.mark.parametrize("name", ["file_write", "file_move", "file_delete"])
def test_a_huge_file_that_was_changed_under_its_old_time_is_not_what_was_approved(workspace: Path, name: str) -> None:
    huge = workspace / "huge.bin"
    with huge.open("wb") as file:
        file.truncate(300 * 1024 * 1024)
    tool = tools_on(sandbox_on(workspace))[name]
    args = {
        "file_write": {"path": "huge.bin", "content": "x"},
        "file_move": {"source": "huge.bin", "destination": "moved.bin"},
        "file_delete": {"path": "huge.bin"},
    }[name]
    plan, found = tool.plan(args), huge.stat()
    while huge.stat().st_ctime_ns == found.st_ctime_ns:  # the clock of the file system ticks
        with huge.open("r+b") as file:
            file.write(b"other")
        os.utime(huge, ns=(found.st_atime_ns, found.st_mtime_ns))
    with pytest.raises(TargetChanged):
        asyncio.run(tool.run(args, plan))
    assert huge.stat().st_size == found.st_size


def test_a_move_of_a_huge_file_settles_as_done(workspace: Path) -> None:
    with (workspace / "huge.bin").open("wb") as file:
        file.truncate(300 * 1024 * 1024)
    tool = tools_on(sandbox_on(workspace))["file_move"]
    args = {"source": "huge.bin", "destination": "moved.bin"}
    plan = tool.plan(args)
    assert plan.effect is not None
    result = asyncio.run(tool.run(args, plan))
    assert tool.settle(args, plan.effect).result == result


def test_an_edit_does_not_blow_a_file_up(workspace: Path) -> None:
    (workspace / "many.txt").write_text("a" * 100_000)
    edit = tools_on(sandbox_on(workspace))["file_edit"]
    args = {"path": "many.txt", "old_text": "a", "new_text": "é" * 100_000, "replace_all": True}
    with pytest.raises(ToolError, match="would have 20000000000 bytes, at most 16777216 are allowed"):
        edit.plan(args)
    assert call(edit, path="many.txt", old_text="a", new_text="éé", replace_all=True) == "File edited: many.txt"
    assert (workspace / "many.txt").stat().st_size == 400_000


class TestHiddenFromGlob:
    @pytest.mark.parametrize("rule", ["file_glob(secret/*)", "file_read(secret/*)", "file_read(*.key)"])
    @pytest.mark.parametrize("pattern", ["secre?/*", "**/*.key", "**"])
    def test_a_denied_file_is_not_found(self, workspace: Path, rule: str, pattern: str) -> None:
        (workspace / "secret").mkdir()
        (workspace / "secret" / "a.key").touch()
        agent = spec(deny=(rule,))
        glob = tools_on(sandbox_on(workspace), lambda path: hides(agent, path))["file_glob"]
        assert "a.key" not in call(glob, pattern=pattern)
        assert "a.key" in call(tools_on(sandbox_on(workspace))["file_glob"], pattern=pattern)

    def test_a_rule_without_a_pattern_hides_no_name(self) -> None:
        assert not hides(spec(deny=("file_read", "file_write(*)")), "notes.txt")


class TestBothForms:
    RULE = parse_rule("rm(force=true)")

    @pytest.mark.parametrize(
        ("args", "given", "every", "found"),
        [
            ({"force": True}, {"force": "yes"}, False, Match.YES),
            ({"force": False}, {"force": True}, False, Match.YES),
            ({"force": True}, {"force": "yes"}, True, Match.NO),
            ({"force": True}, {}, True, Match.NO),
            ({"force": True}, {"force": True}, True, Match.YES),
            ({"force": False}, {"force": "no"}, False, Match.NO),
        ],
    )
    def test_a_guard_fits_either_and_an_approval_both(
        self, args: dict[str, Any], given: dict[str, Any], every: bool, found: Match
    ) -> None:
        assert match(self.RULE, "rm", args, None, given=given, every=every) is found

    @pytest.mark.parametrize("value", [1000, 1000.0])
    @pytest.mark.parametrize("text", ["1000", "1000.0"])
    def test_a_whole_number_has_two_spellings(self, value: float, text: str) -> None:
        assert match(parse_rule(f"rm(n={text})"), "rm", {"n": value}, None) is Match.YES

    def test_what_cannot_be_known_asks_and_a_given_match_is_denied(self) -> None:
        agent = spec(deny=("rm(force=true)",), auto_approve=("rm(force=*)",))
        assert decide(agent, "rm", {"force": "?"}, (), True).decision is Decision.ASK
        assert decide(agent, "rm", {"force": True}, (), False).decision is Decision.REFUSE
