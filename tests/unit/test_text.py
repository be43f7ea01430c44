"""The system prompt and the human message."""

from __future__ import annotations

import pytest

from agent_md.agents.placeholders import Prompt, expand, render
from agent_md.errors import ConfigInvalid

ENVIRON = {"TEAM": "blue", "COST": "$1 $ARGUMENTS ${TEAM}", "KEY": "k-123", "EMPTY": ""}


def system(body: str, *args: str) -> str:
    return render(body, args, "Go", ENVIRON, {"KEY"}).system


@pytest.mark.parametrize(
    ("body", "args", "expected"),
    [
        ("Hello", (), "Hello"),
        ("  a\r\n\n b\n", (), "  a\r\n\n b\n"),
        ("Do $ARGUMENTS now", ("a", "b c"), "Do a b c now"),
        ("Do $ARGUMENTS", (), "Do "),
        ("$2, then $1", ("a", "b"), "b, then a"),
        ("[$1][$2]", ("a",), "[a][]"),
        ("$1$1", ("a",), "aa"),
        ("$12", tuple("abcdefghijkl"), "l"),
        ("$1", ("$2 $ARGUMENTS ${TEAM} $$ $(rm -rf /) `id`", "x"), "$2 $ARGUMENTS ${TEAM} $$ $(rm -rf /) `id`"),
        ("\\1 $1", ("\\g<0>",), "\\1 \\g<0>"),
        ("Team ${TEAM}${EMPTY}!", (), "Team blue!"),
        ("${COST}", ("x",), "$1 $ARGUMENTS ${TEAM}"),
        ("$$1 $$ARGUMENTS $${TEAM} $$$1", ("x",), "$1 $ARGUMENTS ${TEAM} $x"),
        ("$0 $x $ARGUMENTSX ${} ${a.b} ${1} $ $(id)", ("x",), "$0 $x $ARGUMENTSX ${} ${a.b} ${1} $ $(id)"),
        ("$TEAM", (), "$TEAM"),
        ("$1\n```sh\necho $1 ${NOPE} $$\n```\n$1\n", ("x",), "x\n```sh\necho $1 ${NOPE} $$\n```\nx\n"),
        ("~~~~\n$1\n~~~\n$1\n~~~~~\n$1", ("x",), "~~~~\n$1\n~~~\n$1\n~~~~~\nx"),
        ("```\r\n$1\r\n```\r\n$1", ("x",), "```\r\n$1\r\n```\r\nx"),
        ("- a\n  ```\n  $1\n  ```\n$1", ("x",), "- a\n  ```\n  $1\n  ```\nx"),
        ("```\n$1", ("x",), "```\n$1"),
        ("``` $1 ``` $1", ("x",), "``` x ``` x"),
        ("`$1`", ("x",), "`x`"),
    ],
)
def test_the_body_is_filled_literally_and_once(body: str, args: tuple[str, ...], expected: str) -> None:
    assert system(body, *args) == expected


@pytest.mark.parametrize(
    ("body", "args", "message", "human"),
    [
        ("x", (), None, "Begin."),
        ("x", (), "", "Begin."),
        ("x", (), " \n", "Begin."),
        ("x", (), "Clean up", "Clean up"),
        ("x", (), " as is\n", " as is\n"),
        ("x", ("a", "b c"), None, "a b c"),
        ("x", ("a", "b"), "Clean up", "Clean up\na b"),
        ("$ARGUMENTS", ("a", "b"), "Clean up", "Clean up"),
        ("$1", ("a", "b"), None, "b"),
        ("$2", ("a", "b"), "Clean up", "Clean up\na"),
        ("$1 $2", ("a", "b"), None, "Begin."),
        ("```\n$1\n```", ("a",), None, "a"),
        ("$$1", ("a",), None, "a"),
        ("x", (), "$1 ${TEAM} $$", "$1 ${TEAM} $$"),
        ("x", ("${TEAM}",), None, "${TEAM}"),
    ],
)
def test_arguments_without_a_place_go_to_the_message(
    body: str, args: tuple[str, ...], message: str | None, human: str
) -> None:
    assert render(body, args, message, ENVIRON, ()).human == human


def test_missing_variables_are_all_named() -> None:
    with pytest.raises(ConfigInvalid, match=r"\$\{NOPE\}, \$\{NADA\}, which the environment does not have"):
        system("${NOPE} ${TEAM} ${NADA} ${NOPE}")


def test_a_secret_is_never_put_into_a_prompt() -> None:
    with pytest.raises(ConfigInvalid, match=r"\$\{KEY\}, which is never put into a prompt") as caught:
        system("Use ${KEY}")
    assert "k-123" not in str(caught.value)


def test_a_placeholder_stays_a_placeholder() -> None:
    assert render("Send ${KEY}", (), None, ENVIRON, {"KEY"}, {"KEY"}) == Prompt("Send ${KEY}", "Begin.")


def test_expand_fills_settings_from_the_environment() -> None:
    assert expand("https://${TEAM}.example.com/$$1/$1", ENVIRON, "model.base_url") == "https://blue.example.com/$1/$1"
    with pytest.raises(ConfigInvalid, match=r"model\.base_url uses \$\{NOPE\}"):
        expand("${NOPE}", ENVIRON, "model.base_url")
