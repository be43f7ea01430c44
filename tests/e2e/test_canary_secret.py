"""A secret of `.env` that tools, models and errors try to spread: it is on no surface, and in no byte of the state."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from urllib.parse import quote

from tests.support.agent_folder import AgentFolder, call
from tests.support.processes import Finished
from tests.support.server import Server, respond, run, wait_for

CANARY = "canary-7f/3b+9e?61&d5"
_TOOLS = """
import base64, logging, os
from urllib.parse import quote
from langchain_core.tools import tool
from agent_md.sdk import interrupt, request_input, step

def _secret():
    for line in open(".env"):
        if line.startswith("SHOP_TOKEN="):
            return line.partition("=")[2].strip()

@tool
def fails() -> str:
    \"\"\"Fails.\"\"\"
    secret = _secret()
    logging.getLogger("shop").warning("asked with %s", secret)
    try:
        raise ValueError("401 for " + secret)
    except ValueError as error:
        raise RuntimeError(f"no answer to https://shop.example/?key={quote(secret, safe='')}") from error

@tool
def gives() -> str:
    \"\"\"Gives it in several forms.\"\"\"
    secret = _secret()
    basic = base64.b64encode(f"me:{secret}".encode()).decode()
    return f"{secret} Basic {basic} {secret.encode().hex()}"

@tool
def steps() -> str:
    \"\"\"Keeps it.\"\"\"
    return "kept " + step(_secret)[:3]

@tool
def asks() -> str:
    \"\"\"Asks with it.\"\"\"
    request_input(f"Is {_secret()} right?")
    interrupt({"token": _secret()})
    return "asked"
"""


def _forms() -> list[bytes]:
    basic = base64.b64encode(f"me:{CANARY}".encode())
    plain = [CANARY, quote(CANARY, safe=""), json.dumps(CANARY)[1:-1], CANARY.encode().hex()]
    return [form.encode() for form in plain] + [basic[4:-4], CANARY[:-1].encode()]


def _assert_nowhere(data: bytes, where: object) -> None:
    for form in _forms():
        assert form not in data, (form, where)


def _assert_unsaid(*ended: Finished) -> None:
    for each in ended:
        _assert_nowhere((each.out + each.err).encode(), each)


def _folder(folder: AgentFolder) -> None:
    (folder.path / ".env").write_text(f"SHOP_TOKEN={CANARY}\n")
    folder.tools("shop", _TOOLS)
    turns = [{"calls": [call(name)]} for name in ("fails", "gives", "steps", "asks")]
    turns.append(
        {"text": f"It is {CANARY}, I was told.", "calls": [call("file_write", path="note.txt", content=CANARY)]}
    )
    turns.append({"calls": [call("file_edit", path="settings.txt", old_text="old", new_text="new")]})
    turns.append({"text": f"The end: {CANARY}."})
    folder.agent("shopper", turns, "tools: [shop]\nconfirm: [file_edit]")
    folder.file("settings.txt", f"token = {CANARY}\nname = old\n")


def _assert_not_in_state(folder: Path) -> None:
    for path in (folder / ".agentmd").rglob("*"):
        if path.is_file():
            _assert_nowhere(path.read_bytes(), path)


def test_by_the_command_line(folder: AgentFolder) -> None:
    _folder(folder)
    first = folder.cli("run", "shopper", "-m", f"My token is {CANARY}.", "--json")
    assert first.code == 3, first
    pending = folder.cli("pending")
    second = folder.cli("respond", "1", "--text", "yes")
    third = folder.cli("respond", "1", "--answers", "{}")
    shown = folder.cli("pending", "--json")
    assert "secrets in the difference are masked" in shown.out
    last = folder.cli("respond", "1", "--yes")
    logs = folder.cli("logs", "1", "-e")
    _assert_unsaid(first, pending, second, third, shown, last, logs)
    assert last.code == 0, last
    _assert_not_in_state(folder.path)
    results = folder.results()
    assert results[0] == "Error: fails failed: RuntimeError: no answer to https://shop.example/?key=[secret SHOP_TOKEN]"
    assert results[1].count("[secret SHOP_TOKEN]") == 3
    assert "stands for a value that is not given to models" in results[4]
    assert not (folder.path / "note.txt").exists()
    assert (folder.path / "settings.txt").read_text() == f"token = {CANARY}\nname = new\n"
    assert "[secret SHOP_TOKEN]" in (folder.path / ".agentmd/agentmd.log").read_text()


def test_by_a_server(folder: AgentFolder) -> None:
    _folder(folder)
    with Server(folder.path, env={"AGENTMD_LOG_LEVEL": "DEBUG"}) as server:
        number = run(server.client, {"message": f"My token is {CANARY}."}, agent="shopper")
        said = ""
        with server.client.stream(f"/executions/{number}/stream") as events:
            for answer in ({"text": "yes"}, {}, {"approved": True}):
                wait_for(server.client, number, "waiting")
                said += json.dumps(server.client.get("/pending").body, ensure_ascii=False)
                assert respond(server.client, number, answer).status == 200
            for event in events:
                said += json.dumps(event.data, ensure_ascii=False)
                if event.event == "complete":
                    break
        assert wait_for(server.client, number, "success")
        assert said.count("[secret SHOP_TOKEN]") > 5
        _assert_nowhere(said.encode(), "HTTP")
        server.stop()
    _assert_not_in_state(folder.path)
