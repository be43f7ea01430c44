"""The event stream of the pages: one connection a browser, shared by its tabs."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fastapi.sse import EventSourceResponse
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from agent_md.api.sse import HEARTBEAT_S, sse_response
from agent_md.web.guard import cookie_name
from agent_md.web.site import Site, site_of
from agent_md.web.visitor import visitor_of

__all__ = ["routes"]


async def events(request: Request) -> Response:
    """What opens and closes in the inbox, and which executions go on, from now on."""
    site = site_of(request)
    token = request.cookies.get(cookie_name(site.context.app.settings.state_dir), "")
    response: EventSourceResponse = sse_response(_stream(site, token if visitor_of(request).login_id else None))
    return response


async def _stream(site: Site, token: str | None) -> AsyncIterator[bytes]:
    """Ends with the login of its reader."""
    with site.context.counted_stream(), site.feed.subscribed() as news:
        while not site.context.stopping and (token is None or site.logins.find(token) is not None):
            yield await news.next(HEARTBEAT_S)


routes = (Route("/events", events),)
