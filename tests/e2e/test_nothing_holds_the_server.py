"""Files, patterns, scripts and schemas of others that take for ever, in one server: nothing else waits for them."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.support.agent_folder import AgentFolder, call
from tests.support.server import Client, Server, respond, run, wait_for
from tests.support.waiting import until

_MOST_S = 1.0
_HUGE = 400 * 2**30
_SLOW = "(a|aa)+$"
_LONG = "a" * 80 + "b"
_TOOLS = f"""
from langchain_core.tools import tool
from agent_md.sdk import interrupt

@tool
def ask() -> str:
    \"\"\"Asks.\"\"\"
    schema = {{"type": "string", "pattern": "^(?:{_SLOW})", "allOf": [{{"pattern": "{_SLOW}"}}] * 50}}
    return str(interrupt({{"q": 1}}, response_schema=schema))
"""
_CALLS = {
    "reads": [
        call("file_read", path="huge.txt"),
        call("file_read", path="huge.txt", offset=7),
        call("file_read", path="huge.txt", byte=_HUGE),
        call("file_read", path="lines.txt", offset=900_000),
        call("file_edit", path="huge.txt", old_text="a", new_text="b"),
    ],
    "searches": [
        call("file_glob", pattern="**/" * 300 + "x"),
        call("file_glob", pattern="**/a/" * 150 + "x"),
        call("file_glob", pattern="*a" * 200 + "b"),
    ],
    "changes": [
        call("file_write", path="large.txt", content="new"),
        call("file_write", path="text.txt", content="".join(f"{number * 7919 % 9973}\n" for number in range(60_000))),
        call("file_move", source="huge.txt", destination="moved.txt"),
    ],
}


def _hostile(folder: AgentFolder) -> None:
    with open(folder.path / "huge.txt", "wb") as file:
        file.truncate(_HUGE)
    with open(folder.path / "large.txt", "wb") as file:
        file.truncate(200 * 2**20)
    folder.file("lines.txt", "\n" * 1_000_000)
    folder.file("text.txt", "".join(f"{number}\n" for number in range(60_000)))
    (folder.path / "/".join("a" * 40)).mkdir(parents=True)
    for name, calls in _CALLS.items():
        folder.agent(name, [{"calls": [each]} for each in calls] + [{"text": "Done."}], 'auto_approve: ["*"]')
    folder.agent("harmless", [{"calls": [call("file_glob", pattern="x")]}, {"text": "Done."}])
    match = {"user": _SLOW}
    folder.agent("matches", json.dumps({"conversations": [{"match": match, "turns": [{"text": "Found."}]}]}))
    words = [{"turns": [{"text": "word " * 20_000}]} for _ in range(10)]
    folder.agent("large", json.dumps({"conversations": words}))
    folder.tools("asking", _TOOLS)
    folder.agent("asks", [{"calls": [call("ask")]}, {"text": "Done."}], "tools: [asking]")


def _log(folder: AgentFolder) -> str:
    return (folder.path / ".agentmd/agentmd.log").read_text()


@contextmanager
def _measured(client: Client) -> Iterator[dict[str, float]]:
    """The longest time that the server took for an answer, and that this machine let a thread wait for nothing."""
    longest = {"answer": 0.0, "nothing": 0.0}
    over = threading.Event()

    def ask() -> None:
        while not over.is_set():
            begin = time.monotonic()
            assert client.get("/health").status == 200
            longest["answer"] = max(longest["answer"], time.monotonic() - begin)
            begin = time.monotonic()
            over.wait(0.02)
            longest["nothing"] = max(longest["nothing"], time.monotonic() - begin)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield longest
    finally:
        over.set()
        thread.join()


def test_a_list_of_hostile_things(folder: AgentFolder) -> None:
    _hostile(folder)
    with Server(folder.path) as server:
        client = server.client
        wait_for(client, run(client, agent="harmless"), "success")  # what is made at first use is not theirs
        before = len(_log(folder))
        with _measured(client) as longest:
            started: dict[str, int] = {}
            for name in (*_CALLS, "matches", "large", "asks"):
                started[name] = run(client, {"message": _LONG}, agent=name)
            until(lambda: client.get(f"/executions/{started['asks']}").body["status"] == "waiting")
            assert respond(client, started["asks"], _LONG).status == 422

            def ended(name: str) -> bool:
                status: Any = client.get(f"/executions/{started[name]}").body["status"]
                return status in ("success", "error")

            for name in started:
                if name != "asks":
                    until(lambda name=name: ended(name))
        assert client.get(f"/executions/{started['matches']}").body["status"] == "error"
        for name in (*_CALLS, "large"):
            assert client.get(f"/executions/{started[name]}").body["status"] == "success", name
        assert server.stop().code == 0
    results = folder.results(started["changes"])
    assert [result.partition(":")[0] for result in results] == ["File written", "File written", "File moved"]
    log = _log(folder)[before:]
    held = [float(seconds) for seconds in re.findall(r"event loop was held for ([\d.]+) s", log)]
    patience = max(_MOST_S, 4 * longest["nothing"])
    assert max(held, default=0.0) < patience, log
    assert longest["answer"] < 3 * patience
