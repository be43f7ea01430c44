"""Addresses have one form however they are spelled, and arguments that could mislead rules or servers are refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_md.agents.spec import Secret
from agent_md.errors import InvalidArguments, ToolError
from agent_md.outbound.urls import fill_query, host_of, normalised_url
from tests.support.requests import http_request

TOKEN = Secret("SHOP_TOKEN", ("shop.example",))
ANY = Secret("FREE_TOKEN")

pieces = st.sampled_from(
    [*"aZ09-._~/?#[]@!$&'()*+,;=:%{}\\ \"<>^`|é\ud800", "%2e", "%2F", "%41", "..", "//", "${A}", "://", "0x7f", "127.1"]
)


class Filled(dict[str, str]):
    """A value for every name."""

    def __missing__(self, name: str) -> str:
        return "a/b"


@pytest.mark.parametrize(
    ("written", "normal"),
    [
        ("HTTPS://Shop.Example", "https://shop.example/"),
        ("https://shop.example.:443/a/./b/../c?x=1#part", "https://shop.example/a/c?x=1"),
        ("http://shop.example:80?q", "http://shop.example/?q"),
        ("https://shop.example/%7euser%2fa%41/é?q=%e9é", "https://shop.example/~user%2FaA/%C3%A9?q=%E9%C3%A9"),
        ("https://shop.example/a%2e%2e/%2e%2e/b", "https://shop.example/b"),
        ("https://shop.example/a\\..\\b", "https://shop.example/a%5C..%5Cb"),
        ("https://shop.example/?key=${SHOP_TOKEN}&x={y}", "https://shop.example/?key=${SHOP_TOKEN}&x=%7By%7D"),
        ("https://shop.example/?k=%24%7BSHOP_TOKEN%7D", "https://shop.example/?k=%24%7BSHOP_TOKEN%7D"),
        ("http://127.1/", "http://127.0.0.1/"),
        ("http://0x7f000001:81/", "http://127.0.0.1:81/"),
        ("http://2130706433", "http://127.0.0.1/"),
        ("http://017700000001/", "http://127.0.0.1/"),
        ("http://[::FFFF:127.0.0.1]/", "http://[::ffff:7f00:1]/"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
    ],
)
def test_one_form(written: str, normal: str) -> None:
    assert normalised_url(written) == normal
    assert normalised_url(normal) == normal


@pytest.mark.parametrize(
    "url",
    [
        *("ftp://a.example/", "file:///etc/passwd", "//a.example/", "a.example", "http://", "http:///x", "http:/a/b"),
        *("http://me:pass@a.example/", "http://me@a.example/", "http://a.example\\@b.example/", "http://a.example/x y"),
        *("http://a.example/\r\nHost: b", "http://127.0.0.%31/", "http://1.2.3.4.5/", "http://a..b/", "http://a:0/"),
        *(
            "http://a:99999/",
            "http://[fe80::1%25eth0]/",
            "http://ａ.example/",
            "http://a.example/\ud800",
            "http://0177.0.0.1/",
        ),
    ],
)
def test_what_is_no_usable_address(url: str) -> None:
    with pytest.raises(InvalidArguments, match="url: "):
        http_request().validate({"url": url})


@given(st.lists(pieces, max_size=12).map("".join))
def test_the_form_is_stable_and_names_the_host_that_is_asked(tail: str) -> None:
    import httpx

    for url in (f"http://{tail}", f"http://host.example/{tail}", f"http://host.example?{tail}"):
        try:
            normal = normalised_url(url)
        except ValueError:
            continue
        assert normalised_url(normal) == normal
        sent = httpx.URL(fill_query(normal, Filled()))
        assert (
            sent.host.strip("[]") == httpx.URL(f"http://[{host_of(normal)}]" if ":" in host_of(normal) else normal).host
        )
        assert (sent.host == "host.example") is (url.startswith("http://host.example") and host_of(normal) == sent.host)
        assert "#" not in normal


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        ({"method": "TRACE"}, "method: "),
        ({"body": "x"}, "body: GET has none"),
        ({"headers": {"Host": "other.example"}}, "headers: Host is set by the connection"),
        ({"headers": {"content-Length": "3"}}, "headers: content-Length is set by the connection"),
        ({"headers": {"Transfer-Encoding": "chunked"}}, "set by the connection"),
        ({"headers": {"X-HTTP-Method-Override": "DELETE"}}, "would make it another method"),
        ({"headers": {"X-A": "a\r\nX-B: b"}}, "X-A has a line break"),
        ({"headers": {"X-A": "a\0"}}, "X-A has a line break or a control character"),
        ({"headers": {"X A": "a"}}, "'X A' is no name of a header"),
        ({"headers": {"${SHOP_TOKEN}": "a"}}, "is no name of a header"),
        ({"headers": {"A": "1", "a": "2"}}, "one is given twice"),
        ({"headers": {"A": 1}}, "headers.A: "),
        (
            {"headers": {"A": "${OTHER}"}},
            r"\$\{OTHER\}: this agent has no such secret; those that it may use are FREE_TOKEN, S",
        ),
        ({"url": "https://shop.example/${SHOP_TOKEN}"}, "never in the host or the path"),
        ({"url": "https://${SHOP_TOKEN}.example/"}, "never in the host or the path"),
        ({"method": "POST", "body": "${SHOP_TOKEN}"}, "is not filled in a body"),
        ({"as": "html"}, "as: "),
        ({"other": 1}, "other: unknown argument"),
    ],
)
def test_arguments_that_are_refused(args: dict[str, Any], problem: str) -> None:
    with pytest.raises(InvalidArguments, match=problem):
        http_request(secrets=(TOKEN, ANY)).validate({"url": "https://shop.example/", **args})


def test_arguments_as_they_are_shown_and_matched() -> None:
    tool = http_request(secrets=(TOKEN,))
    args = tool.validate({"url": "https://SHOP.example/a/../b?k=${SHOP_TOKEN}", "method": "post", "body": "${X}"})
    assert args == {"url": "https://shop.example/b?k=${SHOP_TOKEN}", "method": "POST", "body": "${X}"}
    assert tool.validate(args) == args
    assert tool.subjects(args) == ("POST https://shop.example/b?k=${SHOP_TOKEN}",)
    assert tool.validate({"url": "https://shop.example"}) == {"url": "https://shop.example/", "method": "GET"}


@pytest.mark.parametrize(("method", "free"), [("GET", True), ("HEAD", True), ("OPTIONS", False), ("POST", False)])
def test_what_the_method_says(method: str, free: bool) -> None:
    tool = http_request()
    options = tool.options_for(tool.validate({"url": "https://a.example", "method": method}))
    assert (options.requires_approval, options.read_only, options.idempotent) == (not free, free, free)


def test_a_secret_without_hosts_always_asks() -> None:
    tool = http_request(secrets=(TOKEN, ANY))

    def asks(header: str) -> bool:
        return tool.options_for(tool.validate({"url": "https://shop.example", "headers": {"A": header}})).always_asks

    assert asks("Bearer ${FREE_TOKEN}")
    assert not asks("Bearer ${SHOP_TOKEN}")
    assert not asks("Bearer x")


@pytest.mark.parametrize(
    ("url", "fields", "reason"),
    [
        (
            "https://other.example/",
            {"allow_hosts": ("shop.example", "*.b.example")},
            "other.example is not one of the hosts",
        ),
        ("https://b.example/", {"allow_hosts": ("*.b.example",)}, "is not one of the hosts"),
        (
            "https://other.example/?k=${SHOP_TOKEN}",
            {},
            r"\$\{SHOP_TOKEN\} is not sent to other.example; it is for shop.example",
        ),
        ("http://shop.example/?k=${SHOP_TOKEN}", {}, "not sent without encryption"),
        ("http://127.1/", {}, "127.0.0.1 is no address of the public internet"),
        ("http://0xa9fea9fe/", {"allow_hosts": ("169.254.169.254",)}, "169.254.169.254 is no address"),
        ("http://168.63.129.16/", {}, "no address of the public internet"),
        ("http://[::1]/", {}, "no address of the public internet"),
        ("http://localhost:8000/", {}, "localhost is at 127.0.0.1, no address"),
        ("http://a.localhost./", {}, "no address of the public internet"),
    ],
)
def test_addresses_that_are_refused_before_anybody_is_asked(url: str, fields: dict[str, Any], reason: str) -> None:
    tool = http_request(secrets=(TOKEN,), **fields)
    args = tool.validate({"url": url, "method": "POST"})
    with pytest.raises(ToolError, match=reason):
        tool.subjects(args)
    with pytest.raises(ToolError, match=reason):
        tool.plan(args)


def test_hosts_that_the_workspace_allows() -> None:
    tool = http_request(private=("127.0.0.1", "*.lan"), secrets=(Secret("SHOP_TOKEN", ("127.0.0.1",)),))
    for url in ("http://127.1:8000/?k=${SHOP_TOKEN}", "http://printer.lan/"):
        assert tool.subjects(tool.validate({"url": url}))
