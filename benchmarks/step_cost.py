"""What a turn costs in agentmd, and in a bare LangGraph graph with the same model: `python -m benchmarks.step_cost`."""

from __future__ import annotations

import argparse
import asyncio
import gc
import shutil
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

from agent_md.app import App
from agent_md.executions.execution import Claim
from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import Status
from agent_md.models.script import ScriptModel
from agent_md.settings import load_settings

_KILOBYTE = 1024

_TOOLS = f'''
from langchain_core.tools import tool

@tool
async def note(key: str) -> str:
    """Gives a kilobyte."""
    return (key * {_KILOBYTE})[:{_KILOBYTE}]
'''

_AGENT = """---
name: long
model: {{provider: script, name: long}}
tools: [notes]
settings: {{max_tool_calls: {turns}, max_execution_tokens: 1000000000}}
---
"""


@dataclass(frozen=True)
class Cost:
    """Of one run: seconds, and bytes on disk when it is closed."""

    seconds: float
    size: int


class Nobody:
    """Listens to an execution that nobody watches."""

    def stored(self) -> None: ...

    def delta(self, execution_id: ExecutionId, turn: int, text: str) -> None: ...

    def restart(self, execution_id: ExecutionId, turn: int) -> None: ...


def make_workspace(workspace: Path, turns: int) -> None:
    """One agent: each turn is a kilobyte of text and one call with a kilobyte of result."""
    (workspace / "agents/_config/tools").mkdir(parents=True)
    (workspace / "agents/_config/scripts").mkdir()
    (workspace / "agents/long.md").write_text(_AGENT.format(turns=turns))
    (workspace / "agents/_config/tools/notes.py").write_text(_TOOLS)
    text = " ".join(["x" * 63] * (_KILOBYTE // 64))  # a model streams some words at a time
    turn = f"      - {{text: {text!r}, calls: [{{name: note, args: {{key: key-%05d}}}}]}}\n"
    script = "".join(turn % number for number in range(turns))
    (workspace / "agents/_config/scripts/long.yaml").write_text(
        f"conversations:\n  - turns:\n{script}      - text: All done.\n"
    )


def agentmd(workspace: Path) -> Cost:
    """The agent as `agentmd run` drives it: with journal, events, requests and checkpoints."""
    started = time.perf_counter()
    script_model(workspace)
    reading = time.perf_counter() - started  # is done within the drive, and is no cost of a turn
    settings = load_settings(workspace, environ={}, cwd=workspace, home=workspace)
    app = App(settings)
    execution = app.start("long")
    runner = app.runner()
    claim = Claim(execution.id, app.worker, execution.epoch)
    started = time.perf_counter()
    ended = asyncio.run(runner.advance(claim, Nobody()))
    seconds = time.perf_counter() - started - reading
    app.close()
    assert ended.status is Status.SUCCESS, ended
    return Cost(seconds, _size(settings.state_dir))


def script_model(workspace: Path) -> ScriptModel:
    return ScriptModel.load(workspace / "agents/_config/scripts", "long")


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]


@tool
async def note(key: str) -> str:
    """Gives a kilobyte."""
    return (key * _KILOBYTE)[:_KILOBYTE]


def bare(workspace: Path) -> Cost:
    """Two nodes and LangGraph's own saver, which keeps checkpoints and nothing else."""
    model = script_model(workspace).bind_tools([note])

    def ask(state: State) -> Any:
        return {"messages": [model.invoke(state["messages"])]}

    def call(state: State) -> Any:
        calls = state["messages"][-1].tool_calls  # type: ignore[union-attr]
        return {"messages": [ToolMessage(asyncio.run(note.ainvoke(c["args"])), tool_call_id=c["id"]) for c in calls]}

    def route(state: State) -> str:
        return "call" if state["messages"][-1].tool_calls else END  # type: ignore[union-attr]

    graph = StateGraph(State)
    graph.add_node("ask", ask)
    graph.add_node("call", call)
    graph.add_edge(START, "ask")
    graph.add_conditional_edges("ask", route, ["call", END])
    graph.add_edge("call", "ask")
    folder = workspace / "bare"
    folder.mkdir()
    with closing(sqlite3.connect(folder / "checkpoints.db", check_same_thread=False)) as connection:
        compiled = graph.compile(checkpointer=SqliteSaver(connection))
        started = time.perf_counter()
        ended = compiled.invoke(
            {"messages": [HumanMessage("Begin.")]},
            {"configurable": {"thread_id": "1"}, "recursion_limit": 1_000_000},
            durability="sync",
        )
        seconds = time.perf_counter() - started
    assert ended["messages"][-1].content == "All done."
    return Cost(seconds, _size(folder))


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.db*"))


def measure(run: Callable[[Path], Cost], turns: int) -> Cost:
    """One run in a workspace of its own."""
    workspace = Path(tempfile.mkdtemp(prefix="agentmd-benchmark-"))
    try:
        make_workspace(workspace, turns)
        gc.collect()
        return run(workspace)
    finally:
        shutil.rmtree(workspace)


def row(name: str, costs: list[Cost], turns: int) -> str:
    times = sorted(1000 * cost.seconds / turns for cost in costs)
    size = statistics.median(cost.size for cost in costs) / turns / 1000
    return f"{name:<16}{statistics.median(times):>10.2f}{times[0]:>10.2f}{times[-1]:>10.2f}{size:>14.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=50, help="model messages with a tool call (default 50)")
    parser.add_argument("--rounds", type=int, default=7, help="how often each is run, in turn (default 7)")
    options = parser.parse_args()
    for run in (agentmd, bare):
        measure(run, 3)  # imports and first times
    pairs = [(measure(agentmd, options.turns), measure(bare, options.turns)) for _ in range(options.rounds)]
    ours, theirs = ([pair[side] for pair in pairs] for side in (0, 1))
    ratio = statistics.median(own.seconds / other.seconds for own, other in pairs)
    size = statistics.median(own.size / other.size for own, other in pairs)
    print(f"{options.turns} turns, {options.rounds} rounds\n")
    print(f"{'':<16}{'ms/turn':>10}{'min':>10}{'max':>10}{'kB/turn':>14}")
    print(row("agentmd", ours, options.turns))
    print(row("bare LangGraph", theirs, options.turns))
    print(f"{'ratio':<16}{ratio:>10.2f}{'':>20}{size:>14.2f}")


if __name__ == "__main__":
    main()
