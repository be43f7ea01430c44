"""The real Gemini client through the whole App: pauses, restarts, and what then goes over the wire."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_md.errors import MissingKey
from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import CallOutcome, Status
from agent_md.stores.sqlite.store import SqliteStore
from agent_md.stores.workers import LockWorkers
from tests.support.driving import KIT, Sink, Workspace
from tests.support.gemini import Failure, GeminiServer, Turn, call_part, calls, text
from tests.support.processes import Cli, preload

SIGNATURES = ["c2lnbmF0dXJlLUE=", "c2lnbmF0dXJlLUI=", "c2lnbmF0dXJlLUM="]
THREE = [
    ("danger", {"key": "A"}, SIGNATURES[0]),
    ("plain", {"key": "U"}, None),
    ("danger", {"key": "B"}, None),
]


def model_at(server_url: str) -> str:
    return f"{{provider: google, name: gemini-2.5-flash, base_url: '{server_url}'}}"


@contextmanager
def workspace(folder: Path, server: GeminiServer, settings: str = "") -> Iterator[Workspace]:
    work = Workspace(folder, environ={"GOOGLE_API_KEY": "test-key"})
    work.tools("")
    work.agent(f"tools: [kit]\nconfirm: [danger]\n{settings}", model=model_at(server.url))
    yield work
    work.close()


def responses(body: dict[str, Any]) -> list[tuple[str, str]]:
    """The results in the last content that was sent: name and text."""
    parts = [part["functionResponse"] for part in body["contents"][-1]["parts"]]
    return [(part["name"], part["response"]["output"]) for part in parts]


def signatures(body: dict[str, Any]) -> list[str | None]:
    return [
        part.get("thoughtSignature")
        for content in body["contents"]
        for part in content["parts"]
        if "functionCall" in part
    ]


class TestAPause:
    @pytest.mark.parametrize("lose_checkpoints", [False, True])
    def test_three_calls_answered_over_restarts(self, tmp_path: Path, lose_checkpoints: bool) -> None:
        turns = [calls(*THREE, prompt_tokens=100, output_tokens=9, thought_tokens=4), text("All done.")]
        with GeminiServer(turns) as server, workspace(tmp_path / "ws", server) as work:
            work.start()
            assert work.effects() == {"U": 1}
            first, second = work.open_requests()
            work.restart(lose_checkpoints=lose_checkpoints)
            work.answer(second, {"approved": False, "reason": "no"})
            work.restart(lose_checkpoints=lose_checkpoints)
            sink = Sink()
            work.record(first, {"approved": True})
            claim = work.app.store.claim(work.execution.id, work.app.worker)
            assert claim is not None
            work.drive(claim, sink)
            work.check_succeeded("All done.")
            assert sink.deltas == ["All ", "done."]
            assert work.effects() == {"U": 1, "A": 1}
            assert len(server.requests) == 2
            assert server.requests[0].key == "test-key"
            assert all("streamGenerateContent" in request.path for request in server.requests)
            body = server.requests[1].body
            assert responses(body) == [
                *(("danger", "did A"), ("plain", "did U"), ("danger", "Action denied by user: no"))
            ]
            assert signatures(body) == [SIGNATURES[0], None, None]
            usage = work.execution.usage
            assert (usage.input_tokens, usage.output_tokens) == (110, 19)
            assert usage.cost_usd == pytest.approx((110 * 0.30 + 19 * 2.50) / 1e6)

    def test_every_signature_comes_back_on_its_own_call(self, tmp_path: Path) -> None:
        turns = [
            calls(*(("danger", {"key": key}, signature) for key, signature in zip("ABC", SIGNATURES, strict=True))),
            calls(("danger", {"key": "D"}, "c2lnbmF0dXJlLUQ=")),
            text("All done."),
        ]
        with GeminiServer(turns) as server, workspace(tmp_path / "ws", server) as work:
            work.start()
            while requests := work.open_requests():
                work.restart(lose_checkpoints=True)
                work.answer(requests[-1])
            work.check_succeeded("All done.")
            assert signatures(server.requests[-1].body) == [*SIGNATURES, "c2lnbmF0dXJlLUQ="]
            assert work.effects() == {"A": 1, "B": 1, "C": 1, "D": 1}

    def test_the_declared_tools_are_those_of_the_agent(self, tmp_path: Path) -> None:
        with GeminiServer([text("All done.")]) as server, workspace(tmp_path / "ws", server) as work:
            work.start()
            (declared,) = server.requests[0].body["tools"]
            names = {each["name"] for each in declared["functionDeclarations"]}
            assert {"plain", "danger", "ask_user", "file_write"} <= names


class TestMisbehaviour:
    def test_an_unknown_tool_bad_arguments_and_calls_without_ids(self, tmp_path: Path) -> None:
        chunk = [
            call_part("no_such_tool", {"x": 1}),
            call_part("plain", {}),
            call_part("plain", {"key": "U"}),
            call_part("plain", {"key": "U"}),
        ]
        with GeminiServer([Turn([chunk]), text("All done.")]) as server, workspace(tmp_path / "ws", server) as work:
            work.start()
            work.check_succeeded("All done.")
            assert work.effects() == {"U": 2}
            told = [text for _, text in responses(server.requests[1].body)]
            assert told[0].startswith("Error: there is no tool 'no_such_tool'")
            assert told[1] == "Error: Invalid arguments for plain: key: Field required"
            assert told[2:] == ["did U", "did U"]
            assert len({found.call_id for found in work.calls()}) == 4

    def test_a_list_of_choices_is_a_text_on_the_wire(self, tmp_path: Path) -> None:
        turns = [
            calls(("ask_user", {"question": "Some?", "kind": "choice", "options": ["a", "b"], "multi": True}, None))
        ]
        with GeminiServer([*turns, text("All done.")]) as server, workspace(tmp_path / "ws", server) as work:
            work.start()
            work.restart()
            work.answer(response={"selected": ["b", "a"]})
            work.check_succeeded("All done.")
            assert responses(server.requests[1].body) == [("ask_user", '["a", "b"]')]

    def test_a_stream_that_broke_is_asked_for_again_and_counted_once(self, tmp_path: Path) -> None:
        turns = [calls(*THREE, failures=[Failure(cut=1)]), text("All done.")]
        with GeminiServer(turns) as server, workspace(tmp_path / "ws", server) as work:
            work.start()
            assert len(server.requests) == 2
            assert len(work.calls()) == 3
            assert work.effects() == {"U": 1}
            assert work.execution.usage.total_tokens == 16

    def test_a_refusal_ends_it_as_an_error_without_the_key(self, tmp_path: Path) -> None:
        refused = text("x", failures=[Failure(status=400, message="bad key {key}")])
        with GeminiServer([refused]) as server, workspace(tmp_path / "ws", server) as work:
            ended = work.start()
            assert ended.status is Status.ERROR
            assert "bad key ***" in (ended.error or "")
            assert "test-key" not in json.dumps([event.data for event in work.events()])

    def test_a_key_that_is_gone_when_it_resumes_leaves_it_queued(self, tmp_path: Path) -> None:
        turns = [calls(*THREE[:1]), text("All done.")]
        with GeminiServer(turns) as server, workspace(tmp_path / "ws", server) as work:
            work.start()
            del work.environ["GOOGLE_API_KEY"]
            work.restart()
            with pytest.raises(MissingKey):
                work.answer()
            assert (work.execution.status, work.execution.attempts) == (Status.QUEUED, 0)
            assert work.calls()[0].outcome is CallOutcome.DONE
            work.environ["GOOGLE_API_KEY"] = "test-key"
            work.restart()
            work.go_on()
            work.check_succeeded("All done.")
            assert work.effects() == {"A": 1}


@contextmanager
def server_process(folder: Path, turns: list[dict[str, Any]]) -> Iterator[tuple[str, Path]]:
    """The server in a process of its own, with its address and its log."""
    script, log = folder / "turns.json", folder / "wire.jsonl"
    script.write_text(json.dumps(turns))
    command = [sys.executable, "-m", "tests.support.gemini", "--script", str(script), "--log", str(log)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}", log


def test_as_real_processes(tmp_path: Path) -> None:
    preload()
    import langchain_google_genai  # noqa: F401 - so that the forks have it

    folder = tmp_path / "ws"
    (folder / "agents/_config/tools").mkdir(parents=True)
    (folder / "agents/_config/tools/kit.py").write_text(KIT)
    turns = [
        {"chunks": [[call_part(*one)] for one in THREE], "prompt_tokens": 100, "output_tokens": 9},
        {"chunks": [[{"text": "All done."}]]},
    ]
    with server_process(tmp_path, turns) as (url, log):
        head = f"name: worker\nmodel: {model_at(url)}\ntools: [kit]\nconfirm: [danger]"
        (folder / "agents/worker.md").write_text(f"---\n{head}\n---\nWork.\n")
        cli = Cli(folder, env={"GOOGLE_API_KEY": "test"})
        ran = cli("run", "worker")
        assert ran.code == 3, ran
        denied = cli("respond", "1", "--request", "1-0.2", "--no", "--reason", "no")
        assert denied.code == 3, denied
        approved = cli("respond", "1", "--yes")
        assert approved.code == 0, approved
        assert "All done." in approved.out
        wire = [json.loads(line)["body"] for line in log.read_text().splitlines()]
    assert (folder / "world.log").read_text().split() == ["U", "A"]
    assert len(wire) == 2
    assert [output for _, output in responses(wire[1])] == ["did A", "did U", "Action denied by user: no"]
    assert signatures(wire[1]) == [SIGNATURES[0], None, None]
    store = SqliteStore(folder / ".agentmd/agentmd.db", workers=LockWorkers(folder / ".agentmd/workers"))
    execution = store.execution(ExecutionId(1))
    store.close()
    assert execution.status is Status.SUCCESS
    assert (execution.usage.input_tokens, execution.usage.output_tokens) == (110, 15)
