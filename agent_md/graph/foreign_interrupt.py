"""Converts LangGraph's own `interrupt()` in a custom tool to a custom request.

`interrupt(value)` reads everything it works with from the runnable config of its context: a scratchpad that counts the
interrupts of the task and holds the answers so far. The tool is given a config with a scratchpad of ours instead of
the one of its graph task. LangGraph asks it for the number of the interrupt first; at that moment we put our own
question, which gives the answer or raises the pause, append the answer, and give its number. LangGraph then finds the
answer in its place and returns it, after it has validated it against the caller's `response_schema`.

The number is all that LangGraph asks for, so the question itself is read from the frame of the caller; the tests hold
this to the installed version. Nothing else of the graph's config reaches the tool: a graph or chat model that it runs
on its own is not taken for a part of ours.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from langchain_core.runnables.config import RunnableConfig, var_child_runnable_config
from langgraph._internal._constants import CONFIG_KEY_SCRATCHPAD, CONFIG_KEY_SEND

from agent_md import sdk

__all__ = ["foreign_interrupts"]


@contextmanager
def foreign_interrupts() -> Iterator[None]:
    """While the block runs, `langgraph.types.interrupt` asks through `agent_md.sdk.interrupt`.

    A value that is no object is asked as `{"value": value}`. The answer is what the human gave, unwrapped.
    """
    configurable = {CONFIG_KEY_SCRATCHPAD: _Scratchpad(), CONFIG_KEY_SEND: _ignore_writes}
    token = var_child_runnable_config.set(RunnableConfig(configurable=configurable))
    try:
        yield
    finally:
        var_child_runnable_config.reset(token)


class _Scratchpad:
    """What LangGraph's `interrupt` and a graph inside the tool use of a scratchpad."""

    def __init__(self) -> None:
        self.resume: list[Any] = []
        self._lock = threading.Lock()

    def interrupt_counter(self) -> int:
        """Asks what the calling `interrupt` asks, keeps the answer, and gives its number."""
        asked = sys._getframe(1).f_locals
        value, schema, adapter = asked["value"], asked["response_schema"], asked["adapter"]
        answer = sdk.interrupt(
            value if isinstance(value, dict) else {"value": value},
            response_schema=schema if adapter is None else adapter.json_schema(),
        )
        with self._lock:
            self.resume.append(answer)
            return len(self.resume) - 1

    def get_null_resume(self, consume: bool = False) -> None:
        return None


def _ignore_writes(writes: Any) -> None:
    """LangGraph would note the answer in the checkpoint of the task; ours is in the store already."""
