"""What agents say and do is sent to their model and to nobody else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.support.agent_folder import AgentFolder, call
from tests.support.driving import KIT
from tests.support.processes import preload


@contextmanager
def listener() -> Iterator[tuple[str, list[str]]]:
    """The address of a server that takes everything, and what was asked of it."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            self.send_response(200)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"{}")

        do_GET = do_PATCH = do_POST

        def log_message(self, format: str, *args: Any) -> None:
            """Quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
        server.shutdown()
        thread.join()


def test_a_service_that_traces_langchain_is_told_nothing(tmp_path: Path) -> None:
    preload()
    work = AgentFolder(tmp_path / "ws")
    work.tools("kit", KIT)
    turns = [{"calls": [call("plain", key="U"), call("danger", key="A")]}, {"text": "Done."}]
    work.agent("worker", turns, "tools: [kit]\nconfirm: [danger]")
    with listener() as (url, asked):
        own = {"TRACING_V2": "true", "API_KEY": "lsv2_key", "ENDPOINT": url}
        env = {f"{brand}_{name}": value for brand in ("LANGSMITH", "LANGCHAIN") for name, value in own.items()}
        env["LANGSMITH_TRACING"] = "true"
        assert work.cli("run", "worker", env=env).code == 3
        assert work.cli("respond", "1", "--yes", env=env).code == 0
    assert work.results() == ["did U", "did A"]
    assert asked == []
