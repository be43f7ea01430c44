"""An MCP server of the tests', spoken with over standard input and output; as a program, with nothing but the standard library.

    mcp_server.py [FLAG …]

Its tools are those of `TOOLS`, or of the file `mcp-tools.json` in its current folder. Flags make it hostile; see `main`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

_TEXT = {"type": "string"}
TOOLS: dict[str, dict[str, Any]] = {
    "add": {"a": {"type": "integer"}, "b": {"type": "integer"}},
    "slow": {"seconds": {"type": "number"}, "key": _TEXT},
    "effect": {"key": _TEXT},
    "ask": {"key": _TEXT},
    "fail": {},
    "rich": {},
    "env": {},
    "pid": {},
    "sample": {},
    "change": {},
    "crash": {"key": _TEXT},
}


def server_entry(*flags: str, **more: Any) -> dict[str, Any]:
    """The entry of this server in an MCP file."""
    return {"command": sys.executable, "args": ["-S", __file__, *flags], **more}


def lives(pid: int) -> bool:
    """Whether there is a process of this number that has not ended."""
    try:
        os.kill(pid, 0)
        status = Path(f"/proc/{pid}/status").read_text()
    except (ProcessLookupError, FileNotFoundError):
        return False
    return "\nState:\tZ" not in status


class Server:
    def __init__(self, flags: list[str]) -> None:
        self.flags = flags
        self.lock = threading.Lock()
        self.waiting: dict[str, tuple[threading.Event, list[Any]]] = {}
        self.number = 0

    def send(self, **message: Any) -> None:
        with self.lock:
            sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
            sys.stdout.flush()

    def request(self, method: str, **params: Any) -> Any:
        """Asks the client, and waits for its answer."""
        with self.lock:
            self.number += 1
            name = f"s{self.number}"
            self.waiting[name] = threading.Event(), []
        self.send(id=name, method=method, params=params)
        event, answer = self.waiting[name]
        event.wait()
        return answer[0]

    def serve(self) -> None:
        for line in sys.stdin:
            message = json.loads(line)
            if "method" not in message:
                event, answer = self.waiting[message["id"]]
                answer.append(message.get("result", message.get("error")))
                event.set()
            elif "id" in message:
                threading.Thread(target=self.handle, args=(message,), daemon=True).start()

    def handle(self, message: dict[str, Any]) -> None:
        if "silent" in self.flags and message["method"] == "tools/call":
            return
        try:
            self.send(id=message["id"], result=self.answer(message["method"], message.get("params") or {}))
        except Exception as error:
            self.send(id=message["id"], error={"code": -32000, "message": str(error)})

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "initialize":
            capabilities = {"tools": {"listChanged": True}}
            about = {"name": "tests", "version": "1"}
            return {"protocolVersion": params["protocolVersion"], "capabilities": capabilities, "serverInfo": about}
        if method == "tools/list":
            return {"tools": self.listed()}
        if method == "tools/call":
            return self.call(params["name"], params.get("arguments") or {})
        return {}

    def listed(self) -> list[dict[str, Any]]:
        file = Path("mcp-tools.json")
        if file.exists():
            found: list[dict[str, Any]] = json.loads(file.read_text())
            return found
        return [
            {
                "name": name,
                "description": f"Does {name}.",
                "inputSchema": {"type": "object", "properties": fields, "required": list(fields)},
                "annotations": {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True},
            }
            for name, fields in TOOLS.items()
        ]

    def call(self, name: str, args: dict[str, Any]) -> dict[str, Any]:
        done = getattr(self, f"do_{name}", None)
        result = f"{name} {json.dumps(args, sort_keys=True)}" if done is None else done(args)
        return result if isinstance(result, dict) else {"content": [{"type": "text", "text": str(result)}]}

    def do_add(self, args: dict[str, Any]) -> Any:
        return args["a"] + args["b"]

    def do_slow(self, args: dict[str, Any]) -> Any:
        Path("mcp-slow").touch()
        time.sleep(args["seconds"])
        return f"slept for {args['key']}"

    def do_effect(self, args: dict[str, Any]) -> Any:
        with open("world.log", "a") as log:
            log.write(f"{args['key']}\n")
        return f"did {args['key']}"

    def do_crash(self, args: dict[str, Any]) -> Any:
        self.do_effect(args)
        os._exit(3)

    def do_ask(self, args: dict[str, Any]) -> Any:
        schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
        file = Path("mcp-question.json")
        if file.exists():
            schema = json.loads(file.read_text())
        answer = self.request("elicitation/create", message=f"Where is {args['key']}?", requestedSchema=schema)
        self.do_effect({"key": f"{args['key']}:{answer['action']}"})
        return json.dumps(answer, sort_keys=True)

    def do_sample(self, args: dict[str, Any]) -> Any:
        content = {"type": "text", "text": "Say something."}
        return json.dumps(
            self.request("sampling/createMessage", messages=[{"role": "user", "content": content}], maxTokens=10)
        )

    def do_fail(self, args: dict[str, Any]) -> Any:
        return {"content": [{"type": "text", "text": "no such thing"}], "isError": True}

    def do_rich(self, args: dict[str, Any]) -> Any:
        blob = {"uri": "file:///b.bin", "mimeType": "application/octet-stream", "blob": "AAAA"}
        return {
            "content": [
                {"type": "text", "text": "before"},
                {"type": "image", "data": "AAAAAAAA", "mimeType": "image/png"},
                {"type": "audio", "data": "AAAA", "mimeType": "audio/wav"},
                {"type": "resource", "resource": {"uri": "file:///a.txt", "mimeType": "text/plain", "text": "inside"}},
                {"type": "resource", "resource": blob},
                {"type": "resource_link", "uri": "file:///c.txt", "name": "c", "mimeType": "text/plain"},
            ],
            "structuredContent": {"rows": 2},
        }

    def do_env(self, args: dict[str, Any]) -> Any:
        return json.dumps(dict(os.environ), sort_keys=True)

    def do_pid(self, args: dict[str, Any]) -> Any:
        return os.getpid()

    def do_change(self, args: dict[str, Any]) -> Any:
        self.send(method="notifications/tools/list_changed")
        return "changed"


def main(flags: list[str]) -> None:
    """`hang`, `junk` and `line` never speak the protocol, `silent` answers no call; `stubborn` ignores SIGTERM, `forks`
    leaves children that ignore it too; `loud` writes to standard error, `greets` to standard output."""
    Path("mcp-pid").write_text(str(os.getpid()))
    with open("mcp-starts", "a") as starts:
        starts.write("start\n")
    if "stubborn" in flags:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if "forks" in flags:
        fork_children()
    if "loud" in flags:
        print("SECRET-IN-LOG", os.environ.get("MY_TOKEN"), file=sys.stderr, flush=True)
    if "greets" in flags:
        print("Welcome to this server!", flush=True)
    for flag, behaviour in (("hang", hang), ("junk", write_junk), ("line", write_line)):
        if flag in flags:
            behaviour()
    server = Server(flags)
    if "stubborn" in flags:
        threading.Thread(target=server.serve, daemon=True).start()
        hang()
    server.serve()


def fork_children() -> None:
    """One child in its group, one in a session of its own."""
    for apart in (False, True):
        child = subprocess.Popen(
            [sys.executable, "-S", "-c", "import signal, time; signal.signal(15, 1); time.sleep(600)"],
            start_new_session=apart,
        )
        with open("mcp-children", "a") as children:
            children.write(f"{child.pid}\n")


def hang() -> None:
    while True:
        time.sleep(600)


def write_junk() -> None:
    while True:
        sys.stdout.write("junk \x1b[31m\n" * 1000)


def write_line() -> None:
    for _ in range(1600):
        sys.stdout.write("x" * 65536)


if __name__ == "__main__":
    main(sys.argv[1:])
