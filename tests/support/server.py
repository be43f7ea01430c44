"""A real server process of a workspace, and a client that speaks to it by its Unix socket."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import agent_md.api.server  # noqa: F401 - so that forks have it
from tests.support.processes import Cli, Finished
from tests.support.waiting import until

__all__ = ["SERVED_SCRIPT", "Answer", "Client", "Server", "SseEvent", "respond", "run", "take", "wait_for"]

SERVED_SCRIPT = """
conversations:
  - match: {user: slow}
    turns:
      - {delay: 60s, text: Late.}
  - turns:
      - {text: Look., calls: [{name: danger, args: {key: A}}], usage: {input: 10, output: 1, cost: 0.5}}
      - {text: End., usage: {input: 20, output: 2, cost: 0.25}}
"""


@dataclass(frozen=True)
class Answer:
    status: int
    body: Any
    headers: Mapping[str, str]


@dataclass(frozen=True)
class SseEvent:
    event: str
    id: int | None
    data: Any


class _Local(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class Client:
    """Requests to one server, each on a connection of its own."""

    def __init__(self, socket_path: Path, timeout: float = 20.0) -> None:
        self.socket_path = socket_path
        self._timeout = timeout

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        *,
        raw: bytes | None = None,
    ) -> Answer:
        connection = _Local(self.socket_path, self._timeout)
        try:
            data = raw if raw is not None else None if body is None else json.dumps(body).encode()
            connection.request(method, path, data, {"Content-Type": "application/json", **(headers or {})})
            answer = connection.getresponse()
            text = answer.read()
            return Answer(answer.status, json.loads(text) if text else None, dict(answer.getheaders()))
        finally:
            connection.close()

    def healthy(self) -> bool:
        """Whether the server answers: one that starts anew drives before it listens."""
        try:
            return self.get("/health").status == 200
        except OSError:
            return False

    def get(self, path: str, **headers: str) -> Answer:
        return self.request("GET", path, headers=headers)

    def post(self, path: str, body: Any = None, **headers: str) -> Answer:
        return self.request("POST", path, body, {name.replace("_", "-"): value for name, value in headers.items()})

    @contextmanager
    def stream(self, path: str, last_event_id: str | None = None) -> Iterator[Iterator[SseEvent]]:
        """The events of a stream as they come; the block may leave it at any time."""
        connection = _Local(self.socket_path, self._timeout)
        try:
            headers = {} if last_event_id is None else {"Last-Event-ID": last_event_id}
            connection.request("GET", path, headers=headers)
            answer = connection.getresponse()
            assert answer.status == 200, answer.read()
            assert answer.getheader("X-Accel-Buffering") == "no"
            yield _events(answer)
        finally:
            connection.close()


def _events(answer: http.client.HTTPResponse) -> Iterator[SseEvent]:
    fields: dict[str, str] = {}
    while line := answer.readline():
        text = line.decode().rstrip("\n")
        if text.startswith(":"):
            continue
        if text:
            name, _, value = text.partition(": ")
            assert name not in fields, "an event has one line a field"
            fields[name] = value
        elif fields:
            number = fields.get("id")
            yield SseEvent(fields["event"], None if number is None else int(number), json.loads(fields["data"]))
            fields = {}


class Server:
    """`agentmd start` on a workspace, in a process of its own that is killed before its n-th write if that is given."""

    def __init__(
        self,
        workspace: Path,
        *args: str,
        env: Mapping[str, str] | None = None,
        kill_before_write: int | None = None,
        prepare: Callable[[], None] | None = None,
    ) -> None:
        self.workspace = workspace
        self.state = workspace / ".agentmd"
        self.process = Cli(workspace).start(
            "start", *args, env=env, kill_before_write=kill_before_write, prepare=prepare
        )
        until(lambda: self._ready() or self.process.ended)
        if not self.process.ended:
            self.client = Client(Path(self.address["socket"]))

    def _ready(self) -> bool:
        try:
            return bool(self.address["pid"] == self.process.pid)
        except FileNotFoundError:  # not written yet, or a dead server's, which the new one takes away
            return False

    @property
    def address(self) -> dict[str, Any]:
        return self.address_of(self.workspace)

    @staticmethod
    def address_of(workspace: Path) -> dict[str, Any]:
        """Where the server of a workspace is, whoever started it."""
        data: dict[str, Any] = json.loads((workspace / ".agentmd/server.json").read_text())
        return data

    def kill(self) -> None:
        """Ends it as a power cut would."""
        self.process.kill()
        self.process.wait()

    def stop(self, number: int = signal.SIGTERM) -> Finished:
        """Ends it gracefully."""
        self.process.kill(number)
        return self.process.wait()

    def writes(self) -> int:
        """How many write statements it made; it has ended gracefully."""
        return int((self.process.folder / "writes").read_text())

    def __enter__(self) -> Server:
        assert not self.process.ended, self.process.wait()
        return self

    def __exit__(self, *_: object) -> None:
        if not self.process.ended:
            self.kill()


def run(client: Client, body: Any = None, agent: str = "worker", **headers: str) -> int:
    answer = client.post(f"/agents/{agent}/run", body, **headers)
    assert answer.status == 200, answer
    number: int = answer.body["execution_id"]
    return number


def wait_for(client: Client, execution: int, status: str) -> dict[str, Any]:
    def reached() -> bool:
        return bool(client.get(f"/executions/{execution}").body["status"] == status)

    until(reached)
    body: dict[str, Any] = client.get(f"/executions/{execution}").body
    return body


def respond(client: Client, execution: int, response: Any, request_id: str | None = None, **more: str) -> Answer:
    body = {"response": response, **({"request_id": request_id} if request_id else {}), **more}
    return client.post(f"/executions/{execution}/respond", body)


def take(events: Iterator[SseEvent], count: int, name: str | None = None) -> list[SseEvent]:
    """The next events, or the next of one name. A stream goes on for ever, so it is not waited for longer than a minute."""
    taken: list[SseEvent] = []
    deadline = time.monotonic() + 60
    while len(taken) < count:
        assert time.monotonic() < deadline, f"only {taken} came of {count} events"
        event = next(events)
        if event.event != "delta" and (name is None or event.event == name):
            taken.append(event)
    return taken
