"""A user's config or a `.env` that is broken, or is another program's, never keeps anybody from stopping things."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from agent_md.executions.states import Status
from tests.support.agent_folder import AgentFolder, call

DELETE = call("file_delete", path="a.txt")

BROKEN_CONFIGS = {
    "no YAML": b"defaults: [\n",
    "no text": b"\xff\xfe\x00",
    "unknown keys": b"colour: red\ndefaults: {modle: x}\n",
    "wrong values": b"log_level: loud\ndefaults: {timeout: soon, model: 1.5}\nstate_dir: 12\n",
    "no mapping": b"- a\n",
}
BROKEN_DOTENVS = {
    "no assignment": b"just words\n",
    "an open quote": b"KEY='a\n",
    "a level": b"AGENTMD_LOG_LEVEL=loud\n",
}
BROKEN = [
    *(pytest.param("user", data, id=f"user config: {name}") for name, data in BROKEN_CONFIGS.items()),
    *(pytest.param("dotenv", data, id=f".env: {name}") for name, data in BROKEN_DOTENVS.items()),
]


@pytest.fixture
def waiting(folder: AgentFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AgentFolder:
    """A workspace with an execution that waits, in an account of its own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    folder.file("a.txt")
    folder.agent("cleaner", [{"calls": [DELETE]}, {"text": "Done."}])
    assert folder.cli("run", "cleaner").code == 3
    return folder


def write(folder: AgentFolder, tmp_path: Path, which: str, data: bytes) -> Path:
    file = folder.path / ".env" if which == "dotenv" else tmp_path / "config/agentmd/config.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    return file


@pytest.mark.parametrize(("which", "data"), BROKEN)
def test_pending_cancel_status_and_stop_work(waiting: AgentFolder, tmp_path: Path, which: str, data: bytes) -> None:
    file = write(waiting, tmp_path, which, data)
    listed = waiting.cli("pending")
    assert listed.code == 0
    assert 'Confirm file_delete {"path": "a.txt"}' in listed.out
    told = [line for line in listed.err.splitlines() if line.startswith("note: not read here: ")]
    assert len(told) == 1
    assert (str(file) in told[0]) or "AGENTMD_LOG_LEVEL" in told[0]
    assert json.loads(waiting.cli("pending", "--json").out)[0]["execution_id"] == 1
    assert waiting.cli("status").out == "No server is running.\n"
    assert waiting.cli("stop").out == "No server is running.\n"
    cancelled = waiting.cli("cancel", "1")
    assert (cancelled.code, cancelled.out) == (0, "Execution 1 is aborted.\n")
    assert waiting.execution().status is Status.ABORTED


@pytest.mark.parametrize(("which", "data"), BROKEN)
def test_what_would_act_under_it_is_refused(waiting: AgentFolder, tmp_path: Path, which: str, data: bytes) -> None:
    write(waiting, tmp_path, which, data)
    for command in (["run", "cleaner"], ["respond", "1", "--yes"], ["list"]):
        ended = waiting.cli(*command)
        assert (ended.code, ended.out) == (2, "")
    assert waiting.execution().status is Status.WAITING


def test_a_server_is_stopped_although_the_config_broke_meanwhile(waiting: AgentFolder, tmp_path: Path) -> None:
    assert waiting.cli("start", "-d").code == 0
    write(waiting, tmp_path, "user", BROKEN_CONFIGS["no YAML"])
    write(waiting, tmp_path, "dotenv", BROKEN_DOTENVS["no assignment"])
    alive = waiting.cli("status")
    assert alive.code == 0
    assert alive.err.count("note: not read here: ") == 2
    stopped = waiting.cli("stop")
    assert (stopped.code, stopped.out) == (0, "Stopped.\n")


def test_keys_of_another_program_are_told_in_one_line_and_not_read(waiting: AgentFolder, tmp_path: Path) -> None:
    config = "workspace: /home/ann/agentmd\nagents_dir: agents\ndb_path: x.db\ndefaults: {provider: google}\nlog_level: INFO\n"
    file = write(waiting, tmp_path, "user", config.encode())
    line = (
        f"note: {file}: `workspace` and `db_path` are keys of another program, and not read here; "
        "name a workspace with --workspace or AGENTMD_WORKSPACE"
    )
    for command in (["list"], ["pending"], ["stop"], ["respond", "1", "--no"]):
        ended = waiting.cli(*command)
        assert ended.code == 0
        assert [text for text in ended.err.splitlines() if "another program" in text] == [line]


def test_such_a_key_of_the_workspace_is_a_mistake(waiting: AgentFolder) -> None:
    (waiting.path / "config.yaml").write_text("workspace: /tmp\n")
    ended = waiting.cli("list")
    assert ended.code == 2
    assert "workspace: there is no such key here" in ended.err
