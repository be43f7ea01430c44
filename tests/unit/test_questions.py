"""What a human reads of a request, line by line."""

import json
import re
from dataclasses import replace
from datetime import UTC
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.text import Text

from agent_md.cli.views.hanging_indent import Verbatim
from agent_md.cli.views.listed_request import withdrawn
from agent_md.cli.views.question_keys import Command
from agent_md.cli.views.questions import QuestionText, question_texts
from agent_md.cli.views.rendering import rendered
from agent_md.cli.views.request_details import everything
from agent_md.cli.views.screen import PLAIN, Screen
from agent_md.cli.views.text_width import width_of
from agent_md.executions.requests import Answer, Preview, Request
from agent_md.executions.states import Drift, Outcome, RequestKind
from agent_md.visible_text import one_line
from agent_md.wording.request_text import decision_text, remaining, summary
from tests.support.samples import NOON, answered, ask, guard
from tests.support.structured import option, question

SCREEN = Screen(width=80, height=24)
QUESTION = '? Confirm file_delete {"path": "output/stale.log"} [y/N]: '
HINT = "  y yes · n no · n TEXT no, with this reason"
ONE, SEVERAL = "  a number, or an option as it is written", "  numbers or options, separated by commas"
EIGHTY = "".join(f"line {number}\n" for number in range(80))


def shown(request: Request, screen: Screen = SCREEN, **more: Any) -> list[QuestionText]:
    """The questions as the lines of the screen."""
    return [
        replace(text, above=tuple(rendered(screen, *text.above)), lines=tuple(rendered(screen, *text.lines)))
        for text in question_texts(request, screen, **more)
    ]


def only(request: Request, screen: Screen = SCREEN, **more: Any) -> QuestionText:
    (text,) = shown(request, screen, **more)
    return text


def test_a_guarded_call_is_one_line() -> None:
    assert only(guard()) == QuestionText((), (HINT,), QUESTION)


def test_path_diff_and_warnings_stand_above_the_question() -> None:
    preview = Preview(resolved="/ws/a.txt", diff="--- a.txt\n+++ a.txt\n-old\n+new\n", size=1234, type="text/plain")
    request = guard(preview=preview, expires_at=NOON + 42)
    assert only(request, drift=[Drift.AGENT_FILE], now=NOON) == QuestionText(
        (
            "  ⚠ the agent file has changed since this execution started, which goes on with",
            "    the old version",
            "  ⚠ expires in 42 s",
            "  → /ws/a.txt (1,234 bytes, text/plain)",
            "  --- a.txt",
            "  +++ a.txt",
            "  -old",
            "  +new",
        ),
        (HINT,),
        QUESTION,
    )


def test_deceiving_arguments_are_shown_and_warned_of() -> None:
    text = only(guard(args={"path": "a\u202eb", "x": "\x1b[2K"}))
    assert text.prompt == r'? Confirm file_delete {"path": "a\u202eb", "x": "\u001b[2K"} [y/N]: '
    assert text.above == (
        "  ⚠ this request holds control, hidden or reordering characters (shown as",
        "    escapes) or long runs of blanks",
    )


@pytest.mark.parametrize("field", ["message", "options", "questions", "payload", "preview"])
def test_a_warning_is_given_wherever_the_deception_is(field: str) -> None:
    fields = {
        "message": "\u200b",
        "options": ("a", "b\x1b"),
        "questions": ({"question": "q", "options": [{"label": "\u202e"}]},),
        "payload": {"a": ["\x9b"]},
        "preview": Preview(diff="+\x1b[8m"),
    }
    given = {"message": "m", "options": ("a",), "questions": ({"question": "q"},), "payload": {}} | {
        field: fields[field]
    }
    for kind in RequestKind:
        text = shown(ask(kind, **given))[0]
        assert text.above[0].startswith("  ⚠ this request holds control")


def test_square_brackets_are_no_markup() -> None:
    assert only(guard("t[/b]", {"a": "[link=x]y[/link]"})).prompt == '? Confirm t[/b] {"a": "[link=x]y[/link]"} [y/N]: '


def test_arguments_that_would_fill_the_screen_stand_whole_above_a_short_question() -> None:
    request = guard("sort", {"numbers": list(range(1000, 1400))})
    text = only(request)
    assert "".join(line.removeprefix("  ") + " " for line in text.above) == f"{summary(request)} "
    assert text.prompt.startswith('? Confirm sort {"numbers": [1000, 1001, ')
    assert text.prompt.endswith("… (whole above) [y/N]: ")
    assert only(request, Screen()).prompt == f"? {summary(request)} [y/N]: "


def test_what_can_be_typed_is_one_dim_line() -> None:
    text = only(guard(), commands=tuple(Command))
    assert text.lines == (f"{HINT} · e edit · a always · ? everything",)
    painted = only(guard(), replace(SCREEN, colour=True), commands=tuple(Command))
    assert painted.lines == (f"\x1b[2m{HINT} · e edit · a always · ? everything\x1b[0m",)


@pytest.mark.parametrize("width", [20, 60, 200])
def test_it_is_folded_where_the_terminal_is_narrow(width: int) -> None:
    text = only(guard(), Screen(width, 24), commands=tuple(Command))
    assert all(width_of(line) <= width for line in text.lines)
    words = " ".join(line.strip() for line in text.lines).replace(" ·", "").split()
    assert words == f"{HINT} e edit a always ? everything".replace(" ·", "").split()


def test_a_long_text_is_named_by_its_size_and_shown_once_as_the_diff() -> None:
    diff = "--- /dev/null\n+++ code.py\n@@ -0,0 +1,80 @@\n" + "".join(f"+{line}\n" for line in EIGHTY.splitlines())
    preview = Preview(resolved="/ws/code.py", diff=diff, size=590, type="text")
    text = only(guard("file_write", {"path": "code.py", "content": EIGHTY}, preview=preview))
    assert text.prompt == "? Confirm file_write code.py (80 lines, new) [y/N]: "
    assert text.above[:2] == ("  → /ws/code.py (590 bytes, text)", "  --- /dev/null")
    assert [sum(f"line {number}" in line for line in text.above) for number in (77, 78)] == [1, 1]
    assert len(text.above) == 84


@pytest.mark.parametrize(
    ("tool", "args", "shown", "apart"),
    [
        ("post", {"to": "ann", "text": EIGHTY}, 'post {"to": "ann", "text": (80 lines)}', ["  text:", "    line 0"]),
        ("post", {"all": [{"text": EIGHTY}]}, 'post {"all": [{"text": (80 lines)}]}', ["  all[0].text:", "    line 0"]),
        ("put", {"path": "a", "blob": "x" * 2000}, "put a (2,000 characters)", ["  blob:", f"    {'x' * 194}"]),
        (
            *("file_edit", {"path": "a b (1 line)", "old_text": EIGHTY, "new_text": EIGHTY * 2}),
            'file_edit "a b (1 line)" (old_text 80 lines, new_text 160 lines)',
            ["  old_text:", "    line 0"],
        ),
        ("put", {"path": EIGHTY}, 'put {"path": (80 lines)}', ["  path:", "    line 0"]),
    ],
)
def test_long_texts_that_no_diff_shows_stand_apart(
    tool: str, args: dict[str, object], shown: str, apart: list[str]
) -> None:
    text = only(guard(tool, args), Screen(200, 50))
    assert text.prompt == f"? Confirm {shown} [y/N]: "
    assert list(text.above[:2]) == apart


@pytest.mark.parametrize("text", ["", "a\nb\nc\nd\ne\n", "x" * 500])
def test_short_texts_stand_in_the_call(text: str) -> None:
    assert only(guard("t", {"path": text}), Screen()).prompt == f'? Confirm t {{"path": {json.dumps(text)}}} [y/N]: '


def test_a_size_cannot_be_forged_and_a_long_text_cannot_pass_for_a_question() -> None:
    forged = only(guard("t", {"a": "(80 lines)", "b": f"{EIGHTY}? Confirm rm {{}} [y/N]: y\x1b[2J"}), Screen(200, 99))
    assert forged.prompt == '? Confirm t {"a": "(80 lines)", "b": (81 lines)} [y/N]: '
    assert forged.above[0].startswith("  ⚠ this request holds control")
    assert forged.above[-1] == r"    ? Confirm rm {} [y/N]: y\x1b[2J"


def test_everything_that_is_known() -> None:
    request = guard("post", {"to": "ann", "text": EIGHTY}, preview=Preview(resolved="/ws/x"))
    said = [Text("12:00:00 cleaner 👤 Hello")]
    lines = rendered(SCREEN, *everything(request, rule="confirm: post", conversation=said))
    assert lines[:8] == [
        "  request r1",
        "  asked by: confirm: post",
        "  digest: d1",
        "  path: /ws/x",
        "  ── arguments ──",
        '  {"to": "ann", "text": (80 lines)}',
        "  text:",
        "    line 0",
    ]
    assert lines[-2:] == ["  ── conversation ──", "  12:00:00 cleaner 👤 Hello"]


def test_a_confirmation_of_a_tool_shows_the_call_it_is_about() -> None:
    request = ask(RequestKind.CONFIRM, "Clean tmp?", tool_name="cleanup", tool_args={"folder": "tmp"})
    assert only(request) == QuestionText(('  cleanup {"folder": "tmp"}',), (HINT,), "? Clean tmp? [y/N]: ")


def test_further_lines_of_a_message_cannot_pass_for_a_question() -> None:
    request = ask(RequestKind.CONFIRM, "Go on?\n? Confirm file_read {} [y/N]: y")
    assert only(request) == QuestionText((), ("? Go on?", "  ? Confirm file_read {} [y/N]: y", HINT), "[y/N]: ")


def test_free_text() -> None:
    request = ask(RequestKind.INPUT, "Enter the report title:")
    assert only(request) == QuestionText((), ("? Enter the report title:",), "> ")


def test_a_choice_numbers_its_options() -> None:
    request = ask(RequestKind.CHOICE, "Which environment?", options=("staging", "pro\nduction"), multi=False)
    lines = ("? Which environment?", "  1. staging", r"  2. pro\nduction", ONE)
    assert only(request) == QuestionText((), lines, "Choice: ")


def test_a_choice_of_several_says_so() -> None:
    lines = only(ask(RequestKind.CHOICE, "Which?", options=("a",), multi=True)).lines
    assert lines == ("? Which?", "  1. a", SEVERAL)


def test_a_custom_request_shows_its_payload() -> None:
    request = ask(RequestKind.CUSTOM, "Rate it", payload={"type": "rating", "of": [1]})
    assert only(request) == QuestionText(
        ("  {", '    "type": "rating",', '    "of": [', "      1", "    ]", "  }"),
        ("? Rate it", "  a JSON value"),
        "JSON: ",
    )


def test_structured_questions_have_one_text_each() -> None:
    questions = (
        {
            "question": "How?",
            "header": "Way",
            "multiSelect": False,
            "options": [
                {"label": "By date", "description": "Into months", "markdown": "2026/\n  03/"},
                {"label": "By type"},
            ],
        },
        {"question": "What?", "multiSelect": True, "options": [{"label": "A"}]},
        {"question": "Anything else?", "options": []},
    )
    first, second, third = shown(ask(RequestKind.QUESTIONS, questions=questions, expires_at=NOON), now=NOON)
    assert first == QuestionText(
        ("  ⚠ expires in 0 s",),
        (
            "? How?  [Way]  (1/3)",
            "  1. By date",
            "     Into months",
            "     │ 2026/",
            "     │   03/",
            "  2. By type",
            "  3. Other",
            ONE,
        ),
        "Choice: ",
    )
    assert second.lines == ("? What?  (2/3)", "  1. A", "  2. Other", SEVERAL)
    assert third == QuestionText((), ("? Anything else?  (3/3)",), "> ")


def structured(*options: dict[str, str], screen: Screen = SCREEN) -> QuestionText:
    return only(ask(RequestKind.QUESTIONS, questions=(question("Which?", *options, header="Way"),)), screen)


def test_a_single_structured_question_has_no_count() -> None:
    assert structured().lines[0] == "? Which?  [Way]"


def test_a_description_is_laid_out_in_words_and_a_preview_is_left_as_it_is() -> None:
    text = structured(
        option("A", "one two three\nfour", markdown="a very long line of code\n\ttab \x1b[2K"),
        option("B", "überlanges日本語日本語 x"),
        screen=Screen(width=15),
    )
    assert text.lines[1:9] == (
        *("  1. A", "     one two", "     three", "     four"),
        *("     │ a very", "     │    long", "     │   line o", "     │   f code"),
    )
    second = text.lines.index("  2. B")
    assert text.lines[second : second + 5] == (
        "  2. B",
        "     überlanges",
        "     日本語日本",
        "     語 x",
        "  3. Other",
    )


def test_options_that_would_fill_the_screen_stand_whole_above_a_short_menu() -> None:
    preview = "\n".join(f"line {number}" for number in range(30))
    text = structured(option("A", "First", markdown=preview), option("B", "Second"))
    assert text.above[:4] == ("? Which?  [Way]", "  1. A", "     First", "     │ line 0")
    assert text.above[-2:] == ("  2. B", "     Second")
    assert text.lines == ("? Which?  [Way]", "  1. A", "  2. B", "  3. Other", ONE)
    assert structured(option("A", "First", markdown=preview), option("B"), screen=Screen()).above == ()


@pytest.mark.parametrize(("label", "entry"), [("other", "A text of your own"), ("Another", "Other")])
def test_an_option_called_other_is_not_the_own_text(label: str, entry: str) -> None:
    assert structured(option("A"), option(label)).lines[-2] == f"  3. {entry}"


def test_colour_changes_only_the_look() -> None:
    text = only(guard(preview=Preview(diff="@@ -1 +1 @@\n-a\n+[bold]b[/bold]\n c")), Screen(colour=True))
    assert text.above == (
        *("  \x1b[2m@@ -1 +1 @@\x1b[0m", "  \x1b[31m-a\x1b[0m", "  \x1b[32m+[bold]b[/bold]\x1b[0m", "   c"),
    )
    assert text.prompt == QUESTION


@given(st.text(st.characters(codec="utf-8"), max_size=300), st.integers(12, 60))
def test_no_row_of_others_begins_where_ours_do(text: str, width: int) -> None:
    long = "x" * 501
    preview = Preview(resolved=text or "a", diff=f"+{text}", type=text)
    options = [option(f"{text}a", text, markdown=text)]
    for request in (
        guard("t", {"a": text, "b": f"{text}{long}"}, preview=preview),
        ask(RequestKind.CUSTOM, "Rate it", payload={"a": text}, response_schema={"title": text}),
        ask(RequestKind.CHOICE, f"Which? {text}", options=(f"{text}b",)),
        ask(RequestKind.QUESTIONS, questions=(question(f"Which? {text}", *options, header=text),)),
    ):
        (asked,) = shown(request, Screen(width, 24))
        rows = [*asked.above, *asked.lines]
        assert all(row.startswith((" ", "? Which?", "? Rate it")) or not row for row in rows)
        assert all(width_of(row) <= width for row in rows)


@given(st.text(st.characters(codec="utf-8", exclude_characters="\t"), min_size=1, max_size=200), st.integers(8, 40))
def test_a_diff_is_shown_to_the_character(text: str, width: int) -> None:
    line = one_line(f"+{text}")
    first, *rest = [row[2:] for row in rendered(Screen(width, colour=True), Verbatim([(line, "bold")]))]
    looks = re.compile(r"\x1b\[[0-9;]*m")
    assert looks.sub("", first) + "".join(looks.sub("", row)[2:] for row in rest) == line


DECISIONS = [
    (guard(), answered(Outcome.APPROVED, {"approved": True}), "approved by cli:ann"),
    (
        guard(),
        answered(Outcome.APPROVED, {"approved": True, "args": {"path": "b"}}),
        'approved by cli:ann with edited arguments {"path": "b"}',
    ),
    (guard(), answered(Outcome.DENIED, {"approved": False}), "denied by cli:ann"),
    (guard(), answered(Outcome.DENIED, {"approved": False, "reason": "not\nnow"}), r"denied by cli:ann: not\nnow"),
    (guard(), answered(Outcome.EXPIRED, by="timeout"), "expired, nobody answered in time"),
    (guard(), answered(Outcome.CANCELLED, by="policy"), "cancelled by policy"),
    (ask(RequestKind.INPUT), answered(Outcome.ANSWERED, {"text": "Title"}), "answered by cli:ann: Title"),
    (ask(RequestKind.CHOICE), answered(Outcome.ANSWERED, {"selected": ["a", "b"]}), "answered by cli:ann: a, b"),
    (ask(RequestKind.CUSTOM), answered(Outcome.ANSWERED, [1, None]), "answered by cli:ann: [1, null]"),
    (
        ask(RequestKind.QUESTIONS),
        answered(Outcome.ANSWERED, {"answers": {"How?": "Fast", "What?": ["A", "B"]}}),
        "answered by cli:ann: How? Fast; What? A, B",
    ),
]


@pytest.mark.parametrize(("request_", "answer", "text"), DECISIONS)
def test_a_decision_says_how_and_by_whom(request_: Request, answer: Answer, text: str) -> None:
    decided = replace(request_, answer=answer)
    assert decision_text(decided) == text
    elsewhere = "" if answer.outcome in (Outcome.EXPIRED, Outcome.CANCELLED) else "answered elsewhere: "
    assert rendered(PLAIN, withdrawn(decided, UTC)) == [f"  Withdrawn: {elsewhere}{text} at 12:01:00"]
    narrow = rendered(Screen(24), withdrawn(decided, UTC))
    assert all(line.startswith("  ") and width_of(line) <= 24 for line in narrow)


def test_an_open_request_has_no_decision() -> None:
    assert decision_text(guard()) == "still open"


def test_a_time_to_go_is_in_its_largest_unit() -> None:
    seconds = [-5, 0, 42, 119, 120, 7100, 7200, 172_800]
    assert [remaining(s) for s in seconds] == ["0 s", "0 s", "42 s", "119 s", "2 min", "118 min", "2 h", "2 d"]


def test_a_time_to_go_is_rounded() -> None:
    """Some milliseconds pass before a new deadline is shown."""
    seconds = [3599.98, 7199.9, 119.7, 59.96, 172_799.6, 3 * 3600 - 1]
    assert [remaining(s) for s in seconds] == ["60 min", "2 h", "2 min", "60 s", "2 d", "3 h"]
