"""Renders pages. Every text that a template shows is escaped as markup, and visible as on a terminal."""

from __future__ import annotations

import json
from functools import cache
from hashlib import sha256
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse

from agent_md.api.context import ServerContext
from agent_md.visible_text import is_suspicious, one_line, visible
from agent_md.web.visitor import Visitor

__all__ = ["STATIC", "editable_json", "pretty_json", "render", "rendered"]

STATIC = Path(__file__).with_name("static")
_TEMPLATES = Path(__file__).with_name("templates")


def editable_json(value: Any) -> str:
    """A value as JSON that a form may send back, with escapes for what a browser would hide or change."""
    hidden = is_suspicious(value)
    return json.dumps(value, ensure_ascii=hidden, indent=2).replace("\x7f", "\\u007f")


def pretty_json(value: Any) -> str:
    """A value as JSON for people, in lines."""
    return json.dumps(value, ensure_ascii=False, indent=2)


@cache
def _environment() -> Environment:
    made = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {"prose": _prose, "line": one_line, "exact": _exact, "pretty_json": pretty_json}
    made.globals["static"] = _static
    return made


def _shown(value: Any) -> Any:
    """What the escaping gets: a text of whoever is visible first."""
    return visible(value) if isinstance(value, str) and not isinstance(value, Markup) else value


def _prose(text: str) -> Markup:
    """What people and agents say: joiners and blanks stay where writing has them."""
    return escape(visible(text, prose=True))


def _exact(text: str) -> Markup:
    """A text that comes back with its form, unchanged."""
    return escape(text)


@cache
def _static(name: str) -> str:
    """The address of a file, another one when its content is."""
    digest = sha256((STATIC / name).read_bytes()).hexdigest()[:12]
    return f"/ui/static/{name}?v={digest}"


def rendered(template: str, **values: Any) -> str:
    """A part of a page."""
    return _environment().get_template(template).render(**values)


def render(
    request: Request, template: str, context: ServerContext, *, status: int = 200, **values: Any
) -> HTMLResponse:
    """A whole page, for its visitor if there is one."""
    visitor: Visitor | None = getattr(request.state, "visitor", None)
    text = rendered(
        template,
        visitor=visitor,
        open_count=context.store.count_open_requests() if visitor is not None else 0,
        path=request.scope["path"],
        workspace=context.app.settings.workspace.name,
        **values,
    )
    return HTMLResponse(text.encode("utf-8", "replace"), status)
