"""What was run, said and answered before: filters of `logs`. All on one workspace, which is only read."""

from __future__ import annotations

import json
import time

import pytest

from tests.support.agent_folder import AgentFolder, call
from tests.support.processes import Finished


@pytest.fixture(scope="module")
def past(tmp_path_factory: pytest.TempPathFactory) -> AgentFolder:
    """Execution 1 failed, 2 was denied something and succeeded, 3 still waits; 4 is a turn of a session."""
    folder = AgentFolder(tmp_path_factory.mktemp("past") / "ws")
    folder.file("a.txt")
    broken = {"text": "x", "error": {"kind": "bad_request", "message": "Zeichen ÜBERLAUFEN"}}
    folder.agent("broken", [broken])
    folder.agent("cleaner", [{"calls": [call("file_delete", path="a.txt")]}, {"text": "Done."}], "on_pending: parallel")
    folder.agent("teller", [{"text": "Es war einmal."}])
    assert folder.cli("run", "broken").code == 1
    assert folder.cli("run", "cleaner").code == 3
    assert folder.cli("respond", "2", "--no", "--reason", "50% fehlt noch").code == 0
    assert folder.cli("run", "cleaner", "-m", "Räum auf").code == 3
    assert folder.cli("run", "teller", "--session", "garden").code == 0
    return folder


def found(ended: Finished) -> list[int]:
    assert (ended.code, ended.err) == (0, "")
    return [item["id"] for item in json.loads(ended.out)]


@pytest.mark.parametrize(
    ("filters", "numbers"),
    [
        (["--status", "error"], [1]),
        (["--status", "error", "--status", "success"], [4, 2, 1]),
        (["--status", "waiting", "cleaner"], [3]),
        (["--status", "waiting", "teller"], []),
        (["--grep", "RÄUM"], [3]),
        (["--grep", "überlaufen"], [1]),
        (["--grep", "50% fehlt"], [2]),
        (["--grep", "50% FEHLT", "--status", "error"], []),
        (["--grep", "a.txt", "-n", "1"], [3]),
        (["--grep", ".*"], []),
        (["--grep", "War Einmal"], [4]),
        (["--since", "1h"], [4, 3, 2, 1]),
        (["--since", "0s"], []),
        (["--since", "2100-01-01"], []),
        (["--since", "2001-02-03T04:05+01:00", "--status", "error"], [1]),
    ],
)
def test_logs_are_filtered(past: AgentFolder, filters: list[str], numbers: list[int]) -> None:
    assert found(past.cli("logs", "--json", *filters)) == numbers


def test_logs_with_filters_say_when_nothing_is_left(past: AgentFolder) -> None:
    assert past.cli("logs", "--grep", "nowhere said").out == "No such executions.\n"
    shown = past.cli("logs", "--grep", "räum", "--since", "1d").out
    assert "cleaner" in shown
    assert "broken" not in shown


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--since", "soon"], "'soon' is neither a duration such as 30m, 2h or 7d nor a time such as 2026-03-29T02:30"),
        (["--since", "5"], "is neither a duration"),
        (["--status", "done"], "'done' is not one of 'queued', 'running', 'waiting', 'success', "),
        (["-e", "1", "--grep", "x"], "-e 1 names one execution, and --grep finds them: give one of them"),
        (["-e", "1", "--since", "1h"], "-e 1 names one execution, and --since finds them"),
        (["--refused", "--status", "error"], "--refused are runs that never were, and --status is of executions"),
    ],
)
def test_filters_that_cannot_be(past: AgentFolder, args: list[str], message: str) -> None:
    refused = past.cli("logs", *args)
    assert (refused.code, refused.out) == (2, "")
    assert message in " ".join(refused.err.split())


def test_refused_runs_since_a_time(past: AgentFolder) -> None:
    assert past.cli("logs", "--refused", "--since", str(time.localtime().tm_year)).code == 2
    assert past.cli("logs", "--refused", "--since", "1h").out == "Nothing was refused.\n"
