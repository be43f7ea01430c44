"""What `agentmd.log` must not tell."""

from __future__ import annotations

import pytest

from tests.support.agent_folder import AgentFolder
from tests.support.provider_server import containing
from tests.support.providers import KEY, KEYS, PROVIDERS, model_at, provider_server


@pytest.mark.parametrize("provider", PROVIDERS)
def test_no_address_that_is_asked(folder: AgentFolder, provider: str) -> None:
    with provider_server(provider, [containing("Hi.")]) as server:
        model = model_at(provider, server.url.replace("//", "//ann:${WORD}@"))
        (folder.path / "agents/bot.md").write_text(
            f"---\nmodel: {{provider: {model.provider}, name: {model.name}, base_url: '{model.base_url}'}}\n---\nHi.\n"
        )
        (folder.path / ".env").write_text(f"WORD=swordfish\n{KEYS[provider]}={KEY}\n")
        ended = folder.cli("run", "bot")
        assert ended.out.endswith("Hi.\n")
        (request,) = server.requests
        assert "authorization" in request.headers
    texts = [path.read_bytes() for path in (folder.path / ".agentmd").rglob("*") if path.is_file()]
    assert not any(word.encode() in text for text in [*texts, ended.out.encode()] for word in ("swordfish", KEY))
