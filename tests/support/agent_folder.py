"""A workspace with scripted agents, and the real command line on it: in forked processes and on terminals."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent_md import Workspace
from agent_md.executions.execution import Execution
from agent_md.executions.ids import ExecutionId
from agent_md.executions.requests import Request
from agent_md.executions.states import Status
from agent_md.stores.sqlite.store import SqliteStore
from agent_md.stores.workers import LockWorkers
from tests.support.forked_terminal import ForkedTerminal
from tests.support.processes import Cli
from tests.support.waiting import until

__all__ = ["AgentFolder", "call"]


def call(name: str, **args: Any) -> dict[str, Any]:
    """A tool call of a script's turn."""
    return {"name": name, "args": args}


class AgentFolder:
    """A workspace; whatever it does is done by the product's own `main`, except looking into the store."""

    def __init__(self, path: Path) -> None:
        self.path = path
        (path / "agents/_config/tools").mkdir(parents=True)
        (path / "agents/_config/scripts").mkdir()
        self.cli = Cli(path)

    def agent(self, name: str, turns: Sequence[Mapping[str, Any]] | str, settings: str = "") -> None:
        """An agent whose model plays `turns`, or a whole script; `settings` are further lines of its frontmatter."""
        file = name.replace(" ", "-")
        front = f"---\nname: {name}\nmodel: {{provider: script, name: {file}}}\n{settings}\n---\nWork.\n"
        (self.path / f"agents/{file}.md").write_text(front, encoding="utf-8")
        script = self.path / f"agents/_config/scripts/{file}.yaml"
        whole = turns if isinstance(turns, str) else json.dumps({"conversations": [{"turns": list(turns)}]})
        script.write_text(whole)

    def tools(self, module: str, source: str) -> None:
        """A module of custom tools; an agent takes it with `tools: [MODULE]`."""
        (self.path / f"agents/_config/tools/{module}.py").write_text(source, encoding="utf-8")

    def file(self, name: str, text: str = "text\n") -> Path:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def terminal(self, *args: str, **options: Any) -> ForkedTerminal:
        """A command on a terminal of its own; with a `cwd` the workspace is not named."""
        named = () if "cwd" in options else ("-w", str(self.path))
        return ForkedTerminal([*named, *args], **options)

    def begin(self, agent: str) -> Execution:
        """Runs an agent in this process until it waits: what a test begins with, where it is not about that command."""
        with Workspace(self.path) as workspace:
            begun = workspace.run(agent)
        assert begun.status is Status.WAITING, begun
        return begun

    @contextmanager
    def store(self) -> Iterator[SqliteStore]:
        """The store, closed before the next process is forked."""
        folder = self.path / ".agentmd"
        store = SqliteStore(folder / "agentmd.db", workers=LockWorkers(folder / "workers"))
        try:
            yield store
        finally:
            store.close()

    def execution(self, number: int = 1) -> Execution:
        with self.store() as store:
            return store.execution(ExecutionId(number))

    def requests(self, number: int = 1) -> list[Request]:
        with self.store() as store:
            return store.requests(ExecutionId(number))

    def results(self, number: int = 1) -> list[str]:
        """What the model was told of its calls, in their order."""
        with self.store() as store:
            return [found.result or "" for found in store.calls(ExecutionId(number))]

    def until_status(self, status: Status, number: int = 1) -> None:
        """Waits for a status that another process brings about."""
        database = self.path / ".agentmd/agentmd.db"

        def reached() -> bool:
            if not database.exists():
                return False
            with self.store() as store:
                return any(x.id == number and x.status is status for x in store.executions())

        until(reached)
