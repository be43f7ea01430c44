"""The script model: which turn is played, how it streams, what its file may say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool

from agent_md.agents.spec import ModelRef
from agent_md.error_codes import codes_of
from agent_md.executions.execution import Usage
from agent_md.models.failures import ProviderFailure
from agent_md.models.pricing import Prices
from agent_md.models.script import ScriptFailed, ScriptModel
from agent_md.models.script_file import ScriptInvalid, load_script
from agent_md.models.streaming import stream_answer
from agent_md.models.usage import usage_of

REF = ModelRef("script", "play")

CLEANER = """
conversations:
  - match: {user: "(?i)clean"}
    turns:
      - text: "I found one stale file."
        calls:
          - {name: file_delete, args: {path: output/stale.log}}
          - {name: file_read}
        usage: {input: 40, output: 12, cost: 0.0001}
        additional_kwargs: {signature: c2ln}
      - expect: {tool: file_delete, result: "(?i)deleted"}
        text: "Done."
  - turns: [{text: "I have no script for that."}]
"""


@tool
def file_read(path: str = "") -> str:
    """Reads."""
    return path


FILE_DELETE = {
    "type": "function",
    "function": {"name": "file_delete", "description": "Deletes.", "parameters": {"type": "object", "properties": {}}},
}


def play(folder: Path, text: str, *tools: Any) -> ScriptModel:
    (folder / "play.yaml").write_text(text, encoding="utf-8")
    return ScriptModel.load(folder, "play").bind_tools(tools)


def cleaner(folder: Path) -> ScriptModel:
    return play(folder, CLEANER, FILE_DELETE, file_read)


def one_turn(turn: str) -> str:
    return f"conversations: [{{turns: [{turn}]}}]"


def with_answer(answer: str) -> str:
    return f"{one_turn('{text: a}')}\nanswers: [{answer}]"


def result(text: str, call_id: str, name: str | None = None) -> ToolMessage:
    return ToolMessage(text, tool_call_id=call_id, name=name)


def test_a_turn_has_text_calls_usage_cost_and_provider_data(tmp_path: Path) -> None:
    answer = cleaner(tmp_path).invoke([SystemMessage("s"), HumanMessage("Please CLEAN up")])
    assert answer.text == "I found one stale file."
    assert [(call["id"], call["name"], call["args"]) for call in answer.tool_calls] == [
        ("call_0_0", "file_delete", {"path": "output/stale.log"}),
        ("call_0_1", "file_read", {}),
    ]
    assert answer.additional_kwargs == {"signature": "c2ln"}
    assert usage_of(answer, REF, Prices({}, dict)) == Usage(40, 12, 0.0001)


def test_the_turn_follows_from_the_messages_alone(tmp_path: Path) -> None:
    messages: list[BaseMessage] = [HumanMessage("clean"), cleaner(tmp_path).invoke("clean")]
    messages += [result("File deleted: output/stale.log", "call_0_0"), result("", "call_0_1")]
    for _ in range(2):
        assert cleaner(tmp_path).invoke(messages).text == "Done."


def test_only_the_last_human_message_and_what_follows_count(tmp_path: Path) -> None:
    history = [HumanMessage("hello"), AIMessage("x"), AIMessage("y"), HumanMessage("clean")]
    assert cleaner(tmp_path).invoke(history).text == "I found one stale file."
    assert cleaner(tmp_path).invoke([HumanMessage("clean"), HumanMessage("hello")]).text == "I have no script for that."


def test_calls_of_a_later_turn_have_ids_of_their_own(tmp_path: Path) -> None:
    script = one_turn("{text: one}, {calls: [{name: file_read}, {name: file_read}]}")
    answer = play(tmp_path, script, file_read).invoke([HumanMessage("x"), AIMessage("one")])
    assert answer.text == ""
    assert [call["id"] for call in answer.tool_calls] == ["call_1_0", "call_1_1"]


async def test_all_four_ways_of_asking_give_the_same_answer(tmp_path: Path) -> None:
    model = cleaner(tmp_path)
    whole = model.invoke("clean")
    for other in (
        await model.ainvoke("clean"),
        await stream_answer(model, [HumanMessage("clean")], lambda text: None),
    ):
        for name in ("content", "tool_calls", "usage_metadata", "additional_kwargs", "response_metadata"):
            assert getattr(other, name) == getattr(whole, name), name
    assert next(iter(model.stream("clean"))).content == "I "


def test_the_stream_comes_by_words_then_calls_then_what_was_used(tmp_path: Path) -> None:
    chunks = list(cleaner(tmp_path).stream("clean"))
    assert [chunk.content for chunk in chunks] == ["I ", "found ", "one ", "stale ", "file.", "", "", ""]
    assert [[part["id"] for part in chunk.tool_call_chunks] for chunk in chunks[5:]] == [["call_0_0"], ["call_0_1"], []]
    assert [chunk.chunk_position for chunk in chunks] == [None] * 7 + ["last"]
    assert [chunk.usage_metadata is not None for chunk in chunks] == [False] * 7 + [True]


async def test_no_text_is_an_answer_too(tmp_path: Path) -> None:
    answer = await stream_answer(play(tmp_path, one_turn('{text: ""}')), [HumanMessage("x")], lambda text: None)
    assert (answer.text, answer.tool_calls, usage_of(answer, REF, Prices({}, dict))) == ("", [], Usage(0, 0, 0.0))


def test_a_message_can_be_changed_without_changing_the_script(tmp_path: Path) -> None:
    model = cleaner(tmp_path)
    answer = model.invoke("clean")
    answer.tool_calls[0]["args"]["path"] = "/etc"
    answer.additional_kwargs.clear()
    again = model.invoke("clean")
    assert again.tool_calls[0]["args"] == {"path": "output/stale.log"}
    assert again.additional_kwargs == {"signature": "c2ln"}


@pytest.mark.parametrize("hostile", ["\\e[2K\\r", "[link=x]", "\\u202E", "a\\n---\\nb", "${HOME} $1", "\\0"])
def test_hostile_text_is_kept(tmp_path: Path, hostile: str) -> None:
    meant = hostile.replace("\\e", "\x1b").encode().decode("unicode_escape")
    script = one_turn(f'{{text: "{hostile}", calls: [{{name: file_read, args: {{path: "{hostile}"}}}}]}}')
    answer = play(tmp_path, script, file_read).invoke("x")
    assert answer.text == answer.tool_calls[0]["args"]["path"] == meant


# What does not fit


@pytest.mark.parametrize(
    ("results", "problem"),
    [
        ([result("kept", "call_0_0")], r"expects a result of file_delete .* but the last one was 'kept'"),
        ([result("deleted", "call_0_1")], "but file_delete gave none since the last human message"),
        ([result("deleted", "call_0_0"), result("denied", "call_0_0")], "but the last one was 'denied'"),
        ([result("deleted", "other", name="file_read")], "but file_delete gave none"),
        ([], "but file_delete gave none"),
    ],
)
def test_an_unmet_expectation_is_loud(tmp_path: Path, results: list[BaseMessage], problem: str) -> None:
    model = cleaner(tmp_path)
    with pytest.raises(ScriptFailed, match=problem) as caught:
        model.invoke([HumanMessage("clean"), model.invoke("clean"), *results])
    assert "play.yaml, line 11: turn 2 of conversation 1" in str(caught.value)


def test_results_before_the_last_human_message_do_not_count(tmp_path: Path) -> None:
    script = one_turn("{expect: {tool: file_read, result: x}, text: a}")
    with pytest.raises(ScriptFailed, match="gave none"):
        play(tmp_path, script).invoke([result("x", "1", name="file_read"), HumanMessage("go")])


def test_an_exhausted_script_is_loud(tmp_path: Path) -> None:
    with pytest.raises(ScriptFailed, match="exhausted: conversation 2 has 1 turns, turn 2 was asked for"):
        cleaner(tmp_path).invoke([HumanMessage("hello"), AIMessage("a")])


def test_no_conversation_fits(tmp_path: Path) -> None:
    script = "conversations: [{match: {user: clean}, turns: [{text: a}]}]"
    with pytest.raises(ScriptFailed, match="no conversation for 'hello'"):
        play(tmp_path, script).invoke("hello")
    with pytest.raises(ScriptFailed, match="no human message"):
        play(tmp_path, script).invoke([SystemMessage("clean")])


@pytest.mark.parametrize(
    ("tools", "hint"), [((), "bound: none"), ((file_read,), "bound: file_read"), ((FILE_DELETE,), "'file_delete'?")]
)
def test_a_call_to_an_unbound_tool_is_loud(tmp_path: Path, tools: tuple[Any, ...], hint: str) -> None:
    script = one_turn("{calls: [{name: file_deletes}]}")
    with pytest.raises(ScriptFailed, match="calls 'file_deletes', a tool that is not bound") as caught:
        play(tmp_path, script, *tools).invoke("x")
    assert hint in str(caught.value)


# Simulated failures and delays


@pytest.mark.parametrize(
    ("kind", "text", "transient"),
    [("rate_limit", "429 slow", True), ("transport", "slow", True), ("bad_request", "400 slow", False)],
)
def test_a_simulated_failure_comes_as_often_as_it_says(tmp_path: Path, kind: str, text: str, transient: bool) -> None:
    script = one_turn(f"{{error: {{kind: {kind}, message: slow, times: 2}}, text: ok}}")
    model = play(tmp_path, script)
    for asked in (model, model.bind_tools([file_read])):
        with pytest.raises(ProviderFailure) as caught:
            list(asked.stream("x"))
        assert (str(caught.value), caught.value.transient) == (text, transient)
    assert model.invoke("x").text == "ok"


def test_without_times_a_failure_never_ends(tmp_path: Path) -> None:
    model = play(tmp_path, one_turn("{error: {kind: transport}}"))
    for _ in range(10):
        with pytest.raises(ProviderFailure, match="simulated by the script"):
            model.invoke("x")


@pytest.mark.parametrize(("written", "seconds"), [("2s", 2), ("250ms", 0.25), ("1.5m", 90), ("0s", 0)])
def test_delays(tmp_path: Path, written: str, seconds: float) -> None:
    (tmp_path / "a.yaml").write_text(one_turn(f"{{text: a, delay: {written}}}"))
    assert load_script(tmp_path, "a").conversations[0].turns[0].delay == pytest.approx(seconds)


# The file


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "the file is empty"),
        ("conversation: []", "line 1: the script has an unknown key 'conversation'; did you mean 'conversations'?"),
        ("conversations: []", "line 1: conversations is empty"),
        ("conversations: a", "line 1: conversations is a text, expected a list"),
        ("conversations: [{}]", "line 1: a conversation has no 'turns'"),
        ("conversations:\n  - turns: []", "line 2: turns is empty"),
        ("conversations:\n  - turns:\n    - txt: a", "line 3: a turn has an unknown key 'txt'; did you mean 'text'?"),
        (
            "conversations:\n- turns:\n  - text: a\n    text: b",
            "line 4, column 5: text: given twice, in line 3 and in line 4; keep one",
        ),
        (
            "conversations:\n  - match: {user: '('}\n    turns: [{text: a}]",
            "line 2: match.user is no regular expression",
        ),
        ("conversations: [", "line 1, column 17: YAML cannot read this"),
        ("conversations:\n\t- turns", "line 2, column 1: there is a tab"),
        ("a: &a [1]\nb: *a", "line 1, column 4: an unquoted & starts an anchor"),
        (one_turn("{}"), "a turn needs a text, calls or an error"),
        (one_turn("{text: yes}"), "text is a boolean to YAML, expected a text; put it in quotes"),
        (one_turn("{text: 1.10}"), "text is a number, expected a text"),
        (one_turn("{text: }"), "text is empty, expected a text"),
        (one_turn("{text: a, calls: [{args: {}}]}"), "a call has no 'name'"),
        (one_turn("{text: a, calls: [{name: b, args: [1]}]}"), "args is a list, expected a mapping"),
        (one_turn("{text: a, calls: [{name: b, args: {d: 2024-01-01}}]}"), "args.d is 2024-01-01, which YAML reads"),
        (one_turn("{text: a, calls: [{name: b, args: {d: 007}}]}"), "args.d is 007, which YAML reads"),
        (one_turn("{text: a, calls: [{name: b, args: {d: .nan}}]}"), "args.d is .nan, which YAML reads"),
        (one_turn("{text: a, usage: {input: -1}}"), "input is -1, expected a number of at least 0"),
        (one_turn("{text: a, usage: {output: 1.5}}"), "output is 1.5, expected a whole number"),
        (one_turn("{text: a, usage: {cost: free}}"), "cost is free, expected a number"),
        (one_turn("{text: a, expect: {tool: b}}"), "expect has no 'result'"),
        (one_turn("{text: a, error: {kind: fire}}"), "kind is 'fire', expected one of rate_limit, transport, bad_req"),
        (one_turn("{text: a, error: {kind: transport, times: true}}"), "times is true, expected a number"),
        (one_turn("{text: a, delay: 2 hours}"), "delay is '2 hours', expected a number with ms, s or m"),
        (one_turn("{text: a, delay: 2}"), "delay is a number, expected a text"),
        (one_turn("{text: !!python/name:os.system a}"), "line 1, column 33: an unquoted ! starts a tag"),
        ("[" * 3000 + "]" * 3000, "line 1, column 33: the settings are nested more than 32 deep"),
        (with_answer("{match: {tool: a}}"), "line 2: an answer has no 'response'"),
        (with_answer("{respond: {}}"), "line 2: an answer has an unknown key 'respond'; did you mean 'response'?"),
        (with_answer("{response: yes}"), "response is yes, which YAML reads in its own way"),
        (with_answer("{match: {tol: a}, response: {}}"), "match has an unknown key 'tol'; did you mean 'tool'?"),
        (
            with_answer("{match: {kind: confrim}, response: {}}"),
            "match.kind is 'confrim', expected one of confirm, inp",
        ),
        (with_answer("{match: {message: '('}, response: {}}"), "match.message is no regular expression"),
        ("answers: []", "line 1: the script has no 'conversations'"),
    ],
)
def test_mistakes_are_named_with_file_and_line(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "play.yaml").write_text(text)
    with pytest.raises(ScriptInvalid) as caught:
        load_script(tmp_path, "play")
    assert str(tmp_path / "play.yaml") in str(caught.value)
    assert problem in str(caught.value)
    assert codes_of(caught.value) == (2, 422)


def test_json_values_of_every_kind_pass(tmp_path: Path) -> None:
    args = "{a: [1, -2.5, true, null, text, {b: {}}], c: {d: []}}"
    answer = play(tmp_path, one_turn(f"{{calls: [{{name: file_read, args: {args}}}]}}"), file_read).invoke("x")
    assert answer.tool_calls[0]["args"] == {"a": [1, -2.5, True, None, "text", {"b": {}}], "c": {"d": []}}


def test_a_byte_order_mark_is_no_mistake_and_other_encodings_are(tmp_path: Path) -> None:
    (tmp_path / "bom.yaml").write_text(CLEANER, encoding="utf-8-sig")
    assert load_script(tmp_path, "bom").name == "bom"
    (tmp_path / "wide.yaml").write_text(CLEANER, encoding="utf-16")
    with pytest.raises(ScriptInvalid, match="is not UTF-8"):
        load_script(tmp_path, "wide")


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "folder.yaml").mkdir()
    (tmp_path / "big.yaml").write_bytes(b"#" * (1024 * 1024 + 1))
    for name, problem in (("none", "there is no script"), ("folder", "cannot be read"), ("big", "1048577 bytes")):
        with pytest.raises(ScriptInvalid, match=problem):
            load_script(tmp_path, name)


@pytest.mark.parametrize("name", ["../play", "a/b", "", ".hidden", "a\0b", "..", "a\\b"])
def test_a_name_is_never_a_path(tmp_path: Path, name: str) -> None:
    with pytest.raises(ScriptInvalid, match="is not the name of a script"):
        load_script(tmp_path / "scripts", name)
