"""Servers as they are published, and one over HTTP made with the `mcp` package's own FastMCP."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from agent_md.executions.states import CallOutcome, Status
from tests.support.driving import Workspace, call, turn
from tests.support.mcp_server import lives
from tests.support.waiting import until

FAST_MCP = '''
import os, sys
from mcp.server.fastmcp import Context, FastMCP

server = FastMCP("tests", host="127.0.0.1", port=int(sys.argv[1]))

@server.tool()
def double(number: int) -> int:
    """Doubles a number."""
    return 2 * number

@server.tool()
def header(context: Context) -> str:
    """The header of the request."""
    return context.request_context.request.headers.get("x-key", "none")

server.run(transport="streamable-http")
'''

EVERYTHING = "@modelcontextprotocol/server-everything@2026.8.31"


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workspace]:
    work = Workspace(tmp_path / "ws", {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"], "KEY": "canary-123456"})
    yield work
    work.close()


def entries(work: Workspace, **servers: Any) -> None:
    text = json.dumps({"servers": servers, "inputs": []})
    (work.folder / "agents/_config/mcp-servers.json").write_text(text)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of a FastMCP server in a process of its own."""
    (folder / "fast.py").write_text(FAST_MCP)
    port = free_port()
    process = subprocess.Popen(
        [sys.executable, "fast.py", str(port)], cwd=folder, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    try:
        until(lambda: is_open(port))
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


def free_port() -> int:
    import socket

    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def is_open(port: int) -> bool:
    import socket

    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def test_a_server_over_http_is_asked_again_after_it_was_started_anew(work: Workspace) -> None:
    work.agent("mcp: [web]\nconfirm: [web.double]")
    work.script(turn(call("web__double", number=21)), turn(call("web__header")), "Done.")
    with served(work.folder) as url:
        entries(work, web={"type": "http", "url": f"{url}/", "headers": {"X-Key": "${KEY}"}})
        assert work.start().status is Status.WAITING
    with served(work.folder) as url:  # the address has another port now, so the question is asked anew
        entries(work, web={"type": "http", "url": url, "headers": {"X-Key": "${KEY}"}})
        assert work.answer().status is Status.WAITING
        work.answer()
        work.check_succeeded()
        assert work.result() == "42"
        assert work.result(turn=1) == "[secret web_X_Key]"


def test_a_server_over_http_that_is_gone_was_not_asked(work: Workspace) -> None:
    work.agent("mcp: [web]\nconfirm: [web.double]")
    work.script(turn(call("web__double", number=21)), "Done.")
    with served(work.folder) as url:
        entries(work, web={"url": url})
        work.start()
    work.answer()
    (found,) = work.calls()
    assert found.outcome is CallOutcome.FAILED
    assert "the MCP server web cannot be used" in work.result()


class _Redirecting(BaseHTTPRequestHandler):
    asked: list[str]

    def do_POST(self) -> None:
        self.asked.append(self.path)
        self.send_response(307)
        self.send_header("Location", f"http://localhost:{self.server.server_address[1]}/other")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


def test_a_redirect_to_another_host_is_not_followed(work: Workspace, caplog: pytest.LogCaptureFixture) -> None:
    asked: list[str] = []
    handler = type("Handler", (_Redirecting,), {"asked": asked})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        entries(work, web={"url": f"http://127.0.0.1:{server.server_address[1]}/mcp"})
        work.agent("mcp: [web]")
        work.start()
        server.shutdown()
    assert asked == ["/mcp"]
    assert "The MCP server web cannot be used" in caplog.text


def test_mcp_server_time(work: Workspace) -> None:
    entries(work, time={"command": sys.executable, "args": ["-m", "mcp_server_time", "--local-timezone=UTC"]})
    work.agent("mcp: [time]\nconfirm: [time.*]\nauto_approve: [time.get_current_time]")
    times = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    work.script(turn(call("time__get_current_time", timezone="UTC"), call("time__convert_time", **times)), "Done.")
    assert work.start().status is Status.WAITING
    work.answer()
    work.check_succeeded()
    assert json.loads(work.result())["timezone"] == "UTC"
    assert "T21:00:00" in json.loads(work.result(1))["target"]["datetime"]


@pytest.mark.stress
def test_mcp_server_git(work: Workspace) -> None:
    if shutil.which("git") is None:
        pytest.skip("NOT RUN: there is no git here")
    subprocess.run(["git", "init", "-q", str(work.folder)], check=True)
    work.write("note.txt")
    entries(work, git={"command": sys.executable, "args": ["-m", "mcp_server_git"]})
    work.agent("mcp: [git]\nconfirm: ['git.git_add(files=*note*)']")
    add = call("git__git_add", repo_path=str(work.folder), files=["note.txt"])
    work.script(turn(add), turn(call("git__git_status", repo_path=str(work.folder))), "Done.")
    assert work.start().status is Status.WAITING
    work.answer()
    work.check_succeeded()
    assert "new file:   note.txt" in work.result(turn=1)


@pytest.mark.stress
def test_the_reference_server_in_node(work: Workspace, tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("NOT RUN: there is no Node here")
    install = ["npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", str(tmp_path / "node"), EVERYTHING]
    if subprocess.run(install, capture_output=True, timeout=300).returncode != 0:
        pytest.skip(f"NOT RUN: {EVERYTHING} cannot be fetched here")
    program = tmp_path / "node/node_modules/.bin/mcp-server-everything"
    entries(work, all={"command": str(program), "args": ["stdio"], "idempotent": True})
    work.agent("mcp: [all]")
    work.script(turn(call("all__echo", message="hello"), call("all__get-sum", a=2, b=3)), "Done.")
    work.start()
    work.check_succeeded()
    assert work.result() == "Echo: hello"
    assert "5" in work.result(1)


def test_a_published_server_ends_with_the_process(work: Workspace) -> None:
    entries(work, time={"command": sys.executable, "args": ["-m", "mcp_server_time"]})
    work.agent("mcp: [time]")
    work.start()
    found = [int(pid.name) for pid in Path("/proc").iterdir() if pid.name.isdigit() and runs_in(pid, work.folder)]
    assert len(found) == 2  # the server, and who watches over it
    work.restart()
    assert not any(lives(pid) for pid in found)


def runs_in(process: Path, folder: Path) -> bool:
    try:
        return (process / "cwd").readlink() == folder
    except OSError:
        return False
