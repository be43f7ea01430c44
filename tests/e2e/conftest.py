"""A workspace for whole commands in processes of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.agent_folder import AgentFolder
from tests.support.processes import preload
from tests.support.server import SERVED_SCRIPT, Server
from tests.support.sessions import Talk, talking_world
from tests.support.world import World


@pytest.fixture(scope="session", autouse=True)
def _imported() -> None:
    preload()


@pytest.fixture
def folder(tmp_path: Path) -> AgentFolder:
    return AgentFolder(tmp_path / "ws")


@pytest.fixture
def asking(tmp_path: Path) -> World:
    """A workspace whose agent asks once, and whose model takes long when it is told `slow`."""
    world = World(tmp_path / "ws")
    (world.workspace / "agents/_config/scripts/worker.yaml").write_text(SERVED_SCRIPT)
    return world


@pytest.fixture
def server(asking: World) -> Iterator[Server]:
    with Server(asking.workspace) as running:
        yield running


@pytest.fixture(scope="module")
def talking(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A workspace for the sessions of many tests."""
    return talking_world(tmp_path_factory.mktemp("talking") / "ws")


@pytest.fixture(scope="module")
def served(talking: World) -> Iterator[Server]:
    """One server, without any settings, for the sessions of many tests."""
    with Server(talking.workspace) as running:
        yield running


@pytest.fixture
def talk(served: Server) -> Talk:
    return Talk.begin(served)
