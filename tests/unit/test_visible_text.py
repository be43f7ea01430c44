"""What a terminal would obey, reorder or hide is shown; ordinary text of any script is left alone."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_md.cli.views.text_width import cut, width_of
from agent_md.visible_text import is_suspicious, json_line, one_line, visible, visible_characters

HARMFUL = [
    ("rm -rf x\r\x1b[2Kls", r"rm -rf x\r\x1b[2Kls"),
    ("\x1b]8;;http://evil\x1b\\link", r"\x1b]8;;http://evil\x1b\link"),
    ("\x9b31mred", r"\x9b31mred"),
    ("bell\x07 back\x08 del\x7f nul\x00", r"bell\x07 back\x08 del\x7f nul\x00"),
    ("invoice\u202egpj.exe", r"invoice\u202egpj.exe"),
    ("\u2066a\u2069\u200f\u061c", r"\u2066a\u2069\u200f\u061c"),
    ("pass\u200bword\u2060\ufeff\u00ad", r"pass\u200bword\u2060\ufeff\xad"),
    ("hi\U000e0041\U000e007f", r"hi\U000e0041\U000e007f"),
    ("a\ufe0fb\U000e0100", r"a\ufe0fb\U000e0100"),
    ("1\ufe0f", r"1\ufe0f"),
    ("❤️\ufe0f", "❤️" + r"\ufe0f"),
    ("half\ud800pair", r"half\ud800pair"),
    ("one\u2028two\u2029three\x85four\x0bfive", r"one\u2028two\u2029three\x85four\x0bfive"),
    ("blank\u3164\u115f\u2800", r"blank\u3164\u115f\u2800"),
    ("z" + "\u0301" * 6, "z" + "\u0301" * 4 + r"\u0301\u0301"),
    ("ก" + "\u0e49" * 6, "ก" + "\u0e49" * 4 + r"\u0e49\u0e49"),
    ("ب" + "\u064b\u0301" * 3, "ب" + "\u064b\u0301" * 2 + r"\u064b\u0301"),
    ("\u0f40" + "\u0fb2" * 9, "\u0f40" + "\u0fb2" * 8 + r"\u0fb2"),
    ("z" + ("\u0301" * 4 + "\u1161") * 3, "z" + ("\u0301" * 4 + "\u1161") * 2 + r"\u0301\u0301\u0301\u0301\u1161"),
    ("z" + "\u0903" * 11, "z" + "\u0903" * 10 + r"\u0903"),
    ("\ufffc and \U00016fe4", r"\ufffc and \U00016fe4"),
    ("می\u200c\u200cخواهم", r"می\u200c\u200cخواهم"),
    ("می\u200cx", r"می\u200cx"),
    ("a\u200cب", r"a\u200cب"),
    ("क्\u200d\u200dष", r"क्\u200d\u200dष"),
    ("👩\u200dx", r"👩\u200dx"),
]

ORDINARY = [
    "plain text, [list[str]] a[/b].log [link=http://x]y[/link]",
    "Grüße, naïve façade e\u0301 Việt Nam",
    "日本語 한국어 \u1112\u1161\u11ab\u1112\u1161\u11ab 中文　全角",
    "ကျွှောင်း က္ကြွှော် ക്ഷ്ത്ര്യോം क्ष्म्र्यौँ",
    "שָׁלוֹם עליכם مَرْحَبًا हिन्दी ไทย བསྒྲུབས་ ཧྐྵྨླྺྼྻྂ",
    "👍🏽 ❤️ ⚠️ 1️⃣ 🇩🇪 ▶ ✅ 🫨",
    r"C:\new\x1b",
]


@pytest.mark.parametrize(("text", "shown"), HARMFUL)
def test_what_could_deceive_is_shown_and_warned_of(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert is_suspicious(text)


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert visible(text) == text
    assert one_line(text) == text
    assert not is_suspicious(text)


def test_newlines_and_tabs_are_kept_or_shown() -> None:
    assert visible("a\n\tb") == "a\n\tb"
    assert one_line("a\n\tb") == r"a\n\tb"


def test_windows_lines_are_shown_but_no_reason_to_warn() -> None:
    assert visible("a\r\nb") == "a\\r\nb"
    assert not is_suspicious("a\r\nb")


JOINED = [
    "می\u200cخواهم نامه\u200cها",
    "كتاب\u064e\u200cها",
    "क्\u200dष क्\u200cष र\u200dय",
    "ന്\u200d ക്\u200c.",
    "👩\u200d💻 👨\u200d👩\u200d👧 🏳️\u200d🌈 👩🏽\u200d🚒 🙂\u200d↔️",
]


@pytest.mark.parametrize("text", JOINED)
def test_joiners_stay_in_prose_and_are_shown_elsewhere_without_a_warning(text: str) -> None:
    assert visible(text, prose=True) == text
    escaped = text.replace("\u200c", r"\u200c").replace("\u200d", r"\u200d")
    assert visible(text) == one_line(text) == escaped
    assert not is_suspicious(text)


@pytest.mark.parametrize(("text", "shown"), HARMFUL)
def test_prose_hides_nothing_either(text: str, shown: str) -> None:
    assert visible(text, prose=True) == shown


@pytest.mark.parametrize("blank", ["\xa0", "\u2007", "\u202f", "\u205f", "\u1680"])
def test_a_blank_that_looks_like_another_one_stays_in_prose_alone(blank: str) -> None:
    text = f"rm{blank}x"
    assert visible(text) == "rm" + blank.encode("ascii", "backslashreplace").decode() + "x"
    assert visible(text, prose=True) == text
    assert not is_suspicious(text)


def test_what_is_typed_is_shown_character_by_character() -> None:
    assert visible_characters("می\u200cخ👩\u200d💻\x1b\t") == [*"می\u200cخ👩", r"\u200d", "💻", r"\x1b", "\t"]
    assert visible_characters("z" + "\u0301" * 5) == ["z", *["\u0301"] * 4, r"\u0301"]


def test_blanks_that_push_the_rest_out_of_sight_are_suspicious() -> None:
    assert is_suspicious("echo hello" + " " * 60 + "; rm -rf /")
    assert is_suspicious("ok" + "\n" * 30 + "hidden")
    assert not is_suspicious("def f():\n" + " " * 60 + "return 1")


def test_a_json_value_is_searched_through() -> None:
    assert is_suspicious({"a": [1, {"b": "\u202e"}]})
    assert is_suspicious({"\u200b": None})
    assert not is_suspicious({"a": [1, None, True, "b\nc"]})


def hidden(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp") and not unicodedata.name(
        character, ""
    ).startswith(("ARABIC", "SYRIAC"))


anything = st.text(
    st.characters(exclude_categories=()) | st.sampled_from("\x1b\u202e\u200b\u200d\ufe0f\U000e0041\u0301👩💻1بک\u200cक्")
)


@given(anything)
def test_nothing_hidden_is_left(text: str) -> None:
    assert [c for c in visible(text) if hidden(c) and c not in "\n\t"] == []
    assert not any(hidden(c) for c in one_line(text))


@given(anything)
def test_visible_text_stays_as_it_is(text: str) -> None:
    assert visible(visible(text)) == visible(text)
    prose = visible(text, prose=True)
    assert visible(prose, prose=True) == prose


@given(
    st.text(
        st.characters(
            categories=("L", "N", "P", "S", "Zs"), exclude_characters="\u115f\u1160\u2800\u3164\uffa0\U0001d159"
        )
    )
)
def test_letters_numbers_and_signs_are_never_touched(text: str) -> None:
    assert visible(text, prose=True) == text


@given(anything.map(one_line), st.integers(0, 60))
def test_cut_text_fits(text: str, width: int) -> None:
    assert width_of(cut(text, width)) <= width
    assert cut(text, width) == text or width == 0 or cut(text, width).endswith("…")


def test_a_wide_character_is_not_halved() -> None:
    assert cut("日本語", 4) == "日…"
    assert cut("日本語", 6) == "日本語"


@given(
    st.recursive(
        st.none() | st.booleans() | st.text() | st.just("\x7f\x9b\ud800"),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_a_json_line_is_ascii_and_the_same_value(value: object) -> None:
    line = json_line(value)
    assert line.isascii()
    assert line.isprintable()
    assert json.loads(line) == value


_STACKED = "\u0301\u0345\u0903\u093e\u0e49\u0f71\u1161\u11ff\u20dd\ud7b0\U00011f00\U0001d165"


@given(st.text(f"z{_STACKED}", max_size=60))
def test_nothing_is_piled_higher_than_letters_are(text: str) -> None:
    for form in (visible(text), "".join(visible_characters(text))):
        together = 0
        for character in form:
            together = together + 1 if character in _STACKED else 0
            assert together <= 10


def test_a_thousand_marks_are_escapes_and_a_warning() -> None:
    for marks in ("\u0301" * 1400, ("\u0301" * 4 + "\u1161") * 280, ("\u0301" * 4 + "\u0903") * 280, "\u11ff" * 1400):
        text = f"delete z{marks}"
        assert is_suspicious(text)
        assert visible(text).count("\\u") >= 1380


def test_the_wide_blank_belongs_to_wide_letters() -> None:
    assert one_line("rm\u3000-rf\u3000") == r"rm\u3000-rf\u3000"
    assert one_line("rm\u3000漢") == "rm\u3000漢"
    assert visible("a\u3000b", prose=True) == "a\u3000b"
