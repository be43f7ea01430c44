"""The limit of a day holds however many executions run at once; what it refuses is refused at once, and logged."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from agent_md.errors import BudgetSpent
from agent_md.executions.execution import Execution
from agent_md.executions.spending import RefusalKind
from agent_md.executions.states import Status
from tests.support.agent_folder import AgentFolder, call
from tests.support.driving import Workspace
from tests.support.many_executions import age
from tests.support.processes import preload
from tests.support.provider_server import calling, containing
from tests.support.providers import KEY, KEYS, provider_server
from tests.support.waiting import until

CENTS_10 = {"text": "Done.", "usage": {"input": 3, "cost": 0.1}}


def together(work: Workspace, count: int) -> list[Execution]:
    """So many executions at once, in one process."""
    claims = [work.create() for _ in range(count)]

    async def drive() -> list[Execution]:
        return list(await asyncio.gather(*(work.advance(claim) for claim in claims)))

    return asyncio.run(drive())


def check_within(ended: list[Execution], limit: float, successes: int) -> None:
    assert sum(execution.usage.cost_usd or 0 for execution in ended) <= limit + 1e-9
    assert [execution.status for execution in ended].count(Status.SUCCESS) == successes
    for execution in ended:
        assert execution.status is Status.SUCCESS or "max_cost_usd_per_day is $" in (execution.error or "")


def test_eight_at_once_do_not_spend_more_than_the_limit(tmp_path: Path) -> None:
    work = Workspace(tmp_path / "ws")
    work.agent("settings: {max_cost_usd_per_day: 0.25}")
    work.script({**CENTS_10, "delay": "100ms"})
    ended = together(work, 8)
    check_within(ended, 0.25, successes=2)
    errors = {execution.error for execution in ended} - {None}
    assert errors == {"max_cost_usd_per_day is $0.25, $0.2 are spent today, and the next call may cost $0.1"}
    work.close()


def test_processes_at_once_do_not_either(folder: AgentFolder) -> None:
    folder.agent("worker", [{**CENTS_10, "delay": "100ms"}], "settings: {max_cost_usd_per_day: 0.25}")
    running = [folder.cli.start("run", "worker") for _ in range(4)]
    codes = sorted(process.wait().code for process in running)
    assert codes[:2] == [0, 0]
    assert set(codes[2:]) <= {2, 4}  # refused at once, or aborted while others had begun
    with folder.store() as store:
        assert store.spent(0.0, "worker") == pytest.approx(0.2)


def test_agents_in_processes_at_once_keep_the_limit_of_the_workspace(folder: AgentFolder) -> None:
    folder.file("config.yaml", "max_cost_usd_per_day: 0.25\n")
    for name in ("one", "two"):
        folder.agent(name, [{**CENTS_10, "delay": "100ms"}])
    running = [folder.cli.start("run", name) for name in ("one", "two") * 2]
    ended = [process.wait() for process in running]
    codes = sorted(process.code for process in ended)
    assert codes[:2] == [0, 0]
    assert set(codes[2:]) <= {2, 4}
    why = "max_cost_usd_per_day of the workspace is $0.25, $0.2 are spent today, and the next call may cost $0.1"
    said = [" ".join((process.out + process.err).split()) for process in ended if process.code]
    assert all(why in text for text in said), said
    with folder.store() as store:
        assert store.spent(0.0) == pytest.approx(0.2)
    log = (folder.path / ".agentmd/agentmd.log").read_text()
    told = [line for line in log.splitlines() if "max_cost_usd_per_day" in line]
    assert len(told) == 1
    assert "WARNING" in told[0]
    assert "max_cost_usd_per_day of the workspace is $0.25, and $0.2 are spent today (80%)" in told[0]


@pytest.mark.parametrize("settings", ["", ", max_tokens: 100"])
def test_a_real_client_with_a_price_but_no_turn_before_keeps_the_limit_too(tmp_path: Path, settings: str) -> None:
    """The server counts far more tokens than anybody could tell from the prompt."""
    folder = tmp_path / "ws"
    folder.mkdir()
    (folder / "config.yaml").write_text("prices: prices.yaml\n")
    (folder / "prices.yaml").write_text("prices: {openai/some-model: {input: 1, output: 1000}}\n")
    with provider_server("openai", [containing("Done.", input_tokens=1, output_tokens=100)]) as server:
        work = Workspace(folder, environ={KEYS["openai"]: KEY})
        work.agent(
            f"settings: {{max_cost_usd_per_day: 0.25{settings}}}",
            model=f"{{provider: openai, name: some-model, base_url: '{server.url}'}}",
        )
        ended = together(work, 8)
        assert len(server.requests) == 2
        work.close()
    assert [execution.status for execution in ended].count(Status.SUCCESS) == 2


@pytest.fixture
def folder(tmp_path: Path) -> AgentFolder:
    preload()
    return AgentFolder(tmp_path / "ws")


@pytest.mark.parametrize("whose", ["agent", "workspace"])
def test_money_held_by_a_process_that_died_is_free_again(folder: AgentFolder, whose: str) -> None:
    settings = ""
    if whose == "agent":
        settings = "settings: {max_cost_usd_per_day: 0.15}"
    else:
        folder.file("config.yaml", "max_cost_usd_per_day: 0.15\n")
    folder.agent("worker", [{**CENTS_10, "delay": "60s"}], settings)
    running = folder.cli.start("run", "worker")
    until(lambda: held(folder) == 1)
    running.kill()
    running.wait()
    folder.agent("worker", [CENTS_10], settings)
    assert folder.cli("run", "worker").code == 0
    assert held(folder) == 0


def held(folder: AgentFolder) -> int:
    """For how many calls money is held."""
    with (
        suppress(sqlite3.OperationalError),
        closing(sqlite3.connect(f"file:{folder.path}/.agentmd/agentmd.db?mode=ro", uri=True)) as store,
    ):
        return int(store.execute("SELECT count(*) FROM reservations").fetchone()[0])
    return 0


class TestCosts:
    @pytest.fixture
    def paid(self, folder: AgentFolder) -> AgentFolder:
        folder.file("config.yaml", "max_cost_usd_per_day: 0.5\nretention: {executions_days: 1}\n")
        for name in ("one", "two"):
            folder.agent(name, [CENTS_10], "history: off\nsettings: {max_cost_usd_per_day: 0.35}")
        for name in ("one", "one", "one", "two"):
            assert folder.cli("run", name).code == 0
        return folder

    def costs(self, folder: AgentFolder, *args: str) -> dict[str, Any]:
        shown: dict[str, Any] = json.loads(folder.cli("logs", "--cost", "--json", *args).out)
        return shown

    def test_by_day_agent_and_model(self, paid: AgentFolder) -> None:
        day = time.strftime("%Y-%m-%d")
        by_day = self.costs(paid)
        assert [(row["day"], row["calls"], row["cost_usd"]) for row in by_day["costs"]] == [
            (day, 4, pytest.approx(0.4))
        ]
        by_agent = self.costs(paid, "--by", "agent", "-n", "1")
        assert [(row["agent"], row["cost_usd"]) for row in by_agent["costs"]] == [("one", pytest.approx(0.3))]
        assert by_agent["total"] == {
            **by_day["total"],
            "cost_usd": pytest.approx(0.4),
            "known_cost_usd": pytest.approx(0.4),
        }
        models = self.costs(paid, "two", "--by", "model")
        assert [(row["model"], row["cost_usd"]) for row in models["costs"]] == [("script/two", 0.1)]
        assert models["limits"] == [
            {"scope": "agent", "limit_usd": 0.35, "spent_usd": 0.1},
            {"scope": "workspace", "limit_usd": 0.5, "spent_usd": pytest.approx(0.4)},
        ]
        assert self.costs(paid, "--since", "1h")["total"]["calls"] == 4
        assert self.costs(paid, "--since", "2999-01-01T00:00Z")["costs"] == []
        shown = paid.cli("logs", "--cost", "one").out
        assert "Today: $0.3000 of $0.35 (max_cost_usd_per_day of the agent)" in shown
        assert "Today: $0.4000 of $0.5 (max_cost_usd_per_day of the workspace)" in shown

    def test_of_executions_that_were_removed_stay(self, paid: AgentFolder) -> None:
        before = self.costs(paid, "--by", "agent")
        age(paid.path / ".agentmd", 3)
        with paid.store() as store:
            removed, _ = store.retention.remove_some(store.retention.removable(time.time() - 86_400))
        assert removed == [2]
        assert self.costs(paid, "--by", "agent") == before

    @pytest.mark.parametrize(
        "args",
        [
            ("--by", "day"),
            ("--cost", "-e", "1"),
            ("--cost", "--refused"),
            ("--cost", "--unknown"),
            ("--cost", "-f"),
            ("--cost", "--status", "error"),
            ("--cost", "--grep", "x"),
        ],
    )
    def test_are_of_one_kind(self, folder: AgentFolder, args: tuple[str, ...]) -> None:
        refused = folder.cli("logs", *args)
        assert refused.code == 2
        assert "--cost" in refused.err

    def test_are_none_at_first(self, folder: AgentFolder) -> None:
        assert folder.cli("logs", "--cost").out == "No model was asked yet.\n"
        assert not (folder.path / ".agentmd").exists()


class TestARefusedRun:
    @pytest.fixture
    def spent(self, folder: AgentFolder) -> AgentFolder:
        folder.agent("worker", [CENTS_10], "settings: {max_cost_usd_per_day: 0.1}")
        assert folder.cli("run", "worker").code == 0
        return folder

    def test_for_the_budget_ends_with_2_and_is_logged(self, spent: AgentFolder) -> None:
        why = "worker was not started: max_cost_usd_per_day is $0.1, and $0.1 are spent today"
        refused = spent.cli("run", "worker")
        assert (refused.code, refused.out) == (2, "")
        assert why in refused.err
        logs = spent.cli("logs").out
        assert "Refused, and not run (all: agentmd logs --refused):" in logs
        assert why in spent.cli("logs", "--refused").out
        (shape,) = json.loads(spent.cli("logs", "--refused", "--json").out)
        assert (shape["kind"], shape["agent_id"], shape["trigger"], shape["reason"]) == (
            "budget",
            "worker",
            "manual",
            why,
        )
        assert len(json.loads(spent.cli("logs", "--json").out)) == 1

    def test_because_its_conversation_waits_is_logged(self, folder: AgentFolder) -> None:
        folder.agent("cleaner", [{"calls": [call("file_delete", path="a.txt")]}])
        folder.file("a.txt")
        assert folder.cli("run", "cleaner").code == 3
        assert folder.cli("run", "cleaner").code == 2
        with folder.store() as store:
            (refusal,) = store.refusals()
        assert (refusal.kind, refusal.agent) == (RefusalKind.PENDING, "cleaner")
        assert "cleaner" in folder.cli("logs", "cleaner", "--refused").out

    def test_logs_say_when_nothing_was_refused(self, spent: AgentFolder) -> None:
        assert spent.cli("logs", "--refused").out == "Nothing was refused.\n"
        assert "Refused" not in spent.cli("logs").out
        assert spent.cli("logs", "--refused", "-e", "1").code == 2


@pytest.mark.parametrize("whose", ["settings.max_cost_usd_per_day", "max_cost_usd_per_day of the workspace"])
@pytest.mark.parametrize("command", ["validate", "explain", "run"])
def test_a_limit_without_a_price_is_said_not_to_hold(folder: AgentFolder, command: str, whose: str) -> None:
    settings = ""
    if whose.startswith("settings"):
        settings = "settings: {max_cost_usd_per_day: 1}\n"
    else:
        folder.file("config.yaml", "max_cost_usd_per_day: 1\n")
    folder.file("agents/worker.md", f"---\nmodel: {{provider: google, name: gemini-0.5-huge}}\n{settings}---\nWork.\n")
    said = folder.cli(command, "worker", env={KEYS["google"]: KEY})
    why = f"{whose} is set, but the price of google/gemini-0.5-huge is unknown, so the limit cannot hold"
    assert why in " ".join((said.out + said.err).split())


def test_an_execution_without_a_price_asks_no_model_once_the_workspace_has_a_limit(tmp_path: Path) -> None:
    """It began before; what it would cost nobody knows, so it is not made, and others go on."""
    with provider_server("openai", [calling(("file_delete", {"path": "a.txt"})), containing("Done.")]) as server:
        work = Workspace(tmp_path / "ws", environ={KEYS["openai"]: KEY})
        work.write("a.txt")
        work.agent(model=f"{{provider: openai, name: some-model, base_url: '{server.url}'}}")
        assert work.start().status is Status.WAITING
        work.restart(meanwhile=lambda: limit_workspace(work, 1))
        ended = work.answer()
        why = "max_cost_usd_per_day of the workspace is $1, and the price of the model is unknown"
        assert (ended.status, ended.error) == (Status.ABORTED, why)
        assert len(server.requests) == 1
        work.close()


def limit_workspace(work: Workspace, amount: float) -> None:
    (work.folder / "config.yaml").write_text(f"max_cost_usd_per_day: {amount}\n")


def test_money_that_is_spent_by_another_agent_is_not_this_ones(tmp_path: Path) -> None:
    work = Workspace(tmp_path / "ws")
    work.agent("settings: {max_cost_usd_per_day: 0.1}")
    work.script(CENTS_10)
    work.start()
    with pytest.raises(BudgetSpent):
        work.create()
    (work.folder / "agents/worker.md").rename(work.folder / "agents/worker2.md")
    text = (work.folder / "agents/worker2.md").read_text()
    (work.folder / "agents/worker2.md").write_text(text.replace("name: worker\n", "name: second\n", 1))
    assert work.app.starter.start("second").id == 2
    work.close()
