"""What keeps an agent in bounds keeps it so however it is started: one table of settings, one of ways to start.

A new setting is a row of `SETTINGS`, a new way to start one of `WAYS`; each setting is tried with each way, at one server: in
the ordinary run a sixth of them, so that each setting meets several ways and each way several settings, with `-m stress` the
others.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from agent_md.agents.spec import Trigger
from agent_md.app import App
from agent_md.executions.execution import Execution
from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import RequestKind, Status, TriggerKind
from agent_md.isolation.bubblewrap import isolation_problem
from agent_md.settings import load_settings
from agent_md.stores.sqlite.store import SqliteStore
from agent_md.stores.workers import LockWorkers
from agent_md.triggers.schedules import schedule_digest
from tests.support.agent_folder import AgentFolder, call
from tests.support.chatting import Piped
from tests.support.hooks import SECRET, github
from tests.support.mcp_server import server_entry
from tests.support.server import Client, Server, respond, run
from tests.support.trusting import TRUSTING
from tests.support.waiting import until

pytestmark = pytest.mark.xdist_group("ways to start")  # what they share takes long to make: once, in one process

WRITE = call("file_write", path="box/written.txt", content="x")
READ = call("file_read", path="box/there.txt")
CALLING = {"calls": [call("run_agent", agent_name="called")]}
SPENT = {"calls": [READ], "usage": {"input": 60, "output": 40, "cost": 0.5}}
UNREACHED = "https://shop.invalid/"
ENDED: Mapping[str, Any] = {"text": "Done."}
LEAVING = '''
from langchain_core.tools import tool
from agent_md.sdk import context, tool_options

@tool
@tool_options(idempotent=True)
def leave() -> str:
    """Writes in its box, and beside it."""
    box = context().resolve_path("box")
    (box / "written.txt").write_text("x")
    (box.parent / "written.txt").write_text("x")
    return "out"
'''


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
    error: str = ""
    """How the reason begins that it gives when it does not succeed."""
    denied: bool = False
    """Whether its open request is denied then, which ends it, and nothing was done."""
    problem: Callable[[], str | None] = lambda: None
    """Why it cannot be tried on this machine."""


SETTINGS = {
    "default-guard": Setting(
        "", [{"calls": [WRITE, READ]}, ENDED], Status.WAITING, [None, "done"], [RequestKind.CONFIRM], denied=True
    ),
    "confirm": Setting(
        "confirm: ['file_read(box/*)']", [{"calls": [READ]}, ENDED], Status.WAITING, [None], [RequestKind.CONFIRM]
    ),
    "auto-approve": Setting(
        "auto_approve: ['file_write(box/*)']\nconfirm: [file_read]",
        [{"calls": [WRITE, READ]}, ENDED],
        Status.WAITING,
        ["done", None],
        [RequestKind.CONFIRM],
        written=True,
    ),
    "deny": Setting("auto_approve: '*'\ndeny: [file_write]", [{"calls": [WRITE]}, ENDED], Status.SUCCESS, ["refused"]),
    "paths": Setting(
        "auto_approve: '*'",
        [{"calls": [call("file_write", path="../written.txt", content="x")]}, ENDED],
        Status.SUCCESS,
        ["refused"],
    ),
    "calls": Setting(
        "settings: {max_tool_calls: 1}",
        [{"calls": [READ, READ]}, ENDED],
        Status.ABORTED,
        ["done", "refused"],
        error="max_tool_calls is 1",
    ),
    "tokens": Setting(
        "settings: {max_execution_tokens: 100}", [SPENT, ENDED], Status.ABORTED, ["done"], error="max_execution_tokens"
    ),
    "money": Setting(
        "settings: {max_cost_usd: 0.5}", [SPENT, ENDED], Status.ABORTED, ["done"], error="max_cost_usd is $0.5"
    ),
    "timeout": Setting(
        "settings: {timeout: 1}",
        [{"delay": "60s", "text": "Late."}],
        Status.TIMEOUT,
        [],
        error="settings.timeout: 1 s of work are used up",
    ),
    "confirm-timeout": Setting(
        "confirm_timeout: 1s", [{"calls": [WRITE]}, ENDED], Status.SUCCESS, ["denied"], [RequestKind.CONFIRM]
    ),
    "sandbox": Setting(
        "auto_approve: '*'\ntools: [leaving]\nsandbox: true",
        [{"calls": [call("leave")]}, ENDED],
        Status.SUCCESS,
        ["failed"],
        written=True,
        problem=isolation_problem,
    ),
    "post": Setting(
        "",
        [{"calls": [call("http_request", url=UNREACHED, method="POST")]}, ENDED],
        Status.WAITING,
        [None],
        [RequestKind.CONFIRM],
        denied=True,
    ),
    "command": Setting(
        "auto_approve: ['run_command(true)', 'run_command(touch there.txt)']",
        [
            {"calls": [call("run_command", command=["true"]), call("run_command", command=["touch", "written.txt"])]},
            ENDED,
        ],
        Status.WAITING,
        ["done", None],
        [RequestKind.CONFIRM],
        denied=True,
    ),
    "allow-hosts": Setting(
        "auto_approve: '*'\nallow_hosts: [api.invalid]",
        [{"calls": [call("http_request", url=UNREACHED), call("http_request", url="http://2130706433/")]}, ENDED],
        Status.SUCCESS,
        ["refused", "refused"],
    ),
    "secrets": Setting(
        "auto_approve: '*'\nsecrets: [BARE_LOGIN, {name: SHOP_LOGIN, hosts: [api.invalid]}]",
        [
            {
                "calls": [
                    call("http_request", url=UNREACHED, headers={"X-Login": "${BARE_LOGIN}"}),
                    call("http_request", url=UNREACHED, headers={"X-Login": "${SHOP_LOGIN}"}),
                ]
            },
            ENDED,
        ],
        Status.WAITING,
        [None, "refused"],
        [RequestKind.CONFIRM],
        denied=True,
    ),
    "calling-asks": Setting(
        "agents: [called]\nconfirm: ['run_agent(call*)']",
        [CALLING, ENDED],
        Status.WAITING,
        [None],
        [RequestKind.CONFIRM],
    ),
    "called-asks": Setting(
        "agents: [called]\nauto_approve: '*'", [CALLING, ENDED], Status.WAITING, [None], [RequestKind.CONFIRM]
    ),
    "called-is-denied": Setting("agents: [called]\ndeny: [run_agent]", [CALLING, ENDED], Status.SUCCESS, ["refused"]),
    "mcp": Setting(
        "mcp: [t]\nconfirm: [t.effect]\nauto_approve: [t.crash]\ndeny: ['t.crash', 't.add(a=1*)']",
        [
            {
                "calls": [
                    call("t__effect", key="A"),
                    call("t__crash", key="B"),
                    call("t__add", a=1, b=2),
                    call("t__add", a=2, b=2),
                ]
            },
            ENDED,
        ],
        Status.WAITING,
        [None, "refused", "refused", "done"],
        [RequestKind.CONFIRM],
        denied=True,
    ),
    "ask-user": Setting(
        "auto_approve: '*'",
        [{"calls": [call("ask_user", question="Which?")]}, ENDED],
        Status.WAITING,
        [None],
        [RequestKind.INPUT],
    ),
}


@dataclass(frozen=True)
class Way:
    """What starts each of these agents once, and by what its executions say that they were started. With a `trigger` it
    has agents of its own; unless `served` it comes before there is a server."""

    start: Callable[[AgentFolder, Sequence[str], Client], object]
    kind: TriggerKind = TriggerKind.MANUAL
    trigger: str | None = None
    served: bool = True


@cache
def _possible() -> tuple[str, ...]:
    return tuple(name for name, setting in SETTINGS.items() if setting.problem() is None)


def _run(folder: AgentFolder, names: Sequence[str], _: Client) -> None:
    for name in names:
        folder.cli("run", name, "--quiet")


def _chat(folder: AgentFolder, names: Sequence[str], _: Client) -> None:
    for name in names:
        Piped(folder, name).end("Go.\n")


def _queue(folder: AgentFolder, names: Sequence[str], _: Client) -> None:
    """What a server leaves that ends before it drives them."""
    with closing(
        App(load_settings(folder.path, environ=TRUSTING, cwd=folder.path, home=folder.path / "nobody"))
    ) as app:
        for name in names:
            app.starter.start(name, claimed=False)


def _die_and_resume(folder: AgentFolder, names: Sequence[str], _: Client) -> None:
    for name in names:
        assert folder.cli("run", name, kill_before_write=25).killed
    folder.cli("resume", "--all")


def _request(folder: AgentFolder, names: Sequence[str], client: Client) -> None:
    for name in names:
        run(client, agent=name)


def _say(folder: AgentFolder, names: Sequence[str], client: Client) -> None:
    for name in names:
        session = client.post(f"/agents/{name}/sessions", {}).body["session_id"]
        assert client.post(f"/agents/{name}/sessions/{session}/messages", {"content": "Go."}).status == 202


def _deliver(folder: AgentFolder, names: Sequence[str], client: Client) -> None:
    for name in names:
        answer = client.request("POST", f"/agents/{name}/hooks", headers=github(b"{}"), raw=b"{}")
        assert answer.status == 202, answer


def _save(folder: AgentFolder, names: Sequence[str], _: Client) -> None:
    for name in names:
        folder.file(f"boxes/{name}/now.new")


def _call(folder: AgentFolder, names: Sequence[str], client: Client) -> None:
    """One agent calls all of them at once."""
    calls = [call("run_agent", agent_name=name) for name in names]
    bounds = f"agents: [{', '.join(names)}]\nsettings: {{max_tool_calls: 500}}"
    folder.agent("caller", [{"calls": calls}, ENDED], bounds)
    root = ExecutionId(run(client, agent="caller"))

    def called() -> bool:
        with folder.store() as store:
            return len([member for member in store.family(root) if member.parent_id == root]) == len(names)

    until(called)


def _miss(folder: AgentFolder, names: Sequence[str], _: Client) -> None:
    """A server saw the schedules a day and a half ago, so that one fire of each was missed, which the next one makes up
    for."""
    state = folder.path / ".agentmd"
    past = time.time() - 36 * 3600
    store = SqliteStore(state / "agentmd.db", workers=LockWorkers(state / "workers"), clock=lambda: past)
    for name in names:
        store.firings.follow(name, TriggerKind.SCHEDULE, schedule_digest(Trigger(type="schedule", every=24 * 3600.0)))
    store.close()


WAYS = {
    "run": Way(_run, served=False),
    "chat": Way(_chat, TriggerKind.CHAT, served=False),
    "resume": Way(_die_and_resume, served=False),
    "restart": Way(_queue, served=False),
    "http": Way(_request, TriggerKind.API),
    "message": Way(_say, TriggerKind.API),
    "agent": Way(_call, TriggerKind.AGENT),
    "webhook": Way(_deliver, TriggerKind.WEBHOOK, '{type: webhook, secret: "${HOOK_SECRET}"}'),
    "watch": Way(_save, TriggerKind.WATCH, "{type: watch, paths: [box/*.new], debounce: 1s}"),
    "schedule": Way(_miss, TriggerKind.SCHEDULE, "{type: schedule, every: 1d}", served=False),
}


class Table:
    """A workspace where an agent was started for each setting and way."""

    def __init__(self, folder: AgentFolder, *, whole: bool) -> None:
        """`whole`: with every setting and way, instead of those of the ordinary run."""
        self.folder = folder
        self._whole = whole
        self.client = Client(folder.path / "nowhere")
        self._begun: dict[tuple[str, str], ExecutionId] = {}
        """By setting and way, where several ways have one agent."""

    def agents(self, key: str) -> dict[str, str]:
        """The names of the agents of a way by their settings."""
        tried = [setting for setting in _possible() if self._whole or is_ordinary(setting, key)]
        return {setting: f"{setting}-{key}" if WAYS[key].trigger else setting for setting in tried}

    def write_agents(self, *, triggered: bool) -> None:
        for key, way in WAYS.items():
            if (way.trigger is not None) is triggered:
                for setting, name in self.agents(key).items():
                    bounds = f"paths: {{box: boxes/{name}}}\non_pending: parallel\ntrigger: {way.trigger or '{type: manual}'}"
                    self.folder.agent(name, SETTINGS[setting].turns, f"{SETTINGS[setting].lines}\n{bounds}")
                    self.folder.file(f"boxes/{name}/there.txt")

    def start(self, *, served: bool, triggered: bool) -> None:
        for key, way in WAYS.items():
            if (way.served, way.trigger is not None) == (served, triggered):
                agents = self.agents(key)
                way.start(self.folder, list(agents.values()), self.client)
                if not triggered:
                    self._begun |= {(setting, key): self._newest(name) for setting, name in agents.items()}

    def _newest(self, agent: str) -> ExecutionId:
        with self.folder.store() as store:
            return store.executions(agent=agent, limit=1)[0].id

    def settled(self, setting: str, key: str, status: Status) -> Execution:
        """The execution when it has this status, or has ended."""

        def found() -> list[Execution]:
            number = self._begun.get((setting, key))
            with self.folder.store() as store:
                name = self.agents(key)[setting]
                executions = store.executions(agent=name, ids=None if number is None else [number])
            return [execution for execution in executions if execution.status.final or execution.status is status]

        until(found)
        (execution,) = found()
        return execution


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Table]:
    whole = request.config.getoption("-m") != "not stress"
    table = Table(AgentFolder(tmp_path_factory.mktemp("ways") / "ws"), whole=whole)
    table.folder.tools("leaving", LEAVING)
    servers = {"t": server_entry(idempotent=True)}
    table.folder.file("agents/_config/mcp-servers.json", json.dumps(servers))
    table.folder.file(".env", "BARE_LOGIN=a-login-of-tests\nSHOP_LOGIN=another-login\n")
    table.folder.agent("called", [{"calls": [WRITE]}, ENDED])
    table.write_agents(triggered=False)
    table.start(served=False, triggered=False)
    table.write_agents(triggered=True)
    table.start(served=False, triggered=True)
    with Server(table.folder.path, env={"HOOK_SECRET": SECRET}) as server:
        table.client = server.client
        table.start(served=True, triggered=False)
        table.start(served=True, triggered=True)
        yield table


def is_ordinary(setting: str, way: str) -> bool:
    """Whether the pair belongs to the ordinary run."""
    return (list(SETTINGS).index(setting) + list(WAYS).index(way)) % 6 == 0


PAIRS = [
    pytest.param(setting, way, id=f"{setting}-{way}", marks=() if is_ordinary(setting, way) else pytest.mark.stress)
    for setting in SETTINGS
    for way in WAYS
]


@pytest.mark.parametrize(("setting", "way"), PAIRS)
def test_a_setting_holds(table: Table, setting: str, way: str) -> None:
    expected, folder = SETTINGS[setting], table.folder
    if setting not in _possible():
        pytest.skip(f"NOT RUN: {expected.problem()}")
    execution = table.settled(setting, way, expected.status)
    assert (execution.trigger, execution.status) == (WAYS[way].kind, expected.status), execution.error
    assert (execution.error or "").startswith(expected.error)
    assert bool(execution.error) is bool(expected.error)
    assert outcomes(folder, execution) == list(expected.outcomes)
    with folder.store() as store:
        assert [request.kind for request in store.requests(execution.id, family=True)] == list(expected.asked)
    written = folder.path / f"boxes/{execution.agent}/written.txt"
    assert written.exists() is expected.written
    assert not (folder.path / "boxes/written.txt").exists()
    assert not (folder.path / "world.log").exists()  # the MCP server's
    if expected.denied:
        assert respond(table.client, execution.id, {"approved": False}).status == 200
        assert table.settled(setting, way, Status.SUCCESS).output == "Done."
        assert outcomes(folder, execution) == [outcome or "denied" for outcome in expected.outcomes]
        assert not written.exists()


def test_no_way_starts_what_is_not_trusted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents that ask for a tool while a server runs; each way is tried, and what it says about that does not matter."""
    monkeypatch.setenv("AGENTMD_TRUST", "")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "user"))
    folder = AgentFolder(tmp_path / "ws")
    folder.tools("leaving", LEAVING)
    ways = {
        key: way for key, way in WAYS.items() if key not in ("restart", "schedule", "agent")
    }  # they come before it, or wait

    def started() -> set[str]:
        with folder.store() as store:
            return {execution.agent for execution in store.executions()}

    def write_agents(lines: str) -> None:
        for key, way in ways.items():
            box = f"paths: {{box: boxes/{key}}}\ntrigger: {way.trigger or '{type: manual}'}"
            folder.agent(key, [{"calls": [READ]}, ENDED], f"{box}\n{lines}")
            folder.file(f"boxes/{key}/there.txt")

    write_agents("")
    assert folder.cli("trust", "--yes").code == 0
    with Server(folder.path, env={"HOOK_SECRET": SECRET}) as server:
        write_agents("tools: [leaving]")
        until(lambda: set(server.client.get("/info").body["untrusted"]) == set(ways))
        for key, way in ways.items():
            with suppress(AssertionError, KeyError):
                way.start(folder, [key], server.client)
        assert started() == set()
        assert folder.cli("trust", "--yes").code == 0
        until(started)
        assert started() == {"watch"}, "the change that it has seen"


def outcomes(folder: AgentFolder, execution: Execution) -> list[str | None]:
    with folder.store() as store:
        return [None if found.outcome is None else str(found.outcome) for found in store.calls(execution.id)]
