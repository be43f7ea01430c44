"""TCP always has a key."""

from __future__ import annotations

import os
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from tests.support.server import Server
from tests.support.world import World


class TestTcp:
    def test_always_has_a_key(self, asking: World) -> None:
        with Server(asking.workspace, "--port", "0") as server:
            url = server.address["url"]
            key = Path(server.address["key_file"]).read_text().strip()
            assert os.stat(server.address["key_file"]).st_mode & 0o777 == 0o600
            assert _status(f"{url}/health") == 200
            assert _status(f"{url}/openapi.json") == 200
            assert _status(f"{url}/agents") == 401
            assert _status(f"{url}/agents", **{"X-API-Key": "wrong"}) == 401
            assert _status(f"{url}/agents", **{"X-API-Key": key}) == 200
            assert _status(f"{url}/agents", Authorization=f"Bearer {key}") == 200
            assert _status(f"{url}/executions/1/stream", Authorization="Bearer ") == 401
            assert server.client.get("/agents").status == 200

    def test_a_given_key(self, asking: World) -> None:
        with Server(asking.workspace, "--host", "127.0.0.1", env={"AGENTMD_API_KEY": "k"}) as server:
            assert server.address["key_file"] is None
            assert _status(f"{server.address['url']}/info", **{"X-API-Key": "k"}) == 200


def _status(url: str, **headers: str) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
