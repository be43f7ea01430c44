"""Prices of models: the built-in table, overridden by a user's file. Imports no framework."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path

from agent_md.agents.defaults import PROVIDERS
from agent_md.agents.files import Unreadable, decode, read_file
from agent_md.agents.spec import ModelRef
from agent_md.agents.yaml_positions import MAX_BYTES, Node
from agent_md.errors import ConfigInvalid
from agent_md.models.yaml_values import NodeReader

__all__ = ["Price", "Prices", "Rates", "built_in", "built_in_table", "load_prices", "price_of"]

_VERSION = re.compile(r"-(\d{8}|\d{4}-\d\d-\d\d|\d{3,4}|latest|exp|preview(-\d\d-\d\d(\d\d)?)?)")
"""What may follow a name in the table: the date or the stage of a model. Anything else is another model."""


@dataclass(frozen=True, slots=True)
class Rates:
    """US dollars for a million tokens. None = not priced apart: as `input`, and `reasoning` as `output`."""

    input: float
    output: float
    cached_input: float | None = None
    cache_write: float | None = None
    reasoning: float | None = None


@dataclass(frozen=True, slots=True)
class Price:
    """What a model costs; calls with more than `long_above` input tokens cost `long` throughout, where there is one."""

    rates: Rates
    long: Rates | None = None
    long_above: int = 0

    def rates_for(self, input_tokens: int) -> Rates:
        """The rates of a call with so many input tokens, cached ones included."""
        return self.long if self.long is not None and input_tokens > self.long_above else self.rates


@cache
def built_in() -> tuple[str, Mapping[str, Price]]:
    """The date of the built-in table, `YYYY-MM-DD`, and its prices."""
    return _Grammar("prices.yaml").read((files("agent_md.models") / "prices.yaml").read_text(encoding="utf-8"))


def built_in_table() -> Mapping[str, Price]:
    """The built-in prices. Reading them takes a while, so only what looks for a price of a real model calls this."""
    return built_in()[1]


@dataclass(frozen=True, slots=True)
class Prices:
    """A user's prices by `provider/name` or `provider/prefix*`, and what counts for models that these do not name."""

    own: Mapping[str, Price] = field(default_factory=dict)
    others: Callable[[], Mapping[str, Price]] = built_in_table


def load_prices(user_file: Path | None) -> Prices:
    """The built-in prices under those of a file. Raises ConfigInvalid naming file and line of a mistake in it."""
    if user_file is None:
        return Prices()
    try:
        text = decode(read_file(user_file, MAX_BYTES))
    except Unreadable as error:
        raise ConfigInvalid(f"{user_file}, named by `prices` in config.yaml: the file {error}") from None
    return Prices(_Grammar(str(user_file)).read(text)[1])


def price_of(ref: ModelRef, prices: Prices) -> Price | None:
    """What the model costs; None = unknown, which is not 0. Of several names that fit, the longest one counts."""
    if ref.provider not in _PRICED:
        return None
    found = _longest(str(ref), prices.own)
    return found if found is not None else _longest(str(ref), prices.others())


def _longest(name: str, table: Mapping[str, Price]) -> Price | None:
    key = max(_fitting(name, table), key=len, default=None)
    return None if key is None else table[key]


def _fitting(name: str, keys: Iterable[str]) -> Iterable[str]:
    for key in keys:
        if key.endswith("*"):
            fits = name.startswith(key[:-1])
        else:
            fits = name == key or (name.startswith(key) and _VERSION.fullmatch(name[len(key) :]) is not None)
        if fits:
            yield key


_PRICED = tuple(provider for provider in PROVIDERS if provider != "script")
_RATES = ("input", "output", "cached_input", "cache_write", "reasoning")


class _Grammar:
    """The keys and values of a price file."""

    def __init__(self, path: str) -> None:
        self._read = NodeReader(path, ConfigInvalid)

    def read(self, text: str) -> tuple[str, dict[str, Price]]:
        """The date of the file, if it has one, and its prices."""
        root = self._read.root(text, "prices")
        parts = self._read.mapping(root, "the file", {"as_of", "prices"}, required={"prices"})
        as_of = self._read.text(parts["as_of"], "as_of") if "as_of" in parts else ""
        entries = self._read.entries(parts["prices"], "prices")
        return as_of, {key: self._price(key, node) for key, node in entries.items()}

    def _price(self, key: str, node: Node) -> Price:
        provider, slash, name = key.partition("/")
        if provider not in _PRICED or not slash or not name or "*" in name[:-1]:
            self._read.refuse(
                node,
                f"{key!r} is not PROVIDER/MODEL; a provider is one of {', '.join(_PRICED)}, and `*` may only be the "
                "last sign of a model",
            )
        parts = self._read.mapping(node, key, {*_RATES, "long"}, required={"input", "output"})
        rates = self._rates(parts, key)
        if "long" not in parts:
            return Price(rates)
        what = f"{key}.long"
        long = self._read.mapping(parts["long"], what, {*_RATES, "above"}, required={"above", "input", "output"})
        return Price(rates, self._rates(long, what), self._read.count(long["above"], f"{what}.above"))

    def _rates(self, parts: Mapping[str, Node], what: str) -> Rates:
        given = {name: self._read.number(parts[name], f"{what}.{name}") for name in _RATES if name in parts}
        return Rates(**given)
