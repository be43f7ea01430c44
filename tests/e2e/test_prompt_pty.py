"""Questions on a real terminal, answered, refused, closed and withdrawn."""

import asyncio
import json
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support.forked_terminal import ForkedTerminal
from tests.support.prompt_program import main
from tests.support.terminal import Terminal

ROOT = Path(__file__).parents[2]
QUESTION = '? Confirm file_delete {"path": "output/stale.log"} [y/N]: '
HINT = "  y yes · n no · n TEXT no, with this reason · e edit · ? everything\n"
ONE = "  a number, or an option as it is written · ? everything\n"
SEVERAL = "  numbers or options, separated by commas · ? everything\n"


class Program(ForkedTerminal):
    """The program of `tests.support.prompt_program`."""

    runs = staticmethod(lambda args: sys.exit(asyncio.run(main(args[0], late="late" in args[1:]))))


def program(name: str, *arguments: str, **options: Any) -> Terminal:
    return Program([name, *arguments], **options)


def response_of(terminal: Terminal) -> Any:
    terminal.expect("response: ")
    shown = terminal.expect("\n")
    assert terminal.exit_code() == 0
    return json.loads(shown)


@pytest.mark.parametrize(
    ("typed", "response"),
    [
        ("y", {"approved": True}),
        ("YES", {"approved": True}),
        ("n", {"approved": False}),
        ("", {"approved": False}),
        ("no, it is needed", {"approved": False, "reason": "it is needed"}),
    ],
)
def test_one_line_decides_a_confirmation(typed: str, response: Any) -> None:
    with program("confirm") as terminal:
        terminal.expect(QUESTION)
        terminal.send_line(typed)
        assert response_of(terminal) == response
        assert terminal.shown.startswith(f"{HINT}{QUESTION}{typed}".rstrip() + "\nresponse: ")


@pytest.mark.parametrize("garbage", ["maybe", "yy", "y\xa0es", "нет", "\x1b[200~y\x1b[A\x1b[201~"])
def test_what_is_no_answer_asks_again(garbage: str) -> None:
    with program("confirm") as terminal:
        terminal.expect(QUESTION)
        terminal.send_line(garbage)
        terminal.expect("\n  ")
        terminal.expect(QUESTION)
        terminal.send_line("y")
        assert response_of(terminal) == {"approved": True}


def test_end_of_input_leaves_the_question_unanswered() -> None:
    with program("confirm") as terminal:
        terminal.expect(QUESTION)
        terminal.send("\x04")
        terminal.expect("\nclosed: ")
        assert terminal.exit_code() == 3


def test_end_of_input_after_a_half_typed_answer_is_no_answer() -> None:
    with program("confirm") as terminal:
        terminal.expect(QUESTION)
        terminal.send("y\x04\x04\x03\x04")
        terminal.expect("\nclosed: ")
        assert terminal.exit_code() == 3


@pytest.mark.parametrize("withdraw", [signal.SIGUSR1, "\x03"])
def test_a_withdrawn_question_leaves_a_fresh_line_and_nothing_half_typed(withdraw: signal.Signals | str) -> None:
    with program("confirm") as terminal:
        terminal.expect(QUESTION)
        terminal.send("yes plea")
        terminal.expect("yes plea")
        if isinstance(withdraw, str):
            terminal.send(2 * withdraw)
        else:
            terminal.signal(withdraw)
        terminal.expect("\nwithdrawn\n")
        terminal.send_line("later")
        terminal.expect("next line: 'later\\n', threads: 1")
        assert terminal.exit_code() == 0


@pytest.mark.parametrize("ahead", ["y\n", "y", "y\ny\ny\n"])
def test_what_is_typed_before_the_question_does_not_answer_it(ahead: str) -> None:
    with program("confirm", "late") as terminal:
        terminal.expect("ready\n")
        terminal.send(ahead)
        terminal.expect(ahead)
        terminal.signal(signal.SIGUSR1)
        terminal.expect(QUESTION)
        terminal.send_line()
        assert response_of(terminal) == {"approved": False}


def test_a_text_is_taken_as_typed() -> None:
    with program("input") as terminal:
        terminal.expect("? Enter the report title:\n> ")
        terminal.send_line("  Tschüss 日本 👋 ")
        assert response_of(terminal) == {"text": "  Tschüss 日本 👋 "}


def test_a_line_that_a_dumb_terminal_would_cut_is_refused() -> None:
    with program("input", env={"TERM": "dumb"}) as terminal:
        terminal.expect("> ")
        terminal.send_line("x" * 5000)
        terminal.expect("ends at 4095 bytes")
        terminal.expect("> ")
        terminal.send_line("short")
        assert response_of(terminal) == {"text": "short"}


def test_a_wrong_number_asks_again() -> None:
    with program("choice") as terminal:
        terminal.expect(f"? Which?\n  1. staging\n  2. production\n{ONE}Choice: ")
        terminal.send_line("3")
        terminal.expect("  3 is no option; type a number from 1 to 2\nChoice: ")
        terminal.send_line("2")
        assert response_of(terminal) == {"selected": ["production"]}


def test_several_options_are_separated_by_commas() -> None:
    with program("multi") as terminal:
        terminal.expect(f"  3. c\n{SEVERAL}Choice: ")
        terminal.send_line("3, a")
        assert response_of(terminal) == {"selected": ["a", "c"]}


def test_a_custom_request_takes_the_json_that_its_schema_allows() -> None:
    with program("custom") as terminal:
        terminal.expect('  {\n    "type": "rating"\n  }\n  The answer must fit the JSON Schema {"type": "integer"}\n')
        terminal.expect("? Rate it\n  a JSON value · e edit · ? everything\nJSON: ")
        terminal.send_line("five")
        terminal.expect("not JSON: ")
        terminal.expect("JSON: ")
        terminal.send_line('"five"')
        terminal.expect("does not fit the request's schema")
        terminal.expect("JSON: ")
        terminal.send_line("5")
        assert response_of(terminal) == 5


def test_structured_questions_come_one_after_the_other() -> None:
    with program("questions") as terminal:
        terminal.expect("? How?  [Way]  (1/2)\n  1. Fast\n     In a hurry\n  2. Slow\n     │ 1\n     │   2\n")
        terminal.expect(f"  3. Other\n{ONE}Choice: ")
        terminal.send_line("4")
        terminal.expect("  4 is no option; type a number from 1 to 3\nChoice: ")
        terminal.send_line("1,2")
        terminal.expect("is no option; type a number from 1 to 3\nChoice: ")
        terminal.send_line("3")
        terminal.expect("Other: ")
        terminal.send_line("  ")
        terminal.expect("  an own answer cannot be empty\nOther: ")
        terminal.send_line("with care")
        terminal.expect("? What?  [Kind]  (2/2)\n  1. A\n  2. B\n  3. Other\n")
        terminal.expect(f"{SEVERAL}Choice: ")
        terminal.send_line("2 1 3")
        terminal.expect("Other: ")
        terminal.send_line("Ü")
        assert response_of(terminal) == {"answers": {"How?": "with care", "What?": ["A", "B", "Ü"]}}


@pytest.mark.parametrize("own", ["A", "B"])
def test_an_own_text_that_is_the_label_of_an_option_is_that_option_once(own: str) -> None:
    with program("questions") as terminal:
        terminal.expect("Choice: ")
        terminal.answer("Fast")
        terminal.expect("Choice: ")
        terminal.send_line("1 3")
        terminal.expect("Other: ")
        terminal.send_line(own)
        assert response_of(terminal)["answers"]["What?"] == sorted({"A", own})


@pytest.mark.parametrize("out", ["\x04", "\x03"])
def test_backing_out_of_a_later_question_answers_none(out: str) -> None:
    with program("questions") as terminal:
        terminal.expect("Choice: ")
        terminal.send_line("1")
        terminal.expect("(2/2)")
        terminal.expect("Choice: ")
        terminal.send(out)
        terminal.expect("\nclosed: " if out == "\x04" else "\nwithdrawn\n")
        if out == "\x03":
            terminal.send_line()
        assert terminal.exit_code() == (3 if out == "\x04" else 0)
        assert "response: " not in terminal.screen


def test_a_preview_higher_than_the_screen_goes_through_the_pager() -> None:
    with program("tall", env={"PAGER": "sed s/line/paged/"}) as terminal:
        assert "line" not in terminal.expect("│ paged 59")
        terminal.expect(f"? How?  [Topic]\n  1. Fast\n  2. Slow\n  3. Other\n{ONE}Choice: ")
        terminal.send_line("Slow")
        assert response_of(terminal) == {"answers": {"How?": "Slow"}}


def test_a_long_preview_goes_through_the_pager_and_the_question_follows() -> None:
    with program("long", env={"PAGER": "sed s/line/paged/"}) as terminal:
        terminal.expect("  (longer than the screen; q goes to the question)\n")
        assert "+line" not in terminal.expect("+paged 99")
        terminal.expect(QUESTION)
        terminal.send_line("y")
        assert response_of(terminal) == {"approved": True}


@pytest.mark.parametrize("pager", ["", "false", "no-such-pager", "'"])
def test_without_a_working_pager_a_long_preview_is_printed_whole(pager: str) -> None:
    with program("long", env={"PAGER": pager}) as terminal:
        shown = terminal.expect(QUESTION)
        assert [f"  +line {number}" for number in range(100)] == shown.split("\n")[:100]


PAGER = """
import os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(os.write(1, b"pager ended\\n") and 0))
print(sys.stdin.read(), flush=True)
signal.pause()
"""


def test_a_question_that_is_withdrawn_in_the_pager_ends_the_pager() -> None:
    with program("long", env={"PAGER": shlex.join([sys.executable, "-c", PAGER])}) as terminal:
        terminal.expect("+line 99")
        terminal.signal(signal.SIGUSR1)
        terminal.expect("pager ended\nwithdrawn\n")
        terminal.send_line("echoed")
        terminal.expect("echoed\nnext line: 'echoed\\n'")
        assert terminal.exit_code() == 0


def test_a_pager_that_leaves_the_terminal_raw_does_no_harm() -> None:
    with program("long", env={"PAGER": "stty -F /dev/tty raw -echo"}) as terminal:
        terminal.expect(QUESTION)
        terminal.send_line("y")
        assert response_of(terminal) == {"approved": True}


def test_arguments_too_long_for_a_question_stand_whole_above_it() -> None:
    with program("huge", env={"PAGER": ""}) as terminal:
        assert "1399]}" in terminal.expect("… (whole above) [y/N]: ")


def test_a_long_text_stands_apart_and_the_question_names_its_size() -> None:
    with program("long text", env={"PAGER": ""}) as terminal:
        terminal.expect("  content:\n    line 0\n")
        terminal.expect(f"    line 79\n{HINT}? Confirm file_delete a (80 lines) [y/N]: ")


class TestEverything:
    def test_it_is_shown_and_the_question_put_again(self) -> None:
        with program("confirm", env={"PAGER": ""}) as terminal:
            for _ in range(2):
                terminal.expect(QUESTION)
                terminal.send_line(" ? ")
                terminal.expect("  request r1\n  asked by: confirm_tools: file_delete\n")
                terminal.expect('  {\n    "path": "output/stale.log"\n  }\n')
                terminal.expect("  12:00:00 cleaner 👤 Clean up.\n")
                terminal.expect(HINT)
            terminal.expect(QUESTION)
            terminal.send_line("n not now")
            assert response_of(terminal) == {"approved": False, "reason": "not now"}

    @pytest.mark.parametrize(("name", "answer", "response"), [("choice", "1", ["staging"]), ("custom", "5", 5)])
    def test_of_other_questions(self, name: str, answer: str, response: Any) -> None:
        prompt = "JSON: " if name == "custom" else "Choice: "
        with program(name, env={"PAGER": ""}) as terminal:
            terminal.expect(prompt)
            terminal.send_line("?")
            terminal.expect("asked by: ")
            terminal.expect(prompt)
            terminal.send_line(answer)
            assert response_of(terminal) == ({"selected": response} if name == "choice" else response)

    def test_of_one_of_several_questions(self) -> None:
        with program("questions", env={"PAGER": ""}) as terminal:
            for answer in ("1", "?", "1"):
                terminal.expect("Choice: ")
                terminal.send_line(answer)
            assert response_of(terminal) == {"answers": {"How?": "Fast", "What?": ["A"]}}

    def test_an_option_is_an_option_whatever_it_is_called(self) -> None:
        with program("odd") as terminal:
            terminal.expect("  2. e\n  a number, or an option as it is written\nChoice: ")
            terminal.send_line("?")
            assert response_of(terminal) == {"selected": ["?"]}

    def test_where_any_text_is_the_answer_it_is_one(self) -> None:
        with program("input") as terminal:
            terminal.expect("> ")
            terminal.send_line("?")
            assert response_of(terminal) == {"text": "?"}

    def test_what_is_higher_than_the_screen_goes_through_the_pager(self) -> None:
        with program("long text", env={"PAGER": "sed s/line/paged/"}) as terminal:
            terminal.expect("    paged 79\n")
            terminal.expect("[y/N]: ")
            terminal.send_line("?")
            terminal.expect("    paged 79\n")
            terminal.expect("[y/N]: ")
            terminal.send_line("n")
            assert response_of(terminal) == {"approved": False}


EDITOR = """
import os, sys
path = sys.argv[-1]
text = open(path).read()
assert os.stat(path).st_mode & 0o077 == 0 and os.stat(os.path.dirname(path)).st_mode & 0o077 == 0
assert os.isatty(0) and os.isatty(1)
print("editing", repr(text), flush=True)
open(path, "w").write(text.replace(*sys.argv[1:3]))
sys.exit(int(sys.argv[3]))
"""


def editor(old: str, new: str, code: int = 0) -> dict[str, str | None]:
    words = [sys.executable, "-c", EDITOR, old, new, str(code)]
    return {"EDITOR": shlex.join(words), "VISUAL": None, "PAGER": ""}


class TestEditing:
    def test_in_the_line_editor(self) -> None:
        with program("confirm") as terminal:
            terminal.expect(QUESTION)
            terminal.send_line("e")
            terminal.expect("  path: output/stale.log")
            terminal.send("\x1b[D" + 4 * "\x08" + "2.log\r")
            terminal.expect("edited: `y` approves the call with these arguments\n")
            terminal.expect("[y/N]: ")
            terminal.send_line("y")
            response = response_of(terminal)
        assert response == {"approved": True, "args": {"path": response["args"]["path"]}}
        assert response["args"]["path"] != "output/stale.log"

    @pytest.mark.parametrize("name", ["EDITOR", "VISUAL"])
    def test_in_the_editor_of_ones_own(self, name: str) -> None:
        chosen = editor("stale", "old")
        env = {**chosen, "EDITOR": "false", name: chosen["EDITOR"]}
        with program("confirm", env=env) as terminal:
            terminal.expect(QUESTION)
            terminal.send_line("E")
            terminal.expect("editing 'path: output/stale.log\\n'")
            terminal.expect('? Confirm file_delete {"path": "output/old.log"} [y/N]: ')
            terminal.send_line("y")
            assert response_of(terminal) == {"approved": True, "args": {"path": "output/old.log"}}

    def test_a_long_text_is_edited_line_by_line(self) -> None:
        with program("long text", env=editor("line 79", "the end")) as terminal:
            terminal.expect("[y/N]: ")
            terminal.send_line("e")
            terminal.expect(r"editing 'path: a\ncontent: |\n  line 0\n  line 1\n")
            assert "    the end\n" in terminal.expect("edited: ").replace("\r", "")
            terminal.expect("? Confirm file_delete a (80 lines) [y/N]: ")
            terminal.send_line("y")
            content = response_of(terminal)["args"]["content"]
        assert content == "".join(f"line {n}\n" for n in range(79)) + "the end\n"

    def test_a_denial_is_of_the_call_whatever_was_edited(self) -> None:
        with program("confirm", env=editor("stale", "old")) as terminal:
            terminal.expect(QUESTION)
            terminal.send_line("e")
            terminal.expect("old.log")
            terminal.expect("[y/N]: ")
            terminal.send_line("n")
            assert response_of(terminal) == {"approved": False}

    def test_what_is_edited_back_is_a_plain_approval(self) -> None:
        with program("confirm", env=editor("x", "y")) as terminal:
            terminal.expect(QUESTION)
            terminal.send_line("e")
            terminal.expect(QUESTION)
            terminal.send_line("y")
            assert response_of(terminal) == {"approved": True}

    @pytest.mark.parametrize(
        ("new", "told"),
        [
            ("secret", "secret/ is out of bounds; nothing was run\n"),
            ("[", "arguments, line 2, column 1: "),
            ("- a\n#", "arguments"),
        ],
    )
    def test_what_does_not_count_is_told_and_can_be_mended(self, new: str, told: str) -> None:
        with program("confirm", env=editor("output", new)) as terminal:
            terminal.expect(QUESTION)
            terminal.send_line("e")
            terminal.expect(told)
            terminal.expect(QUESTION)
            terminal.send_line("e")
            terminal.expect(f"editing 'path: {new.splitlines()[0]}")  # what was written is not lost
            terminal.expect(QUESTION)
            terminal.send_line("y")
            assert response_of(terminal) == {"approved": True}

    @pytest.mark.parametrize("env", [editor("stale", "old", code=1), {"EDITOR": "/", "VISUAL": None}])
    def test_an_editor_that_fails_edits_nothing(self, env: dict[str, str | None]) -> None:
        with program("confirm", env=env) as terminal:
            terminal.expect(QUESTION)
            terminal.send_line("e")
            if env["EDITOR"] != "/":
                terminal.expect("ended with 1; nothing was edited\n")
            else:  # there is no such program: it is edited here
                terminal.expect("  path: output/stale.log")
                terminal.send("\x03\r")
            terminal.expect(QUESTION)
            terminal.send_line("y")
            assert response_of(terminal) == {"approved": True}

    def test_a_question_that_is_withdrawn_ends_the_editor(self) -> None:
        program_text = PAGER.replace("pager ended", "editor ended").replace("sys.stdin.read()", "'editing'")
        env = {"EDITOR": shlex.join([sys.executable, "-c", program_text]), "VISUAL": None}
        with program("confirm", env=env) as terminal:
            terminal.expect(QUESTION)
            terminal.send_line("e")
            terminal.expect("editing\n")
            terminal.signal(signal.SIGUSR1)
            terminal.expect("editor ended\nwithdrawn\n")
            terminal.send_line("echoed")
            terminal.expect("next line: 'echoed\\n'")
            assert terminal.exit_code() == 0

    def test_on_a_dumb_terminal(self) -> None:
        with program("confirm", env={"TERM": "dumb", "VISUAL": "false", "EDITOR": None}) as terminal:
            terminal.expect(QUESTION)
            terminal.send_line("e")
            terminal.expect("as it is.\n  ")
            terminal.send_line('{"path": "b.txt"}')
            terminal.expect('? Confirm file_delete {"path": "b.txt"} [y/N]: ')
            terminal.send_line("y")
            assert response_of(terminal) == {"approved": True, "args": {"path": "b.txt"}}

    def test_a_custom_answer_is_written_in_the_editor(self) -> None:
        with program(
            "custom", env={**editor("", ""), "EDITOR": shlex.join([sys.executable, "-c", WRITES])}
        ) as terminal:
            terminal.expect("JSON: ")
            terminal.send_line("e")
            terminal.expect("does not fit the request's schema")
            terminal.expect("JSON: ")
            terminal.send_line("e")
            assert response_of(terminal) == 5


WRITES = """
import sys
text = open(sys.argv[-1]).read()
open(sys.argv[-1], "w").write("5" if text else '"five"')
"""


@pytest.mark.parametrize("word", ["e", "?"])
def test_what_is_pasted_with_more_is_no_command(word: str) -> None:
    with program("confirm") as terminal:
        terminal.expect(QUESTION)
        terminal.send(f"\x1b[200~{word}\ny\n\x1b[201~\r")
        terminal.expect("none of them counts: answer y or n")
        terminal.expect(QUESTION)
        terminal.send_line("y")
        assert response_of(terminal) == {"approved": True}
