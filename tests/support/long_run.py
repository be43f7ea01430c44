"""A workspace whose agent makes one unguarded call after the other, each with a text and a result of one kilobyte."""

from __future__ import annotations

from pathlib import Path

from tests.support.processes import Cli, Finished

__all__ = ["LongRun"]

_KILOBYTE = 1024

_TOOLS = f'''
import os, signal
from langchain_core.tools import tool

@tool
async def note(key: str) -> str:
    """Gives a kilobyte."""
    if key == os.environ.get("KILL_IN"):
        os.kill(os.getpid(), signal.SIGKILL)
    return (key * {_KILOBYTE})[:{_KILOBYTE}]
'''

_AGENT = """---
name: long
model: {{provider: script, name: long}}
tools: [notes]
settings: {{max_tool_calls: {turns}, max_execution_tokens: 1000000000}}
---
Work.
"""


class LongRun:
    """One execution of `turns` model messages with one call each, then an answer."""

    def __init__(self, workspace: Path, turns: int) -> None:
        self.workspace = workspace
        (workspace / "agents/_config/tools").mkdir(parents=True)
        (workspace / "agents/_config/scripts").mkdir()
        (workspace / "agents/long.md").write_text(_AGENT.format(turns=turns))
        (workspace / "agents/_config/tools/notes.py").write_text(_TOOLS)
        script = "".join(f"      - {{text: {text(turn)}, calls: [{call(turn)}]}}\n" for turn in range(turns))
        (workspace / "agents/_config/scripts/long.yaml").write_text(
            f"conversations:\n  - turns:\n{script}      - text: All done.\n"
        )
        self.cli = Cli(workspace)

    def run(self, *, kill_in_call_of: int | None = None) -> Finished:
        """Runs it to its end, or to the call of this turn, which kills the process."""
        key = "" if kill_in_call_of is None else _key(kill_in_call_of)
        return self.cli("run", "long", "-q", env={"KILL_IN": key})

    def sizes(self) -> dict[str, int]:
        """The bytes of each file in the state folder that belongs to a database."""
        return {path.name: path.stat().st_size for path in (self.workspace / ".agentmd").glob("*.db*")}


def _key(turn: int) -> str:
    return f"key-{turn:05}"


def text(turn: int) -> str:
    return (f"turn-{turn:05}-" * _KILOBYTE)[:_KILOBYTE]


def call(turn: int) -> str:
    return f"{{name: note, args: {{key: {_key(turn)}}}}}"
