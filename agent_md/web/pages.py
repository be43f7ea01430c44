"""Adds the pages to the application of a server."""

from __future__ import annotations

import logging
from collections.abc import Mapping

from fastapi import FastAPI
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Mount
from starlette.staticfiles import StaticFiles

from agent_md.api.context import ServerContext
from agent_md.error_codes import codes_of
from agent_md.errors import AgentmdError
from agent_md.web import events, inbox, login_pages
from agent_md.web.feed import Feed
from agent_md.web.guard import PageGuard
from agent_md.web.login_limit import LoginLimit
from agent_md.web.login_links import LoginLinks
from agent_md.web.logins import LOCAL, Logins
from agent_md.web.rendering import STATIC, render
from agent_md.web.site import Site, site_of

__all__ = ["add_pages"]

log = logging.getLogger(__name__)

_ROUTES = (*login_pages.routes, *inbox.routes, *events.routes)


def add_pages(application: FastAPI, context: ServerContext) -> None:
    """Serves the pages under `/ui`, for whoever logs in with the key of the application or one of `server.keys`."""
    state_dir = context.app.settings.state_dir

    def keys() -> Mapping[str, str]:
        return _keys(application, context)

    logins = Logins(state_dir / "logins.json", keys)
    pages = Starlette(
        routes=[*_ROUTES, Mount("/static", _StaticFiles(directory=STATIC))],
        exception_handlers={AgentmdError: _failed, HTTPException: _refused, Exception: _unforeseen},
    )
    pages.state.site = Site(context, logins, LoginLinks(state_dir), LoginLimit(), Feed(context))
    application.add_route("/ui", _to_pages, include_in_schema=False)
    application.mount("/ui", PageGuard(pages, context, logins))


def _keys(application: FastAPI, context: ServerContext) -> dict[str, str]:
    """The keys in effect now, by the name of their holder. A named key whose variable is not set opens nothing."""
    environ = context.app.settings.environment()
    named = {key.name: environ.get(key.variable, "") for key in context.app.settings.server.keys}
    return {LOCAL: application.state.key or "", **named}


class _StaticFiles(StaticFiles):
    """Files whose addresses change with their content."""

    def file_response(self, *args: object, **kwargs: object) -> Response:
        response: Response = super().file_response(*args, **kwargs)  # type: ignore[arg-type]
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return response


async def _to_pages(_request: Request) -> Response:
    return RedirectResponse("/ui/", 303)


async def _failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, AgentmdError)
    status = codes_of(error).http
    if status == 500:
        log.error("a page failed", exc_info=error)
    return _page(request, status, str(error))


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _page(request, error.status_code, "there is no such page" if error.status_code == 404 else error.detail)


async def _unforeseen(request: Request, error: Exception) -> Response:
    log.error("a page failed", exc_info=error)
    return _page(request, 500, f"this should not have happened ({type(error).__name__}); the log has more")


def _page(request: Request, status: int, text: str) -> Response:
    return render(request, "error.html", site_of(request).context, status=status, text=text)
