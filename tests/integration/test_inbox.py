"""The inbox, as a browser without JavaScript uses it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_md.executions.ids import RequestId
from agent_md.executions.requests import Answer, Preview, Request
from agent_md.executions.states import Outcome, RequestKind, RequestSource, Status
from tests.support.agent_folder import AgentFolder, call
from tests.support.pages import WRITER, Browser, Page, ServedPages, served_pages
from tests.support.scenes import abort, approve, ask, begin, journal_of, parked
from tests.support.structured import DATABASE, FEATURES

SOCKET = "http://localhost"
RATING = {
    "type": "object",
    "properties": {
        "stars": {"type": "integer", "minimum": 1, "maximum": 5},
        "comment": {"type": "string", "title": "What for", "description": "In a word"},
        "again": {"type": "boolean"},
        "size": {"type": "string", "enum": ["small", "large"], "default": "large"},
    },
    "required": ["stars"],
    "additionalProperties": False,
}


@pytest.fixture
def folder(tmp_path: Path) -> AgentFolder:
    return AgentFolder(tmp_path / "ws")


@pytest.fixture
def served(folder: AgentFolder) -> Iterator[ServedPages]:
    with served_pages(folder.path) as pages:
        yield pages


@pytest.fixture
def ann(served: ServedPages) -> Browser:
    return served.browser(SOCKET)


def asked(served: ServedPages, **fields: Any) -> RequestId:
    """A request of a tool, of an execution of its own."""
    journal = journal_of(served.app.store, begin(served.app.store, spec=WRITER, worker=served.app.worker))
    given = {"tool_name": None, "tool_args": None, "source": RequestSource.TOOL, **fields}
    [request] = ask(journal, **given)
    journal.park([frozenset({request})])
    return request


def answer_to(served: ServedPages, request: str) -> Answer | None:
    return served.app.store.request(RequestId(request)).answer


async def shown(browser: Browser, request: str) -> Page:
    page = await browser.get(f"/ui/requests/{request}")
    assert page.status == 200, page.text
    return page


class TestListing:
    async def test_nothing_waits(self, ann: Browser) -> None:
        page = await ann.get("/ui/")
        assert "Nothing waits for an answer." in page.text
        assert page.open == []

    async def test_the_earliest_deadline_comes_first(self, served: ServedPages, ann: Browser) -> None:
        never, late, soon = (asked(served, expires_in=seconds) for seconds in (None, 9000, 100))
        page = await ann.get("/ui/")
        links = [link for link in page.links() if link.startswith("/ui/requests/")]
        assert links == [f"/ui/requests/{request}" for request in (soon, late, never)]
        assert "2 h" in page.text
        assert "(3) Inbox" in page.text

    async def test_fifty_on_a_page_and_the_rest_on_demand(self, served: ServedPages, ann: Browser) -> None:
        _, ids = parked(served.app.store, count=53, spec=WRITER)
        first = await ann.get("/ui/")
        assert [link for link in first.links() if "requests" in link] == [f"/ui/requests/{each}" for each in ids[:50]]
        rest = await ann.get("/ui/?page=2")
        assert [link for link in rest.links() if "requests" in link] == [f"/ui/requests/{each}" for each in ids[50:]]
        for page in ("0", "-1", "x", "9" * 30, "²"):
            assert (await ann.get(f"/ui/?page={page}")).status == 200

    async def test_a_request_that_is_not_there(self, ann: Browser) -> None:
        page = await ann.get("/ui/requests/none")
        assert (page.status, "there is no request none" in page.text) == (404, True)
        assert (await ann.post("/ui/requests/none", [])).status == 403


class TestARequest:
    async def test_shows_everything_of_a_call(self, served: ServedPages, ann: Browser) -> None:
        execution, [request] = parked(
            *(served.app.store,),
            spec=WRITER,
            session_id="7d1c",
            expires_in=3600,
        )
        page = await shown(ann, request)
        for text in ("writer", f"#{execution.id}", "session 7d1c", "file_read", '"path": "a.md"', "digest-of-action"):
            assert text in page.text, text
        assert "expires in 60 min" in page.text
        assert "the agent file has changed since this execution started" in page.text

    async def test_shows_path_diff_and_long_texts(self, served: ServedPages, ann: Browser) -> None:
        long = "".join(f"line {number}\n" for number in range(40))
        preview = Preview(resolved="/work/a.md", diff="--- a.md\n+++ a.md\n@@ -1 +1 @@\n-old\n+new <b>\n", size=12)
        request = asked(
            *(served,),
            kind=RequestKind.CONFIRM,
            source=RequestSource.GATE,
            tool_name="post",
            tool_args={"to": "bob", "text": long},
            preview=preview,
        )
        page = await shown(ann, request)
        looks = [given["class"] for tag, given in page.tags if tag == "span" and given.get("class") in _LOOKS]
        assert looks == ["removed", "added", "place", "removed", "added"]
        for text in ("/work/a.md", "12 bytes", "+new <b>", "line 0\nline 1\n", "line 39", "(40 lines)"):
            assert text in page.text, text

    async def test_it_is_shown_to_who_reads_it(self, served: ServedPages, ann: Browser) -> None:
        request = asked(served)
        page = await shown(ann, request)
        [by] = {text for text in page.texts if text.startswith("web:")}
        assert served.app.store.showings.shown([request], by) == {request}
        assert not served.app.store.showings.shown([request], "web:bob")


_LOOKS = ("added", "removed", "place")


class TestAnswering:
    async def test_yes(self, served: ServedPages, ann: Browser) -> None:
        _, [request] = parked(served.app.store, spec=WRITER)
        page = await ann.submit(await shown(ann, request), "Approve")
        assert page.path == "/ui/"
        assert "Execution 1: approved by web:" in page.text
        answer = answer_to(served, request)
        assert answer is not None
        assert (answer.outcome, answer.value, answer.answered_by[:4]) == (Outcome.APPROVED, {"approved": True}, "web:")

    async def test_no_with_a_reason_and_the_next_one_comes(self, served: ServedPages, ann: Browser) -> None:
        first, second = asked(served, kind=RequestKind.CONFIRM), asked(served, message="The second")
        page = await ann.submit(await shown(ann, first), "Deny", reason="not <i>today</i>")
        assert page.path == f"/ui/requests/{second}"
        assert "not <i>today</i>" in page.text
        answer = answer_to(served, first)
        assert answer is not None
        assert (answer.outcome, answer.value["reason"]) == (Outcome.DENIED, "not <i>today</i>")

    async def test_without_a_reason(self, served: ServedPages, ann: Browser) -> None:
        request = asked(served, kind=RequestKind.CONFIRM)
        await ann.submit(await shown(ann, request), "Deny")
        answer = answer_to(served, request)
        assert answer is not None
        assert answer.value == {"approved": False}

    @pytest.mark.parametrize("typed", ["", "a title", "two\r\nlines", "\n first", "ünï"])
    async def test_a_text(self, served: ServedPages, ann: Browser, typed: str) -> None:
        request = asked(served, kind=RequestKind.INPUT, message="Which title?")
        await ann.submit(await shown(ann, request), "Answer", text=typed)
        assert _value(served, request) == {"text": typed.replace("\r\n", "\n")}

    async def test_a_choice(self, served: ServedPages, ann: Browser) -> None:
        request = asked(served, kind=RequestKind.CHOICE, options=("staging", "two\nlines"), multi=False)
        page = await ann.submit(await shown(ann, request), "Answer")
        assert (page.status, "no option is selected" in page.text) == (422, True)
        for wrong in (["0", "1"], ["2"], ["-1"], ["x"]):
            assert (await ann.submit(page, "Answer", option=wrong)).status == 422
        await ann.submit(page, "Answer", option="1")
        assert _value(served, request) == {"selected": ["two\nlines"]}

    async def test_several_choices(self, served: ServedPages, ann: Browser) -> None:
        request = asked(served, kind=RequestKind.CHOICE, options=("a", "b", "c"), multi=True)
        await ann.submit(await shown(ann, request), "Answer", option=["2", "0"])
        assert _value(served, request) == {"selected": ["a", "c"]}

    async def test_structured_questions(self, served: ServedPages, ann: Browser) -> None:
        request = asked(served, kind=RequestKind.QUESTIONS, questions=(DATABASE, FEATURES))
        page = await shown(ann, request)
        assert "app.db\n  users" in page.text
        page = await ann.submit(page, "Answer", answer_0="1")
        assert (page.status, "Which features?: pick an option" in page.text) == (422, True)
        page = await ann.submit(page, "Answer", answer_1=["other", "0"])
        assert page.status == 422  # what was picked before is still picked
        await ann.submit(page, "Answer", own_1="Speed")
        answers = {"Which database?": "Postgres", "Which features?": ["Search", "Speed"]}
        assert _value(served, request) == {"answers": answers}

    async def test_an_own_text_alone_counts(self, served: ServedPages, ann: Browser) -> None:
        request = asked(served, kind=RequestKind.QUESTIONS, questions=(DATABASE,))
        await ann.submit(await shown(ann, request), "Answer", own_0="DuckDB")
        assert _value(served, request) == {"answers": {"Which database?": "DuckDB"}}

    async def test_a_form_for_a_schema(self, served: ServedPages, ann: Browser) -> None:
        request = asked(served, kind=RequestKind.CUSTOM, payload={"type": "rating"}, response_schema=RATING)
        page = await shown(ann, request)
        for text in ("stars", "What for", "In a word", "needed"):
            assert text in page.text
        page = await ann.submit(page, "Answer", field_1="good")
        assert (page.status, "stars: a value is needed" in page.text) == (422, True)
        page = await ann.submit(page, "Answer", field_0="many")
        assert "stars: a whole number is needed" in page.text
        page = await ann.submit(page, "Answer", field_0="9")
        assert "stars: 9 is greater than the maximum of 5" in page.text
        await ann.submit(page, "Answer", field_0="4", field_2="false")
        assert _value(served, request) == {"stars": 4, "comment": "good", "again": False, "size": "large"}

    async def test_json_where_there_is_no_form(self, served: ServedPages, ann: Browser) -> None:
        nested = {"type": "object", "properties": {"a": {"type": "array"}}}
        request = asked(served, kind=RequestKind.CUSTOM, payload={"type": "x"}, response_schema=nested)
        page = await ann.submit(await shown(ann, request), "Answer", json='{"a": [1,}')
        assert (page.status, "no JSON at line 1, column 10" in page.text) == (422, True)
        assert '{"a": [1,}' in page.text
        await ann.submit(page, "Answer", json='{"a": [1]}')
        assert _value(served, request) == {"a": [1]}

    async def test_json_beside_a_form(self, served: ServedPages, ann: Browser) -> None:
        request = asked(served, kind=RequestKind.CUSTOM, payload={"type": "rating"}, response_schema=RATING)
        await ann.submit(await shown(ann, request), "Answer with this JSON", json='{"stars": 2}')
        assert _value(served, request) == {"stars": 2}


def _value(served: ServedPages, request: RequestId) -> Any:
    answer = answer_to(served, request)
    assert answer is not None
    return answer.value


class TestBinding:
    async def test_a_yes_is_for_what_was_shown(self, served: ServedPages, ann: Browser) -> None:
        first, second = (
            asked(served, kind=RequestKind.CONFIRM, digest="one"),
            asked(served, kind=RequestKind.CONFIRM, digest="two"),
        )
        form = (await shown(ann, first)).form("Approve")
        page = await ann.post(f"/ui/requests/{second}", form.data("Approve", {}))
        assert (page.status, "this form showed something else" in page.text) == (409, True)
        assert answer_to(served, second) is None

    async def test_one_wins_and_the_other_is_told(self, served: ServedPages, ann: Browser) -> None:
        _, [request] = parked(served.app.store, spec=WRITER)
        bob = await served.logged_in()
        page, other = await shown(ann, request), await shown(bob, request)
        await ann.submit(page, "Deny", reason="no")
        late = await bob.submit(other, "Approve")
        assert late.status == 409
        assert "your answer came too late: denied by web:" in late.text
        assert not any(form.action.startswith("/ui/requests") for form in late.forms)
        answer = answer_to(served, request)
        assert answer is not None
        assert answer.outcome is Outcome.DENIED

    async def test_the_same_answer_twice_is_one(self, served: ServedPages, ann: Browser) -> None:
        _, [request] = parked(served.app.store, spec=WRITER)
        page = await shown(ann, request)
        for _ in range(2):
            assert "approved by web:" in (await ann.submit(page, "Approve")).text

    async def test_one_that_was_cancelled_or_decided_says_so(self, served: ServedPages, ann: Browser) -> None:
        execution, [request, other] = parked(served.app.store, count=2, spec=WRITER)
        served.app.store.record_answers([approve(request)], by="cli:eve")
        assert "approved by cli:eve" in (await shown(ann, request)).text
        page = await shown(ann, other)
        store = served.app.store
        claim = store.claim(execution.id, served.app.worker)
        assert claim is not None
        abort(store.journal(claim), by="cli:eve")
        late = await ann.submit(page, "Approve")
        assert (late.status, "cancelled by cli:eve" in late.text) == (409, True)


class TestACall:
    @pytest.fixture
    def waiting(self, folder: AgentFolder) -> AgentFolder:
        write = call("file_write", path="notes.md", content="one\n")
        folder.agent(
            "scribe", [{"text": "I take a note.", "calls": [write]}, {"text": "Done."}], "confirm: [file_write]"
        )
        folder.begin("scribe")
        return folder

    async def test_the_conversation_is_shown_on_demand(self, waiting: AgentFolder) -> None:
        with served_pages(waiting.path) as served:
            page = await shown(served.browser(SOCKET), "1-0.0")
            assert "I take a note." not in page.text
            [link] = [link for link in page.links() if "conversation" in link]
            assert "I take a note." in (await served.browser(SOCKET).get(link)).text

    async def test_edited_arguments_are_shown_before_they_are_approved(self, waiting: AgentFolder) -> None:
        with served_pages(waiting.path) as served:
            ann = served.browser(SOCKET)
            page = await shown(ann, "1-0.0")
            edited = {"path": "other.md", "content": "two\u202e\n"}
            page = await ann.submit(page, "Show what", args=json.dumps(edited))
            assert answer_to(served, "1-0.0") is None
            assert "+two\\u202e" in page.text
            assert str(waiting.path / "other.md") in page.text
            await ann.submit(page, "Approve with these arguments")
            answer = answer_to(served, "1-0.0")
            assert answer is not None
            assert answer.value == {"approved": True, "args": edited}
            asking: Request = served.app.store.request(RequestId("1-0.0"))
            assert answer.digest not in (None, asking.digest)

    async def test_a_yes_to_edited_arguments_is_for_what_was_shown(self, waiting: AgentFolder) -> None:
        with served_pages(waiting.path) as served:
            ann = served.browser(SOCKET)
            shown_once = await ann.submit(
                await shown(ann, "1-0.0"), "Show what", args='{"path": "b.md", "content": "x"}'
            )
            waiting.file("b.md", "it is there now\n")
            again = await ann.submit(shown_once, "Approve with these arguments")
            assert answer_to(served, "1-0.0") is None
            assert "-it is there now" in again.text
            form = again.form("Approve with").data("Approve with", {"args": '{"path": "c.md", "content": "x"}'})
            other = await ann.post("/ui/requests/1-0.0", form)
            assert answer_to(served, "1-0.0") is None
            assert "c.md" in other.text
            await ann.submit(again, "Approve with these arguments")
            assert answer_to(served, "1-0.0") is not None

    @pytest.mark.parametrize(
        ("typed", "told"),
        [
            ("{", "the arguments: no JSON at line 1, column 2"),
            ("", "the arguments are empty"),
            ("[1]", "the arguments are no JSON object"),
            ('{"path": "a", "path": "b"}', "comes twice in one object"),
            ('{"path": 1, "content": ""}', "path"),
            ('{"path": "../../x", "content": ""}', "the edited arguments are refused"),
        ],
    )
    async def test_mistakes_are_told_at_the_field(self, waiting: AgentFolder, typed: str, told: str) -> None:
        with served_pages(waiting.path) as served:
            ann = served.browser(SOCKET)
            page = await ann.submit(await shown(ann, "1-0.0"), "Show what", args=typed)
            assert page.status == 422
            [area] = [given for tag, given in page.tags if tag == "textarea" and given.get("name") == "args"]
            assert area["aria-invalid"] == "true"
            assert "error" in (area["aria-describedby"] or "").split()
            assert told in page.text, page.text
            assert answer_to(served, "1-0.0") is None

    async def test_arguments_that_come_back_unchanged_are_a_plain_yes(self, waiting: AgentFolder) -> None:
        with served_pages(waiting.path) as served:
            ann = served.browser(SOCKET)
            page = await ann.submit(await shown(ann, "1-0.0"), "Show what")
            await ann.submit(page, "Approve with these arguments")
            answer = answer_to(served, "1-0.0")
            assert answer is not None
            assert answer.value == {"approved": True}
        assert waiting.execution().status is Status.QUEUED
