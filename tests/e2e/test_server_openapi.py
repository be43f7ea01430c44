"""Whatever is sent, the server answers what its own OpenAPI says, and never 500."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from hypothesis.strategies import SearchStrategy
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.server import SERVED_SCRIPT, Server, respond, run, wait_for
from tests.support.world import World

_CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


@pytest.fixture(scope="module")
def tcp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with an execution that has ended, one that waits, and one that runs."""
    world = World(tmp_path_factory.mktemp("openapi") / "ws")
    (world.workspace / "agents/_config/scripts/worker.yaml").write_text(SERVED_SCRIPT)
    (world.workspace / "agents/broken.md").write_text("---\nconfrim: x\n---\n")
    with Server(world.workspace, "--port", "0", env={"AGENTMD_API_KEY": "key"}) as server:
        ended = run(server.client)
        wait_for(server.client, ended, "waiting")
        respond(server.client, ended, {"approved": True})
        wait_for(server.client, ended, "success")
        wait_for(server.client, run(server.client), "waiting")
        run(server.client, {"message": "slow", "session_id": "s"})
        yield server
        assert server.client.get("/health").status == 200


def _check_routes(server: Server, examples: int) -> None:
    """Sends examples of every route that answers at once and leaves the server alive: good ones, then bad ones."""
    routes = schemathesis.openapi.from_url(f"{server.address['url']}/openapi.json")
    good = bad = 0
    for found in routes.exclude(path_regex="stream$|shutdown$").get_all_operations():
        route = found.ok()
        _check_route(route.as_strategy(generation_mode=GenerationMode.POSITIVE), examples)
        good += 1
        with suppress(Unsatisfiable):  # a route that takes anything, or nothing
            _check_route(route.as_strategy(generation_mode=GenerationMode.NEGATIVE), examples)
            bad += 1
    assert good >= 18
    assert bad >= 8


def _check_route(cases: SearchStrategy[schemathesis.Case], examples: int) -> None:
    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=cases)
    def holds(case: schemathesis.Case) -> None:
        case.call_and_validate(headers={"X-API-Key": "key"}, checks=_CHECKS)

    holds()


def test_a_few_requests_of_each_route(tcp: Server) -> None:
    _check_routes(tcp, 10)


@pytest.mark.stress
def test_many_requests_of_each_route(tcp: Server) -> None:
    _check_routes(tcp, 1000)
