"""A workspace of agents that call each other, driven in this process by the real App."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_md.app import App
from agent_md.executions.execution import Claim, Execution
from agent_md.executions.ids import ExecutionId
from agent_md.executions.requests import Request
from agent_md.executions.states import Status
from agent_md.settings import load_settings
from tests.support.driving import KIT, Sink, Turn, call, turn
from tests.support.trusting import TRUSTING

__all__ = ["Families", "calls_agent"]


def calls_agent(name: str, *arguments: str) -> Turn:
    return call("run_agent", agent_name=name, arguments=list(arguments))


class Families:
    """Agents with scripts, the tools of `KIT`, and one app that can be opened anew."""

    def __init__(self, folder: Path, environ: Mapping[str, str] = TRUSTING) -> None:
        self.folder = folder
        self.environ = environ
        (folder / "agents/_config/tools").mkdir(parents=True)
        (folder / "agents/_config/scripts").mkdir()
        (folder / "agents/_config/tools/kit.py").write_text(KIT)
        self.app = self._opened()

    def agent(self, name: str, *turns: Turn | str, settings: str = "", body: str = "Work.") -> None:
        said = [{"text": each} if isinstance(each, str) else each for each in turns]
        front = f"---\nname: {name}\nmodel: {{provider: script, name: {name}}}\n{settings}\n---\n{body}\n"
        (self.folder / f"agents/{name}.md").write_text(front)
        script = self.folder / f"agents/_config/scripts/{name}.yaml"
        script.write_text(json.dumps({"conversations": [{"turns": said}]}))

    def config(self, text: str) -> None:
        (self.folder / "config.yaml").write_text(text)
        self.restart()

    def two_helpers(self) -> None:
        """A coordinator with a guarded call of its own beside two helpers that each have one."""
        self.agent(
            "coordinator",
            turn(calls_agent("left", "Do A"), calls_agent("right", "Do B"), call("danger", key="own")),
            "All done.",
            settings="agents: [left, right]\ntools: [kit]\nconfirm: [danger]",
        )
        for name in ("left", "right"):
            settings = "tools: [kit]\nconfirm: [danger]"
            self.agent(
                name,
                turn(call("plain", key=f"{name}-plain"), call("danger", key=name)),
                f"{name} did it.",
                settings=settings,
            )

    def _opened(self) -> App:
        home = self.folder.parent / "no-such-home"
        return App(load_settings(self.folder, environ=self.environ, cwd=self.folder, home=home))

    def restart(self, *, lose_checkpoints: bool = False) -> None:
        self.app.close()
        if lose_checkpoints:
            for file in (self.folder / ".agentmd").glob("agentmd_checkpoints.db*"):
                file.unlink()
        self.app = self._opened()

    def close(self) -> None:
        self.app.close()

    def effects(self) -> Counter[str]:
        log = self.folder / "world.log"
        return Counter(log.read_text().split("\n")[:-1]) if log.exists() else Counter()

    def start(self, agent: str, **options: Any) -> Execution:
        """Runs an agent until it ends or waits."""
        created = self.app.starter.start(agent, **options)
        assert created.worker is not None
        return self.drive(created.id, Claim(created.id, created.worker, created.epoch))

    def drive(self, root: ExecutionId, claim: Claim | None = None) -> Execution:
        return asyncio.run(self.app.family_driver(root).drive(claim, Sink()))

    def open_requests(self, root: Execution) -> list[Request]:
        return [request for request in self.app.store.requests(root.id, family=True) if request.open]

    def record(self, request: Request, response: Any) -> None:
        asking = self.app.store.execution(request.execution_id)
        self.app.store.record_answers([self.app.responder.new_answer(asking, request, response)], by="cli:ann")

    def answer(self, root: Execution, request: Request, *, approved: bool) -> Execution:
        self.record(request, {"approved": approved})
        return self.drive(root.id)

    def results(self, execution: Execution) -> list[str]:
        """What the model was told of the calls, in their order."""
        return [found.result or "" for found in self.app.store.calls(execution.id)]

    def check_ended(self, root: Execution) -> None:
        """Fails if anything of the family is left open."""
        for member in self.app.store.family(root.id):
            assert member.status.final, member
            assert all(found.state.closed for found in self.app.store.calls(member.id))
        assert not self.open_requests(root)
        assert self.app.store.execution(root.id).status is not Status.ERROR
