from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_md.agents.spec import PathMount
from agent_md.errors import ToolError
from agent_md.tools.diffs import content_diff
from agent_md.tools.pinned_path import open_pinned
from tests.support.file_sandbox import FORBIDDEN_FILES, make_workspace, sandbox_on

NAMES = ["notes.txt", "sub", "out", "ws", "ws-secret", "key.txt", "agents", "cleaner.md", "_config", ".env", "data"]
PARTS = st.one_of(
    st.sampled_from([*NAMES, "runs.db", "runs.db-wal", ".agentmd", "..", ".", "", "~", "link0", "link1", "link2"]),
    st.sampled_from(NAMES).map(str.upper),
    st.text(max_size=4),
)
PATHS = st.builds("{}{}".format, st.sampled_from(["", "/", "./", "../"]), st.lists(PARTS, max_size=6).map("/".join))
TARGETS = st.lists(PARTS.filter(lambda part: "\0" not in part and _encodes(part)), min_size=1, max_size=4).map("/".join)


def _encodes(text: str) -> bool:
    try:
        return bool(text.encode())
    except UnicodeEncodeError:
        return False


@contextmanager
def workspace_with_links(targets: list[str]) -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp()).resolve()
    try:
        workspace = make_workspace(folder)
        for number, target in enumerate(targets):
            if target:
                os.symlink(target, workspace / f"link{number}")
        yield workspace
    finally:
        shutil.rmtree(folder)


def secrets_of(workspace: Path) -> set[Path]:
    beside = {workspace.parent / "outside.txt", workspace.parent / "ws-secret" / "key.txt"}
    return {*(workspace / name for name in FORBIDDEN_FILES), *beside}


@settings(max_examples=150, deadline=None)
@given(path=PATHS, links=st.lists(TARGETS, max_size=3), write=st.booleans())
def test_no_path_leads_out_or_to_a_secret(path: str, links: list[str], write: bool) -> None:
    with workspace_with_links(links) as workspace:
        sandbox = sandbox_on(workspace)
        try:
            resolved = sandbox.resolve(path, write)
        except ToolError:
            return
        assert resolved.path.is_relative_to(workspace)
        assert not resolved.path.is_symlink()
        assert os.path.realpath(resolved.path) == str(resolved.path)
        assert not any(resolved.path.exists() and resolved.path.samefile(secret) for secret in secrets_of(workspace))
        assert sandbox.resolve(f"./{resolved.subject}", write).path == resolved.path


@settings(max_examples=60, deadline=None)
@given(path=PATHS, links=st.lists(TARGETS, max_size=3))
def test_with_declared_paths_nothing_else_is_reached(path: str, links: list[str]) -> None:
    with workspace_with_links(links) as workspace:
        sandbox = sandbox_on(workspace, [PathMount("out", "sub"), PathMount("ws", "data", mode="ro")])
        try:
            resolved = sandbox.resolve(path, write=True)
        except ToolError:
            return
        assert resolved.path.is_relative_to(workspace / "sub")
        assert resolved.subject.partition("/")[0] == "out"
        assert sandbox.resolve(resolved.subject, write=True).path == resolved.path


@settings(max_examples=60, deadline=None)
@given(path=PATHS, links=st.lists(TARGETS, max_size=3))
def test_reading_never_shows_a_secret(path: str, links: list[str]) -> None:
    with workspace_with_links(links) as workspace:
        sandbox = sandbox_on(workspace)
        try:
            with open_pinned(sandbox, sandbox.resolve(path, write=False)) as place, place.open() as file:
                assert file.read() != b"secret"
        except ToolError:
            return


LINES = st.lists(st.sampled_from(["a\n", "b\n", "c\r\n", "\n", "d"]), max_size=30).map("".join)


@given(old=LINES, new=LINES)
def test_a_diff_turns_the_old_text_into_the_new(old: str, new: str) -> None:
    diff = content_diff("x", old.encode(), new, len(old.encode()))
    if old == new:
        assert "holds exactly this already" in diff
    else:
        assert _patched(old, diff) == new


def _patched(text: str, diff: str) -> str:
    """What `patch` makes of a text, by the numbers and lines of the diff alone."""
    old = _split(text)
    result: list[str] = []
    position = 0
    marked = _split(diff.replace("\n\\ No newline at end of file\n", "\x00"))
    for line in (piece for whole in marked[2:] for piece in _unmarked(whole)):
        if line.startswith("@@"):
            start, _, length = line.split()[1][1:].partition(",")
            begin = int(start) - (0 if length == "0" else 1)
            result += old[position:begin]
            position = begin
        elif line.startswith("+"):
            result.append(line[1:])
        else:
            assert old[position] == line[1:]
            position += 1
            if line.startswith(" "):
                result.append(line[1:])
    return "".join(result + old[position:])


def _unmarked(line: str) -> list[str]:
    pieces = line.split("\x00")
    return [*pieces[:-1], *([pieces[-1]] if pieces[-1] else [])]


def _split(text: str) -> list[str]:
    parts = text.split("\n")
    return [f"{part}\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])
