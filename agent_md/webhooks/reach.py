"""Checks in advance whether a webhook can be sent."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress

import httpx

from agent_md.errors import AddressRefused, UsageError
from agent_md.executions.execution import HookTarget
from agent_md.outbound.addresses import plain_host
from agent_md.outbound.transport import Resolve, allowed_addresses, resolve

__all__ = ["check_reach"]

_LOOK_UP_S = 2.0


async def check_reach(target: HookTarget, allow_hosts: Collection[str], *, resolve: Resolve = resolve) -> HookTarget:
    """The target, which `check_target` took, unless every delivery to it would be refused now. A name that is not found,
    or not soon, may be found later. Raises UsageError."""
    allowed = {plain_host(host) for host in allow_hosts}
    try:
        with suppress(TimeoutError, httpx.ConnectError):
            async with asyncio.timeout(_LOOK_UP_S):
                await allowed_addresses(httpx.URL(target.url), allowed, resolve)
    except AddressRefused as error:
        raise UsageError(f"the webhook cannot be used: {error}") from None
    return target
