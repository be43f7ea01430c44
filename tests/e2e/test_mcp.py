from __future__ import annotations

import json
import time
from pathlib import Path

from tests.support.agent_folder import AgentFolder, call
from tests.support.mcp_server import lives, server_entry
from tests.support.waiting import until


def servers(folder: AgentFolder, *flags: str, **entry: object) -> None:
    text = json.dumps({"mcpServers": {"t": server_entry(*flags, **entry)}})
    (folder.path / "agents/_config/mcp-servers.json").write_text(text)


def processes(folder: AgentFolder) -> list[int]:
    """The server and the children that it left."""
    files = [folder.path / name for name in ("mcp-pid", "mcp-children")]
    return [int(pid) for file in files if file.exists() for pid in file.read_text().split()]


def test_a_run_ends_on_time_and_leaves_no_process_whatever_its_server_does(folder: AgentFolder) -> None:
    servers(folder, "stubborn", "forks")
    folder.agent("worker", [{"calls": [call("t__add", a=1, b=2)]}, {"text": "Done."}], "mcp: [t]")
    ended = folder.cli("run", "worker")
    assert ended.code == 0, ended
    assert "t__add ← 3" in ended.out
    assert len(processes(folder)) == 3
    assert not any(lives(pid) for pid in processes(folder))


def test_a_killed_run_leaves_no_process_and_its_call_may_have_run(folder: AgentFolder) -> None:
    servers(folder, "stubborn", "forks")
    slow = call("t__slow", seconds=600, key="A")
    folder.agent("worker", [{"calls": [slow]}, {"text": "Done."}], "mcp: [t]")
    running = folder.cli.start("run", "worker")
    until(lambda: (folder.path / "mcp-slow").exists())
    running.kill()
    running.wait()
    until(lambda: not any(lives(pid) for pid in processes(folder)), 10)
    ended = folder.cli("resume", "1")
    assert ended.code == 0, ended
    assert "may have run" in ended.out


def test_a_server_that_hangs_is_told_and_the_agent_goes_on_without_it(folder: AgentFolder) -> None:
    servers(folder, "hang", connect_timeout=2)
    folder.agent("worker", [{"text": "Done."}], "mcp: [t]")
    begun = time.monotonic()
    ended = folder.cli("run", "worker")
    assert ended.code == 0, ended
    assert "The MCP server t cannot be used: it did not answer within 2 s" in ended.err
    assert time.monotonic() - begun < 20
    assert not any(lives(pid) for pid in processes(folder))


def test_validate_tells_what_each_server_offers(folder: AgentFolder) -> None:
    servers(folder)
    folder.agent("worker", [{"text": "Done."}], "mcp: [t]")
    told = folder.cli("validate", "worker")
    assert told.code == 0, told
    assert "mcp t: t__add, t__slow, t__effect," in told.out


def test_what_is_wrong_with_the_mcp_file_is_told_with_its_place(folder: AgentFolder) -> None:
    file: Path = folder.path / "agents/_config/mcp-servers.json"
    folder.agent("worker", [{"text": "Done."}], "mcp: [stock]")
    for text, reason in (
        ('{"mcpServers": {"stok": {"command": "x"}}}', "has no server 'stock'; did you mean 'stok'?"),
        (
            '{"mcpServers": {"stock": {"command": "x", "arg": []}}}',
            "mcpServers.stock.arg: unknown key; did you mean args?",
        ),
        ('{"mcpServers": {"stock": {"command": "x", "args": [3]}}}', "mcpServers.stock.args[0]: must be a text, not 3"),
        ('{"mcpServers": {"stock": {"command": "${NOPE}"}}}', "needs the variable NOPE, which is not set"),
        ('{"mcpServers": {\n"stock": }}', "mcp-servers.json:2: is no JSON"),
    ):
        file.write_text(text)
        ended = folder.cli("run", "worker")
        assert ended.code == 2
        assert reason in ended.err
        assert "mcp-servers.json" in ended.err or "MCP server stock" in ended.err
