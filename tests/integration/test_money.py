"""What a real client's answers cost, and the limits on that, through the whole App."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from agent_md.errors import ConfigInvalid, UsageError
from agent_md.executions.states import Status
from tests.support.agent_folder import AgentFolder
from tests.support.driving import Workspace
from tests.support.processes import preload
from tests.support.provider_server import Answer, ProviderServer, calling, containing
from tests.support.providers import KEY, KEYS, provider_process, provider_server

CALL = calling(("plain", {"key": "U"}), input_tokens=1_000_000, output_tokens=100_000, cached_tokens=400_000)
DONE = containing("All done.", input_tokens=10, output_tokens=10)
PRICE = "{input: 1, output: 10, cached_input: 0.1}"


@contextmanager
def workspace(
    folder: Path, answers: list[Answer], settings: str = "", prices: str | None = None, provider: str = "openai"
) -> Iterator[tuple[Workspace, ProviderServer[Answer]]]:
    (folder / "ws").mkdir()
    if prices is not None:
        (folder / "ws/config.yaml").write_text("prices: prices.yaml\n")
        (folder / "ws/prices.yaml").write_text(prices)
    with provider_server(provider, answers) as server:
        work = Workspace(folder / "ws", environ={KEYS[provider]: KEY})
        work.tools("")
        model = f"{{provider: {provider}, name: some-model, base_url: '{server.url}'}}"
        work.agent(
            f"tools: [kit]\nauto_approve: all\nsettings: {{max_execution_tokens: 10000000{settings}}}", model=model
        )
        yield work, server
        work.close()


def test_cached_tokens_are_cheaper_and_the_cost_is_the_sum_of_all_answers(tmp_path: Path) -> None:
    with workspace(tmp_path, [CALL, DONE], prices=f"prices: {{openai/some-model: {PRICE}}}") as (work, _):
        work.start()
        work.check_succeeded("All done.")
        assert work.execution.usage.cost_usd == pytest.approx(0.6 + 0.04 + 1 + 0.00011)


def test_a_limit_on_money_ends_it_before_the_next_call(tmp_path: Path) -> None:
    prices = f"prices: {{openai/some-model: {PRICE}}}"
    with workspace(tmp_path, [CALL, DONE], ", max_cost_usd: 1.5", prices) as (work, server):
        ended = work.start()
        assert (ended.status, ended.error) == (Status.ABORTED, "max_cost_usd is $1.5, and $1.64 are spent")
        assert len(server.requests) == 1
        assert work.effects() == {"U": 1}


def test_without_a_price_the_cost_is_unknown(tmp_path: Path) -> None:
    with workspace(tmp_path, [CALL, DONE]) as (work, _):
        work.start()
        work.check_succeeded("All done.")
        assert work.execution.usage.cost_usd is None
        assert work.execution.usage.total_tokens == 1_100_020


@pytest.mark.parametrize("limit", ["max_cost_usd", "max_cost_usd_per_day"])
@pytest.mark.parametrize("provider", ["ollama", "local"])
def test_models_on_the_own_machine_are_not_taken_to_be_free(tmp_path: Path, provider: str, limit: str) -> None:
    with workspace(tmp_path, [CALL], f", {limit}: 1", provider=provider) as (work, server):
        with pytest.raises(UsageError, match=f"the price of {provider}/some-model is unknown"):
            work.start()
        assert server.requests == []


def test_they_are_where_the_users_file_says_so(tmp_path: Path) -> None:
    prices = "prices: {ollama/*: {input: 0, output: 0}}"
    with workspace(tmp_path, [CALL, DONE], ", max_cost_usd: 1", prices, "ollama") as (work, _):
        work.start()
        work.check_succeeded("All done.")
        assert work.execution.usage.cost_usd == 0


def test_an_answer_without_a_count_ends_an_execution_that_has_a_limit(tmp_path: Path) -> None:
    """A server that does not count: nobody knows what is spent."""
    prices = f"prices: {{local/some-model: {PRICE}}}"
    uncounted = calling(("plain", {"key": "U"}), counted=False)
    with workspace(tmp_path, [uncounted, DONE], ", max_cost_usd: 1", prices, "local") as (work, server):
        ended = work.start()
        assert ended.status is Status.ABORTED
        assert ended.error == "max_cost_usd is $1, and the cost so far is unknown"
        assert len(server.requests) == 1


def test_a_mistake_in_the_file_is_told_before_anything_starts(tmp_path: Path) -> None:
    with workspace(tmp_path, [DONE], prices="prices: {openai/some-model: {input: 1}}") as (work, server):
        with pytest.raises(ConfigInvalid, match=r"prices\.yaml, line 1: openai/some-model has no 'output'"):
            work.start()
        assert work.app.store.executions() == []
        assert server.requests == []


def test_an_agent_cannot_change_what_it_costs(tmp_path: Path) -> None:
    prices = f"prices: {{openai/some-model: {PRICE}}}"
    for tool, args in (
        ("file_write", {"path": "prices.yaml", "content": "prices: {}"}),
        ("file_read", {"path": "prices.yaml"}),
    ):
        folder = tmp_path / tool
        folder.mkdir()
        with workspace(folder, [calling((tool, args)), DONE], prices=prices) as (work, _):
            work.start()
            assert (work.calls()[0].result or "").startswith("Error")
            assert (folder / "ws/prices.yaml").read_text() == prices


def test_the_command_line_shows_it(tmp_path: Path) -> None:
    preload()
    import langchain_anthropic  # noqa: F401 - so that the forks have it

    work = AgentFolder(tmp_path / "ws")
    work.file("config.yaml", "prices: prices.yaml\n")
    work.file("prices.yaml", "prices: {anthropic/cheap: {input: 1000, output: 5000}}\n")
    answers = [containing("Done.", input_tokens=100, output_tokens=10)] * 2
    with provider_process("anthropic", answers, tmp_path) as (url, _):
        for name in ("cheap", "unheard-of"):
            model = f"model: {{provider: anthropic, name: {name}, base_url: '{url}'}}"
            work.file(f"agents/{name}.md", f"---\n{model}\n---\nWork.\n")
            assert work.cli("run", name, env={KEYS["anthropic"]: KEY}).code == 0
    logged = work.cli("logs").out
    assert "$0.1500" in logged
    assert "unknown" in logged
    assert "$0.1500" in work.cli("logs", "-e", "1").out
    assert "unknown cost" in work.cli("logs", "-e", "2").out
    assert [row["cost_usd"] for row in json.loads(work.cli("logs", "--json").out)] == [None, 0.15]
    summed = json.loads(work.cli("logs", "--cost", "--by", "model", "--json").out)
    assert [(row["model"], row["cost_usd"]) for row in summed["costs"]] == [
        ("anthropic/cheap", 0.15),
        ("anthropic/unheard-of", None),
    ]
    assert (summed["total"]["known_cost_usd"], summed["total"]["calls_of_unknown_cost"]) == (0.15, 1)
    told = work.cli("logs", "--cost", "--by", "agent").out.splitlines()
    assert [line.split()[0] for line in told[2:]] == ["cheap", "unheard-of", "Total"]
    assert told[3].endswith("unknown")
    assert told[4].endswith("$0.1500 and 1 call of unknown cost")
