"""The inbox in a real browser on a real server: mouse, keyboard, several tabs, and a server that dies."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from agent_md.python_command import python_command
from tests.support.agent_folder import AgentFolder, call
from tests.support.chromium import chromium, watched
from tests.support.hostile import HOSTILE
from tests.support.server import Client, Server, respond, run, wait_for
from tests.support.waiting import until

pytestmark = pytest.mark.xdist_group("chromium")  # one browser and one server, made once, in one process

KEY = "a key for the page"
HOSTILE_TEXT = "<script>document.title='x'</script><img src=x onerror=\"document.title='x'\">" + HOSTILE["bidi"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as opened:
        yield opened


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> AgentFolder:
    made = AgentFolder(tmp_path_factory.mktemp("inbox") / "ws")
    delete = [call("file_delete", path=f"{name}.txt") for name in ("a", "b")]
    made.agent("sweeper", [{"text": HOSTILE_TEXT, "calls": delete}, {"text": "Swept."}], "confirm: [file_delete]")
    question = {
        "question": "Which colour?",
        "header": "Colour",
        "multiSelect": False,
        "options": [{"label": "Red", "description": ""}, {"label": "Blue", "description": ""}],
    }
    questions = [call("ask_user", question="What name?"), call("ask_user_question", questions=[question])]
    made.agent("asker", [{"calls": questions}, {"text": "Thanks."}])
    return made


class Served:
    """One server, which may be killed and started again at the same address. It is no fork: playwright has threads."""

    def __init__(self, folder: AgentFolder) -> None:
        self.folder = folder
        self.port = "0"
        self.start()

    def start(self) -> None:
        command = python_command("-m", "agent_md.cli.main", "start", "-w", str(self.folder.path), "--port", self.port)
        environ = {**os.environ, "CI": "", "AGENTMD_API_KEY": KEY}
        self.process = subprocess.Popen(command, env=environ, stdout=subprocess.DEVNULL)
        until(self._listens)
        address = Server.address_of(self.folder.path)
        self.client = Client(Path(address["socket"]))
        self.url = address["url"]
        self.port = self.url.rpartition(":")[2]

    def _listens(self) -> bool:
        assert self.process.poll() is None
        try:
            return bool(Server.address_of(self.folder.path)["pid"] == self.process.pid)
        except FileNotFoundError:  # not written yet, or a dead server's, which the new one takes away
            return False

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def run(self, agent: str = "sweeper") -> int:
        """Starts an execution; returns when it waits."""
        for name in ("a", "b"):
            self.folder.file(f"{name}.txt")
        number = run(self.client, agent=agent)
        wait_for(self.client, number, "waiting")
        return number

    def requests(self, execution: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.client.get(f"/executions/{execution}/requests").body
        return found

    def answer_all(self) -> None:
        for request in self.client.get("/pending").body:
            self.client.request("DELETE", f"/executions/{request['execution_id']}")


@pytest.fixture(scope="module")
def one_server(folder: AgentFolder) -> Iterator[Served]:
    served = Served(folder)
    yield served
    served.kill()


@pytest.fixture
def served(one_server: Served) -> Iterator[Served]:
    yield one_server
    one_server.answer_all()


@pytest.fixture
def context(browser: Browser, served: Served) -> Iterator[BrowserContext]:
    with browser.new_context() as made:
        made.set_default_timeout(5_000)
        yield made


@pytest.fixture
def page(context: BrowserContext, served: Served) -> Iterator[Page]:
    """The inbox, logged in; nothing may go wrong on it."""
    opened = context.new_page()
    wrong = watched(opened)
    opened.goto(f"{served.url}/ui/")
    opened.get_by_label("Key").fill(KEY)
    opened.get_by_role("button", name="Log in").click()
    opened.wait_for_url("**/ui/")
    expect(opened.get_by_role("heading", name="Inbox")).to_be_visible()
    yield opened
    assert wrong == []


def rows(page: Page) -> Any:
    return page.locator(".entry:not(.gone)")


def test_answered_by_mouse_and_by_keyboard(served: Served, page: Page) -> None:
    number = served.run()
    expect(rows(page)).to_have_count(2)  # they came without loading the page
    expect(page).to_have_title("(2) Inbox · agentmd")
    rows(page).first.click()
    expect(page.locator("#detail pre").first).to_contain_text("a.txt")
    page.get_by_role("button", name="Approve").click()
    expect(page.locator("#detail .notice")).to_contain_text("approved by web")
    expect(rows(page)).to_have_count(1)
    page.keyboard.press("j")
    expect(page.locator("#detail pre").first).to_contain_text("b.txt")
    page.keyboard.press("n")
    page.keyboard.type("not yet")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Nothing waits for an answer.")).to_be_visible()
    first, second = served.requests(number)
    assert (first["outcome"], second["outcome"], second["answer"]["reason"]) == ("approved", "denied", "not yet")
    wait_for(served.client, number, "success")
    assert not (served.folder.path / "a.txt").exists()
    assert (served.folder.path / "b.txt").exists()


def test_questions_and_texts(served: Served, page: Page) -> None:
    number = served.run("asker")
    expect(rows(page)).to_have_count(2)
    page.keyboard.press("j")
    for _ in range(2):
        if page.get_by_label("Red").count():
            page.get_by_label("Your own text").fill("Green")
        else:
            page.get_by_label("Answer").fill("Ann")
        page.get_by_role("button", name="Answer").click()
        expect(page.locator("#detail .notice")).to_contain_text("answered by web")
    wait_for(served.client, number, "success")
    answers = [request["answer"] for request in served.requests(number)]
    assert {"text": "Ann"} in answers
    assert {"answers": {"Which colour?": "Green"}} in answers


def test_yes_by_keyboard_after_an_edit(served: Served, page: Page) -> None:
    number = served.run()
    expect(rows(page)).to_have_count(2)
    page.keyboard.press("j")
    expect(page.get_by_role("button", name="Approve")).to_be_visible()
    page.keyboard.press("e")
    page.get_by_label("Arguments", exact=True).last.fill('{"path": "b.txt"}')
    page.get_by_role("button", name="Show what it would do").click()
    expect(page.get_by_text("The arguments are edited.")).to_be_visible()
    page.keyboard.press("y")
    expect(page.locator("#detail .notice")).to_contain_text("with edited arguments")
    assert served.requests(number)[0]["answer"]["args"] == {"path": "b.txt"}


def test_two_tabs_share_one_stream_and_see_who_was_first(served: Served, page: Page, context: BrowserContext) -> None:
    number = served.run()
    request = served.requests(number)[0]["request_id"]
    other = context.new_page()
    wrong = watched(other)
    for tab in (page, other):
        tab.goto(f"{served.url}/ui/requests/{request}")
        expect(tab.get_by_role("button", name="Approve")).to_be_visible()
    assert served.client.get("/info").body["active_streams"] == 1
    page.get_by_label("Reason").fill("mine")
    respond(served.client, number, {"approved": True}, request, by="eve")
    for tab in (page, other):
        expect(tab.locator("#detail .decision")).to_contain_text("approved by http:eve")
        expect(tab.locator("#announcements")).to_contain_text("approved by http:eve")
        expect(rows(tab)).to_have_count(1)
    assert wrong == []


def test_text_of_others_runs_nothing(served: Served, page: Page) -> None:
    served.run()
    expect(rows(page)).to_have_count(2)
    page.keyboard.press("j")
    page.get_by_role("link", name="Show the conversation").click()
    expect(page.get_by_text("<script>document.title='x'</script>")).to_be_visible()
    expect(page.get_by_text("invoice\\u202egpj.exe")).to_be_visible()
    assert page.title() == "(2) Inbox · agentmd"


def test_a_server_that_dies_and_comes_back(served: Served, context: BrowserContext, page: Page) -> None:
    open_page = context.new_page()
    open_page.goto(f"{served.url}/ui/")
    number = served.run()
    expect(rows(open_page)).to_have_count(2)
    served.kill()
    expect(open_page.locator("#connection")).to_contain_text("The server does not answer")
    served.start()
    expect(open_page.locator("#connection")).to_be_hidden(timeout=30_000)
    first = served.requests(number)[0]["request_id"]
    respond(served.client, number, {"approved": False}, first)
    expect(rows(open_page)).to_have_count(1)
    open_page.keyboard.press("j")
    expect(open_page.get_by_role("button", name="Approve")).to_be_visible()
    open_page.keyboard.press("y")
    expect(open_page.locator("#detail .notice")).to_contain_text("approved by web")


def test_without_javascript(served: Served, browser: Browser) -> None:
    number = served.run()
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"{served.url}/ui/")
        page.get_by_label("Key").fill(KEY)
        page.get_by_role("button", name="Log in").click()
        page.wait_for_url("**/ui/")
        rows(page).first.click()
        page.get_by_role("button", name="Approve").click()
        expect(page.locator("#detail .notice")).to_contain_text("approved by web")
    assert served.requests(number)[0]["outcome"] == "approved"


def test_no_page_is_wider_than_its_window(served: Served, page: Page) -> None:
    served.run()
    expect(rows(page)).to_have_count(2)
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 800})
        for path in (
            "/ui/",
            f"/ui/requests/{served.client.get('/pending').body[0]['request_id']}?conversation=1",
        ):
            page.goto(f"{served.url}{path}")
            assert page.evaluate("document.documentElement.scrollWidth") <= width
