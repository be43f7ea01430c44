"""What a model is told of paths and the day reaches the provider, and is stored nowhere."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.driving import Workspace
from tests.support.provider_server import containing
from tests.support.providers import KEY, KEYS, model_at, provider_server

pytestmark = pytest.mark.xdist_group("providers")  # their clients take seconds to import: once, in one process


def system_of(body: dict[str, Any]) -> str:
    """The system message of a request, whatever the provider calls it."""
    instruction = body.get("systemInstruction") or body.get("system_instruction")
    if instruction:
        return "".join(part["text"] for part in instruction["parts"])
    system = body.get("system") or (body.get("messages") or body["input"])[0]["content"]
    return system if isinstance(system, str) else "".join(part["text"] for part in system)


@pytest.mark.parametrize("provider", ["google", "openai", "responses", "anthropic", "ollama"])
def test_the_system_message_of_each_provider_ends_with_it(tmp_path: Path, provider: str) -> None:
    with provider_server(provider, [containing("Done.")]) as server:
        ref = model_at(provider, server.url)
        work = Workspace(tmp_path / "ws", environ={KEYS[provider]: KEY})
        work.agent(
            "paths: {reports: {path: output, description: Old reports, mode: ro}}",
            model=f"{{provider: {ref.provider}, name: {ref.name}, base_url: '{server.url}'}}",
        )
        work.start()
        work.check_succeeded()
        told = system_of(server.bodies[0])
        stored = json.dumps([event.data for event in work.events()]) + json.dumps(
            work.app.store.seed(work.execution.id)
        )
        work.close()
    assert "- reports/ (read only): Old reports" in told
    assert f"Today is {time.strftime('%A, %Y-%m-%d')}, in the zone " in told.splitlines()[-1]
    assert "Today is" not in stored
