"""Sessions of a real server: a workspace whose agents talk in several ways, and a client of one conversation after the
other."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.server import Answer, Client, Server
from tests.support.waiting import until
from tests.support.world import World

__all__ = ["WORKER", "Talk", "talking_world"]

WORKER = "/agents/worker"

_SCRIPT = """
conversations:
  - match: {user: ^two}
    turns:
      - {text: Both., calls: [{name: danger, args: {key: A}}, {name: danger, args: {key: B}}]}
      - {text: Both were decided.}
  - match: {user: ^one}
    turns:
      - {text: One., calls: [{name: danger, args: {key: A}}]}
      - {text: It was decided.}
  - match: {user: ^question}
    turns:
      - {calls: [{name: asking, args: {key: Q}}]}
      - {text: Thanks.}
  - match: {user: ^place}
    turns:
      - {calls: [{name: place}]}
      - {text: There.}
  - match: {user: ^slow}
    turns: [{delay: 60s, text: Late.}]
  - match: {user: ^stubborn}
    turns: [{calls: [{name: stubborn}]}, {text: At last.}]
  - match: {user: ^late}
    turns: [{calls: [{name: gate}]}, {calls: [{name: danger, args: {key: A}}]}, {text: It was decided.}]
  - match: {user: ^beside}
    turns: [{calls: [{name: gate}, {name: danger, args: {key: A}}]}, {text: It was decided.}]
  - match: {user: ^soon}
    turns: [{calls: [{name: gate}]}, {text: Soon.}]
  - match: {user: ^fails at once}
    turns: [{error: {kind: bad_request, message: no good}}]
  - match: {user: ^fails later}
    turns: [{text: First., calls: [{name: plain, args: {key: U}}]}, {error: {kind: bad_request, message: no good}}]
  - turns: [{text: Hello.}]
"""

_TOOLS = '''

import asyncio, time
from agent_md.sdk import interrupt

@tool
def place() -> object:
    """Asks in its own way."""
    schema = {"type": ["object", "null"], "required": ["at"], "properties": {"at": {"type": "number"}}}
    return interrupt({"type": "map", "centre": [52.5, 13.4]}, response_schema=schema)

@tool
async def gate() -> str:
    """Ends when the gate of its session is open."""
    while not (context().workspace / f"gate-{context().session_id}").exists():
        await asyncio.sleep(0.01)
    return "open"

@tool
def stubborn() -> str:
    """Takes its time, whoever wants it to end."""
    effect("begun")
    until = time.monotonic() + 60
    while time.monotonic() < until and not (context().workspace / "let-go").exists():
        time.sleep(0.01)
    return "done"
'''


def talking_world(path: Path, config: str = "") -> World:
    """A workspace with an agent `worker` that does what the first words of a message say."""
    world = World(path)
    tools = world.workspace / "agents/_config/tools/effects.py"
    tools.write_text(tools.read_text() + _TOOLS)
    (world.workspace / "agents/_config/scripts/worker.yaml").write_text(_SCRIPT)
    (world.workspace / "config.yaml").write_text(config)
    return world


@dataclass(frozen=True)
class Talk:
    """One session, spoken to by whatever server the workspace has."""

    client: Client
    id: str
    base: str = WORKER

    @classmethod
    def begin(cls, server: Server, body: Any = None, base: str = WORKER) -> Talk:
        made = server.client.post(f"{base}/sessions", body)
        assert made.status == 201, made
        return cls(server.client, made.body["session_id"], base)

    def at(self, server: Server) -> Talk:
        """The same session at another server."""
        return Talk(server.client, self.id, self.base)

    @property
    def path(self) -> str:
        return f"{self.base}/sessions/{self.id}"

    def get(self, query: str = "") -> Answer:
        return self.client.get(f"{self.path}{query}")

    def say(self, content: str, **more: Any) -> Answer:
        return self.client.post(f"{self.path}/messages", {"content": content, **more})

    def told(self, content: str, **more: Any) -> Mapping[str, Any]:
        """The session as it stands still after a message."""
        accepted = self.say(content, **more)
        assert accepted.status == 202, accepted
        return self.rest()

    def rest(self) -> Mapping[str, Any]:
        """The session as it is when it does not run any more."""
        found = self.get("?wait=true&timeout=20")
        assert found.status == 200, found
        assert found.body["status"] != "running"
        body: dict[str, Any] = found.body
        return body

    def resume(self, interrupt: Any, value: Any) -> Answer:
        """Answers an interrupt, given as the session shows it or by its id."""
        interrupt_id = interrupt if isinstance(interrupt, str) else interrupt["interrupt_id"]
        return self.client.post(f"{self.path}/resume", {"interrupt_id": interrupt_id, "value": value})

    def messages(self) -> list[dict[str, Any]]:
        found = self.client.get(f"{self.path}/messages")
        assert found.status == 200, found
        body: list[dict[str, Any]] = found.body
        return body

    def texts(self) -> list[str]:
        return [message["content"] for message in self.messages()]

    def delete(self) -> Answer:
        return self.client.request("DELETE", self.path)

    def executions(self) -> list[dict[str, Any]]:
        """Its turns, newest first."""
        body: list[dict[str, Any]] = self.client.get(f"/executions?session_id={self.id}").body
        return body

    def open_gate(self, workspace: Path) -> None:
        """Lets its turns go that were told `soon`, `late` or `beside`."""
        (workspace / f"gate-{self.id}").touch()

    def until_driven(self) -> None:
        """Waits until its newest turn is under way."""
        until(lambda: [turn["status"] for turn in self.executions()[:1]] == ["running"])

    def calls(self) -> list[tuple[str, dict[str, Any]]]:
        """Names and arguments of the calls in the conversation."""
        return [
            (call["function"]["name"], json.loads(call["function"]["arguments"]))
            for message in self.messages()
            for call in message.get("tool_calls", [])
        ]
