"""A secret that tools, models, servers and errors try to spread: it is on no surface, and in no byte of the state."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.support.agent_folder import AgentFolder, call
from tests.support.processes import Finished
from tests.support.receiver import Exchange, answer, receiver, saying
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


def _echo(exchange: Exchange) -> None:
    """An error page with whatever came, in several forms, and a redirect's address with it."""
    token = exchange.headers.get("X-Token", "") or exchange.path.partition("=")[2]
    basic = base64.b64encode(f"me:{token}".encode()).decode()
    page = f"<h1>500</h1>{token} {quote(token, safe='')} Basic {basic} {token.encode().hex()} {json.dumps(token)}"
    saying(500, page.encode(), Content_Type="text/html", Link=f"</?t={quote(token, safe='')}>; rel=next")(exchange)


@pytest.mark.parametrize("where", ["environment", "dotenv"])
def test_in_a_request_to_a_server_that_sends_it_back(folder: AgentFolder, where: str) -> None:
    """Under a name that says nothing, as one that only the agent calls a secret."""
    folder.file("config.yaml", "http: {allow_hosts: [127.0.0.1, localhost]}\nlog_level: DEBUG\n")
    env = {"SHOP_LOGIN": CANARY} if where == "environment" else {}
    if not env:
        folder.file(".env", f"SHOP_LOGIN={CANARY}\n")
    with receiver() as there:
        url, headers = f"http://127.0.0.1:{there.port}/", {"X-Token": "${SHOP_LOGIN}"}
        there.behaviours = [_echo, _echo, answer(302, Location=f"http://localhost:{there.port}/x"), _echo]
        calls = [
            call("http_request", url=url, headers=headers),
            call("http_request", url=f"{url}?token=${{SHOP_LOGIN}}", **{"as": "markdown"}),
            call("http_request", url=url, headers=headers),
            call("http_request", url=f"http://localhost:{there.port}/", headers=headers),
            call("http_request", url=url, method="POST", headers=headers),
        ]
        secrets = "secrets: [{name: SHOP_LOGIN, hosts: [127.0.0.1]}]"
        folder.agent("caller", [*({"calls": [each]} for each in calls), {"text": "Done."}], secrets)
        first = folder.cli("run", "caller", "--json", env=env)
        shown = [folder.cli("pending", env=env), folder.cli("pending", "--json", env=env)]
        masked = folder.cli("respond", "1", "--edit", json.dumps({**calls[4]["args"], "body": CANARY}), env=env)
        last = folder.cli("respond", "1", "--yes", env=env)
        shown.append(folder.cli("logs", "1", "-e", env=env))
    assert (first.code, masked.code, last.code) == (3, 2, 0), (first, masked, last)
    assert "they hold the secret SHOP_LOGIN" in masked.err
    sent = [(got.headers.get("x-token"), got.path) for got in there.received]
    assert sent == [
        (CANARY, "/"),
        (None, f"/?token={quote(CANARY, safe='')}"),
        (CANARY, "/"),
        (None, "/x"),
        (CANARY, "/"),
    ]
    results = folder.results()
    assert [text.count("[secret SHOP_LOGIN]") for text in results] == [6, 6, 0, 0, 0]
    assert results[3] == "Error: ${SHOP_LOGIN} is not sent to localhost; it is for 127.0.0.1"
    _assert_unsaid(first, *shown, masked, last)
    _assert_not_in_state(folder.path)
