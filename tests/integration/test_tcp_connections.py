"""Connections by TCP: how many there may be, how long each may keep the server waiting, and what that costs others."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse

from agent_md.api.tcp_connections import TcpLimits
from agent_md.api.web_servers import WebServers

_PATIENT = TcpLimits(head=60, body=60, write=60)
_HEAD = b"POST /echo HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\n"
_WHOLE = b"GET /hello HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def application() -> FastAPI:
    app = FastAPI()

    @app.get("/hello")
    async def hello() -> PlainTextResponse:
        return PlainTextResponse("hello")

    @app.post("/echo")
    async def echo(request: Request) -> PlainTextResponse:
        return PlainTextResponse(await request.body())

    @app.get("/much")
    async def much() -> PlainTextResponse:
        return PlainTextResponse("x" * 32_000_000)

    return app


class Served:
    def __init__(self, path: Path, port: int) -> None:
        self.path = path
        self.port = port

    async def tcp(self, data: bytes = b"") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(data)
        return reader, writer

    async def answers(self, *, by_tcp: bool) -> bool:
        opened = self.tcp(_WHOLE) if by_tcp else asyncio.open_unix_connection(str(self.path))
        reader, writer = await opened
        if not by_tcp:
            writer.write(_WHOLE)
        said = await asyncio.wait_for(reader.read(), 20)
        writer.close()
        return said.startswith(b"HTTP/1.1 200 ") and said.endswith(b"hello")


@asynccontextmanager
async def served(folder: Path, most: int = 100, limits: TcpLimits = _PATIENT) -> AsyncIterator[Served]:
    with socket.socket(socket.AF_UNIX) as local, socket.socket() as tcp:
        path = folder / "s"
        local.bind(str(path))
        tcp.bind(("127.0.0.1", 0))
        servers = WebServers(application(), [local, tcp], most, limits)
        serving = asyncio.create_task(servers.serve())
        await servers.listening.wait()
        try:
            yield Served(path, tcp.getsockname()[1])
        finally:
            servers.stop()
            await serving


async def _ended(reader: asyncio.StreamReader) -> bytes:
    """What came before the other side ended the connection."""
    said = b""
    try:
        while piece := await asyncio.wait_for(reader.read(65536), 30):
            said += piece
    except ConnectionResetError:
        pass
    return said


@pytest.mark.parametrize(
    "sent", [b"", b"GET /hello HTTP/1.1\r\nHo", _WHOLE.replace(b"close", b"keep-alive") + b"GET /hel"]
)
async def test_a_head_that_does_not_come_ends_it(tmp_path: Path, sent: bytes) -> None:
    async with served(tmp_path, limits=TcpLimits(head=0.2, body=60, write=60)) as server:
        reader, writer = await server.tcp(sent)
        assert (await _ended(reader)).count(b"hello") == sent.count(b"keep-alive")
        writer.close()


async def test_neither_does_dripping_put_it_off(tmp_path: Path) -> None:
    async with served(tmp_path, limits=TcpLimits(head=0.5, body=0.5, write=60)) as server:
        for beginning in (b"GET /hello HTTP/1.1\r\nX: ", _HEAD):
            reader, writer = await server.tcp(beginning)
            ended = asyncio.create_task(_ended(reader))
            while not ended.done():
                writer.write(b"x" if beginning is not _HEAD else b"")
                await asyncio.wait({ended}, timeout=0.02)
            assert ended.result() == b""
            writer.close()


async def test_who_does_not_read_is_left(tmp_path: Path) -> None:
    async with served(tmp_path, limits=TcpLimits(head=60, body=60, write=0.2)) as server:
        reader, writer = await server.tcp(b"GET /much HTTP/1.1\r\nHost: x\r\n\r\n")
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        for _ in range(1000):  # until the server has left, which only a look from its side tells
            if not await _connections(server):
                break
            await asyncio.sleep(0.02)
        else:
            pytest.fail("the connection was kept")
        writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert len(await _ended(reader)) < 32_000_000
        writer.close()


async def _connections(server: Served) -> int:
    """How many established connections the server's side has, as the kernel tells."""
    wanted = f":{server.port:04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[1].endswith(wanted) and row[3] == "01" for row in rows)


@pytest.mark.parametrize("count", [200, pytest.param(2000, marks=pytest.mark.stress)])
@pytest.mark.parametrize("sent", [b"", b"GET /hello HTTP/1.1\r\nHo", _HEAD + b"ab"], ids=["silent", "head", "body"])
async def test_half_open_connections_shut_nobody_out(tmp_path: Path, sent: bytes, count: int) -> None:
    """Neither who comes by the socket nor, as the oldest of them make room, who comes by TCP."""
    async with served(tmp_path, most=100) as server:
        opened: list[Any] = []
        try:
            for number in range(count):
                opened.append(await server.tcp(sent))
                if number % 100 == 99:
                    assert await server.answers(by_tcp=False)
                    assert await server.answers(by_tcp=True)
            assert await _connections(server) <= 50
        finally:
            for _, writer in opened:
                writer.transport.abort()


async def test_requests_that_are_answered_are_not_ended_for_others(tmp_path: Path) -> None:
    async with served(tmp_path, most=4) as server:
        busy = [await server.tcp(b"GET /much HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n") for _ in range(2)]
        for reader, _ in busy:
            await reader.readline()
        refused, writer = await server.tcp(_WHOLE)
        assert await _ended(refused) == b""
        writer.close()
        for reader, writer in busy:
            assert len(await _ended(reader)) > 32_000_000
            writer.close()
        assert await server.answers(by_tcp=True)
