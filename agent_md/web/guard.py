"""Guards the pages: host, login, origin and form token of every request; security headers of every response."""

from __future__ import annotations

import hashlib
import hmac
from pathlib import Path
from urllib.parse import quote

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent_md.api.context import ServerContext
from agent_md.web.forms import Form, read_form
from agent_md.web.hosts import is_allowed_host, is_by_socket, is_same_origin
from agent_md.web.logins import Logins, local_name
from agent_md.web.visitor import Visitor

__all__ = ["COOKIE_PATH", "FORM_TOKEN", "PageGuard", "cookie_name"]

COOKIE_PATH = "/ui"
FORM_TOKEN = "form_token"  # noqa: S105 - the name of a field
_OPEN = ("/ui/login", "/ui/static/")
"""Served to everybody."""
_UNIX_ONLY = "/ui/login-link"
_SAFE = ("GET", "HEAD")
_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; worker-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}
_AGAIN = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta http-equiv="refresh" content="0"><title>agentmd</title>
<p>One moment; reload this page if nothing happens.</p></html>
"""
"""A browser that comes by a link from elsewhere sends no cookie, and sends it when this page loads itself again."""


def cookie_name(state_dir: Path) -> str:
    """The name of the cookie of one workspace: cookies of a host are shared by all its ports."""
    return f"agentmd-{hashlib.sha256(str(state_dir).encode()).hexdigest()[:12]}"


class PageGuard:
    """Lets through what comes to the right host from somebody who is logged in, or by the Unix socket, and changes only
    with the token of a form that was shown to them, from a page of this server."""

    def __init__(self, app: ASGIApp, context: ServerContext, logins: Logins) -> None:
        self._app = app
        self._context = context
        self._logins = logins
        self._cookie = cookie_name(context.app.settings.state_dir)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request = Request(scope, receive)
        refused = await self._refusal(request)
        await (refused or self._app)(scope, receive, _with_headers(send, scope["path"]))

    async def _refusal(self, request: Request) -> Response | None:
        """What is answered instead; None if the request is let through, with its visitor and form in its state."""
        allowed = self._context.app.settings.server.allowed_hosts
        host = request.headers.get("host", "")
        if not is_allowed_host(host, request.scope, allowed):
            return _refused(
                "this name does not lead to agentmd's page: use the address that the server printed, or put the name under "
                "server.allowed_hosts in config.yaml"
            )
        if request.scope["path"] == _UNIX_ONLY:
            return _only_for_commands(request)
        form = Form({}) if request.method in _SAFE else await read_form(request)
        if form is None:
            return PlainTextResponse("the form cannot be read", 400)
        request.state.form = form
        if request.method not in _SAFE and not _is_from_here(request.headers, host, allowed):
            return _refused("this did not come from a page of this server, so nothing was changed")
        if request.scope["path"].startswith(_OPEN):
            return None
        return self._admit(request, form)

    def _admit(self, request: Request, form: Form) -> Response | None:
        visitor = self._visitor(request)
        if visitor is None:
            return _to_login(request)
        request.state.visitor = visitor
        if request.method in _SAFE:
            return None
        given = request.headers.get("x-form-token") or form.text(FORM_TOKEN)
        if not hmac.compare_digest(given.encode(), visitor.form_token.encode()):
            return _refused("this form is of another login, so nothing was changed; load the page again")
        return None

    def _visitor(self, request: Request) -> Visitor | None:
        if is_by_socket(request.scope):
            return Visitor(local_name(), "", self._logins.form_token(""))
        login = self._logins.find(request.cookies.get(self._cookie, ""))
        return None if login is None else Visitor(login.by, login.id, self._logins.form_token(login.id))


def _is_from_here(headers: Headers, host: str, allowed: tuple[str, ...]) -> bool:
    """Browsers send an Origin with every form; a client that sends none is no browser, and needs the token all the
    same."""
    origin = headers.get("origin")
    if origin is not None:
        return is_same_origin(origin, host, allowed)
    return headers.get("sec-fetch-site", "same-origin") == "same-origin"


def _only_for_commands(request: Request) -> Response | None:
    """Login links are for the commands of this user, never for a page, not even through a forwarded socket."""
    from_page = any(name in request.headers for name in ("origin", "sec-fetch-site", "referer"))
    if is_by_socket(request.scope) and request.method == "POST" and not from_page:
        return None
    return _refused("login links are made by `agentmd inbox`")


def _refused(text: str) -> Response:
    return PlainTextResponse(text, 403)


def _to_login(request: Request) -> Response:
    path = request.scope["path"]
    if request.method not in _SAFE:
        return _refused("you are not logged in any more, so nothing was changed; log in and do it again")
    login = f"/ui/login?next={quote(path, safe='')}"
    if "hx-request" in request.headers:
        return Response(status_code=401, headers={"HX-Redirect": login})
    if request.headers.get("accept", "").startswith("text/event-stream"):
        return PlainTextResponse("not logged in", 401)
    if request.headers.get("sec-fetch-site") == "cross-site":
        return HTMLResponse(_AGAIN)
    return RedirectResponse(login, 303)


def _with_headers(send: Send, path: str) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers[name] = value
            if not path.startswith("/ui/static/"):
                headers.setdefault("Cache-Control", "no-store")
        await send(message)

    return send_with_headers
