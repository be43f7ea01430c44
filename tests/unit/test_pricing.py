"""What models cost: the table, a user's file over it, and what an answer comes to."""

from __future__ import annotations

import re
import subprocess
import sys
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langchain_core.messages.ai import InputTokenDetails, OutputTokenDetails, UsageMetadata

from agent_md.agents.spec import ModelRef
from agent_md.errors import ConfigInvalid
from agent_md.executions.execution import Usage
from agent_md.models.pricing import Price, Prices, Rates, built_in, load_prices, price_of
from agent_md.models.usage import cost_of, usage_of

BUILT_IN = load_prices(None)
AS_OF, TABLE = built_in()


def counted(input_tokens: int, output_tokens: int, given: Any = None, told: Any = None) -> UsageMetadata:
    return UsageMetadata(
        input_tokens=input_tokens,
        output_tokens=output_tokens,
        total_tokens=input_tokens + output_tokens,
        input_token_details=InputTokenDetails(**(given or {})),
        output_token_details=OutputTokenDetails(**(told or {})),
    )


def with_file(folder: Path, text: str) -> Prices:
    path = folder / "prices.yaml"
    path.write_text(text)
    return load_prices(path)


class TestTheTable:
    def test_is_dated_and_prices_the_default_model(self) -> None:
        assert date.fromisoformat(AS_OF) <= date.today()  # noqa: DTZ011 - any zone will do
        assert price_of(ModelRef("google", "gemini-2.5-flash"), BUILT_IN) == Price(Rates(0.30, 2.50, 0.03))

    def test_its_date_is_the_one_in_the_documentation(self) -> None:
        documented = (Path(__file__).parents[2] / "docs/models.md").read_text(encoding="utf-8")
        assert f"dated {AS_OF}" in documented

    def test_every_price_is_plausible(self) -> None:
        assert {key.split("/")[0] for key in TABLE} == {"google", "openai", "anthropic"}
        for key, price in TABLE.items():
            for rates in filter(None, (price.rates, price.long)):
                assert 0.01 <= rates.input < rates.output <= 100, key
                assert rates.cached_input is None or 0 < rates.cached_input < rates.input, key
                assert rates.cache_write is None or rates.input < rates.cache_write < 2 * rates.input, key
            assert (price.long is None) == (price.long_above == 0), key
            assert price.long is None or price.long.input > price.rates.input, key

    @pytest.mark.parametrize(
        ("name", "key"),
        [
            ("google/gemini-2.5-flash", "google/gemini-2.5-flash"),
            ("google/gemini-2.5-flash-preview-09-2025", "google/gemini-2.5-flash"),
            ("google/gemini-2.5-flash-lite-001", "google/gemini-2.5-flash-lite"),
            ("google/gemini-2.5-flash-image", None),
            ("google/gemini-2.5-flash-preview-tts", None),
            ("google/gemini-2.5", None),
            ("openai/gpt-4o-2024-08-06", "openai/gpt-4o"),
            ("openai/gpt-4o-2024-05-13", "openai/gpt-4o-2024-05-13"),
            ("openai/gpt-4o-audio-preview", None),
            ("openai/gpt-5-chat-latest", "openai/gpt-5-chat"),
            ("openai/gpt-5-pro", None),
            ("openai/gpt-5.9", None),
            ("openai/o1-pro", None),
            ("anthropic/claude-sonnet-4-5-20250929", "anthropic/claude-sonnet-4-5"),
            ("anthropic/claude-sonnet-4-20250514", "anthropic/claude-sonnet-4"),
            ("anthropic/claude-opus-4-9", None),
            ("google/claude-opus-4", None),
            ("ollama/llama3.3", None),
            ("local/gpt-4o", None),
        ],
    )
    def test_a_name_stands_for_its_dated_versions_and_for_nothing_else(self, name: str, key: str | None) -> None:
        provider, _, model = name.partition("/")
        expected = None if key is None else TABLE[key]
        assert price_of(ModelRef(provider, model), BUILT_IN) == expected

    def test_reading_it_imports_no_framework(self) -> None:
        code = (
            "import sys; from agent_md.models.pricing import load_prices; load_prices(None); "
            "print({name.split('.')[0] for name in sys.modules} & {'langchain_core', 'langgraph', 'pydantic'})"
        )
        ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert ran.stdout == "set()\n"


class TestAFile:
    def test_comes_before_the_table(self, tmp_path: Path) -> None:
        prices = with_file(
            tmp_path,
            "prices:\n  google/gemini-2.5-flash: {input: 1, output: 2}\n  ollama/*: {input: 0, output: 0}\n"
            "  openai/*: {input: 7, output: 8}\n  openai/gpt-4*: {input: 5, output: 6}\n",
        )
        found = {
            name: price_of(ModelRef(*name.split("/")), prices)
            for name in ("google/gemini-2.5-flash", "ollama/llama3.3:8b", "openai/gpt-4o", "openai/o3", "google/x")
        }
        assert found == {
            "google/gemini-2.5-flash": Price(Rates(1, 2)),
            "ollama/llama3.3:8b": Price(Rates(0, 0)),
            "openai/gpt-4o": Price(Rates(5, 6)),
            "openai/o3": Price(Rates(7, 8)),
            "google/x": None,
        }
        assert price_of(ModelRef("anthropic", "claude-haiku-4-5"), prices) is not None

    def test_takes_all_that_the_table_has(self, tmp_path: Path) -> None:
        rates = "input: 1, output: 2, cached_input: 0.5, cache_write: 1.25, reasoning: 3"
        text = f'as_of: "2026-01-01"\nprices:\n  local/m: {{{rates}, long: {{above: 1000, {rates}}}}}\n'
        whole = Rates(1, 2, 0.5, 1.25, 3)
        assert price_of(ModelRef("local", "m"), with_file(tmp_path, text)) == Price(whole, whole, 1000)

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("", "prices.yaml: the file is empty; it starts with `prices:`"),
            ("price: {}", "line 1: the file has an unknown key 'price'; did you mean 'prices'?"),
            ("prices: []", "line 1: prices is a list, expected a mapping"),
            ("prices:\n  m: {input: 1, output: 2}", "line 2: 'm' is not PROVIDER/MODEL"),
            ("prices:\n  gogle/m: {input: 1, output: 2}", "line 2: 'gogle/m' is not PROVIDER/MODEL"),
            ("prices:\n  script/m: {input: 1, output: 2}", "line 2: 'script/m' is not PROVIDER/MODEL"),
            ("prices:\n  openai/: {input: 1, output: 2}", "line 2: 'openai/' is not PROVIDER/MODEL"),
            ("prices:\n  openai/*x: {input: 1, output: 2}", "line 2: 'openai/*x' is not PROVIDER/MODEL"),
            ("prices:\n  openai/x: {input: 1}", "line 2: openai/x has no 'output'"),
            ("prices:\n  openai/x: {input: 1, output: -2}", "line 2: openai/x.output is -2, expected a number"),
            ("prices:\n  openai/x: {input: 1, output: free}", "line 2: openai/x.output is free, expected a number"),
            ("prices:\n  openai/x: {input: 1, output: 2, cached: 3}", "did you mean 'cached_input'?"),
            ("prices:\n  openai/x: 3", "line 2: openai/x is a number, expected a mapping"),
            ("prices:\n  a/b: {}\n  a/b: {}", "line 3, column 3: a/b: given twice"),
            ("prices:\n  openai/x: {input: 1, output: 2, long: {input: 1, output: 2}}", "openai/x.long has no 'above'"),
            ("prices: {", "line 1, column 10: YAML cannot read this"),
        ],
    )
    def test_mistakes_are_named_with_file_and_line(self, tmp_path: Path, text: str, problem: str) -> None:
        with pytest.raises(ConfigInvalid, match=re.escape(problem)) as caught:
            with_file(tmp_path, text)
        assert str(caught.value).startswith(str(tmp_path / "prices.yaml"))

    def test_that_cannot_be_read_says_who_names_it(self, tmp_path: Path) -> None:
        with pytest.raises(
            ConfigInvalid, match=r"no\.yaml, named by `prices` in config\.yaml: the file does not exist"
        ):
            load_prices(tmp_path / "no.yaml")
        (tmp_path / "latin.yaml").write_bytes(b"\xe4")
        with pytest.raises(ConfigInvalid, match="is not UTF-8"):
            load_prices(tmp_path / "latin.yaml")


class TestCosts:
    PRICE = Price(Rates(10, 100, cached_input=1, cache_write=12.5, reasoning=50))

    @pytest.mark.parametrize(
        ("usage", "dollars"),
        [
            (counted(1_000_000, 0), 10),
            (counted(0, 1_000_000), 100),
            (counted(1_000_000, 0, {"cache_read": 400_000}), 6.4),
            (counted(1_000_000, 0, {"cache_read": 400_000, "cache_creation": 200_000}), 6.9),
            (counted(1_000_000, 0, {"cache_creation": 0, "ephemeral_5m_input_tokens": 200_000}), 10.5),
            (counted(0, 1_000_000, told={"reasoning": 400_000}), 80),
            (counted(0, 0), 0),
            (counted(100, 0, {"cache_read": None}), 0.001),
            (counted(100, 0, {"cache_read": 200}), 0.0002),
        ],
    )
    def test_cached_and_reasoning_tokens_are_part_of_the_others(self, usage: UsageMetadata, dollars: float) -> None:
        assert cost_of(usage, self.PRICE) == pytest.approx(dollars)

    def test_what_is_not_priced_apart_costs_as_much_as_the_rest(self) -> None:
        usage = counted(1_000_000, 1_000_000, {"cache_read": 5, "cache_creation": 5}, {"reasoning": 5})
        assert cost_of(usage, Price(Rates(10, 100))) == pytest.approx(110)

    @pytest.mark.parametrize(
        "usage",
        [
            counted(10, 0, {"ephemeral_1h_input_tokens": 5}),
            counted(10, 0, {"audio": 5}),
            counted(10, 10, {"priority": 10, "priority_cache_read": 0}),
            counted(10, 10, told={"flex": 10}),
        ],
    )
    def test_what_the_price_does_not_tell_of_has_an_unknown_cost(self, usage: UsageMetadata) -> None:
        assert cost_of(usage, self.PRICE) is None

    @pytest.mark.parametrize(("tokens", "dollars"), [(200_000, 0.2), (200_001, 0.400002)])
    def test_a_long_call_costs_more_throughout(self, tokens: int, dollars: float) -> None:
        assert cost_of(counted(tokens, 0), Price(Rates(1, 2), Rates(2, 4), 200_000)) == pytest.approx(dollars)


class TestUsage:
    REF = ModelRef("openai", "gpt-4o-mini")

    def test_is_what_the_provider_counted_and_what_it_costs(self) -> None:
        message = AIMessage("Hi.", usage_metadata=counted(1000, 200, {"cache_read": 400}, {"reasoning": 50}))
        assert usage_of(message, self.REF, BUILT_IN) == Usage(1000, 200, pytest.approx(0.00024))

    def test_without_a_price_or_a_count_the_cost_is_unknown_and_not_0(self) -> None:
        message = AIMessage("Hi.", usage_metadata=counted(1000, 200))
        assert usage_of(message, ModelRef("ollama", "llama3.3"), BUILT_IN) == Usage(1000, 200, None)
        assert usage_of(AIMessage("Hi."), self.REF, BUILT_IN) == Usage(0, 0, None)

    @pytest.mark.parametrize(
        ("given", "told", "kept"),
        [(0, 0, (0, 0)), (0, 7, (0, 7)), (-5, 7, (0, 7)), (5, -7, (5, 0)), (10**30, 1, (0, 1)), (1, 10**30, (1, 0))],
    )
    def test_of_a_count_that_cannot_be_true_the_cost_is_unknown(
        self, given: int, told: int, kept: tuple[int, int]
    ) -> None:
        message = AIMessage("Hi.", usage_metadata=counted(given, told))
        assert usage_of(message, self.REF, BUILT_IN) == Usage(*kept, None)

    def test_of_a_script_is_what_it_says(self) -> None:
        message = AIMessage("Hi.", response_metadata={"cost_usd": 0.5}, usage_metadata=counted(1, 2))
        assert usage_of(message, ModelRef("script", "x"), Prices({}, dict)) == Usage(1, 2, 0.5)
