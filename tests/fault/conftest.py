"""A workspace whose tools leave a line in a file for each effect, so that repeated and lost effects are seen."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.processes import preload
from tests.support.world import Story, World


@pytest.fixture(scope="session", autouse=True)
def _imported() -> None:
    preload()


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "ws")


@pytest.fixture(scope="session")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return Story(tmp_path_factory.mktemp("story"))
