"""Schedules: what the command shows, what a server does, and what a kill leaves."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agent_md.executions.firings import FiringState
from agent_md.executions.states import Status, TriggerKind
from tests.support.agent_folder import AgentFolder, call
from tests.support.cron_oracle import fires_between
from tests.support.server import Server
from tests.support.waiting import until


def scheduled(folder: AgentFolder, trigger: str, *more: str, name: str = "tidy") -> None:
    folder.agent(name, [{"text": "Done."}], "\n".join([f"trigger: {{type: schedule, {trigger}}}", *more]))


def shown(folder: AgentFolder, *options: str) -> list[dict[str, str]]:
    ended = folder.cli("schedule", *options, "--json")
    assert ended.code == 0
    found: list[dict[str, str]] = json.loads(ended.out)
    return found


def firings(folder: AgentFolder) -> list[Any]:
    with folder.store() as store:
        return store.firings.listed()[::-1]


def test_the_fires_of_the_command_are_those_of_the_oracle(folder: AgentFolder) -> None:
    scheduled(folder, 'cron: "30 2 * * *", timezone: Europe/Berlin', name="night")
    scheduled(folder, 'cron: "*/20 1-2 * * sun", timezone: Australia/Lord_Howe', name="often")
    begin = datetime(2026, 3, 27, tzinfo=UTC)
    found = shown(folder, "--from", "2026-03-26T23:59:59+00:00", "-n", "200")
    assert [fire["at"] for fire in found] == sorted(
        (fire["at"] for fire in found), key=lambda at: datetime.fromisoformat(at)
    )
    for name, expression, zone in (
        ("night", "30 2 * * *", "Europe/Berlin"),
        ("often", "*/20 1-2 * * sun", "Australia/Lord_Howe"),
    ):
        mine = [datetime.fromisoformat(fire["at"]) for fire in found if fire["agent"] == name]
        end = begin + timedelta(days=12)
        assert [at for at in mine if at < end] == fires_between(expression, zone, begin, end)
    assert {fire["at"][-6:] for fire in found if fire["agent"] == "night"} == {"+01:00", "+02:00"}
    assert shown(folder, "Night", "-n", "1", "--from", "2026-03-29T00:00+01:00") == [
        {"agent": "night", "at": "2026-03-29T03:00:00+02:00"}
    ]
    assert not (folder.path / ".agentmd").exists()


def test_what_the_command_says_to_people(folder: AgentFolder) -> None:
    assert folder.cli("schedule").out == "No agent has a schedule.\n"
    scheduled(folder, 'cron: "0 8 * * *", timezone: UTC')
    scheduled(folder, "every: 2h", "enabled: false", name="idle")
    ended = folder.cli("schedule", "-n", "5", "--from", "2026-06-01T00:00Z")
    assert "2026-06-01T08:00:00+00:00  tidy" in ended.out
    assert "disabled: it will be skipped" in ended.out
    assert "the intervals of idle count from when a server first sees them" in ended.err
    assert folder.cli("schedule", "nobody").code == 2
    refused = folder.cli("schedule", "--from", "yesterday")
    assert (refused.code, "'yesterday' is no time" in refused.err) == (2, True)
    assert folder.cli("schedule", "halt", "tidy").code == 2
    swapped = folder.cli("schedule", "tidy", "pause")
    assert (swapped.code, "write agentmd schedule pause tidy" in swapped.err) == (2, True)


def test_that_no_server_runs_is_said_wherever_coming_times_are_shown(folder: AgentFolder) -> None:
    scheduled(folder, 'cron: "0 8 * * *", timezone: UTC')
    scheduled(folder, "every: 2h", "enabled: false", name="idle")
    said = "no server runs here: the trigger of tidy starts nothing until one does"
    commands = (("schedule",), ("list",), ("validate", "tidy"), ("explain", "tidy"))

    def text(*command: str) -> str:
        ended = folder.cli(*command)
        return " ".join((ended.out + ended.err).split())

    for command in commands:
        assert said in text(*command)
    assert said not in text("explain", "idle")
    assert said in folder.cli("list").err
    with Server(folder.path):
        for command in commands:
            assert "no server runs here" not in text(*command)


def test_what_was_skipped_is_shown_with_its_reason_and_a_pause_of_all_is_not_ended_by_one(folder: AgentFolder) -> None:
    scheduled(folder, "every: 1s")
    assert folder.cli("schedule", "--skipped").out == "Nothing was skipped.\n"
    for pause in (("pause",), ("pause", "tidy")):
        assert folder.cli("schedule", *pause).code == 0
    with Server(folder.path):
        until(lambda: firings(folder))
        until(lambda: "skipped" in (folder.path / ".agentmd/agentmd.log").read_text())
    text = " ".join(folder.cli("schedule", "tidy", "--skipped", "-n", "1").out.split())
    assert text.startswith("Due Agent Trigger Skipped because")
    assert "tidy schedule paused" in text
    (found,) = shown(folder, "--skipped", "-n", "1")
    assert (found["agent_name"], found["state"]) == ("tidy", "skipped")
    log = (folder.path / ".agentmd/agentmd.log").read_text()
    assert re.search(r"schedule of tidy, due at \d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00: skipped", log)
    assert folder.cli("schedule", "--skipped", "--from", "2026-01-01").code == 2
    assert folder.cli("schedule", "resume", "tidy").out.startswith(
        "The pause of tidy is ended, but all triggers are still paused, by cli:"
    )
    assert folder.cli("schedule", "resume").out == "All triggers are not paused any more.\n"


def test_a_server_runs_it_and_says_when_it_comes_next(folder: AgentFolder) -> None:
    scheduled(folder, "every: 1s")
    with Server(folder.path) as server:
        until(lambda: len([f for f in firings(folder) if f.state is FiringState.STARTED]) >= 3)
        (job,) = server.client.get("/scheduler").body["jobs"]
        assert (job["agent_name"], job["trigger_type"]) == ("tidy", "schedule")
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", job["next_run"])
        assert server.client.get("/agents/tidy").body["next_run"] is not None
        assert json.loads(folder.cli("list", "--json").out)["agents"][0]["next_run"] is not None
        entry = server.client.get("/firings?state=started&limit=1").body[0]
        assert server.client.get(f"/executions/{entry['execution_id']}").body["trigger"] == "schedule"
        assert server.client.get("/info").body["scheduler_status"] == "running"
        coming = server.client.get("/schedule?agent=tidy&n=2").body
        assert [fire["agent"] for fire in coming] == ["tidy", "tidy"]
        assert server.client.get("/schedule?from=never").status == 422
    found = firings(folder)
    slots = [firing.due_at for firing in found]
    assert {round(later - earlier, 3) for earlier, later in pairwise(slots)} == {1.0}
    assert {execution.trigger for execution in executions(folder)} == {TriggerKind.SCHEDULE}


def executions(folder: AgentFolder) -> list[Any]:
    with folder.store() as store:
        return store.executions()


def test_a_pause_holds_over_a_restart(folder: AgentFolder) -> None:
    scheduled(folder, "every: 1s")
    assert folder.cli("schedule", "pause", "Tidy").out.startswith("The triggers of tidy are paused.")
    with Server(folder.path) as server:
        until(lambda: firings(folder))
        server.kill()
    with Server(folder.path) as server:
        assert server.client.get("/scheduler").body["jobs"][0]["next_run"] is None
        assert "paused by cli:" in folder.cli("schedule").out
        before = len(firings(folder))
        until(lambda: len(firings(folder)) > before)
        assert executions(folder) == []
        assert folder.cli("schedule", "resume").code == 0
        until(lambda: executions(folder))
        assert server.client.post("/scheduler/pause").body["status"] == "paused"
        assert server.client.post("/scheduler/resume", {"agent": "tidy"}).body["status"] == "paused"
        assert server.client.post("/scheduler/resume").body["status"] == "running"
        assert server.client.post("/scheduler/pause", {"agnt": "tidy"}).status == 422
    assert any((firing.reason or "").startswith("paused by cli:") for firing in firings(folder))


def test_a_tick_waits_for_nobody_an_answer_lets_the_next_one_run_and_in_parallel_they_pile_up(
    folder: AgentFolder,
) -> None:
    turns = [{"calls": [call("file_delete", path="a.txt")]}, {"text": "Done."}]
    folder.agent("cleaner", turns, "trigger: {type: schedule, every: 2s}")
    folder.agent("eager", turns, "trigger: {type: schedule, every: 1s}\non_pending: parallel")
    folder.file("a.txt")
    with Server(folder.path) as server:

        def runs(agent: str) -> list[Any]:
            return [found for found in executions(folder) if found.agent == agent]

        until(lambda: runs("cleaner") and any("waiting: " in (firing.reason or "") for firing in firings(folder)))
        (first,) = runs("cleaner")
        assert first.status is Status.WAITING
        skipped = [firing.reason for firing in firings(folder) if firing.reason is not None]
        assert set(skipped) == {f"waiting: execution {first.id} waits for a human"}
        answered = server.client.post(f"/executions/{first.id}/respond", {"response": {"approved": True}})
        assert answered.status == 200
        until(lambda: len(runs("cleaner")) >= 2 and len(runs("eager")) >= 3)
        assert not (folder.path / "a.txt").exists()
        waiting = [found.id for found in runs("eager") if found.status is Status.WAITING]
        asked = {entry["execution_id"] for entry in server.client.get("/pending").body}
        assert len(waiting) >= 2
        assert set(waiting) <= asked


@pytest.mark.parametrize("turn", range(2))
def test_killed_and_restarted_each_slot_is_one_execution_or_says_why_not(folder: AgentFolder, turn: int) -> None:
    scheduled(folder, "every: 1s, catch_up: all", "on_pending: parallel")
    for _ in range(2):
        with Server(folder.path) as server:
            begun = len(executions(folder))
            until(lambda begun=begun: len(executions(folder)) > begun)  # type: ignore[misc]
            _ = server.kill() if turn else server.stop()
    found = firings(folder)
    assert len({firing.key for firing in found}) == len(found)
    started = [firing.execution_id for firing in found if firing.state is FiringState.STARTED]
    assert sorted(started) == sorted(execution.id for execution in executions(folder))
    assert len(set(started)) == len(started)
    first = found[0].due_at
    assert sorted(firing.due_at for firing in found) == [first + n for n in range(len(found))]


def test_validate_shows_the_next_five(folder: AgentFolder) -> None:
    scheduled(folder, 'cron: "0 8 * * *", timezone: Europe/Berlin')
    ended = folder.cli("validate", "tidy")
    assert ended.code == 0
    assert len(re.findall(r"T08:00:00\+0[12]:00", ended.out)) == 5
    assert len(json.loads(folder.cli("validate", "--json").out)[0]["fires"]) == 5


def test_a_broken_schedule_is_told_with_its_line(folder: AgentFolder) -> None:
    scheduled(folder, 'cron: "0 25 * * *"')
    assert folder.cli("schedule", "tidy").code == 2
    assert folder.cli("validate").code == 1
    assert Path(folder.path / "agents/tidy.md").exists()


def test_what_fires_what_is_held_and_what_was_skipped_is_shown_everywhere(folder: AgentFolder) -> None:
    folder.agent(
        "cleaner",
        [{"calls": [call("file_delete", path="a.txt")]}, {"text": "Done."}],
        "trigger: {type: schedule, every: 1s}",
    )
    folder.agent("sorter", [{"text": "Done."}], "trigger: {type: watch, paths: [in], catch_up: skip}")
    folder.agent("broken", [], "trigger: {type: watch, paths: [in]}")
    folder.agent("plain", [{"text": "Done."}])
    (folder.path / "agents/_config/scripts/broken.yaml").unlink()
    folder.file("a.txt")
    explained = " ".join(folder.cli("explain", "cleaner").out.split())
    assert re.search(r"Next fires (\S+T\S+, ){2}\S+T\S+ Skipped a fire is skipped while an execution waits", explained)
    watched = " ".join(folder.cli("explain", "sorter").out.split())
    assert "those made while no server ran are not told (catch_up: skip)" in watched
    assert "Skipped" not in folder.cli("explain", "plain").out
    waits = "its fires are skipped while execution 1 waits for an answer (agentmd respond 1)"
    with Server(folder.path) as server:
        until(lambda: any("waiting: execution 1" in (firing.reason or "") for firing in firings(folder)))
        assert folder.cli("schedule", "pause", "sorter").code == 0
        status = folder.cli("status").out
        skipped = r"the last fire was skipped, [\d-]+ [\d:]+: waiting: execution 1 waits for a human\n"
        assert re.search(rf"cleaner starts by itself: every 1s, next at \S+; {re.escape(waits)}\n  {skipped}", status)
        assert re.search(r"sorter starts by itself: watch in; paused by cli:\S+\n", status)
        assert "broken starts by itself: watch in\n  it cannot run: there is no script " in status
        jobs = {job["agent_name"]: job for job in json.loads(folder.cli("status", "--json").out)["jobs"]}
        assert jobs.keys() == {job["agent_name"] for job in server.client.get("/scheduler").body["jobs"]}
        assert jobs["cleaner"]["waiting"] == [1]
        assert jobs["cleaner"]["last_skipped"]["reason"] == "waiting: execution 1 waits for a human"
        assert jobs["sorter"]["paused_by"].startswith("cli:")
        assert waits in " ".join(folder.cli("explain", "cleaner").out.split())
        state = json.loads(folder.cli("explain", "cleaner", "--json").out)["trigger_state"]
        assert state["waiting"] == [1]
        listed = json.loads(folder.cli("list", "--json").out)
        assert f"cleaner: {waits}" in listed["notes"]
        assert f"cleaner: {waits}\n" in folder.cli("list").err
    idle = "no server runs here: the triggers of broken, cleaner, sorter start nothing until one does"
    listing = folder.cli("list", "--json")
    assert idle in json.loads(listing.out)["notes"][-1]
    coming = folder.cli("schedule", "--json", "-n", "1")
    assert [fire["agent"] for fire in json.loads(coming.out)] == ["cleaner"]
    assert "no server runs here: the trigger of cleaner starts nothing until one does" in coming.err
