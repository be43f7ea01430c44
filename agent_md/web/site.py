"""What the routes of the pages share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from starlette.requests import Request

from agent_md.api.context import ServerContext
from agent_md.web.feed import Feed
from agent_md.web.login_limit import LoginLimit
from agent_md.web.login_links import LoginLinks
from agent_md.web.logins import Logins

__all__ = ["Site", "site_of"]


@dataclass(frozen=True, slots=True)
class Site:
    """The pages of one server."""

    context: ServerContext
    logins: Logins
    links: LoginLinks
    limit: LoginLimit
    feed: Feed


def site_of(request: Request) -> Site:
    return cast(Site, request.app.state.site)
