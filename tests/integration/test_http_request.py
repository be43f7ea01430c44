"""Requests of agents: what is sent where, what redirects may do, and what is told of answers."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from agent_md.agents.spec import RunSettings, Secret
from agent_md.errors import ToolError
from agent_md.outbound.fetch import Limits
from agent_md.tools.base import CutOff
from tests.support.receiver import Receiver, answer, close_early, endless, never, receiver, saying
from tests.support.requests import Names, http_request, requested

VALUE = "canary/7f+3b=9e?61&d5"
TOKEN = Secret("SHOP_TOKEN", ("shop.example",))
MARK = "[secret SHOP_TOKEN]"


class Web:
    """Servers in memory: answers by address, and the requests that came."""

    def __init__(self, answers: dict[str, httpx.Response | Callable[[httpx.Request], httpx.Response]]) -> None:
        self.answers = answers
        self.received: list[httpx.Request] = []

    def __call__(self) -> httpx.AsyncBaseTransport:
        return httpx.MockTransport(self._answer)

    def _answer(self, request: httpx.Request) -> httpx.Response:
        self.received.append(request)
        found = self.answers[str(request.url.copy_with(query=None))]
        made = found(request) if callable(found) else found
        if isinstance(made.stream, Raw):
            return made
        return httpx.Response(made.status_code, headers=made.headers, stream=Raw(made.content))  # as from a network


def to(location: str, status: int = 302) -> httpx.Response:
    return httpx.Response(status, headers={"Location": location})


async def ask(web: Web, url: str, *, args: dict[str, Any] | None = None, **fields: Any) -> str:
    tool = http_request(transport=web, values={"SHOP_TOKEN": VALUE}, **fields)
    return await requested(tool, url, **(args or {}))


@pytest.fixture(scope="module")
def there() -> Iterator[Receiver]:
    with receiver() as running:
        yield running


class TestAnswers:
    async def test_status_address_type_and_body(self) -> None:
        web = Web({"https://a.example/x": httpx.Response(404, text="Nö.")})
        assert await ask(web, "https://a.example/x") == (
            "HTTP 404 Not Found\nhttps://a.example/x\nContent-Type: text/plain; charset=utf-8\n\nNö."
        )

    async def test_charsets(self) -> None:
        said = {"Content-Type": "text/html; charset=ISO-8859-1"}
        web = Web({"https://a.example/": httpx.Response(200, headers=said, content="Nö".encode("latin-1"))})
        assert (await ask(web, "https://a.example")).endswith("\n\nNö")

    async def test_binary_bodies_are_told_as_what_they_are(self) -> None:
        content = b"\x89PNG\r\n\0\0\xff"
        web = Web({"https://a.example/": httpx.Response(200, headers={"Content-Type": "image/png"}, content=content)})
        assert (await ask(web, "https://a.example")).endswith(
            "\n[The body is binary: 9 bytes of image/png, not shown.]"
        )

    async def test_a_body_in_another_encoding_than_was_asked_for(self) -> None:
        packed = {"Content-Encoding": "gzip", "Content-Type": "text/plain"}
        bomb = gzip.compress(b"x" * 3_000_000)
        web = Web(
            {
                "https://a.example/": lambda _: httpx.Response(
                    200, headers=packed, stream=Raw(gzip.compress(b"small"))
                ),
                "https://a.example/bomb": lambda _: httpx.Response(200, headers=packed, stream=Raw(bomb)),
            }
        )
        assert (await ask(web, "https://a.example")).endswith("\n\nsmall")
        assert web.received[0].headers["Accept-Encoding"] == "identity"
        text = await ask(web, "https://a.example/bomb", limits=Limits(body=1_000_000))
        assert "[Not the whole body: the body is longer than 1000000 bytes.]" in text

    async def test_long_bodies_are_cut_with_a_mark(self) -> None:
        web = Web({"https://a.example/": httpx.Response(200, text="é" * 100_000)})
        text = await ask(web, "https://a.example", settings=RunSettings(max_tool_result_bytes=10_000))
        assert len(text.encode()) <= 10_000
        assert text.endswith("bytes, of which the first 8930 are shown.]")
        assert "[Cut: 200000 bytes" in text

    async def test_json(self) -> None:
        web = Web(
            {
                "https://a.example/": httpx.Response(200, content='{"a":[1,"é"]}'),
                "https://a.example/no": httpx.Response(200, text="[1,"),
            }
        )
        asked = {"as": "json"}
        assert (await ask(web, "https://a.example", args=asked)).endswith('\n\n{\n "a": [\n  1,\n  "é"\n ]\n}')
        assert "[The body is no JSON; it is shown as text.]" in await ask(web, "https://a.example/no", args=asked)

    async def test_pages_as_markdown(self) -> None:
        page = "<html><head><title>Shop</title><script>alert(1)</script></head><h1>Ä</h1><p>a <b>b</b></p>"
        deep = "<div>" * 100_000 + "x"
        web = Web(
            {
                "https://a.example/": httpx.Response(200, html=page),
                "https://a.example/deep": httpx.Response(200, html=deep),
                "https://a.example/text": httpx.Response(200, text="# no page"),
            }
        )
        asked = {"as": "markdown"}
        assert (await ask(web, "https://a.example", args=asked)).endswith("---\ntitle: Shop\n---\n\n# Ä\n\na **b**\n")
        assert "cannot be shown as markdown" in await ask(web, "https://a.example/deep", args=asked)
        assert "[The body is no HTML; it is shown as text.]" in await ask(web, "https://a.example/text", args=asked)

    async def test_head_and_empty_bodies(self) -> None:
        web = Web({"https://a.example/": httpx.Response(204)})
        text = await ask(web, "https://a.example", args={"method": "HEAD"})
        assert text == "HTTP 204 No Content\nhttps://a.example/\n[The body is empty.]"


class Raw(httpx.AsyncByteStream):
    def __init__(self, data: bytes) -> None:
        self._data = data

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self._data


class TestRedirects:
    async def test_they_are_followed_as_browsers_do(self) -> None:
        web = Web(
            {
                "https://a.example/post": to("/seen", 303),
                "https://a.example/seen": to("https://b.example/there", 307),
                "https://b.example/there": httpx.Response(200, text="ok"),
            }
        )
        given = {"method": "POST", "body": '{"a": 1}', "headers": {"X-Key": "k", "Accept": "text/*"}}
        text = await ask(web, "https://a.example/post", args=given)
        assert text.startswith("HTTP 200 OK\nhttps://b.example/there\n")
        first, second, third = web.received
        assert (first.method, first.content, first.headers["Content-Type"]) == ("POST", b'{"a": 1}', "application/json")
        assert (second.method, second.content, second.headers["X-Key"]) == ("GET", b"", "k")
        assert "Content-Type" not in second.headers
        assert "X-Key" not in third.headers
        assert third.headers["Accept"] == "text/*"

    @pytest.mark.parametrize(
        ("location", "fields", "reason"),
        [
            ("http://127.0.0.1/", {}, "127.0.0.1 is no address of the public internet"),
            ("http://0x7f000001/", {}, "127.0.0.1 is no address of the public internet"),
            ("http://169.254.169.254/latest", {}, "HOST is no address of the public internet"),
            ("http://168.63.129.16/", {}, "HOST is no address of the public internet"),
            ("http://[::1]/", {}, "HOST is no address of the public internet"),
            ("ftp://b.example/", {}, "its address is not usable"),
            ("https://b.example/", {"allow_hosts": ("a.example",)}, "b.example is not one of the hosts"),
            ("https://b.example/", {"deny": ("http_request(* https://b.example/*)",)}, "it takes a call of its own"),
            ("https://b.example/", {"confirm": ("http_request(GET https://b.*)",)}, "it takes a call of its own"),
        ],
    )
    async def test_each_is_checked_like_a_call(self, location: str, fields: dict[str, Any], reason: str) -> None:
        web = Web({"https://a.example/": to(location)})
        text = await ask(web, "https://a.example", **fields)
        assert text.startswith("HTTP 302 Found\nhttps://a.example/\n")
        reason = reason.replace("HOST", location.split("/")[2].strip("[]"))
        assert f"[The redirect was not followed: {reason}" in text
        assert len(web.received) == 1

    async def test_a_method_that_asks_is_not_repeated_elsewhere(self) -> None:
        web = Web({"https://a.example/": to("https://a.example/b", 307), "https://a.example/b": httpx.Response(200)})
        given = {"method": "POST", "body": "x"}
        assert "it takes a call of its own" in await ask(web, "https://a.example", args=given)
        text = await ask(web, "https://a.example", args=given, auto_approve=("http_request(POST https://a.example/*)",))
        assert text.startswith("HTTP 200 OK")
        assert [request.content for request in web.received] == [b"x", b"x", b"x"]

    async def test_there_are_not_too_many(self) -> None:
        web = Web({"https://a.example/": to("/")})
        assert "[The redirect was not followed: there were more than 5 redirects.]" in await ask(
            web, "https://a.example"
        )
        assert len(web.received) == 6

    async def test_one_that_fails_is_told_with_the_answer_before_it(self) -> None:
        def fails(_: httpx.Request) -> httpx.Response:
            raise httpx.ReadError("gone")

        web = Web({"https://a.example/": to("/b", 303), "https://a.example/b": fails})
        text = await ask(web, "https://a.example", args={"method": "POST"})
        assert text.startswith("HTTP 303 See Other\n")
        assert "the connection ended before an answer (ReadError: gone)" in text


class TestSecrets:
    async def test_they_are_filled_for_their_host_only(self) -> None:
        web = Web({"https://shop.example/": httpx.Response(200)})
        given = {"headers": {"Authorization": "Bearer ${SHOP_TOKEN}"}}
        text = await ask(web, "https://shop.example/?key=${SHOP_TOKEN}", args=given, secrets=(TOKEN,))
        (sent,) = web.received
        assert sent.headers["Authorization"] == f"Bearer {VALUE}"
        assert sent.url.params["key"] == VALUE
        assert text.startswith("HTTP 200 OK\nhttps://shop.example/?key=${SHOP_TOKEN}\n")
        with pytest.raises(ToolError, match="is not sent to other"):
            await ask(web, "https://other.example", args=given, secrets=(TOKEN,))

    async def test_what_a_server_echoes_is_masked_in_every_form(self) -> None:
        basic = base64.b64encode(f"me:{VALUE}".encode()).decode()
        forms = [VALUE, quote(VALUE, safe=""), quote(quote(VALUE, safe=""), safe=""), basic, VALUE.encode().hex()]
        page = httpx.Response(500, text="\n".join(forms) + json.dumps({"k": VALUE}))
        web = Web({"https://shop.example/": page})
        text = await ask(web, "https://shop.example/?key=${SHOP_TOKEN}", secrets=(TOKEN,))
        assert text.count(MARK) == 6
        assert VALUE not in text

    async def test_what_is_cut_leaves_no_part_of_one(self) -> None:
        body = "x" * 900 + VALUE
        web = Web({"https://shop.example/": httpx.Response(200, text=body)})
        for size in range(900, 921):
            text = await ask(web, "https://shop.example/?k=${SHOP_TOKEN}", secrets=(TOKEN,), limits=Limits(body=size))
            assert "xcan" not in text

    @pytest.mark.parametrize(
        "location", ["https://other.example/", "http://shop.example/", "https://shop.example:8443/"]
    )
    async def test_none_is_filled_behind_a_redirect_to_another_origin(self, location: str) -> None:
        web = Web({"https://shop.example/": to(location), location: httpx.Response(200)})
        given = {"headers": {"X-Token": "${SHOP_TOKEN}", "Accept": "${SHOP_TOKEN}"}}
        await ask(web, "https://shop.example", args=given, secrets=(TOKEN,))
        assert web.received[0].headers["X-Token"] == VALUE
        assert VALUE not in str([*web.received[1].headers.values(), web.received[1].url])

    async def test_a_redirect_that_carries_one_elsewhere_is_not_followed(self) -> None:
        web = Web({"https://shop.example/": to(f"https://other.example/?next={quote(VALUE, safe='')}")})
        text = await ask(web, "https://shop.example/?k=${SHOP_TOKEN}", secrets=(TOKEN,))
        assert len(web.received) == 1
        assert "holds a secret" in text
        assert VALUE not in text

    async def test_what_looks_like_one_in_a_redirect_is_text(self) -> None:
        web = Web({"https://shop.example/": to("/b?k=${SHOP_TOKEN}"), "https://shop.example/b": httpx.Response(200)})
        await ask(web, "https://shop.example", secrets=(TOKEN,))
        assert web.received[1].url.params["k"] == "${SHOP_TOKEN}"

    async def test_one_without_hosts_goes_through_no_redirect(self) -> None:
        web = Web({"https://shop.example/": to("/b")})
        given = {"headers": {"X-Token": "${SHOP_TOKEN}"}}
        text = await ask(web, "https://shop.example", args=given, secrets=(Secret("SHOP_TOKEN"),))
        assert "it takes a call of its own" in text

    async def test_one_without_a_value_is_named(self) -> None:
        tool = http_request(secrets=(TOKEN,), transport=Web({}))
        with pytest.raises(ToolError, match="nothing was sent: the secret SHOP_TOKEN has no value"):
            await requested(tool, "https://shop.example/?k=${SHOP_TOKEN}")

    async def test_one_that_no_header_takes(self) -> None:
        tool = http_request(secrets=(TOKEN,), transport=Web({}), values={"SHOP_TOKEN": "one\nX-Other: two"})
        with pytest.raises(
            ToolError, match="nothing was sent: the value of a secret in X-Token has a line break"
        ) as said:
            await requested(tool, "https://shop.example/", headers={"X-Token": "${SHOP_TOKEN}"})
        assert "X-Other" not in str(said.value)


class TestConnections:
    """Through the real transport, on loopback."""

    async def test_a_request_as_it_arrives(self, there: Receiver) -> None:
        there.behaviours = [saying(200, b"hello", Content_Type="text/plain")]
        tool = http_request(private=("127.0.0.1",))
        text = await requested(tool, f"http://127.1:{there.port}/a?b=c", method="PUT", body="é", headers={"X-A": "1"})
        assert text.endswith("\n\nhello")
        got = there.received[-1]
        assert (got.path, got.body.decode(), got.headers["x-a"]) == ("/a?b=c", "é", "1")
        assert got.headers["user-agent"].startswith("agentmd/")

    async def test_the_checked_address_is_the_one_that_is_reached(self, there: Receiver) -> None:
        """A name that is public when it is looked up first, and private afterwards, is looked up once."""
        names = Names({"evil.example": [["127.0.0.1"], ["93.184.215.14"]]})
        before = len(there.received)
        with pytest.raises(ToolError, match=r"nothing was sent: evil\.example is at 127\.0\.0\.1, no address"):
            await requested(http_request(resolver=names), f"http://evil.example:{there.port}/")
        rebound = Names({"evil.example": [["192.0.2.1", "127.0.0.1"], ["127.0.0.1"]]})
        with pytest.raises(ToolError, match="no address of the public internet"):
            await requested(http_request(resolver=rebound), f"http://evil.example:{there.port}/")
        assert rebound.asked == ["evil.example"]
        assert len(there.received) == before

    async def test_a_redirect_to_a_name_of_a_private_address(self, there: Receiver) -> None:
        there.behaviours = [answer(302, Location=f"http://evil.example:{there.port}/")]
        names = Names({"evil.example": ["127.0.0.1"]})
        tool = http_request(private=("127.0.0.1",), resolver=names)
        before = len(there.received)
        text = await requested(tool, there.url)
        assert "not followed: evil.example is at 127.0.0.1, no address of the public internet" in text
        assert len(there.received) == before + 1

    @pytest.mark.parametrize(
        ("behave", "said"), [(close_early, "ended before an answer"), (never, "no answer within 0.3 s")]
    )
    async def test_without_an_answer_only_harmless_methods_are_known_to_have_failed(
        self, behave: Any, said: str
    ) -> None:
        with receiver() as there:
            there.behaviours = [behave, behave]
            tool = http_request(private=("127.0.0.1",), limits=Limits(total=0.3))
            with pytest.raises(ToolError, match=said) as failed:
                await requested(tool, there.url)
            assert not isinstance(failed.value, CutOff)
            with pytest.raises(CutOff, match=said):
                await requested(tool, there.url, method="POST")

    async def test_a_body_without_end_is_cut(self) -> None:
        with receiver() as there:
            there.behaviours = [endless]
            tool = http_request(private=("127.0.0.1",), limits=Limits(body=100_000))
            text = await requested(tool, there.url)
        assert "[Not the whole body: the body is longer than 100000 bytes.]" in text

    async def test_nobody_listens(self) -> None:
        with receiver() as gone:
            url = gone.url
        tool = http_request(private=("127.0.0.1",))
        with pytest.raises(ToolError, match=r"nothing was sent: no connection \(ConnectError"):
            await requested(tool, url, method="POST")
