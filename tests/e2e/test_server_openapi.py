"""Whatever is sent, the server answers what its own OpenAPI says, and never 500."""

from __future__ import annotations

import random
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


def _routes(server: Server) -> list[schemathesis.APIOperation]:
    """Every route that answers at once and leaves the server alive."""
    schema = schemathesis.openapi.from_url(f"{server.address['url']}/openapi.json")
    return [found.ok() for found in schema.exclude(path_regex="stream$|shutdown$").get_all_operations()]


def _check_routes(routes: list[schemathesis.APIOperation], examples: int) -> int:
    """Sends examples to each route: good ones, then bad ones. Gives how many routes there are bad ones for."""
    bad = 0
    for route in routes:
        _check_route(route.as_strategy(generation_mode=GenerationMode.POSITIVE), examples)
        with suppress(Unsatisfiable):  # a route that takes anything, or nothing
            _check_route(route.as_strategy(generation_mode=GenerationMode.NEGATIVE), examples)
            bad += 1
    return bad


def _check_route(cases: SearchStrategy[schemathesis.Case], examples: int) -> None:
    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(case=cases)
    def holds(case: schemathesis.Case) -> None:
        case.call_and_validate(headers={"X-API-Key": "key"}, checks=_CHECKS)

    holds()


def test_a_few_requests_of_some_routes(tcp: Server) -> None:
    routes = _routes(tcp)
    assert len(routes) >= 18
    assert _check_routes(random.sample(routes, 8), 5) > 0


@pytest.mark.stress
def test_many_requests_of_each_route(tcp: Server) -> None:
    assert _check_routes(_routes(tcp), 1000) >= 8
