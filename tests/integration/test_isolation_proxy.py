"""The proxy of a sandbox: where it goes, where it does not, and what it makes of a client that is hostile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from agent_md.isolation.proxy import OutboundProxy
from agent_md.outbound.transport import Resolve
from tests.support.receiver import Receiver, receiver

HOSTS = ("allowed.example", "127.0.0.1")


def resolves_to(*addresses: str) -> Resolve:
    async def resolve(host: str, port: int) -> Sequence[str]:
        return addresses

    return resolve


@pytest.fixture
def target() -> Iterator[Receiver]:
    with receiver() as found:
        yield found


@asynccontextmanager
async def connection(proxy: OutboundProxy) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    with proxy as path:
        reader, writer = await asyncio.open_unix_connection(str(path))
        try:
            yield reader, writer
        finally:
            writer.close()


async def said(proxy: OutboundProxy, *sent: str) -> str:
    """All that comes back to these parts of a request."""
    async with connection(proxy) as (reader, writer):
        for part in sent:
            writer.write(part.encode())
            await writer.drain()
        return (await asyncio.wait_for(reader.read(), 30)).decode()


def post(url: str, path: str = "/x") -> str:
    return f"POST {url}{path} HTTP/1.1\r\nHost: a\r\nProxy-Connection: keep-alive\r\nContent-Length: 2\r\n\r\nhi"


async def test_a_request_goes_to_an_allowed_host(target: Receiver) -> None:
    answer = await said(OutboundProxy(HOSTS, lambda: HOSTS), post(f"http://127.0.0.1:{target.port}"))
    assert answer.startswith("HTTP/1.")
    assert " 204 " in answer.splitlines()[0]
    (received,) = target.received
    assert (received.path, received.body) == ("/x", b"hi")
    assert "proxy-connection" not in received.headers
    assert received.headers["connection"] == "close"


async def test_a_tunnel_goes_to_an_allowed_host(target: Receiver) -> None:
    proxy = OutboundProxy(HOSTS, lambda: HOSTS)
    async with connection(proxy) as (reader, writer):
        writer.write(f"CONNECT 127.0.0.1:{target.port} HTTP/1.1\r\nHost: a\r\n\r\n".encode())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        writer.write(post("", "/inner").encode())
        assert b" 204 " in await asyncio.wait_for(reader.readuntil(b"\r\n"), 30)
    assert [received.path for received in target.received] == ["/inner"]


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://other.example/", "other.example is not one of the hosts in allow_hosts"),
        ("http://allowed.example.evil/", "is not one of the hosts"),
        ("http://169.254.169.254/latest", "is not one of the hosts"),
        ("http://allowed.example@other.example/", "is not one of the hosts"),
        ("http://other.example@allowed.example/", "has a name or a password"),
        ("ftp://allowed.example/", "is not one of http or https"),
        ("file:///etc/passwd", "is not one of"),
    ],
)
async def test_other_hosts_are_refused(url: str, reason: str) -> None:
    answer = await said(OutboundProxy(HOSTS, resolve=resolves_to("192.0.2.1")), post(url, ""))
    assert answer.startswith("HTTP/1.1 403 ")
    assert reason in answer


@pytest.mark.parametrize(
    "address", ["127.0.0.1", "::1", "10.0.0.8", "169.254.169.254", "168.63.129.16", "::ffff:127.0.0.1"]
)
@pytest.mark.parametrize("method", ["CONNECT", "GET"])
async def test_an_allowed_name_that_leads_inside_is_refused(method: str, address: str, target: Receiver) -> None:
    wanted = f"allowed.example:{target.port}" if method == "CONNECT" else f"http://allowed.example:{target.port}/"
    proxy = OutboundProxy(HOSTS, resolve=resolves_to("93.184.216.34", address))
    answer = await said(proxy, f"{method} {wanted} HTTP/1.1\r\nHost: a\r\n\r\n")
    assert answer.startswith("HTTP/1.1 403 ")
    assert "no address of the public internet" in answer
    assert not target.received


@pytest.mark.parametrize(
    "sent", ["GARBAGE\r\n\r\n", "GET / HTTP/1.1\r\n\r\n", "CONNECT [::1:x HTTP/1.1\r\n\r\n", "A" * 100_000, "\r\n\r\n"]
)
async def test_what_is_no_request_is_answered_or_ended(sent: str) -> None:
    proxy = OutboundProxy(HOSTS, resolve=resolves_to())
    assert not (await said(proxy, sent)).startswith("HTTP/1.1 200")


async def test_it_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with OutboundProxy(HOSTS) as path:
        assert path.parent.stat().st_mode & 0o777 == 0o700
        reader, writer = await asyncio.open_unix_connection(str(path))
    assert await reader.read() == b""
    writer.close()
    assert not path.parent.exists()
