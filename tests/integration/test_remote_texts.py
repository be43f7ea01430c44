"""What the agent said in a turn at a server before it asks: each text once, and never the answer."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from agent_md.client.sessions import Interrupt, SessionsClient
from agent_md.client.turn_texts import TurnTexts
from tests.support.foreign_sessions import CLOSE, ForeignServer, Reply, foreign_server

MESSAGES, SESSION = "GET /sessions/s/messages", "GET /sessions/s"


@pytest.fixture
def server() -> Iterator[ForeignServer]:
    with foreign_server() as found:
        yield found


@asynccontextmanager
async def turn(server: ForeignServer) -> AsyncIterator[TurnTexts]:
    client = SessionsClient(server.url)
    try:
        yield TurnTexts(client, "s")
    finally:
        await client.close()


def asked(number: str) -> Interrupt:
    return Interrupt(number, "custom", {})


def asks(*ids: str) -> Reply:
    interrupts = [{"interrupt_id": number, "payload": {}} for number in ids]
    return Reply({"session_id": "s", "status": "interrupted" if ids else "idle", "interrupts": interrupts})


def conversation(*texts: str) -> Reply:
    earlier: list[dict[str, Any]] = [{"content": "Hi"}, {"role": "assistant", "content": "Earlier."}, {"content": "Go"}]
    return Reply([*earlier, *({"role": "assistant", "content": text} for text in texts)])


async def test_each_is_given_once(server: ForeignServer) -> None:
    server.replies[MESSAGES] = [conversation("One.", "", "Two."), conversation("One.", "", "Two.", "Three.")]
    server.replies[SESSION] = [asks("1", "2"), asks("3")]
    async with turn(server) as texts:
        assert [await texts.before(asked(number)) for number in ("1", "2", "3", "3")] == [
            ["One.", "Two."],
            [],
            ["Three."],
            [],
        ]
    assert len(server.bodies(MESSAGES)) == 2


async def test_a_turn_that_has_gone_on_gives_none(server: ForeignServer) -> None:
    server.replies[MESSAGES] = [conversation("One.", "Done.")]
    server.replies[SESSION] = [asks(), asks("2")]
    async with turn(server) as texts:
        assert await texts.before(asked("1")) == []
        assert await texts.before(asked("2")) == ["One.", "Done."]


@pytest.mark.parametrize("reply", [CLOSE, Reply({"detail": "Not Found"}, 404), Reply({"no": "list"}), Reply({}, 403)])
async def test_a_server_that_does_not_tell(server: ForeignServer, reply: Reply) -> None:
    server.replies[MESSAGES] = [reply]
    async with turn(server) as texts:
        assert await texts.before(asked("1")) == []
