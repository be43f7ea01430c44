"""A yes to a call of a custom tool covers the files that the tool declares, as they were when the call was shown."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_md.executions.states import CallOutcome
from tests.support.driving import Sink, Workspace, call, turn
from tests.support.sandboxes import need_sandbox

TOOL = """
@tool
@tool_options(requires_approval=True, covers=["script", "config/*", "./Makefile"])
def run_script(script: str) -> str:
    "Runs a script."
    return "ran " + (context().workspace / script).read_text()
"""
SETTINGS = "tools: [kit]"


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path / "ws")
    workspace.tools(TOOL)
    workspace.agent(SETTINGS)
    workspace.write("deploy.sh", "echo one")
    workspace.write("config/site/a.ini", "a = 1")
    yield workspace
    workspace.close()


@pytest.fixture
def asked(work: Workspace) -> Workspace:
    work.script(turn(call("run_script", script="deploy.sh")), "Done.")
    work.start()
    return work


def test_the_request_names_what_is_covered(asked: Workspace) -> None:
    request = asked.the_request()
    assert [file.path for file in request.covered] == ["./Makefile", "config/site/a.ini", "deploy.sh"]
    assert request.covered[0].state == "absent"
    assert request.preview is not None
    assert request.preview.resolved == "./Makefile, config/site/a.ini, deploy.sh"
    assert request.offer is None, "a grant would be for content that nobody has seen"
    asked.answer(request, {"approved": True})
    asked.check_succeeded()
    assert asked.results_seen() == ["ran echo one"]


CHANGES: dict[str, tuple[Callable[[Workspace], object], str]] = {
    "argument": (lambda work: work.write("deploy.sh", "echo two"), "deploy.sh was changed"),
    "glob": (lambda work: work.write("config/site/a.ini", "a = 2"), "config/site/a.ini was changed"),
    "new": (lambda work: work.write("config/new", "b"), "config/new was added"),
    "path": (lambda work: work.write("Makefile", "all:"), "./Makefile was added"),
    "gone": (lambda work: (work.folder / "config/site/a.ini").unlink(), "config/site/a.ini was removed"),
    "source": (lambda work: work.tools(TOOL.replace("ran ", "did run ")), "its source was changed"),
}


@pytest.mark.parametrize("when", ["before the answer", "after the answer"])
@pytest.mark.parametrize("change", CHANGES)
def test_what_was_changed_since_does_not_run(asked: Workspace, change: str, when: str) -> None:
    alter, said = CHANGES[change]
    first = asked.the_request()
    if when == "after the answer":
        asked.record(first, {"approved": True})
    alter(asked)
    asked.restart()
    if when == "before the answer":
        asked.record(first, {"approved": True})
    asked.go_on()
    again = asked.the_request()
    assert again.id != first.id
    assert f"({said} since this was approved)" in again.message
    assert asked.results_seen() == []
    asked.answer(again, {"approved": True})
    asked.check_succeeded()


def test_an_unguarded_edit_in_the_same_message(work: Workspace) -> None:
    work.agent(f"{SETTINGS}\nauto_approve: [file_edit]")
    edit = call("file_edit", path="deploy.sh", old_text="one", new_text="evil")
    work.script(turn(call("run_script", script="deploy.sh"), edit), "Done.")
    work.start()
    work.answer(work.the_request(), {"approved": True})
    assert "deploy.sh was changed since this was approved" in work.the_request().message
    work.answer(work.the_request(), {"approved": False})
    work.check_succeeded()
    assert work.results_seen() == ["Action denied by user", "File edited: deploy.sh"]


def test_the_answer_is_there_before_the_edit_has_begun(work: Workspace) -> None:
    """Both calls may start: the one that the answer is for runs alone, on what was shown, or asks anew."""
    work.script(
        turn(
            call("run_script", script="deploy.sh"),
            call("file_edit", path="deploy.sh", old_text="one", new_text="evil"),
        ),
        "Done.",
    )

    def answer() -> None:
        for request in work.open_requests():
            if request.occurrence == 0:
                work.record(request, {"approved": True})

    work.start(sink=Sink(answer))
    if work.open_requests():
        work.answer(work.the_request(), {"approved": False})
    work.check_succeeded()
    assert work.results_seen()[0] in ("ran echo one", "Action denied by user")


@pytest.mark.parametrize("script", ["../secret", "/etc/hostname"])
def test_a_covered_file_anywhere(work: Workspace, script: str) -> None:
    (work.folder.parent / "secret").write_text("x")
    work.script(turn(call("run_script", script=script)), "Done.")
    work.start()
    assert script in [file.path for file in work.the_request().covered]


@pytest.mark.parametrize(
    ("script", "said"),
    [("config", "is no file"), ("~/x", "is not a path"), ("fifo", "is no file")],
)
def test_what_cannot_be_covered_is_refused_and_nobody_asked(work: Workspace, script: str, said: str) -> None:
    os.mkfifo(work.folder / "fifo")
    work.script(turn(call("run_script", script=script)), "Done.")
    work.start()
    work.check_succeeded()
    assert work.calls()[0].outcome is CallOutcome.REFUSED
    assert said in work.results_seen()[0]


def test_too_many_files_are_refused(work: Workspace) -> None:
    for number in range(1001):
        work.write(f"config/{number}", "")
    work.script(turn(call("run_script", script="deploy.sh")), "Done.")
    work.start()
    work.check_succeeded()
    assert "more than 1000 files" in work.results_seen()[0]


def test_what_a_sandboxed_tool_declares_counts_too(work: Workspace) -> None:
    need_sandbox()
    work.agent(f"{SETTINGS}\nsandbox: true\ndeny: ['write(no/*)']")
    work.tools(
        TOOL + '\n@tool\n@tool_options(writes="path")\ndef put(path: str) -> str:\n    "Puts."\n    return "put"\n',
    )
    work.script(turn(call("run_script", script="deploy.sh"), call("put", path="no/a"), call("put", path="a")), "Done.")
    work.start()
    assert [file.path for file in work.the_request().covered] == ["./Makefile", "config/site/a.ini", "deploy.sh"]
    work.write("deploy.sh", "echo two")
    work.answer()
    assert "(deploy.sh was changed since this was approved)" in work.the_request().message
    work.answer()
    work.check_succeeded()
    assert work.results_seen() == ["ran echo two", "Error: put is not allowed by this agent's rules", "put"]
