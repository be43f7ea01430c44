"""One agent file on every provider, by its real client: over a pause, answered by another process, all is the same."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from agent_md.executions.ids import ExecutionId
from tests.support.agent_folder import AgentFolder
from tests.support.driving import KIT
from tests.support.processes import preload
from tests.support.provider_server import calling, containing
from tests.support.providers import KEY, KEYS, PROVIDERS, model_at, provider_process

pytestmark = pytest.mark.xdist_group("providers")  # their clients take seconds to import: once, in one process

ANSWERS = [
    calling(
        ("danger", {"key": '{"a": 1.10}'}),
        ("plain", {"key": "U"}),
        ("file_write", {"path": "out.txt", "content": '{"b": 1.10, "b": 2}\n'}),
        text="Let me see. ",
        input_tokens=100,
        output_tokens=9,
    ),
    calling(("plain", {"key": "V"}), input_tokens=200, output_tokens=5),
    containing("All done.", input_tokens=300, output_tokens=2),
]
AGENT = """---
name: worker
model: {{provider: {provider}, name: {name}, base_url: '{url}'}}
settings: {{temperature: 0.2, max_tokens: 500, max_cost_usd: 1}}
tools: [kit]
confirm: [danger]
---
You work.
"""
PRICES = "prices:\n  {provider}/*: {{input: 10, output: 100}}\n"


@dataclass(frozen=True)
class Story:
    """What happened, in no provider's words."""

    codes: list[int]
    calls: list[tuple[str, str, dict[str, Any], str | None, str | None]]
    requests: list[tuple[str, str, bool]]
    events: list[tuple[str, Any]]
    output: str | None
    usage: tuple[int, int, float | None]
    effects: list[str]
    written: str


@pytest.fixture(scope="module", autouse=True)
def imported() -> None:
    """So that the forks have it."""
    preload()
    import langchain_openai  # noqa: F401


def play(provider: str, folder: Path) -> tuple[Story, list[dict[str, Any]]]:
    """The story, and the bodies of the requests that the provider got."""
    ref = model_at(provider, None)
    work = AgentFolder(folder / "ws")
    work.tools("kit", KIT)
    work.file("prices.yaml", PRICES.format(provider=ref.provider))
    work.file("config.yaml", "prices: prices.yaml\n")
    env = {**dict.fromkeys(KEYS.values(), ""), KEYS[provider]: KEY}
    with provider_process(provider, ANSWERS, folder) as (url, log):
        work.file("agents/worker.md", AGENT.format(provider=ref.provider, name=ref.name, url=url))
        steps = [
            ("run", "worker", "-m", "Go on."),
            ("respond", "1", "--request", "1-0.0", "--no", "--reason", "no"),
            ("respond", "1", "--yes"),
        ]
        ended = [work.cli(*step, env=env) for step in steps]
        bodies = [json.loads(line) for line in log.read_text().splitlines()]
    assert [step.code for step in ended] == [3, 3, 0], ended
    assert "All done." in ended[-1].out
    with work.store() as store:
        execution = store.execution(ExecutionId(1))
        calls = store.calls(execution.id)
        requests = store.requests(execution.id)
        events = store.events(execution.id)
    usage = execution.usage
    story = Story(
        codes=[step.code for step in ended],
        calls=[(str(x.position), x.tool, x.args, x.outcome and x.outcome.value, x.result) for x in calls],
        requests=[(x.id, x.kind.value, x.open) for x in requests],
        events=[(x.key, x.data.get("text")) for x in events],
        output=execution.output,
        usage=(usage.input_tokens, usage.output_tokens, usage.cost_usd),
        effects=(work.path / "world.log").read_text().split("\n"),
        written=(work.path / "out.txt").read_text(),
    )
    return story, bodies


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Story, list[dict[str, Any]]]]:
    return {provider: play(provider, tmp_path_factory.mktemp(provider)) for provider in PROVIDERS}


@pytest.mark.parametrize("provider", PROVIDERS)
def test_the_story_is_the_same(told: dict[str, tuple[Story, list[dict[str, Any]]]], provider: str) -> None:
    story, bodies = told[provider]
    assert [found[:4] for found in story.calls] == [
        ("0.0", "danger", {"key": '{"a": 1.10}'}, "denied"),
        ("0.1", "plain", {"key": "U"}, "done"),
        ("0.2", "file_write", ANSWERS[0].calls[2][1], "done"),
        ("1.0", "plain", {"key": "V"}, "done"),
    ]
    assert story.effects == ["U", "V", ""]
    assert story.written == '{"b": 1.10, "b": 2}\n'
    assert story.output == "All done."
    assert story.usage == (600, 16, pytest.approx(0.0076))
    assert story == told["google"][0]
    assert len(bodies) == 3


@pytest.mark.parametrize("provider", PROVIDERS)
def test_each_provider_is_sent_the_same_things(
    told: dict[str, tuple[Story, list[dict[str, Any]]]], provider: str
) -> None:
    _, bodies = told[provider]
    said = json.dumps(bodies[2])
    in_order = ["Go on.", "Let me see. ", "Action denied by user: no", "did U", "did V"]
    places = [said.index(json.dumps(words).strip('"')) for words in in_order]
    assert places == sorted(places)
    for body in bodies:
        assert "You work." in json.dumps(body)
        assert "0.2" in json.dumps(body)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_request_begins_with_the_one_before(
    told: dict[str, tuple[Story, list[dict[str, Any]]]], provider: str
) -> None:
    """What the model said comes back in the form in which it was sent before: what was cached stays cached."""
    _, bodies = told[provider]
    name = {"google": "contents", "responses": "input"}.get(provider, "messages")
    sent = [body[name] for body in bodies]
    for earlier, later in pairwise(sent):
        assert later[: len(earlier)] == earlier
        assert len(later) > len(earlier)
