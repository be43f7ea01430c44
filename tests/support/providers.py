"""All providers behind one door: an answer in no provider's words, and the server and the reference to have it from.

`responses` is OpenAI through its Responses API.

For processes: `python -m tests.support.providers PROVIDER --script FILE --log FILE` reads the answers as JSON, prints
its address on the first line, appends each request to the log as a line of JSON, and ends when its standard input does.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

from agent_md.agents.spec import ModelRef
from tests.support.anthropic_wire import AnthropicServer
from tests.support.gemini import GeminiServer, Turn
from tests.support.ollama_wire import OllamaServer
from tests.support.openai_wire import LocalServer, OpenAIServer
from tests.support.provider_server import Answer, ProviderServer, Received
from tests.support.responses_wire import ResponsesServer

__all__ = ["KEY", "KEYS", "PROVIDERS", "model_at", "provider_process", "provider_server"]

KEY = "key-of-a-test-0123456789"
KEYS = {
    "google": "GOOGLE_API_KEY",
    "openai": "OPENAI_API_KEY",
    "anthropic": "ANTHROPIC_API_KEY",
    "ollama": "OLLAMA_API_KEY",
    "local": "LOCAL_API_KEY",
    "responses": "OPENAI_API_KEY",
}
"""The variable of each provider's key."""

PROVIDERS = tuple(KEYS)


def model_at(provider: str, url: str | None) -> ModelRef:
    """A model of this provider."""
    if provider == "responses":
        return ModelRef("openai", "gpt-6-some", url)
    return ModelRef(provider, "some-model", url)


_SERVERS: dict[str, type[ProviderServer[Answer]]] = {
    "openai": OpenAIServer,
    "anthropic": AnthropicServer,
    "ollama": OllamaServer,
    "local": LocalServer,
    "responses": ResponsesServer,
}


def provider_server(
    provider: str, answers: Iterable[Answer], on_request: Callable[[Received], None] | None = None
) -> ProviderServer[Any]:
    """A server of this provider that gives these answers; to be entered."""
    if provider == "google":
        return GeminiServer([Turn.of(answer) for answer in answers], on_request)
    return _SERVERS[provider](answers, on_request)


@contextmanager
def provider_process(provider: str, answers: Sequence[Answer], folder: Path) -> Iterator[tuple[str, Path]]:
    """The same in a process of its own: its address, and the log of the requests' bodies, one a line."""
    script, log = folder / f"{provider}.json", folder / f"{provider}.jsonl"
    script.write_text(json.dumps([asdict(answer) for answer in answers]))
    log.touch()
    command = [sys.executable, "-m", __name__, provider, "--script", str(script), "--log", str(log)]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=root) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), log


def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("provider", choices=PROVIDERS)
    parser.add_argument("--script", type=Path, required=True)
    parser.add_argument("--log", type=Path, required=True)
    options = parser.parse_args()

    def note(received: Received) -> None:
        with options.log.open("a") as log:
            log.write(json.dumps(received.body) + "\n")

    answers = [Answer.from_json(answer) for answer in json.loads(options.script.read_text())]
    with provider_server(options.provider, answers, note) as server:
        print(server.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    _main()
