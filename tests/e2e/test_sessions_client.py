"""A client that was written for another session server, and is given the path of an agent as its base URL."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import httpx
import pytest
from pydantic import BaseModel, TypeAdapter

from tests.support.server import Server
from tests.support.sessions import talking_world


class Function(BaseModel):
    name: str
    arguments: str


class Call(BaseModel):
    id: str
    function: Function
    type: str = "function"


class Message(BaseModel):
    role: Literal["system", "user", "assistant", "tool"]
    content: str | None = None
    tool_calls: list[Call] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    user_params: dict[str, Any] | None = None


class Interrupt(BaseModel):
    interrupt_id: str
    type: str
    payload: dict[str, Any]


class Snapshot(BaseModel):
    session_id: str
    status: Literal["idle", "running", "interrupted", "error"]
    response: Message | None = None
    error: str | None = None
    interrupts: list[Interrupt] | None = None


class Summary(BaseModel):
    session_id: str
    total_messages: int
    status: Literal["idle", "running", "interrupted", "error"]


class ForeignClient:
    """Speaks as such clients do, and holds every answer to the models that they know."""

    def __init__(self, base_url: str, key: str, decide: Callable[[Interrupt], Any]) -> None:
        self._url = base_url.rstrip("/")
        self._http = httpx.Client(headers={"Authorization": f"Bearer {key}"}, timeout=20, trust_env=False)
        self._decide = decide

    def close(self) -> None:
        self._http.close()

    def health(self) -> Any:
        return self._ok(self._http.get(f"{self._url}/health"), 200).json()

    def create(self) -> str:
        return Snapshot.model_validate(self._ok(self._http.post(f"{self._url}/sessions"), 201).json()).session_id

    def chat(self, session_id: str, content: str) -> Snapshot:
        """Sends a message, polls, and resumes every interrupt until the turn has ended."""
        url = f"{self._url}/sessions/{session_id}"
        sent = self._http.post(f"{url}/messages", json={"role": "user", "content": content, "user_params": {"n": 1}})
        self._ok(sent, 202)
        while (snapshot := self._poll(url)).status in ("running", "interrupted"):
            for interrupt in snapshot.interrupts or []:
                body = {"interrupt_id": interrupt.interrupt_id, "value": self._decide(interrupt)}
                self._ok(self._http.post(f"{url}/resume", json=body), 200)
        return snapshot

    def _poll(self, url: str) -> Snapshot:
        found = self._ok(self._http.get(url, params={"wait": "true", "timeout": 90.0}), 200)
        return Snapshot.model_validate(found.json())

    def messages(self, session_id: str) -> list[Message]:
        found = self._ok(self._http.get(f"{self._url}/sessions/{session_id}/messages"), 200)
        return TypeAdapter(list[Message]).validate_python(found.json())

    def sessions(self) -> list[Summary]:
        return TypeAdapter(list[Summary]).validate_python(self._ok(self._http.get(f"{self._url}/sessions"), 200).json())

    def delete(self, session_id: str) -> None:
        self._ok(self._http.delete(f"{self._url}/sessions/{session_id}"), 204)

    def status_of(self, method: str, path: str, **more: Any) -> tuple[int, str]:
        answer = self._http.request(method, f"{self._url}{path}", **more)
        return answer.status_code, str(answer.json()["detail"])

    def _ok(self, answer: httpx.Response, status: int) -> httpx.Response:
        assert answer.status_code == status, answer.text
        return answer


def _decide(interrupt: Interrupt) -> Any:
    if interrupt.type == "tool_approval":
        return {"approved": interrupt.payload["tool_args"]["key"] == "A"}
    assert interrupt.type == "user_input"
    answers = {}
    for question in interrupt.payload["questions"]:
        options = question["options"]
        answers[question["question"]] = options[-1]["label"] if options else "Ann"
    return {"answers": answers}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ForeignClient]:
    world = talking_world(tmp_path_factory.mktemp("foreign") / "ws")
    with Server(world.workspace, "--port", "0", env={"AGENTMD_API_KEY": "key"}) as server:
        client = ForeignClient(f"{server.address['url']}/agents/worker", "key", _decide)
        yield client
        client.close()


def test_a_conversation(client: ForeignClient) -> None:
    assert client.health()["status"] == "ok"
    session_id = client.create()
    first = client.chat(session_id, "hello")
    assert (first.status, first.response) == ("idle", Message(role="assistant", content="Hello."))
    second = client.chat(session_id, "two")
    assert second.response is not None
    assert second.response.content == "Both were decided."
    third = client.chat(session_id, "question")
    assert third.response is not None
    assert third.response.content == "Thanks."
    failed = client.chat(session_id, "fails at once")
    assert failed.status == "error"
    assert failed.response is None
    messages = client.messages(session_id)
    assert [message.role for message in messages] == [
        *("user", "assistant"),
        *("user", "assistant", "tool", "tool", "assistant"),
        *("user", "assistant", "tool", "assistant"),
    ]
    assert messages[0].user_params == {"n": 1}
    assert [message.content for message in messages if message.role == "tool"] == [
        *("did A", "Action denied by user", "Ann blue"),
    ]
    assert Summary(session_id=session_id, total_messages=11, status="error") in client.sessions()
    client.delete(session_id)
    assert session_id not in [session.session_id for session in client.sessions()]


def test_what_errors_mean(client: ForeignClient) -> None:
    """Clients know a lost session from a wrong interrupt by the words, and that ids cannot be chosen by 405."""
    session_id = client.create()
    resume = f"/sessions/{session_id}/resume"
    body = {"interrupt_id": "nonsense", "value": {"approved": True}}
    assert client.status_of("POST", resume, json=body)[0] == 409
    sent = client.status_of("POST", f"/sessions/{session_id}/messages", json={"content": ""})
    assert sent[0] == 422
    client._http.post(f"{client._url}/sessions/{session_id}/messages", json={"content": "one"})
    client._poll(f"{client._url}/sessions/{session_id}")
    status, detail = client.status_of("POST", resume, json=body)
    assert (status, "session not found" in detail.lower()) == (404, False)
    client.delete(session_id)
    status, detail = client.status_of("POST", resume, json=body)
    assert (status, "session not found" in detail.lower()) == (404, True)
    assert client.status_of("GET", f"/sessions/{session_id}")[0] == 404
    assert client.status_of("PUT", f"/sessions/{session_id}")[0] == 405
