"""The guard of outgoing addresses against what the standard library knows of addresses."""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_md.outbound.addresses import host_allowed, is_public, plain_host

ODD_4 = [IPv4Network(network) for network in ("192.0.0.0/24", "192.88.99.0/24", "168.63.129.16/32")]
"""Where versions of the library differ: single addresses that a registry calls global, and the relays of 6to4. Where it
does not know what is served there: the platform of a cloud."""

FORMS_OF_4 = ["::ffff:{}", "64:ff9b::{}"]
HIDING_4 = ["::{}", "::ffff:0:{}", "64:ff9b:1::{}", "fe80::{}", "fd00::{}", "::1:{}"]

any_4 = st.integers(0, 2**32 - 1).map(IPv4Address)
special_4 = st.one_of(
    *(
        st.integers(int(network[0]), int(network[-1])).map(IPv4Address)
        for network in map(
            IPv4Network,
            (
                *("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12"),
                *("192.168.0.0/16", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4"),
            ),
        )
    )
)
some_4 = any_4 | special_4
any_6 = st.integers(0, 2**128 - 1).map(IPv6Address)
global_6 = st.integers(2**125, 2**126 - 1).map(IPv6Address)


@given(some_4)
def test_ipv4_is_public_when_it_is_global_and_no_multicast(address: IPv4Address) -> None:
    if not any(address in network for network in ODD_4):
        assert is_public(address) == (address.is_global and not address.is_multicast)


@given(special_4)
def test_ipv4_of_special_use_is_never_public(address: IPv4Address) -> None:
    assert not is_public(address)


@given(some_4, st.sampled_from(FORMS_OF_4))
def test_ipv6_that_stands_for_ipv4_is_judged_by_it(address: IPv4Address, form: str) -> None:
    assert is_public(ip_address(form.format(address))) == is_public(address)


@given(some_4, st.sampled_from(HIDING_4))
def test_ipv6_that_hides_ipv4_is_never_public(address: IPv4Address, form: str) -> None:
    assert not is_public(ip_address(form.format(address)))


@given(some_4, st.integers(0, 2**80 - 1))
def test_6to4_and_teredo_are_never_public(address: IPv4Address, rest: int) -> None:
    assert not is_public(IPv6Address((0x2002 << 112) | (int(address) << 80) | rest))
    assert not is_public(IPv6Address((0x2001_0000 << 96) | (int(address) << 64) | (rest & 0xFFFF_FFFF_FFFF_FFFF)))


@given(any_6 | global_6)
def test_ipv6_is_public_only_if_the_library_finds_nothing_special(address: IPv6Address) -> None:
    if is_public(address) and address not in IPv6Network("64:ff9b::/96") and address.ipv4_mapped is None:
        assert address.is_global
        special = (address.is_private, address.is_loopback, address.is_link_local, address.is_site_local)
        assert not any((*special, address.is_multicast, address.is_reserved, address.is_unspecified))


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "2a00:1450:4001::1", "192.0.1.1", "223.255.255.255"])
def test_public_ones(address: str) -> None:
    assert is_public(ip_address(address))


@pytest.mark.parametrize(
    "address",
    ["::1", "::", "fe80::1%eth0", "ff02::1", "fc00::1", "2001:db8::1", "3fff::1", "169.254.169.254", "0.0.0.0"],
)
def test_others(address: str) -> None:
    assert not is_public(ip_address(address))


@pytest.mark.parametrize(
    ("host", "allowed", "is_allowed"),
    [
        ("hooks.lan", ["hooks.lan"], True),
        ("HOOKS.lan.", ["hooks.lan"], True),
        ("a.hooks.lan", ["hooks.lan"], False),
        ("a.hooks.lan", ["*.hooks.lan"], True),
        ("hooks.lan", ["*.hooks.lan"], False),
        ("evilhooks.lan", ["*.hooks.lan"], False),
        ("127.0.0.1", ["127.0.0.1"], True),
        ("127.0.0.2", ["127.0.0.1"], False),
        ("127.1", ["127.0.0.1"], False),
        ("0:0:0:0:0:0:0:1", ["::1"], True),
        ("::ffff:127.0.0.1", ["127.0.0.1"], False),
        ("anything", [], False),
    ],
)
def test_allowed_hosts(host: str, allowed: list[str], is_allowed: bool) -> None:
    assert host_allowed(host, [plain_host(name) for name in allowed]) is is_allowed
