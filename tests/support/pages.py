"""The pages of a server without a browser: requests through the whole application, and what is on a page."""

from __future__ import annotations

import html.parser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from agent_md.agents.spec import AgentSpec, ModelRef
from agent_md.api.application import make_application
from agent_md.api.context import ServerContext
from agent_md.app import App
from agent_md.engines.hub import Hub
from agent_md.engines.local import LocalEngine
from agent_md.executions.ids import ExecutionId
from agent_md.settings import load_settings
from agent_md.web.pages import add_pages
from tests.support.trusting import TRUSTING

__all__ = ["HOME", "KEY", "WRITER", "Browser", "Form", "Page", "ServedPages", "served_pages"]

KEY = "the key of the server"
WRITER = AgentSpec("writer", "Write.", ModelRef("script", "writer")).to_json()
"""The spec of executions that no file has."""
HOME = "http://127.0.0.1:8000"
_VOID = frozenset({"input", "meta", "link", "br", "hr", "img"})


@dataclass
class Form:
    """A form as a browser without JavaScript has it. `fields` are those that are sent unless they are changed."""

    method: str
    action: str
    fields: list[tuple[str, str]] = field(default_factory=list)
    buttons: list[tuple[str, str, str]] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def data(self, button: str | None, changes: Mapping[str, str | Sequence[str]]) -> list[tuple[str, str]]:
        unknown = changes.keys() - self.names
        assert not unknown, f"the form has no {unknown}, only {self.names}"
        sent = [(name, value) for name, value in self.fields if name not in changes]
        for name, value in changes.items():
            sent += [(name, each) for each in ([value] if isinstance(value, str) else value)]
        if button is not None:
            pressed = [(name, value) for label, name, value in self.buttons if label.startswith(button)]
            assert pressed, f"there is no button {button}, only {self.buttons}"
            sent += [pressed[0]] if pressed[0][0] else []
        return sent


class Page(html.parser.HTMLParser):
    """What is on a page."""

    def __init__(self, response: httpx.Response) -> None:
        super().__init__(convert_charrefs=True)
        self.response = response
        self.status = response.status_code
        self.path = response.url.path
        self.forms: list[Form] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self._button: tuple[str, str] | None = None
        self._area: str | None = None
        self._select: str | None = None
        self.feed(response.text)
        self.close()

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def links(self) -> list[str]:
        return [str(attributes.get("href")) for tag, attributes in self.tags if tag == "a"]

    def form(self, button: str) -> Form:
        """The form that has this button."""
        found = [form for form in self.forms if any(label.startswith(button) for label, _, _ in form.buttons)]
        assert found, (button, [form.buttons for form in self.forms], self.text[-2000:])
        return found[0]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.append((tag, given))
        if tag not in _VOID:
            self.open.append(tag)
        name, value = given.get("name") or "", given.get("value") or ""
        if tag == "form":
            self.forms.append(Form(given.get("method") or "get", given.get("action") or ""))
        elif tag == "button":
            self._button = (name, value)
            self.forms[-1].buttons.append(("", name, value))
        elif tag == "textarea":
            self._area = ""
            self.forms[-1].names.add(name)
            self.forms[-1].fields.append((name, ""))
        elif tag == "select":
            self._select = name
            self.forms[-1].names.add(name)
        elif tag == "option" and "selected" in given and self._select is not None:
            self.forms[-1].fields.append((self._select, value))
        elif tag == "input":
            self.forms[-1].names.add(name)
            if given.get("type") not in ("radio", "checkbox") or "checked" in given:
                self.forms[-1].fields.append((name, value))

    def handle_endtag(self, tag: str) -> None:
        if tag in _VOID:
            return
        assert self.open, (tag, "nothing is open")
        assert self.open[-1] == tag, (self.open, tag)
        self.open.pop()
        if tag == "button" and self._button is not None:
            self._button = None
        elif tag == "textarea" and self._area is not None:
            name, _ = self.forms[-1].fields[-1]
            self.forms[-1].fields[-1] = (name, self._area.removeprefix("\n"))
            self._area = None
        elif tag == "select":
            self._select = None

    def handle_data(self, data: str) -> None:
        self.texts.append(data)
        if self._button is not None:
            label, name, value = self.forms[-1].buttons[-1]
            self.forms[-1].buttons[-1] = (label + data, name, value)
        if self._area is not None:
            self._area += data


class Browser:
    """One browser without JavaScript: keeps cookies, follows redirects, sends the origin with forms."""

    def __init__(self, transport: httpx.ASGITransport, address: str) -> None:
        self.address = address
        self.http = httpx.AsyncClient(transport=transport, base_url=address)

    async def get(self, path: str, **headers: str) -> Page:
        response = await self.http.get(path, headers=headers)
        return await self._followed(response)

    async def submit(self, page: Page, button: str, **changes: str | Sequence[str]) -> Page:
        form = page.form(button)
        named = {
            name.replace("_", "-") if name.replace("_", "-") in form.names else name: v for name, v in changes.items()
        }
        return await self.post(form.action, form.data(button, named))

    async def post(self, path: str, data: Sequence[tuple[str, str]], **headers: str) -> Page:
        sent = httpx.QueryParams(list(data))
        head = {"Origin": self.address, "Content-Type": "application/x-www-form-urlencoded", **headers}
        response = await self.http.post(path, content=str(sent), headers=head)
        return await self._followed(response)

    async def _followed(self, response: httpx.Response) -> Page:
        while response.is_redirect:
            response = await self.http.get(response.headers["location"])
        return Page(response)

    async def log_in(self, key: str = KEY) -> Page:
        page = await self.get("/ui/")
        return await self.submit(page, "Log in", key=key)


class ServedPages:
    """The application of a server that drives nothing, with its pages."""

    def __init__(self, workspace: Path, environ: Mapping[str, str]) -> None:
        settings = load_settings(workspace, environ={**TRUSTING, **environ}, cwd=workspace, home=workspace)
        self.app = App(settings)
        self.app.open()
        self.hub = Hub(self.app.store)
        engine = LocalEngine(
            *(self.app.store, self.app.runner(), self.hub, self.app.worker), max_concurrent=1, drive_alone=_nobody
        )
        self.context = ServerContext(self.app, self.hub, engine, lambda: None)
        self.application = make_application(self.context, KEY, add_pages)
        self.transport = httpx.ASGITransport(self.application)

    def browser(self, address: str = HOME) -> Browser:
        """By TCP; with the address `http://localhost` by the Unix socket."""
        return Browser(self.transport, address)

    async def logged_in(self, key: str = KEY) -> Browser:
        browser = self.browser()
        page = await browser.log_in(key)
        assert page.status == 200, page.text
        return browser


async def _nobody(execution_id: ExecutionId) -> None:
    raise AssertionError(f"nothing is driven here, execution {execution_id} is")


@contextmanager
def served_pages(workspace: Path, **environ: str) -> Iterator[ServedPages]:
    served: Any = ServedPages(workspace, environ)
    try:
        yield served
    finally:
        served.app.close()
