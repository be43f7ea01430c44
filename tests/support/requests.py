"""`http_request` of an agent, outside of any execution, and a resolver that knows names."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx

from agent_md.agents.spec import AgentSpec, ModelRef
from agent_md.errors import UsageError
from agent_md.outbound.fetch import Limits
from agent_md.outbound.transport import GuardedTransport, resolve
from agent_md.redaction import Redactor
from agent_md.tools.http_request import HttpAccess, HttpRequest

__all__ = ["Names", "http_request", "requested"]


class Names:
    """A resolver that knows these names, and what it was asked; an address is its own name. The answers of a list of lists
    are given one after the other."""

    def __init__(self, names: Mapping[str, Sequence[Any]] | None = None) -> None:
        self.names = dict(names or {})
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        known = self.names.get(host)
        if known is None:
            return await resolve(host, port)
        if isinstance(known[0], str):
            return known
        self.names[host] = known[1:] or known
        first: Sequence[str] = known[0]
        return first


def http_request(
    *,
    private: Sequence[str] = (),
    values: Mapping[str, str] | None = None,
    resolver: Names | None = None,
    transport: Callable[[], httpx.AsyncBaseTransport] | None = None,
    limits: Limits | None = None,
    **fields: Any,
) -> HttpRequest:
    """The tool of an agent with these `fields`, in a workspace where `private` hosts may be anywhere."""
    known = values or {}

    def value(name: str) -> str:
        if name not in known:
            raise UsageError(f"the secret {name} has no value")
        return known[name]

    def guarded() -> httpx.AsyncBaseTransport:
        return GuardedTransport(lambda: private, resolve=resolver or Names())

    spec = AgentSpec("fetcher", "Fetch.", ModelRef("script", "fetcher"), **fields)
    access = HttpAccess(lambda: private, value, lambda: Redactor(known), transport or guarded)
    return HttpRequest(spec, access, limits=limits)


async def requested(tool: HttpRequest, url: str, **args: Any) -> str:
    """The result of a call, checked as the gate does."""
    checked = tool.validate({"url": url, **args})
    tool.subjects(checked)
    return await tool.run(checked, tool.plan(checked))
