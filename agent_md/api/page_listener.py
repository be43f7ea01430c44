"""Listens on 127.0.0.1 for the pages, once somebody wants to open them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from agent_md.api.address import Address, stored_key, write_address
from agent_md.api.tcp_socket import tcp_socket, url_of
from agent_md.stores.workers import close_in_children

if TYPE_CHECKING:
    from fastapi import FastAPI

    from agent_md.api.web_servers import WebServers

__all__ = ["PageListener"]

_HOST = "127.0.0.1"


class PageListener:
    """Knows where a server listens. One that has only its Unix socket gets a port of 127.0.0.1 when pages are opened."""

    def __init__(self, state_dir: Path, address: Address, key: str | None) -> None:
        """`key` is the one that was given for TCP; without it there is one of the workspace."""
        self.address = address
        self._state_dir = state_dir
        self._key = key
        self._opening = asyncio.Lock()

    async def listen(self, application: FastAPI, server: WebServers) -> str:
        """The address of the server on TCP; it listens there from now on. Raises UsageError, StateDirUnusable."""
        async with self._opening:
            if self.address.url is None:
                await self._open(application, server)
        assert self.address.url is not None
        return self.address.url

    async def _open(self, application: FastAPI, server: WebServers) -> None:
        key, key_file = self._key, None
        if not key:
            key, made = stored_key(self._state_dir)
            key_file = str(made)
        bound = tcp_socket(_HOST, 0)
        close_in_children(bound.fileno())
        application.state.key = key
        await server.add(bound)
        self.address = replace(self.address, url=url_of(bound), key_file=key_file)
        write_address(self._state_dir, self.address)
