"""Bodies that say one thing only: JSON in which no key comes twice, and whose numbers are numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.routing import APIRoute

from agent_md.executions.json_values import parse_strictly

__all__ = ["StrictRoute"]


class StrictRoute(APIRoute):
    """A route whose body is read strictly; 422 says what is wrong with it."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_strictly(request: Request) -> Response:
            return await handle(_StrictRequest(request.scope, request.receive))

        return handle_strictly


class _StrictRequest(Request):
    async def json(self) -> Any:
        text = (await self.body()).decode()
        try:
            return parse_strictly(text)
        except json.JSONDecodeError:
            raise  # told by FastAPI, with its place
        except ValueError as error:
            raise HTTPException(422, f"the body cannot be taken: {error}; nothing was changed") from None
