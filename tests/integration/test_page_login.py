"""Who gets to the pages, and what a foreign page cannot do with them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent_md.stores.private_files import read_private
from agent_md.web.logins import LIFE_S
from tests.support.pages import HOME, KEY, WRITER, Page, ServedPages, served_pages
from tests.support.scenes import parked

SOCKET = "http://localhost"
CONFIG = """
server:
  keys: {ann: "${ANN_KEY}", bob: "${BOB_KEY}"}
  allowed_hosts: [inbox.example.com]
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "agents").mkdir()
    (tmp_path / "config.yaml").write_text(CONFIG)
    return tmp_path


@pytest.fixture
def served(workspace: Path) -> Iterator[ServedPages]:
    with served_pages(workspace, ANN_KEY="a long key of Ann") as pages:
        yield pages


def is_login(page: Page) -> bool:
    return page.path == "/ui/login" and any(form.action == "/ui/login" for form in page.forms)


class TestKeys:
    async def test_without_a_login_there_is_only_the_form(self, served: ServedPages) -> None:
        _, [request] = parked(served.app.store, spec=WRITER)
        for path in ("/ui", "/ui/", f"/ui/requests/{request}", "/ui/events", "/ui/nothing"):
            assert is_login(await served.browser().get(path)), path
        page = await served.browser().get("/ui/")
        assert served.app.settings.workspace.name not in page.response.text

    async def test_the_key_opens_the_page_that_was_wanted(self, served: ServedPages) -> None:
        _, [request] = parked(served.app.store, spec=WRITER)
        browser = served.browser()
        page = await browser.get(f"/ui/requests/{request}")
        entered = await browser.submit(page, "Log in", key=KEY)
        assert entered.links() == [f"/ui/requests/{request}"]
        assert "file_read" in (await browser.get(entered.links()[0])).text

    @pytest.mark.parametrize(
        "path", ["https://evil.example", "//evil.example", "/ui/../x\\y", "/executions", "", "/ui//x"]
    )
    async def test_a_login_leads_to_no_other_place(self, served: ServedPages, path: str) -> None:
        browser = served.browser()
        page = await browser.post("/ui/login", [("key", KEY), ("next", path)])
        assert page.links() == ["/ui/"]

    async def test_the_cookie_is_for_pages_alone(self, served: ServedPages) -> None:
        browser = served.browser()
        entered = await browser.log_in()
        [cookie] = entered.response.headers.get_list("set-cookie")
        parts = {part.strip().lower() for part in cookie.split(";")[1:]}
        assert parts == {"httponly", "samesite=strict", "path=/ui", f"max-age={LIFE_S:.0f}"}
        secure = served.browser("https://127.0.0.1:8000")
        [cookie] = (await secure.log_in()).response.headers.get_list("set-cookie")
        assert "; secure" in cookie.lower()
        assert (await browser.http.get("/executions", headers={"Cookie": cookie.split(";")[0]})).status_code == 401

    async def test_a_named_key_says_who_it_is(self, served: ServedPages) -> None:
        ann = await served.logged_in("a long key of Ann")
        assert "web:ann" in (await ann.get("/ui/")).text
        by_socket = served.browser(SOCKET)
        assert "web:" in (await by_socket.get("/ui/")).text

    async def test_wrong_keys_are_limited(self, served: ServedPages) -> None:
        browser = served.browser()
        for key in ("", " ", "x", "a long key of ann", f"{KEY}x"):  # BOB_KEY is not set: an empty key is nobody's
            page = await browser.post("/ui/login", [("key", key)])
            assert (page.status, is_login(page)) == (403, True)
        page = await browser.post("/ui/login", [("key", KEY)])
        assert page.status == 429
        assert 0 < int(page.response.headers["retry-after"]) <= 60
        assert not browser.http.cookies

    async def test_another_key_ends_the_sessions_of_the_old_one(self, served: ServedPages) -> None:
        ann, anybody = await served.logged_in("a long key of Ann"), await served.logged_in()
        served.application.state.key = "a new key"
        assert is_login(await anybody.get("/ui/"))
        assert not is_login(await ann.get("/ui/"))
        served.application.state.key = None
        assert is_login(await anybody.get("/ui/"))

    async def test_logging_out_ends_the_session_everywhere(self, served: ServedPages) -> None:
        browser = await served.logged_in()
        cookies = dict(browser.http.cookies)
        assert is_login(await browser.submit(await browser.get("/ui/"), "Log out"))
        browser.http.cookies.update(cookies)
        assert is_login(await browser.get("/ui/"))

    async def test_sessions_outlive_the_server_and_end_in_time(self, served: ServedPages, workspace: Path) -> None:
        browser = await served.logged_in()
        path = workspace / ".agentmd/logins.json"
        assert path.stat().st_mode & 0o777 == 0o600
        kept = read_private(path)
        assert KEY not in kept
        assert not any(value in kept for value in browser.http.cookies.values())
        for age, entered in ((0, True), (LIFE_S + 1, False)):
            aged = json.loads(kept)
            aged["logins"][0]["until"] -= age
            path.write_text(json.dumps(aged))
            with served_pages(workspace) as again:
                later = again.browser()
                later.http.cookies = browser.http.cookies
                assert is_login(await later.get("/ui/")) is not entered


class TestLinks:
    async def test_a_link_opens_the_page_once(self, served: ServedPages) -> None:
        async def listen() -> str:
            return HOME

        served.context.listen_for_pages = listen
        made = (await served.browser(SOCKET).http.post("/ui/login-link")).json()
        file = Path(made["file"])
        assert file.stat().st_mode & 0o777 == 0o600
        assert made["link"] in file.read_text()
        browser = served.browser()
        entered = await browser.get(made["link"].removeprefix(HOME))
        assert entered.links() == ["/ui/"]
        assert not file.exists()
        assert "web:" in (await browser.get("/ui/")).text
        other = served.browser()
        again = await other.get(made["link"].removeprefix(HOME))
        assert again.status == 403
        assert is_login(await other.get("/ui/"))

    async def test_only_a_command_gets_a_link(self, served: ServedPages) -> None:
        by_socket = served.browser(SOCKET).http
        for headers in ({"Origin": SOCKET}, {"Referer": SOCKET}, {"Sec-Fetch-Site": "none"}, {"Host": "evil.example"}):
            assert (await by_socket.post("/ui/login-link", headers=headers)).status_code == 403
        assert (await by_socket.get("/ui/login-link")).status_code == 403
        browser = await served.logged_in()
        assert (await browser.http.post("/ui/login-link")).status_code == 403
        assert not list(served.app.settings.state_dir.glob("login-*.html"))


class TestForeignPages:
    @pytest.mark.parametrize("address", [HOME, SOCKET])
    @pytest.mark.parametrize(
        "headers",
        [
            {"Origin": "https://evil.example"},
            {"Origin": "null"},
            {"Origin": "http://127.0.0.1:9999"},
            {"Origin": ""},
            {"Sec-Fetch-Site": "cross-site", "Origin": None},
            {"Sec-Fetch-Site": "same-site", "Origin": None},
            {"Host": "evil.example"},
            {"Host": "127.0.0.1.evil.example"},
            {"Host": "127.0.0.1@evil.example"},
            {"Host": ""},
        ],
        ids=str,
    )
    async def test_change_nothing(self, served: ServedPages, headers: dict[str, str | None], address: str) -> None:
        _, [request] = parked(served.app.store, spec=WRITER)
        browser = served.browser(address)
        if address == HOME:
            await browser.log_in()
        form = (await browser.get(f"/ui/requests/{request}")).form("Approve")
        head = {"Origin": address, "Content-Type": "application/x-www-form-urlencoded", **headers}
        content = "&".join(f"{name}={value}" for name, value in form.data("Approve", {}))
        sent = {name: value for name, value in head.items() if value is not None}
        answer = await browser.http.post(form.action, content=content, headers=sent)
        assert answer.status_code == 403
        assert served.app.store.request(request).open

    async def test_a_form_of_another_login_changes_nothing(self, served: ServedPages) -> None:
        _, [request] = parked(served.app.store, spec=WRITER)
        ann, bob = await served.logged_in("a long key of Ann"), await served.logged_in()
        form = (await ann.get(f"/ui/requests/{request}")).form("Approve")
        for data in (form.data("Approve", {}), form.data("Approve", {"form_token": ""}), [("decision", "approve")]):
            page = await bob.post(form.action, data)
            assert page.status == 403
        assert served.app.store.request(request).open

    async def test_bodies_that_are_no_forms_are_refused(self, served: ServedPages) -> None:
        browser = await served.logged_in()
        for content, kind in ((b"{}", "application/json"), (b"a=1", "text/plain"), (b"a=%ff", None), (b"\xff=1", None)):
            head = {"Origin": HOME, "Content-Type": kind or "application/x-www-form-urlencoded"}
            assert (await browser.http.post("/ui/logout", content=content, headers=head)).status_code == 400

    async def test_names_that_lead_here(self, served: ServedPages) -> None:
        for host in ("127.0.0.1:8000", "localhost:9", "[::1]:8000", "inbox.example.com", "INBOX.example.com:443"):
            assert (await served.browser().http.get("/ui/login", headers={"Host": host})).status_code == 200
        for host in ("evil.example", "example.com", "xinbox.example.com", "10.0.0.1", "0.0.0.0", "agentmd"):
            assert (await served.browser().http.get("/ui/login", headers={"Host": host})).status_code == 403

    async def test_a_link_from_elsewhere_finds_the_login_that_is_there(self, served: ServedPages) -> None:
        """A browser sends no strict cookie with it, and sends it when the page loads itself again."""
        page = await served.browser().get("/ui/", **{"Sec-Fetch-Site": "cross-site"})
        assert ("meta", {"http-equiv": "refresh", "content": "0"}) in page.tags
        assert page.path == "/ui/"

    async def test_every_answer_has_the_security_headers(self, served: ServedPages) -> None:
        browser = await served.logged_in()
        for path in ("/ui/", "/ui/login", "/ui/nothing", "/ui/requests/none", "/ui/static/page.css", "/ui/logout"):
            headers = (await browser.http.get(path)).headers
            policy = headers["content-security-policy"]
            assert "unsafe" not in policy
            assert "http" not in policy
            assert "default-src 'none'" in policy
            assert "frame-ancestors 'none'" in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "same-origin"
            assert ("no-store" in headers["cache-control"]) is not path.startswith("/ui/static/")
