from __future__ import annotations

import asyncio
import json
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_md.agents.spec import PathMount
from agent_md.errors import InvalidArguments, ToolError
from agent_md.tools.base import Plan, Settled, SettledState, TargetChanged, Tool
from agent_md.tools.builtin import BUILTIN_NAMES, RESERVED_NAMES
from agent_md.tools.path_sandbox import Resolved, Sandbox
from tests.support.builtins import given_tools
from tests.support.file_sandbox import forbidden_in, make_workspace, sandbox_on


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    return make_workspace(tmp_path)


@pytest.fixture
def tools(workspace: Path) -> dict[str, Tool]:
    return by_name(sandbox_on(workspace))


def by_name(sandbox: Sandbox) -> dict[str, Tool]:
    return {tool.name: tool for tool in given_tools(sandbox)}


def call(tool: Tool, **args: Any) -> str:
    valid = tool.validate(args)
    return run(tool, valid, tool.plan(valid))


def run(tool: Tool, args: dict[str, Any], plan: Plan) -> str:
    return asyncio.run(tool.run(args, plan))


def files_of(workspace: Path) -> dict[str, bytes]:
    return {str(p.relative_to(workspace)): p.read_bytes() for p in workspace.rglob("*") if p.is_file()}


CHANGES: dict[str, dict[str, Any]] = {
    "file_write": {"path": "notes.txt", "content": "new\n"},
    "file_edit": {"path": "notes.txt", "old_text": "two", "new_text": "2"},
    "file_move": {"source": "notes.txt", "destination": "moved/notes.txt"},
    "file_delete": {"path": "notes.txt"},
}
RESULTS = {
    "file_write": "File written: notes.txt",
    "file_edit": "File edited: notes.txt",
    "file_move": "File moved: notes.txt → moved/notes.txt",
    "file_delete": "File deleted: notes.txt",
}
every_change = pytest.mark.parametrize("name", CHANGES)


def test_the_names(tools: dict[str, Tool]) -> None:
    assert set(tools) == BUILTIN_NAMES
    assert BUILTIN_NAMES < RESERVED_NAMES
    reading = {"file_read", "file_glob", "file_search", "result_read"}
    assert {name for name, tool in tools.items() if tool.options.read_only} == reading


class TestArguments:
    def test_each_field_that_does_not_fit_is_named(self, tools: dict[str, Tool]) -> None:
        with pytest.raises(InvalidArguments) as error:
            tools["file_edit"].validate({"path": 1, "old_text": "", "colour": "red"})
        text = str(error.value)
        for field in ("path: 1 is not of type 'string'", "old_text: ''", "new_text: is missing", "colour: unknown"):
            assert field in text
        assert text.startswith("Invalid arguments for file_edit: ")

    def test_whole_floats_are_whole_numbers(self, tools: dict[str, Tool]) -> None:
        args = tools["file_read"].validate({"path": "x", "offset": 2.0})
        assert args == {"path": "x", "offset": 2}
        assert isinstance(args["offset"], int)

    @pytest.mark.parametrize("content", ["a\0b", "\ud83d"])
    def test_what_is_no_text_is_not_written(self, tools: dict[str, Tool], content: str) -> None:
        with pytest.raises(InvalidArguments, match="content: "):
            tools["file_write"].validate({"path": "x", "content": content})

    def test_an_edit_that_changes_nothing_is_refused(self, tools: dict[str, Tool]) -> None:
        with pytest.raises(InvalidArguments, match="new_text"):
            tools["file_edit"].validate({"path": "x", "old_text": "a", "new_text": "a"})

    @every_change
    def test_subjects_are_the_resolved_paths(self, workspace: Path, name: str) -> None:
        (workspace / "link").symlink_to("notes.txt")
        tool = by_name(sandbox_on(workspace, [PathMount("all", ".")]))[name]
        args = {key: "all/link" if value == "notes.txt" else value for key, value in CHANGES[name].items()}
        expected = ("all/notes.txt", "all/moved/notes.txt") if name == "file_move" else ("all/notes.txt",)
        assert tool.subjects(args) == expected

    @pytest.mark.parametrize("name", ["file_read", *CHANGES])
    def test_a_path_outside_is_refused_at_every_stage(self, tools: dict[str, Tool], name: str) -> None:
        args = {**(CHANGES.get(name) or {})}
        args["destination" if name == "file_move" else "path"] = "../outside.txt"
        for stage in (tools[name].subjects, tools[name].plan, lambda args: run(tools[name], args, Plan("x"))):
            with pytest.raises(ToolError, match="not a path that this agent may use"):
                stage(args)


class TestRead:
    def test_the_whole_text(self, tools: dict[str, Tool]) -> None:
        assert call(tools["file_read"], path="notes.txt") == "one\ntwo\n"

    def test_a_range_with_numbers(self, tools: dict[str, Tool], workspace: Path) -> None:
        (workspace / "long.txt").write_text("".join(f"line {n}\n" for n in range(1, 11)))
        text = call(tools["file_read"], path="long.txt", offset=3, limit=2, with_line_numbers=True)
        assert text == "     3\tline 3\n     4\tline 4\n[The file goes on: read further with offset=5.]"

    def test_a_long_file_comes_in_parts_that_add_up(self, tools: dict[str, Tool], workspace: Path) -> None:
        lines = [f"{n} {'ä' * 40}\n" for n in range(1, 5001)]
        (workspace / "long.txt").write_text("".join(lines))
        parts, offset = "", 1
        while True:
            text = call(tools["file_read"], path="long.txt", offset=offset, limit=4000)
            body, note, rest = text.partition("[The file goes on: read further with offset=")
            assert len(body.encode()) <= 128 * 1024
            parts += body
            if not note:
                break
            offset = int(rest.removesuffix(".]"))
        assert parts == "".join(lines)

    def test_a_giant_line_is_cut_and_says_so(self, tools: dict[str, Tool], workspace: Path) -> None:
        (workspace / "long.txt").write_text("ä" * 200_000 + "\nend\n")
        text = call(tools["file_read"], path="long.txt")
        assert "[Line 1 has 400001 bytes; its first 131072 are shown.]" in text
        assert text.endswith("\n[Read on in it with byte=131073, or behind it with offset=2.]")
        assert call(tools["file_read"], path="long.txt", offset=2) == "end\n"

    @pytest.mark.parametrize("data", [b"\xff\xfe", b"a\0b", "hé".encode("latin-1"), "x".encode("utf-16")])
    def test_only_text(self, tools: dict[str, Tool], workspace: Path, data: bytes) -> None:
        (workspace / "data.bin").write_bytes(data)
        with pytest.raises(ToolError, match="no text in UTF-8"):
            call(tools["file_read"], path="data.bin")

    def test_a_byte_order_mark_is_not_shown(self, tools: dict[str, Tool], workspace: Path) -> None:
        (workspace / "bom.txt").write_bytes(b"\xef\xbb\xbfone\r\n")
        assert call(tools["file_read"], path="bom.txt") == "one\r\n"

    def test_nothing_to_show_is_said(self, tools: dict[str, Tool], workspace: Path) -> None:
        (workspace / "empty.txt").touch()
        assert call(tools["file_read"], path="empty.txt") == "[The file is empty.]"
        assert call(tools["file_read"], path="notes.txt", offset=7) == "[The file has only 2 lines.]"

    def test_gone_and_folders(self, tools: dict[str, Tool]) -> None:
        with pytest.raises(ToolError, match=r"^gone.txt does not exist$"):
            tools["file_read"].plan({"path": "gone.txt"})
        with pytest.raises(ToolError, match=r"^sub is a folder, not a file$"):
            tools["file_read"].plan({"path": "sub"})
        with pytest.raises(ToolError, match="Not a directory"):
            tools["file_read"].plan({"path": "notes.txt/x"})

    @pytest.mark.parametrize("name", ["file_read", "file_write", "file_delete"])
    def test_a_fifo_is_refused_at_once(self, tools: dict[str, Tool], workspace: Path, name: str) -> None:
        os.mkfifo(workspace / "pipe")
        with pytest.raises(ToolError, match="not a regular file"):
            tools[name].plan({"path": "pipe", "content": ""})

    def test_an_endless_name_is_an_error_of_the_tool(self, tools: dict[str, Tool]) -> None:
        with pytest.raises(ToolError, match="too long"):
            call(tools["file_write"], path="x" * 300, content="")


class TestGlob:
    @pytest.fixture
    def tree(self, workspace: Path) -> Path:
        for name in ("a.txt", "src/a.py", "src/deep/b.py", "src/deep/c.txt", ".hidden/x.py", "src/.secret.py"):
            path = workspace / "t" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        return workspace

    @pytest.mark.parametrize(
        ("pattern", "found"),
        [
            ("t/*", ["t/a.txt"]),
            ("t/**/*.py", ["t/src/a.py", "t/src/deep/b.py"]),
            ("t/**", ["t/a.txt", "t/src/a.py", "t/src/deep/b.py", "t/src/deep/c.txt"]),
            ("t/*/*.py", ["t/src/a.py"]),
            ("t/**/deep/**/b.*", ["t/src/deep/b.py"]),
            ("./t//src/[ab].py", ["t/src/a.py"]),
            ("t/src/.*", ["t/src/.secret.py"]),
            ("t/.hidden/*", ["t/.hidden/x.py"]),
            ("t/src/a.py", ["t/src/a.py"]),
        ],
    )
    def test_patterns(self, tree: Path, tools: dict[str, Tool], pattern: str, found: list[str]) -> None:
        assert call(tools["file_glob"], pattern=pattern).splitlines() == found

    def test_no_match(self, tools: dict[str, Tool]) -> None:
        assert call(tools["file_glob"], pattern="*.none") == "No files match *.none"

    def test_what_is_forbidden_is_not_seen(self, tools: dict[str, Tool], workspace: Path) -> None:
        (workspace / "data" / "runs.csv").touch()
        names = [
            *call(tools["file_glob"], pattern="**").splitlines(),
            *call(tools["file_glob"], pattern=".*").splitlines(),
        ]
        assert names == ["notes.txt", "data/runs.csv", "No files match .*"]
        for pattern in ("agents/**", ".agentmd/*", "**/*.md", "**/.env*", "agents/_config/**"):
            assert call(tools["file_glob"], pattern=pattern).startswith("No files match")

    def test_links_are_not_walked(self, tools: dict[str, Tool], workspace: Path) -> None:
        (workspace / "out").symlink_to("../ws-secret")
        (workspace / "loop").symlink_to(".")
        (workspace / "key").symlink_to("../ws-secret/key.txt")
        assert call(tools["file_glob"], pattern="**") == "notes.txt"
        assert call(tools["file_glob"], pattern="out/*") == "No files match out/*"

    def test_at_most_a_hundred(self, tools: dict[str, Tool], workspace: Path) -> None:
        for number in range(101):
            (workspace / "sub" / f"{number:03}.txt").touch()
        lines = call(tools["file_glob"], pattern="sub/*.txt").splitlines()
        assert len(lines) == 101
        assert lines[99] == "sub/099.txt"
        assert lines[100].startswith("[More than 100 files match")

    @pytest.mark.parametrize("pattern", ["../*", "/etc/*", "~/*", "sub/../../*", "a\0*"])
    def test_patterns_that_lead_out_are_refused(self, tools: dict[str, Tool], pattern: str) -> None:
        with pytest.raises(ToolError, match="not a path that this agent may use"):
            call(tools["file_glob"], pattern=pattern)

    def test_declared_paths(self, workspace: Path) -> None:
        (workspace / "r" / "fixed").mkdir(parents=True)
        (workspace / "r" / "a.txt").touch()
        (workspace / "r" / "fixed" / "b.txt").touch()
        mounts = [PathMount("out", "r"), PathMount("fix", "r/fixed", mode="ro"), PathMount("note", "notes.txt")]
        glob = by_name(sandbox_on(workspace, mounts))["file_glob"]
        assert call(glob, pattern="**").splitlines() == ["fix/b.txt", "note", "out/a.txt"]
        assert call(glob, pattern="out/*.txt") == "out/a.txt"
        assert call(glob, pattern="{out}/*.txt") == "out/a.txt"
        assert call(glob, pattern="out/*.none") == "No files match out/*.none"
        for unknown in ("*.txt", "{fx}/*", "in/**", "{out/*"):
            with pytest.raises(
                ToolError, match="is not a path that this agent may use; files are reached as "
            ) as error:
                call(glob, pattern=unknown)
            assert "out/…" in str(error.value)

    def test_a_nasty_pattern_is_quick(self, tools: dict[str, Tool], workspace: Path) -> None:
        (workspace / "sub" / ("a" * 200)).touch()
        pattern = "**/" * 30 + "*a" * 60 + "b"
        assert call(tools["file_glob"], pattern=pattern).startswith("No files match")


class TestWrite:
    def test_a_new_file_with_its_folders(self, tools: dict[str, Tool], workspace: Path) -> None:
        assert call(tools["file_write"], path="a/b/c.txt", content="hé\n") == "File written: a/b/c.txt"
        assert (workspace / "a/b/c.txt").read_bytes() == "hé\n".encode()

    def test_mode_and_umask(self, tools: dict[str, Tool], workspace: Path) -> None:
        (workspace / "notes.txt").chmod(0o640)
        old_umask = os.umask(0o027)
        try:
            call(tools["file_write"], path="notes.txt", content="x")
            call(tools["file_write"], path="new.txt", content="x")
        finally:
            os.umask(old_umask)
        assert stat.S_IMODE((workspace / "notes.txt").stat().st_mode) == 0o640
        assert stat.S_IMODE((workspace / "new.txt").stat().st_mode) == 0o640

    @pytest.mark.parametrize("name", ["file_write", "file_edit"])
    def test_new_content_does_not_run_as_somebody_else(
        self, tools: dict[str, Tool], workspace: Path, name: str
    ) -> None:
        (workspace / "notes.txt").chmod(0o7755)
        call(tools[name], **CHANGES[name])
        assert stat.S_IMODE((workspace / "notes.txt").stat().st_mode) == 0o755

    def test_the_file_is_replaced_at_once(self, tools: dict[str, Tool], workspace: Path) -> None:
        with open(workspace / "notes.txt") as reader:
            call(tools["file_write"], path="notes.txt", content="x" * 10_000)
            assert reader.read() == "one\ntwo\n"
        assert [p.name for p in workspace.iterdir() if p.name.endswith(".tmp")] == []

    def test_a_preview_of_a_change(self, tools: dict[str, Tool], workspace: Path) -> None:
        preview = tools["file_write"].plan({"path": "notes.txt", "content": "one\n2"}).preview
        assert preview is not None
        assert preview.resolved == str(workspace / "notes.txt")
        assert preview.size == 5
        assert preview.diff == (
            "--- notes.txt\n+++ notes.txt\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n\\ No newline at end of file\n"
        )

    def test_a_preview_of_a_new_file(self, tools: dict[str, Tool]) -> None:
        preview = tools["file_write"].plan({"path": "a/new.txt", "content": "x\u2028y\n"}).preview
        assert preview is not None
        assert preview.diff == "--- /dev/null\n+++ a/new.txt\n@@ -0,0 +1,1 @@\n+x\u2028y\n"

    def test_a_preview_says_what_it_cannot_show(self, tools: dict[str, Tool], workspace: Path) -> None:
        (workspace / "image.png").write_bytes(b"\x89PNG\0")
        (workspace / "huge.txt").write_bytes(b"x" * (1024 * 1024 + 1))
        binary = tools["file_write"].plan({"path": "image.png", "content": "x\n"}).preview
        huge = tools["file_write"].plan({"path": "huge.txt", "content": "x\n"}).preview
        assert binary is not None
        assert huge is not None
        assert "The present content (5 bytes) is binary; all of it is replaced by:\n+x\n" in (binary.diff or "")
        assert "The present content (1048577 bytes) is too large to be shown" in (huge.diff or "")

    def test_line_numbers_of_a_change_far_down(self, tools: dict[str, Tool], workspace: Path) -> None:
        lines = [f"{n}\n" for n in range(1, 101)]
        (workspace / "long.txt").write_text("".join(lines))
        lines[59] = "sixty\n"
        preview = tools["file_write"].plan({"path": "long.txt", "content": "".join(lines)}).preview
        assert preview is not None
        assert "\n@@ -57,7 +57,7 @@\n 57\n 58\n 59\n-60\n+sixty\n 61\n 62\n 63\n" in (preview.diff or "")

    def test_a_change_of_everything_is_quick_and_whole(self, tools: dict[str, Tool], workspace: Path) -> None:
        old = ["same\n"] + [f"{n % 50}\n" for n in range(20_000)]
        new = ["same\n"] + [f"{n % 49}!\n" for n in range(20_000)]
        (workspace / "long.txt").write_text("".join(old))
        preview = tools["file_write"].plan({"path": "long.txt", "content": "".join(new)}).preview
        assert preview is not None
        lines = (preview.diff or "").splitlines()
        assert lines[2] == "@@ -1,20001 +1,20001 @@"
        assert len(lines) == 3 + 1 + 40_000


class TestEdit:
    def test_one_place(self, tools: dict[str, Tool], workspace: Path) -> None:
        (workspace / "n.txt").write_bytes(b"\xef\xbb\xbfa\r\nb\r\n")
        assert call(tools["file_edit"], path="n.txt", old_text="b", new_text="\\1$0") == "File edited: n.txt"
        assert (workspace / "n.txt").read_bytes() == b"\xef\xbb\xbfa\r\n\\1$0\r\n"

    @pytest.mark.parametrize("text", ["ab ab", "aba"])
    def test_more_places_are_refused_also_when_they_overlap(
        self, tools: dict[str, Tool], workspace: Path, text: str
    ) -> None:
        (workspace / "n.txt").write_text(text)
        old = "ab" if text == "ab ab" else "a"
        with pytest.raises(ToolError, match="more than once"):
            call(tools["file_edit"], path="n.txt", old_text=old, new_text="x")
        (workspace / "n.txt").write_text("aaa")
        with pytest.raises(ToolError, match="more than once"):
            call(tools["file_edit"], path="n.txt", old_text="aa", new_text="x")

    def test_all_places(self, tools: dict[str, Tool], workspace: Path) -> None:
        call(tools["file_edit"], path="notes.txt", old_text="o", new_text="oo", replace_all=True)
        assert (workspace / "notes.txt").read_text() == "oone\ntwoo\n"

    def test_what_cannot_be_edited(self, tools: dict[str, Tool], workspace: Path) -> None:
        (workspace / "data.bin").write_bytes(b"a\0")
        with pytest.raises(ToolError, match=r"old_text is not in notes\.txt"):
            call(tools["file_edit"], path="notes.txt", old_text="three", new_text="x")
        with pytest.raises(ToolError, match="no text in UTF-8"):
            call(tools["file_edit"], path="data.bin", old_text="a", new_text="x")
        with pytest.raises(ToolError, match="does not exist"):
            call(tools["file_edit"], path="gone.txt", old_text="a", new_text="x")


class TestMoveAndDelete:
    def test_a_move_makes_folders_and_keeps_the_file(self, tools: dict[str, Tool], workspace: Path) -> None:
        inode = (workspace / "notes.txt").stat().st_ino
        assert call(tools["file_move"], **CHANGES["file_move"]) == RESULTS["file_move"]
        assert (workspace / "moved/notes.txt").stat().st_ino == inode
        assert (workspace / "moved/notes.txt").stat().st_nlink == 1
        assert not (workspace / "notes.txt").exists()

    @pytest.mark.parametrize("destination", ["sub/there.txt", "sub", "notes.txt", "./sub/../notes.txt", "link"])
    def test_a_move_never_overwrites(self, tools: dict[str, Tool], workspace: Path, destination: str) -> None:
        (workspace / "sub/there.txt").write_text("there")
        (workspace / "link").symlink_to("sub/there.txt")
        before = files_of(workspace)
        with pytest.raises(ToolError, match=r"exists|folder|same file"):
            call(tools["file_move"], source="notes.txt", destination=destination)
        assert files_of(workspace) == before

    def test_previews(self, tools: dict[str, Tool], workspace: Path) -> None:
        (workspace / "image.png").write_bytes(b"\x89PNG\0")
        move = tools["file_move"].plan({"source": "image.png", "destination": "b.png"}).preview
        delete = tools["file_delete"].plan({"path": "notes.txt"}).preview
        assert move is not None
        assert delete is not None
        assert (move.resolved, move.size, move.type) == (f"{workspace}/image.png → {workspace}/b.png", 5, "binary")
        assert (delete.resolved, delete.size, delete.type) == (f"{workspace}/notes.txt", 8, "text")

    def test_delete(self, tools: dict[str, Tool], workspace: Path) -> None:
        assert call(tools["file_delete"], path="./notes.txt") == "File deleted: ./notes.txt"
        assert not (workspace / "notes.txt").exists()
        with pytest.raises(ToolError, match="folder"):
            call(tools["file_delete"], path="sub")

    def test_a_move_over_file_systems_is_an_error_that_says_what_to_do(self, workspace: Path) -> None:
        other = Path("/dev/shm")
        if not other.is_dir() or other.stat().st_dev == workspace.stat().st_dev:
            other = workspace
        tool = by_name(sandbox_on(workspace, [PathMount("ws", "."), PathMount("far", str(other))]))["file_move"]
        destination = f"far/agentmd-test-{os.getpid()}.txt"
        if other == workspace:
            assert call(tool, source="ws/notes.txt", destination=destination).startswith("File moved")
        else:
            with pytest.raises(ToolError, match="different file systems"):
                call(tool, source="ws/notes.txt", destination=destination)
            assert (workspace / "notes.txt").exists()


class TestPlan:
    @every_change
    def test_a_digest_is_of_this_action_on_this_content(
        self, tools: dict[str, Tool], workspace: Path, name: str
    ) -> None:
        tool, args = tools[name], CHANGES[name]
        first = tool.plan(args)
        assert tool.plan(args) == first
        (workspace / "notes.txt").write_text("one\ntwo\nthree\n")
        assert tool.plan(args).digest != first.digest

    def test_planning_changes_nothing(self, tools: dict[str, Tool], workspace: Path) -> None:
        before = files_of(workspace)
        for name, args in CHANGES.items():
            tools[name].plan(args)
        tools["file_write"].plan({"path": "a/b/c.txt", "content": "x"})
        assert files_of(workspace) == before
        assert not (workspace / "a").exists()
        assert not (workspace / "moved").exists()

    @every_change
    def test_a_target_that_changed_is_left_alone(self, tools: dict[str, Tool], workspace: Path, name: str) -> None:
        plan = tools[name].plan(CHANGES[name])
        (workspace / "notes.txt").write_text("one\ntwo\nand what an editor saved\n")
        before = files_of(workspace)
        with pytest.raises(TargetChanged, match=r"notes\.txt.* was changed meanwhile; nothing was done"):
            run(tools[name], CHANGES[name], plan)
        assert files_of(workspace) == before
        assert not (workspace / "moved").exists()

    def test_a_file_that_appeared_is_left_alone(self, tools: dict[str, Tool], workspace: Path) -> None:
        args = {"path": "new.txt", "content": "x"}
        plan = tools["file_write"].plan(args)
        (workspace / "new.txt").write_text("somebody else's")
        with pytest.raises(TargetChanged):
            run(tools["file_write"], args, plan)
        assert (workspace / "new.txt").read_text() == "somebody else's"

    @every_change
    def test_a_target_that_is_gone_is_an_error(self, tools: dict[str, Tool], workspace: Path, name: str) -> None:
        plan = tools[name].plan(CHANGES[name])
        (workspace / "notes.txt").unlink()
        with pytest.raises(ToolError, match=r"does not exist|changed meanwhile"):
            run(tools[name], CHANGES[name], plan)
        assert "notes.txt" not in files_of(workspace)

    @every_change
    def test_a_link_that_leads_elsewhere_by_now_is_not_followed(
        self, tools: dict[str, Tool], workspace: Path, name: str
    ) -> None:
        (workspace / "twin.txt").write_text("one\ntwo\n")
        (workspace / "link").symlink_to("notes.txt")
        args = {key: "link" if value == "notes.txt" else value for key, value in CHANGES[name].items()}
        plan = tools[name].plan(args)
        (workspace / "link").unlink()
        (workspace / "link").symlink_to("twin.txt")
        before = files_of(workspace)
        with pytest.raises(TargetChanged):
            run(tools[name], args, plan)
        assert files_of(workspace) == before


class SwappingSandbox(Sandbox):
    """Somebody swaps a folder at the worst moment: right after a path was resolved."""

    swap: Callable[[], object] | None = None

    def resolve(self, path: str, write: bool) -> Resolved:
        resolved = super().resolve(path, write)
        if self.swap is not None:
            swap, self.swap = self.swap, None
            swap()
        return resolved


@every_change
def test_a_folder_swapped_for_a_link_at_the_effect_is_refused(workspace: Path, tmp_path: Path, name: str) -> None:
    victim = tmp_path / "victim"
    for folder in (workspace / "box", victim):
        folder.mkdir()
        (folder / "notes.txt").write_text("one\ntwo\n")

    def swap() -> None:
        (workspace / "box").rename(workspace / "gone")
        (workspace / "box").symlink_to(victim)

    sandbox = SwappingSandbox(workspace, (), forbidden_in(workspace))
    tool = by_name(sandbox)[name]
    args = {k: f"box/{v}" if k in ("path", "source", "destination") else v for k, v in CHANGES[name].items()}
    plan = tool.plan(args)
    sandbox.swap = swap
    with pytest.raises(ToolError, match="not a path that this agent may use"):
        run(tool, args, plan)
    assert files_of(victim) == {"notes.txt": b"one\ntwo\n"}
    assert files_of(workspace / "gone") == {"notes.txt": b"one\ntwo\n"}


def test_reading_through_a_swapped_folder_is_refused(workspace: Path, tmp_path: Path) -> None:
    (workspace / "box").mkdir()
    (workspace / "box" / "key.txt").write_text("mine")

    def swap() -> None:
        (workspace / "box").rename(workspace / "gone")
        (workspace / "box").symlink_to(tmp_path / "ws-secret")

    sandbox = SwappingSandbox(workspace, (), forbidden_in(workspace))
    tool = by_name(sandbox)["file_read"]
    plan = tool.plan({"path": "box/key.txt"})
    sandbox.swap = swap
    with pytest.raises(ToolError, match="not a path that this agent may use"):
        run(tool, {"path": "box/key.txt"}, plan)


def test_a_file_swapped_for_a_link_at_the_effect_is_refused(workspace: Path, tmp_path: Path) -> None:
    def swap() -> None:
        (workspace / "notes.txt").unlink()
        (workspace / "notes.txt").symlink_to(tmp_path / "outside.txt")

    for name in ("file_read", "file_write", "file_delete"):
        (workspace / "notes.txt").unlink()
        (workspace / "notes.txt").write_text("one\ntwo\n")
        sandbox = SwappingSandbox(workspace, (), forbidden_in(workspace))
        tool = by_name(sandbox)[name]
        args = {"path": "notes.txt", "content": "new"}
        plan = tool.plan(args)
        sandbox.swap = swap
        with pytest.raises(ToolError, match="not a path that this agent may use"):
            run(tool, args, plan)
        assert (tmp_path / "outside.txt").read_text() == "secret"


class TestSettle:
    @every_change
    def test_done_gives_the_result_that_run_gave(self, tools: dict[str, Tool], name: str) -> None:
        tool, args = tools[name], CHANGES[name]
        plan = tool.plan(args)
        result = run(tool, args, plan)
        assert result == RESULTS[name]
        assert plan.effect is not None
        assert tool.settle(args, plan.effect) == Settled(SettledState.DONE, result)

    @every_change
    def test_not_done(self, tools: dict[str, Tool], name: str) -> None:
        plan = tools[name].plan(CHANGES[name])
        assert plan.effect is not None
        assert tools[name].settle(CHANGES[name], plan.effect) == Settled(SettledState.NOT_DONE)
        assert run(tools[name], CHANGES[name], plan) == RESULTS[name]

    @every_change
    def test_changed_by_someone_else(self, tools: dict[str, Tool], workspace: Path, name: str) -> None:
        plan = tools[name].plan(CHANGES[name])
        assert plan.effect is not None
        (workspace / "notes.txt").write_text("other")
        assert tools[name].settle(CHANGES[name], plan.effect) == Settled(SettledState.CHANGED)

    @every_change
    def test_changed_after_it_was_done(self, tools: dict[str, Tool], workspace: Path, name: str) -> None:
        plan = tools[name].plan(CHANGES[name])
        assert plan.effect is not None
        run(tools[name], CHANGES[name], plan)
        (workspace / "notes.txt").write_text("other")
        assert tools[name].settle(CHANGES[name], plan.effect).state is SettledState.CHANGED

    @every_change
    def test_what_cannot_be_looked_at_has_changed(self, tools: dict[str, Tool], workspace: Path, name: str) -> None:
        plan = tools[name].plan(CHANGES[name])
        assert plan.effect is not None
        (workspace / "notes.txt").unlink()
        (workspace / "notes.txt").symlink_to("../outside.txt")
        assert tools[name].settle(CHANGES[name], plan.effect).state is SettledState.CHANGED

    @every_change
    def test_an_effect_can_be_stored(self, tools: dict[str, Tool], name: str) -> None:
        effect = tools[name].plan(CHANGES[name]).effect
        assert effect is not None
        assert effect.before != effect.after
        assert json.loads(json.dumps([effect.before, effect.after])) == [effect.before, effect.after]

    def test_a_move_cut_off_in_the_middle_is_not_done_and_can_be_completed(
        self, tools: dict[str, Tool], workspace: Path
    ) -> None:
        args = {"source": "notes.txt", "destination": "sub/moved.txt"}
        plan = tools["file_move"].plan(args)
        assert plan.effect is not None
        os.link(workspace / "notes.txt", workspace / "sub/moved.txt")
        assert tools["file_move"].settle(args, plan.effect) == Settled(SettledState.NOT_DONE)
        assert tools["file_move"].plan(args) == plan
        run(tools["file_move"], args, plan)
        assert (workspace / "sub/moved.txt").read_text() == "one\ntwo\n"
        assert not (workspace / "notes.txt").exists()

    def test_a_new_file_in_a_new_folder(self, tools: dict[str, Tool], workspace: Path) -> None:
        args = {"path": "a/b.txt", "content": "x"}
        plan = tools["file_write"].plan(args)
        assert plan.effect is not None
        assert tools["file_write"].settle(args, plan.effect).state is SettledState.NOT_DONE
        (workspace / "a").mkdir()
        assert tools["file_write"].settle(args, plan.effect).state is SettledState.NOT_DONE
        run(tools["file_write"], args, plan)
        assert tools["file_write"].settle(args, plan.effect).state is SettledState.DONE


@pytest.mark.parametrize("turns", [1, 3, 10, 50])
def test_a_cancelled_effect_is_whole_or_not_at_all(tools: dict[str, Tool], workspace: Path, turns: int) -> None:
    """Whether it happened is known when the cancelled call ends: nothing follows."""

    async def cancelled() -> bool:
        plan = tools["file_write"].plan(CHANGES["file_write"])
        task = asyncio.create_task(tools["file_write"].run(CHANGES["file_write"], plan))
        for _ in range(turns):
            await asyncio.sleep(0)
        happened = task.done()
        task.cancel()
        await asyncio.wait({task})
        return happened

    happened = asyncio.run(cancelled())
    found = (workspace / "notes.txt").read_text()
    assert found in (("new\n",) if happened else ("one\ntwo\n", "new\n"))
    for thread in threading.enumerate():
        if thread.name == "file_write":
            thread.join(30)
    assert (workspace / "notes.txt").read_text() == found
