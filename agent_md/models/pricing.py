"""What models cost: the built-in table, and a user's file over it. Imports no framework."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from agent_md.agents.defaults import PROVIDERS
from agent_md.agents.files import Unreadable, decode, read_file
from agent_md.agents.spec import ModelRef
from agent_md.agents.yamltree import MAX_BYTES, Node
from agent_md.errors import ConfigInvalid
from agent_md.models.yaml_values import NodeReader

__all__ = ["Price", "Prices", "Rates", "load_prices", "price_of"]

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


@dataclass(frozen=True, slots=True)
class Prices:
    """Tables of prices by `provider/name` or `provider/prefix*`; what is found in an earlier one counts."""

    tables: tuple[Mapping[str, Price], ...]
    as_of: str
    """The date of the built-in table, `YYYY-MM-DD`."""


def load_prices(user_file: Path | None) -> Prices:
    """The built-in prices under those of a file. Raises ConfigInvalid naming file and line of a mistake in it."""
    built_in = files("agent_md.models") / "prices.yaml"
    as_of, table = _Grammar("prices.yaml").read(built_in.read_text(encoding="utf-8"))
    if user_file is None:
        return Prices((table,), as_of)
    try:
        text = decode(read_file(user_file, MAX_BYTES))
    except Unreadable as error:
        raise ConfigInvalid(f"{user_file}, named by `prices` in config.yaml: the file {error}") from None
    return Prices((_Grammar(str(user_file)).read(text)[1], table), as_of)


def price_of(ref: ModelRef, prices: Prices) -> Price | None:
    """What the model costs; None = unknown, which is not 0. Of several names that fit, the longest one counts."""
    name = str(ref)
    for table in prices.tables:
        if (key := max(_fitting(name, table), key=len, default=None)) is not None:
            return table[key]
    return None


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
    """What may stand where in a file of prices."""

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
