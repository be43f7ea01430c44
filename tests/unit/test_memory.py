"""The memory tools: sections that stay what they were called, whoever else writes the file."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_md.errors import InvalidArguments, ToolError
from agent_md.executions.requests import CallEffect
from agent_md.tools.base import SettledState, TargetChanged, Tool
from agent_md.tools.file_work import Commit
from agent_md.tools.memory import MemoryFile, memory_notice, memory_tools
from agent_md.tools.memory_text import MemoryText
from agent_md.tools.threads import ToolThreads

NAMES = st.text(min_size=1, max_size=40).map(lambda text: " ".join(text.split())).filter(bool)


def memory_in(folder: Path) -> MemoryFile:
    (folder / "agents").mkdir(exist_ok=True)
    return MemoryFile(folder / "agents", "keeper", folder)


def tools_in(folder: Path) -> dict[str, Tool]:
    return {tool.name: tool for tool in memory_tools(memory_in(folder), ToolThreads())}


def run(folder: Path, name: str, **args: Any) -> str:
    tool = tools_in(folder)[name]
    valid = tool.validate(args)
    return asyncio.run(tool.run(valid, tool.plan(valid)))


def file(folder: Path) -> Path:
    return folder / "agents/keeper.memory.md"


@given(st.dictionaries(NAMES.filter(lambda name: name == name.strip()), st.text(alphabet="a#\\ \n", min_size=1)))
def test_what_is_saved_is_there_however_it_looks(sections: dict[str, str]) -> None:
    text = MemoryText("# Notes of a person\n\nkept\n")
    for name, content in sections.items():
        text.save(name, content)
    again = MemoryText(str(text))
    kept = {name: content.strip("\n") for name, content in sections.items() if content.strip()}
    assert {name: again.section(name) for name in again.names()} == kept
    assert str(again) == str(text)
    assert str(again).startswith("# Notes of a person\n\nkept\n")


def test_sections_are_saved_appended_to_and_given(tmp_path: Path) -> None:
    assert run(tmp_path, "memory_retrieve") == "The memory is empty"
    assert run(tmp_path, "memory_save", section="People", content="Ann: chief") == "Memory saved: People"
    assert run(tmp_path, "memory_append", section="People", content="Bob: cook\n") == "Memory appended: People"
    assert run(tmp_path, "memory_append", section="Facts", content="## not a heading") == "Memory appended: Facts"
    assert run(tmp_path, "memory_retrieve", section="People") == "Ann: chief\nBob: cook"
    assert run(tmp_path, "memory_retrieve", section="Facts") == "## not a heading"
    assert run(tmp_path, "memory_retrieve") == "People\nFacts"
    assert file(tmp_path).read_text() == "## People\n\nAnn: chief\nBob: cook\n\n## Facts\n\n\\## not a heading\n"
    assert run(tmp_path, "memory_save", section="People", content=" ") == "Memory removed: People"
    with pytest.raises(ToolError, match="has no section People; its sections are:\nFacts"):
        run(tmp_path, "memory_retrieve", section="People")


@pytest.mark.parametrize("name", ["$(rm -rf /)", "<b>", "*", "../../x", "`a`", "## x", "[secret]", "ä\u202e"])
def test_a_name_is_text_and_nothing_else(tmp_path: Path, name: str) -> None:
    run(tmp_path, "memory_save", section=name, content="x")
    assert run(tmp_path, "memory_retrieve", section=name) == "x"
    assert os.listdir(tmp_path / "agents") == ["keeper.memory.md"]


@pytest.mark.parametrize("name", ["", " a", "a\nb", "a\r", "x" * 201, "\ud800", "a\u2028b"])
def test_a_name_that_is_no_line_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidArguments, match="section"):
        run(tmp_path, "memory_save", section=name, content="x")
    assert not file(tmp_path).exists()


def test_a_person_may_edit_it_at_any_time(tmp_path: Path) -> None:
    file(tmp_path).parent.mkdir()
    file(tmp_path).write_text("Mine.\n\n## Facts\n- one\n")
    tool = tools_in(tmp_path)["memory_append"]
    args = tool.validate({"section": "Facts", "content": "- three"})
    plan = tool.plan(args)
    file(tmp_path).write_text("Mine, too.\n\n## Facts\n- one\n- two\n")
    asyncio.run(tool.run(args, plan))
    assert file(tmp_path).read_text() == "Mine, too.\n\n## Facts\n\n- one\n- two\n- three\n"


def test_an_edit_between_reading_and_writing_is_not_lost(tmp_path: Path) -> None:
    memory = memory_in(tmp_path)
    text, state = memory.read()
    text.save("A", "tool")
    file(tmp_path).write_text("## B\n\nperson\n")
    with pytest.raises(TargetChanged):
        memory.replace(text, state, Commit())
    assert file(tmp_path).read_text() == "## B\n\nperson\n"


def test_a_save_is_for_the_section_that_was_seen(tmp_path: Path) -> None:
    run(tmp_path, "memory_save", section="A", content="old")
    tool = tools_in(tmp_path)["memory_save"]
    args = tool.validate({"section": "A", "content": "new"})
    plan = tool.plan(args)
    run(tmp_path, "memory_save", section="B", content="other")
    assert tool.plan(args).digest == plan.digest
    run(tmp_path, "memory_append", section="A", content="more")
    assert tool.plan(args).digest != plan.digest
    with pytest.raises(TargetChanged, match="section A was changed"):
        asyncio.run(tool.run(args, plan))
    assert run(tmp_path, "memory_retrieve", section="A") == "old\nmore"


@pytest.mark.parametrize("name", ["memory_save", "memory_append"])
def test_a_call_that_was_cut_off_is_settled_by_a_look(tmp_path: Path, name: str) -> None:
    run(tmp_path, "memory_save", section="A", content="old")
    tool = tools_in(tmp_path)[name]
    args = tool.validate({"section": "A", "content": "new"})
    effect = tool.plan(args).effect
    assert isinstance(effect, CallEffect)
    assert tool.settle(args, effect).state is SettledState.NOT_DONE
    asyncio.run(tool.run(args, tool.plan(args)))
    assert tool.settle(args, effect).state is SettledState.DONE
    run(tmp_path, "memory_save", section="A", content="quite different")
    assert tool.settle(args, effect).state is SettledState.CHANGED


def test_an_append_is_settled_also_where_others_appended(tmp_path: Path) -> None:
    tool = tools_in(tmp_path)["memory_append"]
    args = tool.validate({"section": "A", "content": "mine"})
    effect = tool.plan(args).effect
    assert isinstance(effect, CallEffect)
    run(tmp_path, "memory_append", section="A", content="theirs")
    assert tool.settle(args, effect).state is SettledState.NOT_DONE
    run(tmp_path, "memory_append", section="A", content="mine")
    run(tmp_path, "memory_append", section="A", content="theirs again")
    assert tool.settle(args, effect).state is SettledState.DONE


def append_many(folder: str, who: str) -> None:
    for number in range(20):
        run(Path(folder), "memory_append", section="Shared", content=f"{who}{number}")


def test_two_processes_that_append_at_once_lose_nothing(tmp_path: Path) -> None:
    memory_in(tmp_path)
    context = multiprocessing.get_context("spawn")
    both = [context.Process(target=append_many, args=(str(tmp_path), who)) for who in "ab"]
    for process in both:
        process.start()
    for process in both:
        process.join(120)
        assert process.exitcode == 0
    lines = run(tmp_path, "memory_retrieve", section="Shared").splitlines()
    assert [[line for line in lines if line[0] == who] for who in "ab"] == [
        [f"{who}{number}" for number in range(20)] for who in "ab"
    ]


@pytest.mark.parametrize("content", [b"\xff", b"x" * (1024 * 1024 + 1)])
def test_a_file_that_cannot_be_read_is_left_alone(tmp_path: Path, content: bytes) -> None:
    memory = memory_in(tmp_path)
    file(tmp_path).write_bytes(content)
    assert memory_notice(memory) is None
    with pytest.raises(ToolError, match=r"keeper\.memory\.md is"):
        run(tmp_path, "memory_append", section="A", content="x")
    assert file(tmp_path).read_bytes() == content


def test_a_link_is_not_followed_out_of_the_folder(tmp_path: Path) -> None:
    memory_in(tmp_path)
    (tmp_path / "elsewhere.md").write_text("theirs")
    file(tmp_path).symlink_to(tmp_path / "elsewhere.md")
    with pytest.raises(ToolError):
        run(tmp_path, "memory_save", section="A", content="x")
    assert (tmp_path / "elsewhere.md").read_text() == "theirs"


def test_the_prompt_names_sections_up_to_a_limit(tmp_path: Path) -> None:
    memory = memory_in(tmp_path)
    assert memory_notice(memory) is None
    file(tmp_path).write_text("## People\n\nAnn\n\n## Facts\n")
    assert memory_notice(memory) == "Your memory has these sections: People; Facts"
    file(tmp_path).write_text("".join(f"## {'x' * 150} {number}\n" for number in range(100)))
    notice = memory_notice(memory)
    assert notice is not None
    assert len(notice) < 2200
    assert notice.endswith(", and 87 more")
