"""docs/http-api.md and docs/sessions-api.md have every route of the server with its status codes, and no other."""

from __future__ import annotations

import re
from typing import Any, cast

from agent_md.api.application import make_application
from agent_md.api.context import ServerContext
from tests.support.documents import ROOT

TEXT = (ROOT / "docs/http-api.md").read_text(encoding="utf-8")
SESSIONS = (ROOT / "docs/sessions-api.md").read_text(encoding="utf-8")
EVERYWHERE = {401, 500}


def routes() -> dict[str, set[int]]:
    """`GET /path/{}` to its status codes, those apart that any route may have."""
    paths: dict[str, Any] = make_application(cast(ServerContext, None), None).openapi()["paths"]
    return {
        f"{method.upper()} {re.sub(r'{.+?}', '{}', path)}": {int(code) for code in route["responses"]} - EVERYWHERE
        for path, methods in paths.items()
        for method, route in methods.items()
    }


def documented(text: str) -> dict[str, set[int]]:
    rows = re.findall(r"^\| `([A-Z]+ /[^`]*)` \| .* \| ([\d, ]+) \|$", text, re.MULTILINE)
    return {re.sub(r"{.+?}", "{}", route): {int(code) for code in codes.split(",")} for route, codes in rows}


def test_every_route_is_documented_with_its_status_codes_and_no_other() -> None:
    sessions = documented(SESSIONS)
    below_agents = {route.replace(" ", " /agents/{}", 1): codes for route, codes in sessions.items()}
    assert documented(TEXT) | sessions | below_agents == routes()


def test_every_event_of_a_stream_is_documented() -> None:
    source = "".join(
        (ROOT / f"agent_md/api/{name}.py").read_text(encoding="utf-8")
        for name in ("sse", "event_streams", "session_stream", "context")
    )
    told = set(re.findall(r'(?:sse_message|announce)\(\s*"(\w+)"', source))
    assert len(told) >= 8
    first_cells = "\n".join(line.split(" | ")[0] for line in TEXT.splitlines() if line.startswith("| `"))
    assert {name for name in told if f"`{name}`" not in first_cells} == set()


def test_what_is_open_without_a_key_is_documented() -> None:
    from agent_md.api.guard import OPEN_PATHS

    (sentence,) = re.findall(r"every route gives 401, except (.*?)\. Deliveries", TEXT, re.DOTALL)
    assert set(re.findall(r"`(/[\w./{}]+)`", sentence)) == OPEN_PATHS
