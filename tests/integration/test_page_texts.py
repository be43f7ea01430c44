"""Texts of others on pages: none becomes markup, none is hidden, all of it is there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_md.executions.ids import RequestId
from agent_md.executions.requests import Preview
from agent_md.executions.states import RequestKind, RequestSource
from tests.support.hostile import HOSTILE, LONG, assert_literal, assert_shown, stored
from tests.support.pages import WRITER, Page, ServedPages, served_pages
from tests.support.scenes import ask, begin, journal_of
from tests.support.structured import option, question

SOCKET = "http://localhost"
MARKUP = (
    "<script>alert(1)</script><img src=x onerror=alert(1)></pre></textarea></form></option></details>"
    '<form action=//evil.example><button>Approve</button></form>{{ 7 * 7 }}{% raw %}"\' autofocus onfocus=alert(1) x="'
    "<style>*{display:none}</style><!-- <meta http-equiv=refresh content=0><a hx-get=/ui/logout hx-trigger=load>"
)
EVERYTHING = MARKUP + "\n".join(stored(text) for text in HOSTILE.values())
ONE_LINE = EVERYTHING.replace("\n", " ")
FIELDS: dict[str, dict[str, Any]] = {
    "call": {
        "kind": RequestKind.CONFIRM,
        "source": RequestSource.GATE,
        "tool_name": ONE_LINE,
        "tool_args": {ONE_LINE: EVERYTHING, "long": EVERYTHING * 5, "deep": [{"a": EVERYTHING}]},
        "rule": ONE_LINE,
        "preview": Preview(resolved=EVERYTHING, diff=f"--- {EVERYTHING}\n+{EVERYTHING}\n", size=1, type=EVERYTHING),
    },
    "question of a tool": {"kind": RequestKind.CONFIRM, "message": EVERYTHING},
    "text": {"kind": RequestKind.INPUT, "message": EVERYTHING},
    "choice": {"kind": RequestKind.CHOICE, "message": EVERYTHING, "options": (EVERYTHING, "b"), "multi": False},
    "choices": {"kind": RequestKind.CHOICE, "message": "?", "options": ("a", EVERYTHING), "multi": True},
    "questions": {
        "kind": RequestKind.QUESTIONS,
        "questions": (
            question(EVERYTHING, option(EVERYTHING, EVERYTHING, markdown=EVERYTHING), option("b"), header=EVERYTHING),
        ),
    },
    "custom": {"kind": RequestKind.CUSTOM, "message": EVERYTHING, "payload": {ONE_LINE: EVERYTHING}},
    "custom with a form": {
        "kind": RequestKind.CUSTOM,
        "payload": {"a": EVERYTHING},
        "response_schema": {
            "type": "object",
            "properties": {
                ONE_LINE: {"type": "string", "title": EVERYTHING, "description": EVERYTHING, "default": MARKUP},
                "b": {"type": "string", "enum": [EVERYTHING, "b"]},
            },
        },
    },
}


@pytest.fixture
def served(tmp_path: Path) -> Iterator[ServedPages]:
    (tmp_path / "agents").mkdir()
    with served_pages(tmp_path) as pages:
        yield pages


def asked(served: ServedPages, agent: str = "writer", session: str | None = None, **fields: Any) -> RequestId:
    begun = begin(
        served.app.store, spec=WRITER, worker=served.app.worker, agent=agent, session_id=session, text=EVERYTHING
    )
    given = {"tool_name": None, "tool_args": None, "source": RequestSource.TOOL, **fields}
    journal = journal_of(served.app.store, begun)
    [request] = ask(journal, **given)
    journal.park([frozenset({request})])
    return request


def shape(page: Page) -> list[tuple[str, tuple[str, ...]]]:
    """The tags from the request on, each with the names of its attributes."""
    tags = [tag for tag, _ in page.tags]
    return [(tag, tuple(sorted(given))) for tag, given in page.tags[tags.index("article") :]]


def assert_harmless(page: Page) -> None:
    assert page.open == [], page.open
    names = {name for _, given in page.tags for name in given}
    assert not {name for name in names if name.startswith("on")}
    assert names.isdisjoint({"style", "src-doc", "hx-get", "hx-trigger", "x"})
    scripts = [given.get("src") or "" for tag, given in page.tags if tag == "script"]
    assert all(source.startswith("/ui/static/") for source in scripts)
    assert not [tag for tag, _ in page.tags if tag in ("img", "style", "iframe", "base", "object")]
    assert {form.action.startswith("/ui/") for form in page.forms} <= {True}
    assert_literal(page.text)


@pytest.mark.parametrize("name", FIELDS)
async def test_every_field_is_text(served: ServedPages, name: str) -> None:
    fields = FIELDS[name]
    request = asked(served, agent=ONE_LINE, session=ONE_LINE, **fields)
    browser = served.browser(SOCKET)
    page = await browser.get(f"/ui/requests/{request}?conversation=1")
    assert page.status == 200
    assert_harmless(page)
    assert_shown(page.text)
    assert MARKUP in page.text
    assert_harmless(await browser.get("/ui/"))


async def test_the_same_page_whatever_is_said(served: ServedPages) -> None:
    """The markup does not depend on the text."""
    browser = served.browser(SOCKET)
    plain, hostile = asked(served, message="Which\u202e?"), asked(served, message=ONE_LINE)
    shapes = [shape(await browser.get(f"/ui/requests/{request}")) for request in (plain, hostile)]
    assert shapes[0] == shapes[1]


async def test_what_was_typed_comes_back_as_it_was(served: ServedPages) -> None:
    request = asked(served, kind=RequestKind.CHOICE, options=("a", "b"), multi=False)
    other = asked(served, kind=RequestKind.CONFIRM)
    browser = served.browser(SOCKET)
    page = await browser.submit(await browser.get(f"/ui/requests/{other}"), "Deny", reason=ONE_LINE)
    assert page.status == 200
    assert_harmless(page)
    decided = await browser.get(f"/ui/requests/{other}")
    assert_harmless(decided)
    assert MARKUP in decided.text
    asking = await browser.get(f"/ui/requests/{request}")
    refused = await browser.post(asking.form("Answer").action, asking.form("Answer").data("Answer", {"option": MARKUP}))
    assert refused.status == 422
    assert_harmless(refused)


async def test_addresses_and_names_that_are_not_there(served: ServedPages) -> None:
    browser = served.browser(SOCKET)
    for path in (
        "/ui/requests/%3Cscript%3Ealert(1)%3C%2Fscript%3E%E2%80%AE",
        "/ui/%22%3E%3Cimg%20src=x%3E",
        "/ui/?done=%3Cb%3E",
    ):
        page = await browser.get(path)
        assert page.status == 404
        assert_harmless(page)
    assert_harmless(await served.browser().get("/ui/login?next=%22%3E%3Cscript%3E&code=%3Cb%3E"))


async def test_a_long_text_is_whole(served: ServedPages) -> None:
    request = asked(served, message=LONG)
    page = await served.browser(SOCKET).get(f"/ui/requests/{request}")
    assert LONG in page.text
    entries = await served.browser(SOCKET).get("/ui/")
    assert LONG[:300] not in entries.text


async def test_a_warning_says_that_there_is_more_than_meets_the_eye(served: ServedPages) -> None:
    browser = served.browser(SOCKET)
    told = "this request holds control, hidden or reordering characters"
    for message, warned in (("Which?", False), (HOSTILE["bidi"], True), (HOSTILE["zero width"], True)):
        page = await browser.get(f"/ui/requests/{asked(served, message=message)}")
        assert (told in page.text) is warned
