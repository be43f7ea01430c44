"""Builds the graph of an agent. The names of its nodes must not change, because stored threads contain them."""

from __future__ import annotations

from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.types import Send

from agent_md.graph.messages import turn_of
from agent_md.graph.model_node import ModelNode
from agent_md.graph.run_context import RunContext
from agent_md.graph.state import CallTask, ThreadState
from agent_md.graph.tool_node import ToolNode

__all__ = ["MODEL_NODE", "TOOL_NODE", "build_graph"]

MODEL_NODE = "model"
TOOL_NODE = "tool"


def build_graph(
    run_context: RunContext, checkpointer: BaseCheckpointSaver[str] | None
) -> CompiledStateGraph[ThreadState, None, ThreadState, ThreadState]:
    """The compiled graph: the model, then one task per tool call of its message, then the model again, until a message
    without calls ends it."""

    def route(state: ThreadState) -> Any:
        turn = turn_of(state["messages"]) - 1
        calls = run_context.store.calls(run_context.execution_id, turn=turn)
        tasks = [Send(TOOL_NODE, CallTask(turn=turn, index=c.position.index, decision=c.decision.value)) for c in calls]
        return tasks or END

    graph: StateGraph[ThreadState, None, ThreadState, ThreadState] = StateGraph(ThreadState)
    graph.add_node(MODEL_NODE, ModelNode(run_context))
    graph.add_node(TOOL_NODE, ToolNode(run_context), input_schema=CallTask)
    graph.add_edge(START, MODEL_NODE)
    graph.add_conditional_edges(MODEL_NODE, route, [TOOL_NODE, END])
    graph.add_edge(TOOL_NODE, MODEL_NODE)
    return graph.compile(checkpointer=checkpointer)
