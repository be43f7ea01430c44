"""Whatever is said of a new agent: its file says exactly that, or there is no file."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent_md.agents.defaults import Defaults
from agent_md.agents.names import agent_name
from agent_md.agents.parse_spec import parse_agent
from agent_md.agents.placeholders import render
from agent_md.agents.scaffold import NewAgent, agent_text, script_text
from agent_md.agents.spec import ModelRef
from agent_md.errors import UsageError
from agent_md.models.script_file import load_script

MODEL = ModelRef("google", "gemini-2.5-flash")
SIGNS = (
    r"""--- ... # : ' " \\ { } [a] $ $1 $$ $ARGUMENTS ``` ~~~ yes 007 &a *a !t % @ ` - ? | > é 日本 🐙 a:b << null"""
)
BLANKS = ["\n", "\r\n", "\r", "\t", " ", " # ", ": ", "\u2028", "\ufeff", "\u202e", "\x1b[31m", "\x85", "\u00ad"]
PIECES = st.sampled_from([*SIGNS.split(), *BLANKS])
TEXTS = st.one_of(st.text(max_size=30), st.lists(PIECES, max_size=8).map("".join))


def is_name(text: str) -> bool:
    try:
        agent_name(text)
    except ValueError:
        return False
    return True


NAMES = st.text(st.characters(categories=["L", "M", "Nd"]) | st.sampled_from("-_ é"), min_size=1, max_size=20).filter(
    is_name
)


def written(new: NewAgent) -> bytes | None:
    try:
        return agent_text(new, Defaults()).encode()
    except UsageError:
        return None


@settings(deadline=None)
@given(NAMES, TEXTS, TEXTS)
@example("yes", "- a", "---\nb\n---")
@example("null", '"', "```\n${X}\n```")
@example("-", "a #b", "\n\n---\n...\n")
def test_the_file_says_what_was_said(name: str, description: str, prompt: str) -> None:
    text = written(NewAgent(name, MODEL, description, prompt))

    impossible = any(char in f"{description}{prompt}" for char in "\0") or "${" in prompt
    assert text is not None or impossible
    if text is None:
        return
    spec = parse_agent(text, "agents/x.md", Defaults())
    assert (spec.name, spec.model) == (name, MODEL)
    assert spec.description == (description if description.strip() else "")
    assert spec.body.rstrip("\n") == prompt.rstrip("\n") or not prompt.strip()
    render(spec.body, (), None, {}, ())  # needs no variable


@settings(deadline=None)
@given(TEXTS.filter(str.strip), st.sampled_from(["google", "openai", "script"]), TEXTS)
def test_any_name_of_a_model_is_kept(model: str, provider: str, prompt: str) -> None:
    text = written(NewAgent("a", ModelRef(provider, model), "", prompt))

    if text is not None:
        assert parse_agent(text, "agents/a.md", Defaults()).model == ModelRef(provider, model)


@settings(deadline=None)
@given(NAMES)
def test_a_script_can_be_played_whatever_the_name(name: str) -> None:
    with TemporaryDirectory() as folder:
        (Path(folder) / "s.yaml").write_text(script_text(name, f"agents/{name}.md"), encoding="utf-8")
        (conversation,) = load_script(Path(folder), "s").conversations

    (call,) = conversation.turns[0].calls
    assert call.name == "file_write"
    assert "/" not in call.args["path"]
    assert name in call.args["content"]


@pytest.mark.parametrize("text", ["\udcff", "a\0b"])
def test_what_is_no_text_is_refused(text: str) -> None:
    for new in (NewAgent("a", MODEL, text), NewAgent("a", MODEL, "", text)):
        with pytest.raises(UsageError):
            agent_text(new, Defaults())
