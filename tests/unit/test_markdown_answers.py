"""What an agent says, laid out for a terminal with looks: nothing in it is hidden, obeyed or lost."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from agent_md.cli.views.event_lines import RunView
from agent_md.cli.views.markdown import Answer
from agent_md.cli.views.rendering import rendered
from agent_md.cli.views.screen import Screen
from agent_md.cli.views.text_width import width_of
from agent_md.executions.states import EventType
from agent_md.visible_text import visible
from tests.support.hostile import HOSTILE, assert_literal
from tests.support.rendering import lines_of
from tests.support.samples import an_event

HEAD = "12:00:00 cleaner ✅ "


def shown(text: str, width: int = 60) -> list[str]:
    """The rows of an answer, without their looks."""
    return [re.sub(r"\x1b\[[0-9;]*m", "", row).rstrip() for row in painted(text, width)]


def painted(text: str, width: int = 60) -> list[str]:
    return rendered(Screen(width, colour=True), Answer(Text(HEAD), text))


def test_the_first_paragraph_begins_beside_the_head_and_lines_are_kept() -> None:
    assert shown("Done. I **deleted** `old.txt`,\nand kept the rest.\n\nThat is *all*.") == [
        f"{HEAD}Done. I deleted old.txt,",
        "  and kept the rest.",
        "",
        "  That is all.",
    ]


def test_what_is_no_paragraph_stands_below_the_head() -> None:
    assert shown("# Files\n\n- one\n- two\n  1. three\n\n> said\n\n| a | b |\n|---|--:|\n| x | 1 |") == [
        HEAD.rstrip(),
        "  Files",
        "",
        "   • one",
        "   • two",
        "      1 three",
        "",
        "  ▌ said",
        "",
        "",
        "   a  b",
        "   ────",
        "   x  1",
        "",
    ]


def test_code_keeps_its_lines_and_gets_looks() -> None:
    text = "```python\ndef f():\n\n    return '[b]'\n```"
    assert shown(text) == [HEAD.rstrip(), "  def f():", "", "      return '[b]'"]
    assert "\x1b[1mdef\x1b[0m" in painted(text)[1]


@pytest.mark.parametrize(
    ("text", "row"),
    [
        ("see [this](http://evil.example 'title')", "see this (http://evil.example)"),
        ("![pixel](http://evil.example/x.png)", "!pixel (http://evil.example/x.png)"),
        ("<b>bold</b> <!-- hidden -->", "<b>bold</b> <!-- hidden -->"),
        ("&#27;]0;owned&#7; &#x202e;", "&#27;]0;owned&#7; &#x202e;"),
        ("[a]: http://evil.example", "[a]: http://evil.example"),
        ("[b]no markup[/b]", "[b]no markup[/b]"),
    ],
)
def test_nothing_is_hidden(text: str, row: str) -> None:
    assert shown(text, 80) == [HEAD + row]


@pytest.mark.parametrize("width", [7, 20, 60, 200])
@pytest.mark.parametrize("name", HOSTILE)
def test_nothing_is_obeyed(name: str, width: int) -> None:
    for text in (
        HOSTILE[name],
        f"# {HOSTILE[name]}\n\n- `{HOSTILE[name]}`",
        f"```{HOSTILE[name]}\n{HOSTILE[name]}\n```",
    ):
        assert_literal("\n".join(shown(text, width)))


@given(st.text(st.sampled_from("ab \n\t`*_#>-|[]()!\\&<~1.\x1b\u202e日👩\u200d💻"), max_size=300), st.integers(10, 90))
def test_whatever_it_is_it_is_shown(text: str, width: int) -> None:
    rows = shown(text, width)
    assert rows[0].startswith("12:")
    assert max(map(width_of, rows)) <= width
    assert all(row.startswith("  ") for row in rows[1:] if row)
    assert "\x1b" not in "".join(rows)
    assert "\u202e" not in "".join(rows)


def test_a_text_that_is_no_answer_for_people_is_shown_as_it_is() -> None:
    text = "**word** " * 20_000
    assert "".join(shown(text)).replace(" ", "").count("**word**") == 20_000


def test_without_looks_it_is_as_it_was_written() -> None:
    event = an_event(EventType.FINAL_ANSWER, "# A\n\n**b** `c`")
    for width in (None, 60):
        assert lines_of(*RunView("cleaner").lines(event), width=width)[1:] == ["", "  **b** `c`"]


def test_visible_text_stays_as_it_is() -> None:
    assert shown(HOSTILE["emoji"], 200) == [HEAD + visible(HOSTILE["emoji"], prose=True)]
