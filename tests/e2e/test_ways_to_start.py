"""What keeps an agent in bounds keeps it so however it is started: one table of settings, one of ways to start.

A new setting is a row of `SETTINGS`, a new way to start one of `WAYS`; each setting is tried with each way, on one server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from agent_md.executions.model import Execution, RequestKind, Status
from tests.support.agent_folder import AgentFolder, call
from tests.support.hooks import SECRET, github
from tests.support.server import Server, run
from tests.support.waiting import until

WRITE = call("file_write", path="box/written.txt", content="x")
ENDED: Mapping[str, Any] = {"text": "Done."}


@dataclass(frozen=True)
class Setting:
    """Lines of an agent file, what its model does, and what becomes of that: the status of the execution, the outcome of
    each call (None = it is open), what is asked. `box` of an agent is a folder of its own."""

    lines: str
    turns: Sequence[Mapping[str, Any]]
    status: Status
    outcomes: Sequence[str | None]
    asked: Sequence[RequestKind] = ()
    written: bool = False


SETTINGS = {
    "the default guard": Setting("", [{"calls": [WRITE]}, ENDED], Status.WAITING, [None], [RequestKind.CONFIRM]),
    "confirm": Setting(
        "confirm: [file_read]",
        [{"calls": [call("file_read", path="box/there.txt")]}, ENDED],
        Status.WAITING,
        [None],
        [RequestKind.CONFIRM],
    ),
    "auto_approve": Setting(
        "auto_approve: [file_write]", [{"calls": [WRITE]}, ENDED], Status.SUCCESS, ["done"], written=True
    ),
    "deny": Setting("auto_approve: '*'\ndeny: [file_write]", [{"calls": [WRITE]}, ENDED], Status.SUCCESS, ["refused"]),
    "paths": Setting(
        "auto_approve: '*'",
        [{"calls": [call("file_write", path="../written.txt", content="x")]}, ENDED],
        Status.SUCCESS,
        ["refused"],
    ),
    "a limit": Setting(
        "confirm: []\nsettings: {max_tool_calls: 1}",
        [*[{"calls": [call("file_read", path="box/there.txt")]}] * 2, ENDED],
        Status.ABORTED,
        ["done", "refused"],
    ),
    "timeout": Setting("settings: {timeout: 1}", [{"delay": "60s", "text": "Late."}], Status.TIMEOUT, []),
    "confirm_timeout": Setting(
        "confirm_timeout: 1s", [{"calls": [WRITE]}, ENDED], Status.SUCCESS, ["denied"], [RequestKind.CONFIRM]
    ),
    "ask_user": Setting(
        "auto_approve: '*'",
        [{"calls": [call("ask_user", question="Which?")]}, ENDED],
        Status.WAITING,
        [None],
        [RequestKind.INPUT],
    ),
}


@dataclass(frozen=True)
class Way:
    """The `trigger` of an agent, and what starts it once."""

    trigger: str
    start: Callable[[AgentFolder, Server, str], object]


def _run(folder: AgentFolder, server: Server, name: str) -> None:
    assert folder.cli("run", name, "--detach").code == 0


def _say(folder: AgentFolder, server: Server, name: str) -> None:
    session = server.client.post(f"/agents/{name}/sessions", {}).body["session_id"]
    said = server.client.post(f"/agents/{name}/sessions/{session}/messages", {"role": "user", "content": "Go."})
    assert said.status == 202, said


def _deliver(folder: AgentFolder, server: Server, name: str) -> None:
    answer = server.client.request("POST", f"/agents/{name}/hooks", headers=github(b"{}"), raw=b"{}")
    assert answer.status == 202, answer


def _hold_schedule(folder: AgentFolder, server: Server, name: str) -> None:
    """It starts by itself; once is enough."""
    until(lambda: server.client.get(f"/agents/{name}/runs").body)
    server.client.post("/scheduler/pause", {"agent": name})


WAYS = {
    "run": Way("{type: manual}", _run),
    "http": Way("{type: manual}", lambda folder, server, name: run(server.client, agent=name)),
    "message": Way("{type: manual}", _say),
    "schedule": Way("{type: schedule, every: 1s}", _hold_schedule),
    "watch": Way(
        "{type: watch, paths: [box/*.new], debounce: 1s}",
        lambda folder, server, name: folder.file(f"boxes/{name}/now.new"),
    ),
    "webhook": Way('{type: webhook, secret: "${HOOK_SECRET}"}', _deliver),
}


def name_of(setting: str, way: str) -> str:
    return f"{setting} {way}".replace(" ", "-")


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[AgentFolder, Server]]:
    """A server that started an agent for each setting and way."""
    folder = AgentFolder(tmp_path_factory.mktemp("ways") / "ws")
    agents = [(name_of(setting, way), SETTINGS[setting], WAYS[way]) for setting in SETTINGS for way in WAYS]
    for name, setting, way in agents:
        bounds = f"paths: {{box: boxes/{name}}}\ntrigger: {way.trigger}"
        folder.agent(name, setting.turns, f"{setting.lines}\n{bounds}")
        folder.file(f"boxes/{name}/there.txt")
    with Server(folder.path, env={"HOOK_SECRET": SECRET}) as server:
        for name, _, way in agents:
            way.start(folder, server, name)
        yield folder, server


def first_execution(folder: AgentFolder, name: str, status: Status) -> Execution:
    def found() -> list[Execution]:
        with folder.store() as store:
            return [x for x in store.executions(agent=name)[-1:] if x.status is status or x.status.final]

    until(found)
    return found()[0]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("setting", SETTINGS)
def test_a_setting_holds(served: tuple[AgentFolder, Server], setting: str, way: str) -> None:
    folder, _ = served
    expected, name = SETTINGS[setting], name_of(setting, way)
    execution = first_execution(folder, name, expected.status)
    assert execution.status is expected.status, execution.error
    with folder.store() as store:
        outcomes = [None if found.outcome is None else str(found.outcome) for found in store.calls(execution.id)]
        asked = [request.kind for request in store.requests(execution.id)]
    assert (outcomes, asked) == (list(expected.outcomes), list(expected.asked))
    assert (folder.path / f"boxes/{name}/written.txt").exists() is expected.written
    assert not (folder.path / "boxes/written.txt").exists()


def test_each_way_is_told_by_its_own_word(served: tuple[AgentFolder, Server]) -> None:
    folder, _ = served
    with folder.store() as store:
        triggers = {way: store.executions(agent=name_of("deny", way))[-1].trigger.value for way in WAYS}
    words = {"run": "manual", "http": "api", "message": "api"}
    assert triggers == {way: words.get(way, way) for way in WAYS}
