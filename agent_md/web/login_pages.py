"""Logging in and out."""

from __future__ import annotations

import asyncio
import re

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from agent_md.web.forms import form_of
from agent_md.web.guard import COOKIE_PATH, cookie_name
from agent_md.web.login_links import LINK_S
from agent_md.web.logins import LIFE_S, LOCAL, local_name
from agent_md.web.rendering import render
from agent_md.web.site import Site, site_of
from agent_md.web.visitor import visitor_of

__all__ = ["routes"]

_OWN_PATH = re.compile(r"/ui/[A-Za-z0-9._~%/@:-]*")
_HOME = "/ui/"


async def login(request: Request) -> Response:
    """The form for a key; with a `code`, that of a login link is used up and the page opens."""
    site = site_of(request)
    if request.method == "POST":
        return _with_key(request, site)
    code = request.query_params.get("code")
    if code is None:
        return _form(request, site, _next(request.query_params.get("next")))
    if not site.links.use(code):
        return _form(
            request, site, _HOME, 403, "this link was used, or is over a minute old; `agentmd inbox` makes a new one"
        )
    return _begun(request, site, LOCAL, local_name(), _HOME)


def _with_key(request: Request, site: Site) -> Response:
    form = form_of(request)
    path = _next(form.text("next"))
    address = request.client.host if request.client is not None else ""
    if wait := site.limit.wait_for(address):
        text = f"too many wrong keys; try again in {wait:.0f} s"
        return _form(request, site, path, 429, text, {"Retry-After": f"{wait:.0f}"})
    holder = site.logins.holder(form.text("key").strip())
    if holder is None:
        site.limit.note_failure(address)
        return _form(request, site, path, 403, "this key opens nothing")
    return _begun(request, site, holder, f"web:{holder}" if holder else "web", path)


def _begun(request: Request, site: Site, holder: str, by: str, path: str) -> Response:
    """Sets the cookie. The page leads on by itself: a browser that came from elsewhere, as by the file of a login link,
    would not send the new cookie with a redirect."""
    token = site.logins.begin(holder, by)
    response = render(request, "entered.html", site.context, next=path)
    response.set_cookie(
        cookie_name(site.context.app.settings.state_dir),
        token,
        max_age=int(LIFE_S),
        path=COOKIE_PATH,
        secure=request.url.scheme == "https",
        httponly=True,
        samesite="strict",
    )
    return response


def _form(
    request: Request, site: Site, path: str, status: int = 200, error: str = "", headers: dict[str, str] | None = None
) -> Response:
    response = render(request, "login.html", site.context, status=status, next=path, error=error)
    response.headers.update(headers or {})
    return response


def _next(path: str | None) -> str:
    """Where a login leads: to a page of ours."""
    return path if path is not None and _OWN_PATH.fullmatch(path) and "//" not in path else _HOME


async def logout(request: Request) -> Response:
    site = site_of(request)
    site.logins.end(visitor_of(request).login_id)
    response = RedirectResponse("/ui/login", 303)
    response.delete_cookie(cookie_name(site.context.app.settings.state_dir), path=COOKIE_PATH)
    return response


async def login_link(request: Request) -> Response:
    """For commands, by the Unix socket: listens on TCP if need be, and makes a link that opens the page once."""
    site = site_of(request)
    url = await site.context.listen_for_pages()
    link, path = site.links.make(f"{url}/ui")
    asyncio.get_running_loop().call_later(LINK_S, site.links.sweep)
    return JSONResponse({"url": f"{url}/ui/", "link": link, "file": str(path)})


routes = (
    Route("/login", login, methods=["GET", "POST"]),
    Route("/logout", logout, methods=["POST"]),
    Route("/login-link", login_link, methods=["POST"]),
)
