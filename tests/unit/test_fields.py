"""Every field of an agent file: what it takes, what it gives, what it refuses."""

from __future__ import annotations

import re
from typing import Any

import pytest

from agent_md.agents.cron_syntax import parse_cron
from agent_md.agents.defaults import Defaults
from agent_md.agents.names import default_icon
from agent_md.agents.parse_spec import FIELDS, RESERVED, parse_agent
from agent_md.agents.spec import AgentSpec, ModelRef, NotifyTarget, PathMount, RunSettings, Secret, Trigger
from agent_md.errors import AgentFileInvalid
from tests.support.agent_texts import FILE, agent_file, mistakes_in, spec_of


def test_an_empty_file_is_all_defaults() -> None:
    defaults = Defaults(
        provider="script",
        model="cleaner",
        settings=RunSettings(timeout=7.0, max_cost_usd=1.0),
        history=50,
        on_pending="parallel",
        confirm_timeout=60.0,
        confirm_tools=("deploy",),
    )

    assert parse_agent(agent_file(""), FILE, defaults) == AgentSpec(
        name="cleaner",
        body="You tidy up.\n",
        model=ModelRef("script", "cleaner"),
        icon=default_icon("cleaner"),
        settings=RunSettings(timeout=7.0, max_cost_usd=1.0),
        history=50,
        confirm_tools=("deploy",),
        on_pending="parallel",
        confirm_timeout=60.0,
        source_path=FILE,
    )


@pytest.mark.parametrize("field", FIELDS)
def test_null_is_the_default(field: str) -> None:
    assert spec_of(f"{field}:") == spec_of("") == spec_of(f"{field}: ~")


@pytest.mark.parametrize(
    ("settings", "field", "value"),
    [
        ("name: Größe 2_b-c", "name", "Größe 2_b-c"),
        ("name: 掃除", "name", "掃除"),
        ("name: 'no'", "name", "no"),
        ("name: '007'", "name", "007"),
        ("description: Tidies up", "description", "Tidies up"),
        ("description: '1.10'", "description", "1.10"),
        ('description: "a # b"', "description", "a # b"),
        ("icon: 🧹", "icon", "🧹"),
        ("enabled: false", "enabled", False),
        ("enabled: off  # for now", "enabled", False),
        ("enabled: Yes", "enabled", True),
        ("model: {provider: local, name: qwen3, base_url: http://localhost:1234/v1}", "model", ModelRef("local", "qwen3", "http://localhost:1234/v1")),
        ("model: {name: gemini-x, url: '${GATEWAY}'}", "model", ModelRef("google", "gemini-x", "${GATEWAY}")),
        ("model: {provider: google}", "model", ModelRef("google", "gemini-2.5-flash")),
        ("model: {provider: script, name: '4'}", "model", ModelRef("script", "4")),
        (
            "settings:\n  temperature: 0.70\n  max_tokens: 1_000\n  timeout: 5\n  max_tool_calls: 3\n"
            "  max_execution_tokens: 10\n  max_cost_usd: 0.5\n  max_cost_usd_per_day: 2\n  loop_detection: no\n"
            "  max_tool_result_bytes: 5000",
            "settings",
            RunSettings(0.7, 1000, 5.0, 3, 10, 0.5, 2.0, False, 5000),
        ),
        ("trigger: {type: manual}", "trigger", Trigger()),
        ("trigger: {type: schedule, every: 2h}", "trigger", Trigger("schedule", every=7200.0)),
        (
            "trigger: {type: schedule, cron: 0 8 * * mon-fri, timezone: Europe/Berlin, catch_up: all}",
            "trigger",
            Trigger("schedule", cron="0 8 * * mon-fri", timezone="Europe/Berlin", catch_up="all"),
        ),
        (
            "trigger: {type: watch, paths: inbox/**/*.txt, debounce: 5s, ignore: ['*.tmp']}",
            "trigger",
            Trigger("watch", paths=("inbox/**/*.txt",), debounce=5.0, ignore=("*.tmp",)),
        ),
        (
            "trigger: {type: webhook, secret: '${HOOK_SECRET}'}",
            "trigger",
            Trigger("webhook", secret="${HOOK_SECRET}"),
        ),
        (
            "trigger: {type: watch, paths: [a, b], catch_up: skip}",
            "trigger",
            Trigger("watch", paths=("a", "b"), catch_up="skip"),
        ),
        ("history: low", "history", 10),
        ("history: medium", "history", 50),
        ("history: high", "history", 200),
        ("history: off", "history", 0),
        ("history: 'off'", "history", 0),
        ("confirm: file_edit", "confirm", ("file_edit",)),
        ("confirm: []", "confirm", ()),
        ("confirm:\n- file_edit\n- http_request(POST *)  # writes", "confirm", ("file_edit", "http_request(POST *)")),
        ("auto_approve: '*'", "auto_approve", ("*",)),
        ("auto_approve: all", "auto_approve", ("*",)),
        ("auto_approve: [file_write, all]", "auto_approve", ("*",)),
        ("auto_approve: file_write(reports/*)", "auto_approve", ("file_write(reports/*)",)),
        ("deny: [file_delete]", "deny", ("file_delete",)),
        ("allow_hosts: ['*.Example.com', 10.0.0.1]", "allow_hosts", ("*.example.com", "10.0.0.1")),
        ("on_pending: parallel", "on_pending", "parallel"),
        ("confirm_timeout: 1d", "confirm_timeout", 86400.0),
        ("confirm_timeout: none", "confirm_timeout", None),
        (
            "paths:\n  out: ./out\n  on: {path: /data, description: Input, mode: ro}",
            "paths",
            (PathMount("out", "./out"), PathMount("on", "/data", "Input", "ro")),
        ),
        ("tools: deploy", "tools", ("deploy",)),
        ("custom_tools: [a, b]", "tools", ("a", "b")),
        ("mcp: github", "mcp", ("github",)),
        ("skills: [pdf]", "skills", ("pdf",)),
        ("agents: [Big Cleaner]", "agents", ("Big Cleaner",)),
        ("secrets: [A, {name: B, hosts: api.example.com}]", "secrets", (Secret("A"), Secret("B", ("api.example.com",)))),
        (
            "notify:\n- https://example.com/a\n- {url: 'https://example.com/b', token: '${T}', secret: '${S}', events: [turn.failed]}",
            "notify",
            (NotifyTarget("https://example.com/a"), NotifyTarget("https://example.com/b", "${T}", "${S}", ("turn.failed",))),
        ),
        (
            "metadata: {v: 1.10, n: 007, t: 1:30, d: 2024-01-01, y: yes, b: true, i: -3, f: 1.5, z: ~, inf: .inf, e: '', big: 12345678901234567890, l: [1, {on: off}]}",
            "metadata",
            {
                "v": "1.10", "n": "007", "t": "1:30", "d": "2024-01-01", "y": "yes", "b": True, "i": -3, "f": 1.5,
                "z": None, "inf": ".inf", "e": "", "big": "12345678901234567890", "l": [1, {"on": "off"}],
            },
        ),
    ],
)  # fmt: skip
def test_a_field_gives_what_its_author_meant(settings: str, field: str, value: Any) -> None:
    spec = spec_of(settings)

    assert getattr(spec, field) == value
    assert AgentSpec.from_json(spec.to_json()) == spec


@pytest.mark.parametrize(
    ("settings", "texts"),
    [
        ("name: no", ["name: YAML reads no as the boolean false", 'write name: "no"']),
        ("name: 007", ["YAML reads 007 as the number 7", 'write name: "007"']),
        ("name: 1.10", ["as the number 1.1"]),
        ("name: 2024-01-01", ["as the date 2024-01-01"]),
        ("name: 2024-13-45", ["as the date 2024-13-45"]),
        ("name: ' x '", ["starts or ends with a blank"]),
        ("name: ''", ["cannot be empty"]),
        ("name: ../x", ['not "."']),
        ("name: a/b", ['not "/"']),
        ('name: "a\\u202eb"', ["not U+202E"]),
        ("name: 'aaaaa 🧹'", ["a name may have letters"]),
        ("name: " + "é" * 101, ["longer than 200 bytes"]),
        ("name: [a]", ["name: expected a text, read a list"]),
        ("description: 42", ["YAML reads 42 as the number 42", 'write description: "42"']),
        ("description: {a: b}", ["expected a text, read a mapping"]),
        ("icon: a long text as an icon", ["at most 16"]),
        ("enabled: 'false'", ['enabled: expected true or false, read the text "false"']),
        ("enabled: 1", ["expected true or false, read the number 1"]),
        ("model: gemini", ['model: "gemini" is no PROVIDER/NAME; write model: google/gemini ']),
        ("model: [gemini]", ['model: expected a mapping', 'read a list']),
        ("model: {provider: openai}", ["model.name: there is no default model of openai"]),
        ("model: {provider: opnai, name: x}", ["did you mean openai?"]),
        ("model: {name: 4.1}", ["model.name: YAML reads 4.1 as the number 4.1"]),
        ("model: {base_url: localhost}", ['"localhost" is not an address']),
        ("model:\n  url: http://a\n  base_url: http://b", ["given in line 4 and line 3"]),
        ("settings: [a]", ["settings: expected a mapping"]),
        ("settings: {timeout: '30'}", ['settings.timeout: expected a number, read the text "30"']),
        ("settings: {timeout: 1:30}", ["read 1:30, for YAML the number 90"]),
        ("settings: {timeout: 30m}", ["expected a number"]),
        ("settings: {timeout: 0}", ["out of range"]),
        ("settings: {timeout: .inf}", ["expected a number"]),
        ("settings: {timeout: no}", ["expected a number, read no, for YAML the boolean false"]),
        ("settings: {max_tool_calls: 1.5}", ["expected a whole number, read the number 1.5"]),
        ("settings: {max_tool_calls: 010}", ["read 010, for YAML the number 8"]),
        ("settings: {temperatur: 1}", ["settings.temperatur: did you mean temperature?"]),
        ("trigger: schedule", ['trigger: expected a mapping; write trigger: {type: schedule, cron: "0 7 * * *"}, or']),
        ("trigger: {every: 5m}", ["trigger.type: missing"]),
        ("trigger: {type: schedul}", ["did you mean schedule?"]),
        ("trigger: {type: schedule}", ["trigger.every: missing; give it, or cron"]),
        ("trigger: {type: schedule, every: 5m, cron: 0 0 * * *}", ["not both"]),
        ("trigger: {type: schedule, every: 1:30}", ["YAML reads 1:30 as the number 90"]),
        ("trigger: {type: schedule, every: 30}", ["the unit is missing"]),
        ("trigger: {type: schedule, every: 0s}", ["cannot be 0"]),
        ("trigger: {type: schedule, cron: 10:30:00}", ["as the number 37800", "five fields"]),
        ("trigger: {type: schedule, every: 5m, timezone: Europe/Berlim}", ["did you mean Europe/Berlin?"]),
        ("trigger: {type: schedule, every: 5m, timezone: ../etc/passwd}", ["there is no time zone"]),
        ("trigger: {type: watch}", ["trigger.paths: missing"]),
        ("trigger: {type: watch, paths: a, every: 5m}", ["belongs to a trigger with type: schedule"]),
        ("trigger: {type: manual, catch_up: all}", ["belongs to a trigger with type: schedule or watch"]),
        ("trigger: {type: manual, debounce: 5s}", ["belongs to a trigger with type: watch"]),
        ("history: no", ["expected one of low, medium, high, off, read no, for YAML the boolean false"]),
        ("history: 10", ["expected one of low, medium, high, off, read the number 10"]),
        ("confirm: on", ["confirm: expected names of tools, read on; write confirm: [file_write, file_delete]"]),
        ("auto_approve: true", ['read true; write auto_approve: "*" for all calls, or [file_write, file_delete]']),
        ("deny: no", ["read no; write deny: [file_write, file_delete], or remove it"]),
        ("confirm: file_write(*.txt), file_delete", ["is not one rule; put each rule on a line of its own"]),
        ("model: gpt-4.1-mini", ["write model: openai/gpt-4.1-mini "]),
        ("model: o3", ["write model: openai/o3 "]),
        ("model: claude-sonnet-4-5", ["write model: anthropic/claude-sonnet-4-5 "]),
        ("model: mistral-large", ["write model: PROVIDER/mistral-large (the providers are google, "]),
        ("model: claude/opus", ["write model: anthropic/opus "]),
        ("model: {provider: gemini, name: x}", ["did you mean google?"]),
        ("model: {provider: ChatGPT, name: x}", ["did you mean openai?"]),
        ("trigger: webhook", ['write trigger: {type: webhook, secret: "${HOOK_SECRET}"}']),
        ("trigger: {type: webhook}", ["trigger.secret: missing; give the variable that holds it, such as ${HOOK_SECRET}"]),
        ("trigger: {type: webhook, secret: hunter2}", ["never written in the file; write ${NAME}"]),
        ("trigger: {type: manual, secret: '${S}'}", ["belongs to a trigger with type: webhook"]),
        ("trigger: {type: webhook, secret: ${S}}", ['${S} needs quotes inside braces; write trigger: {type: webhook, secret: "${S}"}']),
        ("tools: [a, ${S}]", ['${S} needs quotes inside braces; write tools: [a, "${S}"]']),
        ("trigger: watch", ["write trigger: {type: watch, paths: [inbox/*.txt]}"]),
        ('schedule: "0 7 * * *"', ['write trigger: {type: schedule, cron: "0 7 * * *"}']),
        ('cron: "0 7 * * *"', ['write trigger: {type: schedule, cron: "0 7 * * *"}']),
        ("every: 2h", ["write trigger: {type: schedule, every: 2h}"]),
        ("schedule: 2h", ["write trigger: {type: schedule, every: 2h}"]),
        ("allowed_tools: [file_read]", ["did you mean confirm, auto_approve or deny?"]),
        ("permissions: {}", ["did you mean confirm, auto_approve or deny?"]),
        ("confirm: file_edit, file_write", ["not one rule"]),
        ("confirm: {file_edit: true}", ["expected a list, read a mapping"]),
        ("confirm: [[a]]", ["expected a text, read a list"]),
        ("confirm: 5", ["YAML reads 5 as the number 5"]),
        ("confirm:\n- a\n-", ["there is an empty item"]),
        ("confirm: '*'", ["only auto_approve"]),
        ("confirm: file_write(", ["no closing bracket"]),
        ("deny: file write", ["is not a rule"]),
        ("allow_hosts: https://example.com", ["write only the host"]),
        ("allow_hosts: example.com:80", ["without a port"]),
        ("allow_hosts: []", ["an empty list allows nothing"]),
        ("on_pending: no", ["expected one of skip, parallel, read no, for YAML the boolean false"]),
        ("confirm_timeout: 30", ["YAML reads 30 as the number 30", "the unit is missing"]),
        ("confirm_timeout: 0s", ["confirm_timeout: 0s leaves no time at all; write a time such as 30m, or none"]),
        ("confirm_timeout: off", ["YAML reads off as the boolean false"]),
        ("paths: ./out", ["paths: expected a mapping"]),
        ("paths: {../x: y}", ["is not an alias"]),
        ("paths: {x: ''}", ["a path cannot be empty"]),
        ("paths: {x: {path: y, mode: r}}", ["paths.x.mode: expected one of ro, rw"]),
        ("paths: {x: {mode: ro}}", ["paths.x.path: missing"]),
        ("tools: ../evil", ["is not a name"]),
        ("tools: a\ncustom_tools: b", ["custom_tools: the same as tools", "line 2 and line 3"]),
        ("agents: a/b", ["a name may have"]),
        ("secrets: [A-B]", ["not a variable name"]),
        ("secrets: [A, A]", ["A is given twice"]),
        ("secrets: [{hosts: x}]", ["secrets.name: missing"]),
        ("notify: ftp://example.com", ["is not an address"]),
        ("notify: {url: https://example.com}", ["expected a list"]),
        ("notify: ['https://ann:pass@example.com']", ["never written in an address"]),
        ("notify: [{url: 'https://example.com', token: abc}]", ["never written in the file"]),
        ("notify: [{url: 'https://example.com', events: done}]", ['there is no event "done"']),
        ("metadata: x", ["metadata: expected a mapping"]),
        ("confrim: x", ["confrim: did you mean confirm?"]),
        ("Name: x", ["Name: did you mean name?"]),
        ("timeout: 5", ["did you mean settings.timeout?"]),
        ("on: x", ["on: there is no such key here; the keys are name, description"]),
        *((f"{field}:", [f"{field}: not supported yet"]) for field in RESERVED),
    ],
)  # fmt: skip
def test_a_wrong_value_is_refused_with_what_was_read(settings: str, texts: list[str]) -> None:
    mistakes = mistakes_in(settings)

    assert len(mistakes.splitlines()) == 1, mistakes
    for text in texts:
        assert text in mistakes


def test_a_secret_written_in_the_file_is_not_repeated_in_the_message() -> None:
    mistakes = mistakes_in("notify:\n- {url: 'https://example.com', token: 12345678, secret: hunter2}")

    assert len(mistakes.splitlines()) == 2
    assert "12345678" not in mistakes
    assert "hunter2" not in mistakes


def test_all_mistakes_of_a_file_are_told_in_its_order() -> None:
    with pytest.raises(AgentFileInvalid) as caught:
        spec_of("name: no\nsettings:\n  timeout: x\n  tmeout: 5\nconfirm: [a, on]")

    assert [line.split(": ")[0] for line in str(caught.value).splitlines()] == [
        f"{FILE}:2:7", f"{FILE}:4:12", f"{FILE}:5:3", f"{FILE}:6:14",
    ]  # fmt: skip


def test_a_file_whose_own_name_is_no_name_must_give_one() -> None:
    with pytest.raises(AgentFileInvalid, match=r"agents/my\.agent\.md:2:1: name: .*add a name"):
        parse_agent(agent_file(""), "agents/my.agent.md", Defaults())
    assert parse_agent(agent_file("name: mine"), "agents/my.agent.md", Defaults()).name == "mine"


def test_a_default_provider_without_a_model_needs_the_agent_to_name_one() -> None:
    defaults = Defaults(provider="ollama", model=None)

    assert "there is no default model of ollama" in mistakes_in("", defaults)
    assert spec_of("model: {name: qwen3}", defaults).model == ModelRef("ollama", "qwen3")


def test_a_default_can_be_taken_away_by_the_word_none() -> None:
    defaults = Defaults(settings=RunSettings(max_cost_usd=1.0), confirm_timeout=60.0)

    spec = spec_of("settings: {max_cost_usd: none}\nconfirm_timeout: none", defaults)

    assert spec.settings.max_cost_usd is None
    assert spec.confirm_timeout is None


def test_the_same_settings_written_out_have_the_same_digest() -> None:
    written = spec_of("settings: {timeout: 1800, max_tool_calls: 50}\nhistory: low\nconfirm: []")

    assert written.digest == spec_of("").digest


def test_the_icon_of_a_name_is_stable() -> None:
    assert default_icon("Größe") == default_icon("gro\u0308ße".upper()) == spec_of("name: größe").icon


@pytest.mark.parametrize(
    ("text", "weekdays"),
    [
        ("0 8 * * 0", {0}), ("0 8 * * 7", {0}), ("0 8 * * 1", {1}), ("0 8 * * sun", {0}), ("0 8 * * 1-5", {1, 2, 3, 4, 5}),
        ("0 8 * * 5-7", {5, 6, 0}), ("0 8 * * FRI-SUN", {5, 6, 0}), ("0 8 * * 0-6/2", {0, 2, 4, 6}),
        ("0 8 * * mon,thu", {1, 4}), ("0 8 * * *", {0, 1, 2, 3, 4, 5, 6}), ("0 8 * * */2", {0, 2, 4, 6}),
    ],
)  # fmt: skip
def test_cron_weekdays_are_the_standard_ones(text: str, weekdays: set[int]) -> None:
    assert parse_cron(text).weekdays == weekdays


def test_cron_fields() -> None:
    cron = parse_cron("*/20 8-18/5 1,15 jan-mar *")

    assert (cron.minutes, cron.hours, cron.days, cron.months) == ({0, 20, 40}, {8, 13, 18}, {1, 15}, {1, 2, 3})
    assert (cron.every_day, cron.every_weekday) == (False, True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("@daily", "write its five fields"),
        ("0 0 * * * *", "read 6"),
        ("0 0 * *", "read 4"),
        ("60 0 * * *", "60 is not a minute"),
        ("0 24 * * *", "24 is not an hour"),
        ("0 0 0 * *", "0 is not a day of the month"),
        ("0 0 L * *", '"l" is not a day of the month'),
        ("0 0 * foo *", '"foo" is not a month (the names are jan'),
        ("0 0 * * 8", "8 is not a day of the week"),
        ("*/0 * * * *", "from 1 to 59"),
        ("5/10 * * * *", "write 5-59/10"),
        ("0 22-2 * * *", "runs backwards; write two ranges, such as 22-23,0-2"),
        ("*-5 * * * *", "is not a minute"),
        ("0 0 31 2,4 *", "never happens"),
        ("٣ * * * *", "is not a minute"),
    ],
)
def test_odd_cron_expressions_are_explained(text: str, expected: str) -> None:
    with pytest.raises(ValueError, match=re.escape(expected)):
        parse_cron(text)


@pytest.mark.parametrize("text", ["0 0 29 2 *", "0 0 31 2 mon", "59 23 31 12 *"])
def test_rare_cron_times_are_times(text: str) -> None:
    assert parse_cron(text).minutes
