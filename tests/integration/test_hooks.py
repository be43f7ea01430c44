"""`POST /agents/{name}/hooks` through the whole application: what is taken, what is refused, and what is left of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from agent_md.api.application import make_application
from agent_md.api.context import ServerContext
from agent_md.api.guard import BODY_LIMIT
from agent_md.app import App
from agent_md.engines.hub import Hub
from agent_md.engines.local import LocalEngine
from agent_md.executions.execution import Execution
from agent_md.executions.firings import FiringState
from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import Status, TriggerKind
from agent_md.settings import load_settings
from agent_md.stores.sqlite.store import SqliteStore
from agent_md.stores.workers import LockWorkers
from tests.support.agent_folder import AgentFolder
from tests.support.forks import in_processes
from tests.support.hooks import SECRET, github, standard
from tests.support.trusting import TRUSTING

BODY = b'{"action": "opened"}'
WEBHOOK = 'trigger: {type: webhook, secret: "${HOOK_SECRET}"}'
ENVIRON = {"HOOK_SECRET": SECRET, "SHORT": "whsec_!"}


async def alone(execution_id: ExecutionId) -> None:
    raise AssertionError(f"nothing is driven here, execution {execution_id} is")


def opened(folder: AgentFolder, environ: Mapping[str, str] = ENVIRON) -> App:
    app = App(load_settings(folder.path, environ={**TRUSTING, **environ}, cwd=folder.path, home=folder.path))
    app.open()
    return app


class Served:
    """The application of a server that drives nothing, asked by TCP, where others need a key, or by the socket."""

    def __init__(self, folder: AgentFolder, app: App) -> None:
        self.folder, self.app = folder, app
        hub = Hub(app.store)
        engine = LocalEngine(app.store, app.runner(), hub, app.worker, max_concurrent=1, drive_alone=alone)
        self.context = ServerContext(app, hub, engine, lambda: None)
        self.transport = httpx.ASGITransport(make_application(self.context, "key"))

    async def send(
        self,
        headers: Any,
        content: bytes | AsyncIterator[bytes] = BODY,
        agent: str = "keeper",
        *,
        method: str = "POST",
        address: str = "http://127.0.0.1:8000",
    ) -> httpx.Response:
        async with httpx.AsyncClient(transport=self.transport, base_url=address) as client:
            return await client.request(method, f"/agents/{agent}/hooks", headers=headers, content=content)

    async def started(self, headers: Any, content: bytes | AsyncIterator[bytes] = BODY, **more: Any) -> int:
        answer = await self.send(headers, content, **more)
        assert answer.status_code == 202, answer.text
        assert answer.json().keys() == {"execution_id"}
        number: int = answer.json()["execution_id"]
        return number

    async def refused(self, status: int, headers: Any, content: bytes = BODY, **more: Any) -> str:
        """What is said of a request of which nothing is left."""
        before = self.left()
        answer = await self.send(headers, content, **more)
        assert (answer.status_code, self.left()) == (status, before), answer.text
        text: str = answer.json()["detail"]
        assert SECRET not in text
        return text

    def left(self) -> tuple[int, int, int]:
        store = self.app.store
        return len(store.executions()), len(store.firings.listed()), len(store.refusals())

    def told(self, execution: int) -> str:
        text: str = self.app.store.seed(ExecutionId(execution))[-1]["data"]["content"]
        return text


@pytest.fixture
def folder(tmp_path: Path) -> AgentFolder:
    made = AgentFolder(tmp_path / "ws")
    made.agent("keeper", [{"text": "Done."}], WEBHOOK)
    return made


@pytest.fixture
def served(folder: AgentFolder) -> Iterator[Served]:
    app = opened(folder)
    yield Served(folder, app)
    app.close()


class TestTaking:
    @pytest.mark.parametrize("address", ["http://127.0.0.1:8000", "http://agentmd"], ids=["tcp", "socket"])
    @pytest.mark.parametrize("sign", [standard, github])
    async def test_a_signature_stands_for_the_key(
        self, served: Served, sign: Callable[[bytes, str], dict[str, str]], address: str
    ) -> None:
        number = await served.started(sign(BODY, "msg_1"), address=address)
        execution = served.app.store.execution(ExecutionId(number))
        assert (execution.agent, execution.trigger, execution.status) == ("keeper", TriggerKind.WEBHOOK, Status.QUEUED)
        assert execution.session_id is None
        assert f"\n{BODY.decode()}\n" in served.told(number)

    async def test_the_name_is_compared_as_everywhere(self, served: Served) -> None:
        number = await served.started(github(BODY, "1"), agent="KEEPER")
        assert await served.started(github(BODY, "1")) == number

    async def test_what_the_agent_is_told(self, served: Served) -> None:
        headers = github(BODY, "1", event="issues") | {"Content-Type": "application/json"}
        lines = served.told(await served.started(headers)).split("\n")
        assert len(lines) == 5
        assert lines[2].endswith("begin: GitHub, event issues, application/json, 20 bytes")
        assert lines[3] == BODY.decode()

    async def test_placeholders_in_the_data_are_data(self, served: Served) -> None:
        body = b"$1 $ARGUMENTS ${HOOK_SECRET} $$"
        assert f"\n{body.decode()}\n" in served.told(await served.started(github(body), body))

    async def test_secrets_in_the_data_reach_no_byte_of_the_state(self, served: Served, folder: AgentFolder) -> None:
        body = f"it is {SECRET}, I was told".encode()
        execution = await served.started(github(body), body)
        assert "it is [secret HOOK_SECRET], I was told" in served.told(execution)
        for path in (folder.path / ".agentmd").rglob("*"):
            assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path

    async def test_no_body(self, served: Served) -> None:
        first = await served.started(github(b"", "1"), b"")
        second = await served.started(standard(b"", "1x"), b"")
        assert first != second
        assert ", 0 bytes\n" in served.told(first)

    async def test_bytes_that_are_no_text(self, served: Served) -> None:
        body = bytes(range(256))
        number = await served.started(github(body), body)
        assert "256 bytes, not text, here as Base64" in served.told(number)
        assert "not UTF-8" in await served.refused(401, standard(body, "1"), body)

    async def test_a_body_of_one_mebibyte(self, served: Served) -> None:
        whole = b"x" * BODY_LIMIT
        number = await served.started(github(whole), whole)
        assert f"\n{whole.decode()}\n" in served.told(number)
        assert "1048576 bytes" in await served.refused(413, github(whole + b"x"), whole + b"x")

    async def test_a_body_in_pieces(self, served: Served) -> None:
        async def pieces(*parts: bytes) -> AsyncIterator[bytes]:
            for part in parts:
                yield part

        number = await served.started(github(BODY), pieces(BODY[:5], b"", BODY[5:]))
        assert f"\n{BODY.decode()}\n" in served.told(number)
        long = await served.send(github(b"x" * (BODY_LIMIT + 1)), pieces(*[b"x" * 1024] * 1024, b"x"))
        assert long.status_code == 413
        assert (await served.send(github(BODY), pieces(BODY[:5]))).status_code == 401

    async def test_a_repeat_has_the_same_execution_also_in_another_process(
        self, served: Served, folder: AgentFolder
    ) -> None:
        numbers = [await served.started(headers) for headers in (standard(BODY, "msg_1"), github(BODY, "1"))]
        app = opened(folder)
        try:
            again = Served(folder, app)
            assert await again.started(standard(BODY, "msg_1", age=100)) == numbers[0]
            assert await again.started(github(BODY, "2")) == numbers[1]
            assert len(app.store.executions()) == 2
        finally:
            app.close()

    async def test_the_same_delivery_to_two_agents_is_two(self, served: Served, folder: AgentFolder) -> None:
        folder.agent("other", [{"text": "Done."}], WEBHOOK)
        assert await served.started(github(BODY, "1")) != await served.started(github(BODY, "1"), agent="other")


class TestRefusing:
    """Nothing is left of what is not signed."""

    @pytest.mark.parametrize(
        ("sign", "text"),
        [
            (dict, "not signed"),
            (lambda: {"X-API-Key": "key"}, "not signed"),
            (lambda: github(BODY + b"\n"), "does not hold"),
            (lambda: github(BODY, secret="other"), "does not hold"),
            (lambda: standard(BODY + b"\n", "1"), "No matching signature"),
            (lambda: standard(BODY, "1") | {"webhook-id": "2"}, "No matching signature"),
            (lambda: standard(BODY, "1", key=b"other"), "No matching signature"),
            (lambda: standard(BODY, "1", age=400), "too old"),
            (lambda: standard(BODY, "1", age=-400), "too new"),
            (lambda: [*github(BODY).items(), *github(BODY).items()], "2 times"),
            (lambda: [*standard(BODY, "1").items(), ("webhook-id", "1")], "2 times"),
        ],
    )
    async def test_an_unsigned_one(self, served: Served, sign: Callable[[], Any], text: str) -> None:
        for address in ("http://127.0.0.1:8000", "http://agentmd"):
            assert text in await served.refused(401, sign(), address=address)
        answer = await served.send(sign())
        assert answer.headers["WWW-Authenticate"] == "Webhook-Signature"

    @pytest.mark.parametrize("agent", ["nobody", "manual", "broken", "%2e%2e", "a%2fb"])
    async def test_whoever_signs_nothing_learns_nothing_of_other_agents(
        self, served: Served, folder: AgentFolder, agent: str
    ) -> None:
        folder.agent("manual", [{"text": "Done."}])
        folder.file("agents/broken.md", "---\nname: broken\nconfrim: x\n---\n")
        status = 401 if agent == "a%2fb" else 404  # no route of ours, so the key counts
        text = await served.refused(status, github(BODY), agent=agent)
        assert status == 401 or text == "no agent with a webhook trigger has this name"

    async def test_only_this_route_is_open(self, served: Served) -> None:
        assert (await served.send(github(BODY), method="GET")).status_code == 405
        for path in (
            "/agents/keeper/hooks/",
            "/agents/keeper/run",
            "/agents/keeper",
            "/hooks",
            "//agents/keeper/hooks",
        ):
            async with httpx.AsyncClient(transport=served.transport, base_url="http://127.0.0.1:8000") as client:
                answer = await client.post(path, headers=github(BODY), content=BODY)
            assert answer.status_code == 401, path

    @pytest.mark.parametrize("variable", ["MISSING", "SHORT"])
    async def test_a_secret_that_cannot_be_had(self, served: Served, folder: AgentFolder, variable: str) -> None:
        folder.agent("keeper", [{"text": "Done."}], WEBHOOK.replace("HOOK_SECRET", variable))
        for headers in (github(BODY), github(BODY, secret=""), {}):
            text = await served.refused(503, headers)
            assert "agentmd validate" in text
            assert variable not in text

    async def test_what_the_agent_refuses_is_a_row(self, served: Served, folder: AgentFolder) -> None:
        folder.agent("keeper", [{"text": "Done."}], f"{WEBHOOK}\nenabled: false")
        answer = await served.send(github(BODY, "1"))
        assert answer.status_code == 409
        assert answer.json()["detail"] == "the delivery started nothing: disabled in agents/keeper.md"
        (firing,) = served.app.store.firings.listed()
        assert (firing.state, firing.reason) == (FiringState.SKIPPED, "disabled in agents/keeper.md")
        folder.agent("keeper", [{"text": "Done."}], WEBHOOK)
        assert await served.started(github(BODY, "1")) == 1

    async def test_money_that_is_spent(self, served: Served, folder: AgentFolder) -> None:
        folder.agent("keeper", [{"text": "Done."}], f"{WEBHOOK}\nsettings: {{max_cost_usd_per_day: 0}}")
        answer = await served.send(github(BODY, "1"))
        assert answer.status_code == 409
        assert "max_cost_usd_per_day" in answer.json()["detail"]
        assert served.left() == (0, 1, 0)

    async def test_it_is_told_to_who_follows_everything(self, served: Served) -> None:
        served.app.store.firings.pause(None, "cli:ann")
        with served.context.announcements() as told:
            assert (await served.send(github(BODY, "1"))).status_code == 409
            name, entry = told.get_nowait()
        assert (name, entry["trigger"], entry["reason"]) == ("trigger_skipped", "webhook", "paused by cli:ann")


def test_equal_deliveries_in_several_processes_are_one(folder: AgentFolder) -> None:
    opened(folder).close()

    def deliver(headers: dict[str, str]) -> None:
        import asyncio

        app = opened(folder)
        served = Served(folder, app)
        number = asyncio.run(served.started(headers))
        (folder.path / f"got-{headers['X-GitHub-Delivery']}").write_text(str(number))
        app.close()

    assert in_processes(*(lambda number=number: deliver(github(BODY, str(number))) for number in range(4))) == [0] * 4
    assert {(folder.path / f"got-{number}").read_text() for number in range(4)} == {"1"}
    store = SqliteStore(folder.path / ".agentmd/agentmd.db", workers=LockWorkers(folder.path / ".agentmd/workers"))
    executions: list[Execution] = store.executions()
    states = [firing.state for firing in store.firings.listed()]
    store.close()
    assert ([execution.id for execution in executions], states) == ([1], [FiringState.STARTED])


def test_it_is_shown_what_an_agent_takes(folder: AgentFolder) -> None:
    app = opened(folder, {})
    try:
        (problem,) = app.preflight.check(app.registry.get("keeper").spec)
    finally:
        app.close()
    assert problem == (
        "the variable HOOK_SECRET of `trigger.secret` is not set; put it into .env or the environment; "
        "until then every delivery is refused"
    )
    assert json.loads(folder.cli("list", "--json").out)["agents"][0]["trigger_type"] == "webhook"
