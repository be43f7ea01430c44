"""Builds the FastAPI application: routes, error handlers, guards."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import FastAPI

from agent_md import __version__
from agent_md.api import (
    routes_agents,
    routes_executions,
    routes_grants,
    routes_hooks,
    routes_sessions,
    routes_system,
    routes_triggers,
)
from agent_md.api.context import ServerContext
from agent_md.api.errors import add_error_handlers
from agent_md.api.guard import BodyLimit, KeyGuard

__all__ = ["AddPages", "make_application"]

AddPages = Callable[[FastAPI, ServerContext], None]
"""Adds the pages to an application, which lets everybody through to them."""

_DESCRIPTION = "Runs AI agents written as markdown: they pause for a human, survive a crash, and do each thing once."

_ROUTERS = (
    *(routes_system.router, routes_triggers.router, routes_agents.router, routes_hooks.router),
    *(routes_executions.router, routes_grants.router, routes_sessions.router),
)


def make_application(context: ServerContext, key: str | None, add_pages: AddPages | None = None) -> FastAPI:
    """The application on an opened workspace; `key` is what clients on TCP must show."""
    application = FastAPI(title="agentmd", version=__version__, description=_DESCRIPTION, docs_url=None, redoc_url=None)
    application.state.context = context
    application.state.key = key
    for router in _ROUTERS:
        application.include_router(router)
    if add_pages is not None:
        add_pages(application, context)
    add_error_handlers(application)
    application.add_middleware(BodyLimit)
    application.add_middleware(KeyGuard, key=lambda: application.state.key)
    return application
