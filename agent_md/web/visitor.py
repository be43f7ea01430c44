"""Who a request of a page is from."""

from __future__ import annotations

from dataclasses import dataclass

from starlette.requests import Request

__all__ = ["Visitor", "visitor_of"]


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who reads and answers. `by` is recorded with answers, `login_id` is "" by the Unix socket; every form carries the
    `form_token`."""

    by: str
    login_id: str
    form_token: str


def visitor_of(request: Request) -> Visitor:
    """The visitor that the guard let in."""
    visitor: Visitor = request.state.visitor
    return visitor
