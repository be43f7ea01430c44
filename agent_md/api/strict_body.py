"""Strict JSON parsing of bodies: no repeated keys, only finite numbers, no lone surrogates."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import HTTPException, Request, Response
from fastapi.routing import APIRoute

from agent_md.executions.json_values import parse_strictly

__all__ = ["StrictRoute", "only_digits"]


def only_digits(value: Any) -> Any:
    """The number in a path as it came. Raises ValueError for one that is written otherwise."""
    if isinstance(value, str) and not re.fullmatch("-?(0|[1-9][0-9]*)", value):
        raise ValueError("a number in a path has only digits")
    return value


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
