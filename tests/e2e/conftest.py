"""A workspace for whole commands in processes of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.agent_folder import AgentFolder
from tests.support.processes import preload


@pytest.fixture(scope="session", autouse=True)
def _imported() -> None:
    preload()


@pytest.fixture
def folder(tmp_path: Path) -> AgentFolder:
    return AgentFolder(tmp_path / "ws")
