"""The limit of the day of a whole workspace, as clients of a server meet it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.agent_folder import AgentFolder
from tests.support.server import Server, run, wait_for
from tests.support.waiting import until

CENTS_10 = [{"text": "Done.", "usage": {"input": 3, "cost": 0.1}}]
SPENT = "max_cost_usd_per_day of the workspace is $0.1, and $0.1 are spent today"


def test_a_run_over_it_is_refused_until_the_limit_is_raised(tmp_path: Path) -> None:
    folder = AgentFolder(tmp_path / "ws")
    folder.file("config.yaml", "max_cost_usd_per_day: 0.1\n")
    for name in ("one", "two"):
        folder.agent(name, CENTS_10)
    with Server(folder.path) as server:
        assert wait_for(server.client, run(server.client, agent="one"), "success")["cost_usd"] == pytest.approx(0.1)
        refused = server.client.post("/agents/two/run")
        assert (refused.status, refused.body) == (409, {"detail": f"two was not started: {SPENT}"})
        (kept,) = server.client.get("/refusals").body
        assert (kept["kind"], kept["agent_id"], kept["trigger"]) == ("budget", "two", "api")
        log = (folder.path / ".agentmd/agentmd.log").read_text()
        assert log.count(f"{SPENT} (100%)") == 1

        folder.file("config.yaml", "max_cost_usd_per_day: 0.2\n")
        until(lambda: server.client.post("/agents/two/run").status == 200)
        (newest, *_) = server.client.get("/executions").body
        wait_for(server.client, newest["id"], "success")
    shown = folder.cli("logs", "--cost", "--by", "agent").out.splitlines()
    assert [line.split()[0] for line in shown[2:5]] == ["one", "two", "Total"]
    assert shown[5] == "Today: $0.2000 of $0.2 (max_cost_usd_per_day of the workspace)"
