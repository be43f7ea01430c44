"""`agentmd inbox`: a server that has only its Unix socket listens for the page, and the link opens it."""

from __future__ import annotations

import re
import urllib.error
import urllib.request
from pathlib import Path

from tests.support.server import Server
from tests.support.world import World


def test_a_link_opens_the_page_of_a_server_without_tcp(asking: World) -> None:
    with Server(asking.workspace) as server:
        assert server.address["url"] is None
        made = asking.cli("inbox", "--link")
        assert made.code == 0, made
        url = server.address["url"]
        assert url.startswith("http://127.0.0.1:")
        assert f"The inbox is at {url}/ui/\n" in made.out
        found = re.search(r"http://\S+/ui/login\?code=\S+", made.out)
        assert found is not None, made.out
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        entered = opener.open(found.group(), timeout=10)
        assert entered.status == 200
        with opener.open(f"{url}/ui/", timeout=10) as page:
            text = page.read().decode()
        assert "Nothing waits for an answer." in text
        key = Path(server.address["key_file"]).read_text().strip()
        for headers, status in (({}, 401), ({"X-API-Key": key}, 200)):
            assert _status(f"{url}/agents", headers) == status
        again = asking.cli("inbox", "--link")
        assert f"The inbox is at {url}/ui/\n" in again.out


def _status(url: str, headers: dict[str, str]) -> int:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code
