"""Requests to addresses of others: looked up once, checked, and sent there and nowhere else."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Iterator, Sequence
from pathlib import Path

import httpx
import pytest

from agent_md.errors import AddressRefused, UsageError
from agent_md.executions.execution import HookTarget
from agent_md.outbound.transport import GuardedTransport, resolve
from agent_md.webhooks.reach import check_reach
from tests.support.receiver import Receiver, answer, receiver

CERTIFICATE = Path(__file__).parents[1] / "fixtures/hooks-lan.pem"


class Names:
    """A resolver that knows these names, and what it was asked; an address is its own name."""

    def __init__(self, **names: Sequence[str]) -> None:
        self.names = {name.replace("_", "."): addresses for name, addresses in names.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        if host in self.names:
            return self.names[host]
        return await resolve(host, port)


@pytest.fixture
def there() -> Iterator[Receiver]:
    with receiver() as running:
        yield running


async def get(url: str, names: Names | None = None, allow: Sequence[str] = (), **options: object) -> httpx.Response:
    transport = GuardedTransport(lambda: allow, resolve=names or Names())
    async with httpx.AsyncClient(transport=transport, trust_env=False, **options) as client:  # type: ignore[arg-type]
        return await client.get(url)


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1", "localhost", "127.1", "2130706433", "0x7f000001", "0", "10.0.0.1", "169.254.169.254"),
        *("[::1]", "[::ffff:127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "[fe80::1]", "[::]", "100.64.0.1"),
        *("168.63.129.16", "100.100.100.200", "192.0.0.192", "[fd00:ec2::254]", "[::ffff:168.63.129.16]"),
    ],
)
async def test_addresses_that_are_not_public_are_refused(host: str) -> None:
    with pytest.raises(AddressRefused, match="nothing was sent"):
        await get(f"http://{host}:9/")


async def test_a_webhook_is_refused_beforehand_if_every_delivery_would_be() -> None:
    names = Names(
        inside_example=["10.1.2.3"], mixed_example=["93.184.216.34", "10.1.2.3"], out_example=["93.184.216.34"]
    )

    def found_later(host: str, port: int) -> Awaitable[Sequence[str]]:
        raise OSError("no such name")

    for host in ("127.0.0.1", "0x7f.1", "inside.example", "mixed.example"):
        with pytest.raises(UsageError, match="the webhook cannot be used: "):
            await check_reach(HookTarget(f"http://{host}/x"), (), resolve=names)
    for target in (HookTarget("http://out.example/x"), HookTarget("https://93.184.216.34/")):
        assert await check_reach(target, (), resolve=names) is target
    assert await check_reach(HookTarget("http://inside.example/"), ("Inside.example",), resolve=names)
    assert await check_reach(HookTarget("http://nowhere.example/"), (), resolve=found_later)


async def test_a_name_at_a_private_address_is_refused(there: Receiver) -> None:
    names = Names(evil_example=["127.0.0.1"])
    with pytest.raises(AddressRefused, match=r"evil\.example is at 127\.0\.0\.1"):
        await get(f"http://evil.example:{there.port}/", names)
    assert there.received == []


async def test_one_private_address_among_public_ones_is_enough(there: Receiver) -> None:
    names = Names(evil_example=["93.184.215.14", "::ffff:127.0.0.1"])
    with pytest.raises(AddressRefused):
        await get(f"http://evil.example:{there.port}/", names)
    assert there.received == []


async def test_an_allowed_host_may_be_anywhere_and_is_asked_for_by_its_name(there: Receiver) -> None:
    names = Names(hooks_lan=["127.0.0.1"])
    response = await get(f"http://hooks.lan:{there.port}/path?q=1", names, ["hooks.lan"])
    assert response.status_code == 204
    assert there.received[0].path == "/path?q=1"
    assert there.received[0].headers["host"] == f"hooks.lan:{there.port}"
    assert names.asked == ["hooks.lan"]  # once: what was checked is where it went


async def test_an_allowed_address_does_not_allow_names_that_are_there(there: Receiver) -> None:
    assert (await get(there.url, allow=["127.0.0.1"])).status_code == 204
    with pytest.raises(AddressRefused):
        await get(f"http://evil.example:{there.port}/", Names(evil_example=["127.0.0.1"]), ["127.0.0.1"])


async def test_the_next_address_is_tried_when_nobody_listens_at_the_first(there: Receiver) -> None:
    names = Names(hooks_lan=["127.0.0.2", "127.0.0.1"])
    response = await get(f"http://hooks.lan:{there.port}/", names, ["hooks.lan"])
    assert response.status_code == 204


async def test_a_redirect_that_a_client_follows_is_checked_too(there: Receiver) -> None:
    there.behaviours = [answer(302, Location=f"http://inner.lan:{there.port}/secret")]
    names = Names(hooks_lan=["127.0.0.1"], inner_lan=["127.0.0.1"])
    with pytest.raises(AddressRefused):
        await get(f"http://hooks.lan:{there.port}/", names, ["hooks.lan"], follow_redirects=True)
    assert len(there.received) == 1


async def test_a_proxy_of_the_environment_is_not_used(there: Receiver, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    names = Names(hooks_lan=["127.0.0.1"])
    assert (await get(f"http://hooks.lan:{there.port}/", names, ["hooks.lan"])).status_code == 204


@pytest.mark.parametrize("url", ["http://user:pass@example.com/", "http://user@example.com/"])
async def test_a_name_in_the_address_is_refused(url: str) -> None:
    with pytest.raises(AddressRefused, match="password") as refused:
        await get(url, Names(example_com=["93.184.215.14"]))
    assert "user" not in str(refused.value)


@pytest.mark.parametrize("url", ["ftp://example.com/", "file:///etc/passwd"])
async def test_other_schemes_are_refused(url: str) -> None:
    transport = GuardedTransport()
    with pytest.raises(AddressRefused):
        await transport.handle_async_request(httpx.Request("GET", url))


@pytest.mark.parametrize("name", ["nowhere.invalid", "a" * 64 + ".example"])
async def test_a_name_that_is_not_found(name: str) -> None:
    with pytest.raises(httpx.ConnectError):
        await get(f"http://{name}/")


async def test_a_name_without_addresses() -> None:
    with pytest.raises(httpx.ConnectError):
        await get("http://empty.example/", Names(empty_example=[]))


@pytest.fixture
def secured() -> Iterator[Receiver]:
    """A receiver that is `hooks.lan` by its certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE)
    with receiver(context) as running:
        yield running


class TestTls:
    @pytest.fixture(autouse=True)
    def _trusted(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))

    async def test_the_certificate_is_that_of_the_name(self, secured: Receiver) -> None:
        names = Names(hooks_lan=["127.0.0.1"])
        for written in ("hooks.lan", "HOOKS.lan", "hooks.lan."):
            names.names[written.lower()] = ["127.0.0.1"]
            response = await get(f"https://{written}:{secured.port}/", names, ["hooks.lan"])
            assert response.status_code == 204

    async def test_another_name_at_the_same_address_is_not_trusted(self, secured: Receiver) -> None:
        names = Names(hooks_lan=["127.0.0.1"], other_lan=["127.0.0.1"])
        transport = GuardedTransport(lambda: ["*.lan"], resolve=names)
        async with httpx.AsyncClient(transport=transport) as client:
            assert (await client.get(f"https://hooks.lan:{secured.port}/")).status_code == 204
            with pytest.raises(httpx.ConnectError, match="certificate"):
                await client.get(f"https://other.lan:{secured.port}/")
        assert len(secured.received) == 1
