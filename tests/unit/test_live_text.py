"""A text that comes in pieces: its last rows, whatever is in it."""

from __future__ import annotations

import pytest
from rich.text import Text

from agent_md.cli.views.hanging_indent import Hanging
from agent_md.cli.views.progress_rows import StreamingText
from agent_md.cli.views.rendering import rendered
from agent_md.cli.views.screen import Screen
from agent_md.cli.views.text_width import width_of
from agent_md.visible_text import visible
from tests.support.hostile import HOSTILE, assert_literal

HEAD = "12:00:00 talker 💬 "


def rows(streaming: StreamingText, columns: int, most: int) -> list[str]:
    return rendered(Screen(columns, most + 1), streaming)


@pytest.mark.parametrize("columns", [20, 33, 80])
@pytest.mark.parametrize(
    "text", [*HOSTILE.values(), "می\u200cخواهم " * 9, "word " * 60, "日本語" * 50, "a\n\nb\tc\td", "x" * 61, "x" * 62]
)
def test_it_is_shown_as_it_will_be_printed(text: str, columns: int) -> None:
    streaming = StreamingText(Text(HEAD))
    for character in text:
        streaming.add(character)
        shown = rows(streaming, columns, 5)
        assert len(shown) <= 5
        assert max(map(width_of, shown)) <= columns
        if text in HOSTILE.values():
            assert_literal("\n".join(shown))
    printed = rendered(Screen(columns), Hanging(Text(HEAD + visible(text, prose=True))))
    assert rows(streaming, columns, 1000) == printed


def test_the_last_rows_of_a_long_text_say_that_they_are_not_all() -> None:
    streaming = StreamingText(Text(HEAD))
    streaming.add("\n".join(f"line {number}" for number in range(5000)))
    assert rows(streaming, 80, 4) == [f"{HEAD}…", "  line 4997", "  line 4998", "  line 4999"]
    assert rows(streaming, 80, 1) == [f"{HEAD}…"]


def test_another_width_lays_everything_out_anew() -> None:
    streaming = StreamingText(Text())
    streaming.add("abcdefgh\nij")
    assert rows(streaming, 6, 9) == ["abcdef", "  gh", "  ij"]
    streaming.add("kl")
    assert rows(streaming, 8, 9) == ["abcdefgh", "  ijkl"]


def test_rows_stay_where_they_are_while_a_long_line_grows() -> None:
    streaming = StreamingText(Text(HEAD))
    streaming.add("word " * 2000)
    before = rows(streaming, 40, 6)
    streaming.add("word " * 7)
    assert rows(streaming, 40, 6)[1:4] == before[2:5]
