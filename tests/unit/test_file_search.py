"""`file_search`: the lines that match, and nothing that the agent may not read without a question."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_md.agents.rules import asks_to_read, decide, hides
from agent_md.agents.spec import AgentSpec, ModelRef, PathMount
from agent_md.errors import InvalidArguments, ToolError
from agent_md.executions.states import Decision
from agent_md.redaction import Redactor
from agent_md.tools.globbing import nothing_hidden
from tests.support.builtins import given_tools
from tests.support.file_sandbox import sandbox_on


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for path, text in {
        "a.txt": "one\nTwo two\nthree\n",
        "src/main.py": "import os\r\nTWO = 2\r\n",
        "src/deep/x.py": "two",
        "secret/key.txt": "two keys\n",
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_bytes(text.encode())
    return tmp_path


def search(folder: Path, pattern: str, *, unread: Callable[[str], bool] = nothing_hidden, **more: object) -> list[str]:
    tools = {tool.name: tool for tool in given_tools(sandbox_on(folder), unread=unread)}
    args = tools["file_search"].validate({"pattern": pattern, **more})
    return asyncio.run(tools["file_search"].run(args, tools["file_search"].plan(args))).splitlines()


def test_lines_come_with_path_and_number_in_the_order_of_names(folder: Path) -> None:
    assert search(folder, "(?i)two") == [
        "a.txt:2: Two two",
        "secret/key.txt:1: two keys",
        "src/main.py:2: TWO = 2",
        "src/deep/x.py:1: two",
    ]


def test_only_in_some_files_and_without_regard_to_case(folder: Path) -> None:
    assert search(folder, "^TWO", files="src/*.py", ignore_case=True) == ["src/main.py:2: TWO = 2"]
    assert search(folder, r"two$", files="**/x.py") == ["src/deep/x.py:1: two"]
    assert search(folder, "nowhere") == ["No line matches nowhere"]


def test_context(folder: Path) -> None:
    (folder / "c.txt").write_text("\n".join("abcdefgh"))
    assert search(folder, "[bg]", files="c.txt", context=1) == [
        *("c.txt:1- a", "c.txt:2: b", "c.txt:3- c"),
        "--",
        *("c.txt:6- f", "c.txt:7: g", "c.txt:8- h"),
    ]


def test_what_git_ignores_is_left_out(folder: Path) -> None:
    (folder / ".gitignore").write_text("src/deep/\n*.txt\n!a.txt\n")
    (folder / "src/.gitignore").write_text("main.py\n")
    assert search(folder, "(?i)two") == ["a.txt:2: Two two"]


def test_what_is_no_text_is_left_out(folder: Path) -> None:
    (folder / "b.bin").write_bytes(b"two\0two")
    (folder / "l.txt").write_bytes(b"two \xff")
    (folder / "link.txt").symlink_to("a.txt")
    assert len(search(folder, "(?i)two")) == 4


def test_a_line_is_shown_up_to_a_length_and_lines_up_to_a_number(folder: Path) -> None:
    (folder / "long.txt").write_text("x" * 5000)
    (folder / "many.txt").write_text("y\n" * 201)
    assert search(folder, "x{10}", files="long.txt") == [f"long.txt:1: {'x' * 500}… [line of 5000 characters]"]
    found = search(folder, "y", files="many.txt")
    assert (len(found), found[199]) == (201, "many.txt:200: y")
    assert found[200].startswith("[More than 200 lines match")


def test_a_large_file_is_named(folder: Path) -> None:
    (folder / "large.txt").write_bytes(b"two\n")
    with (folder / "large.txt").open("r+b") as file:
        file.truncate(400 * 1024**3)
    assert search(folder, "two", files="l*.txt")[-1] == "[Not searched, larger than 16 MiB: large.txt]"


@pytest.mark.parametrize("pattern", ["(a+)+$", "(a|aa)+$", "(.*)*b", "a{0,900}a{0,900}$"])
def test_no_pattern_takes_long(folder: Path, pattern: str) -> None:
    (folder / "hard.txt").write_text("a" * 100_000 + "!")
    begun = time.thread_time()
    search(folder, pattern, files="hard.txt")
    assert time.thread_time() - begun < 5


@pytest.mark.parametrize("pattern", ["(", "(?<=a)b", r"(a)\1", "a" * 1001, "\ud800", "((a{0,999}){0,999}){0,999}"])
def test_a_pattern_that_cannot_be_used_is_told(folder: Path, pattern: str) -> None:
    with pytest.raises(InvalidArguments, match="pattern: "):
        search(folder, pattern)


@pytest.mark.parametrize("files", ["../*", "/etc/*", "~/x", "a\0b", "sub/../../x"])
def test_nothing_outside_is_searched(folder: Path, files: str) -> None:
    with pytest.raises(ToolError, match="is not a path"):
        search(folder, "x", files=files)


def test_only_declared_paths_are_searched(folder: Path) -> None:
    tools = {tool.name: tool for tool in given_tools(sandbox_on(folder, [PathMount("code", "src")]))}
    args = tools["file_search"].validate({"pattern": "(?i)two"})
    found = asyncio.run(tools["file_search"].run(args, tools["file_search"].plan(args))).splitlines()
    assert found == ["code/main.py:2: TWO = 2", "code/deep/x.py:1: two"]


@pytest.mark.parametrize(
    "rules",
    [
        {"deny": ("file_read(secret/*)",)},
        {"confirm": ("file_read(secret/*)",)},
        {"deny": ("read(secret/*)",)},
        {"confirm": ("read(secret/*)",)},
        {"deny": ("file_glob(secret/*)",)},
        {"deny": ("file_search(secret/*)",)},
    ],
)
def test_what_may_not_be_read_or_not_unasked_is_left_out(folder: Path, rules: dict[str, tuple[str, ...]]) -> None:
    spec = AgentSpec("worker", "Work.", ModelRef("script", "worker"), **rules)  # type: ignore[arg-type]
    found = search(folder, "keys", unread=lambda path: asks_to_read(spec, path))
    assert found == [
        "No line matches keys",
        "[1 file was left out: this agent may not read it, or not without a question.]",
    ]


def test_a_rule_over_reads_does_not_ask_for_a_search_that_leaves_its_files_out(folder: Path) -> None:
    tools = {tool.name: tool for tool in given_tools(sandbox_on(folder))}
    tool = tools["file_search"]
    args = tool.validate({"pattern": "x", "files": "secret/*"})
    for rules in ({"confirm": ("read(secret/*)",)}, {"deny": ("read(secret/*)",)}, {"confirm": ("read",)}):
        spec = AgentSpec("worker", "Work.", ModelRef("script", "worker"), **rules)  # type: ignore[arg-type]
        subjects, effects = tool.subjects(args), tool.effects(args)
        verdict = decide(spec, tool.name, args, subjects, requires_approval=False, effects=effects)
        assert verdict.decision is Decision.RUN
        assert asks_to_read(spec, "secret/key.txt")


@pytest.mark.parametrize("name", ["file_glob", "file_search"])
@pytest.mark.parametrize(
    "pattern", ["**", "s*/*", "**/key.txt", "*/key.txt", "secre?/*", "secret/key.txt", "[s]ecret/k*"]
)
def test_another_pattern_dodges_no_rule(folder: Path, name: str, pattern: str) -> None:
    def spec(**rules: tuple[str, ...]) -> AgentSpec:
        return AgentSpec("worker", "Work.", ModelRef("script", "worker"), **rules)  # type: ignore[arg-type]

    asks, denies = spec(confirm=(f"{name}(secret/*)",)), spec(deny=(f"{name}(secret/*)",))
    tools = given_tools(
        sandbox_on(folder),
        lambda path: hides(denies, path),
        unread=lambda path: asks_to_read(denies, path),
    )
    tool = next(tool for tool in tools if tool.name == name)
    args = tool.validate({"pattern": pattern} if name == "file_glob" else {"pattern": "keys", "files": pattern})
    subjects, effects = tool.subjects(args), tool.effects(args)
    verdict = decide(asks, name, args, subjects, requires_approval=False, effects=effects)
    assert verdict.decision is Decision.ASK
    if decide(denies, name, args, subjects, requires_approval=False, effects=effects).decision is Decision.RUN:
        found = asyncio.run(tool.run(args, tool.plan(args)))
        assert "key.txt" not in found.replace(pattern, "")


def test_a_secret_is_taken_out_before_a_line_is_cut(folder: Path) -> None:
    (folder / "cut.txt").write_text("A" * 490 + "canary-abcdefgh-1234567")
    redact = Redactor({"CANARY_TOKEN": "canary-abcdefgh-1234567"}).text
    tools = given_tools(sandbox_on(folder), redact=lambda: redact)
    tool = next(tool for tool in tools if tool.name == "file_search")
    args = tool.validate({"pattern": "AAA", "files": "cut.txt"})
    assert "canary" not in asyncio.run(tool.run(args, tool.plan(args)))
