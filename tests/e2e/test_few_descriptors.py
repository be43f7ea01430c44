"""With a handful of open files allowed: every failure names the limit, none blames the owner of a folder or the disk."""

from __future__ import annotations

import itertools
import os
import resource
from collections.abc import Callable

import pytest

from agent_md.executions.states import Status
from tests.support.agent_folder import AgentFolder, call
from tests.support.processes import Finished

MISLEADING = ("who owns", "room on the disk", "no agent", "Traceback", "should not have happened", "disk is full")


def at_most(left: int) -> Callable[[], None]:
    """For `prepare`: so many more files can be opened than now."""

    def prepare() -> None:
        used = {int(name) for name in os.listdir("/proc/self/fd")}
        free = (number for number in itertools.count() if number not in used)
        limit = next(itertools.islice(free, left, None))
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

    return prepare


def check_told(ended: Finished, left: int) -> None:
    assert ended.code in (0, 1, 3), (left, ended)
    assert not any(words in ended.err for words in MISLEADING), (left, ended)
    if ended.code == 1:
        assert "too many open files" in ended.err, (left, ended)
        assert "`ulimit -n 1024`" in ended.err, (left, ended)


@pytest.mark.parametrize("command", ["run", "respond", "pending"])
def test_the_message_names_the_limit(folder: AgentFolder, command: str) -> None:
    folder.agent(
        "worker", [{"calls": [call("ask_user", question="Go on?")]}, {"text": "Done."}], "on_pending: parallel"
    )
    codes = set()
    for number, left in enumerate(range(0, 28, 3), 1):
        if command == "respond":
            folder.begin("worker")
        words = {"run": ["worker"], "respond": [str(number), "--text", "yes"], "pending": []}
        ended = folder.cli(command, *words[command], prepare=at_most(left))
        check_told(ended, left)
        codes.add(ended.code)
    assert codes == {1, 3 if command == "run" else 0}


def test_what_could_not_be_driven_goes_on_later(folder: AgentFolder) -> None:
    folder.agent("worker", [{"calls": [call("ask_user", question="Go on?")]}, {"text": "Done."}])
    folder.begin("worker")
    for left in (6, 14):
        folder.cli("respond", "1", "--text", "yes", prepare=at_most(left))
    if folder.execution().status is not Status.SUCCESS:
        ended = folder.cli("resume", "1")
        assert ended.code in (0, 3), ended
    folder.cli("respond", "1", "--text", "yes")
    assert folder.execution().status is Status.SUCCESS
