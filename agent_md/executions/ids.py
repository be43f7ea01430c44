"""The ids of executions, requests and workers, and of what a call waits for."""

from __future__ import annotations

from typing import NewType

__all__ = ["ChildWait", "ExecutionId", "RequestId", "WaitId", "WorkerId", "child_wait"]

ExecutionId = NewType("ExecutionId", int)

RequestId = NewType("RequestId", str)

WorkerId = NewType("WorkerId", str)

ChildWait = NewType("ChildWait", str)
"""The wait of a call for the end of the execution that it has started: `child:` and its number."""

WaitId = RequestId | ChildWait
"""What a call waits for: the answer to a request, or the end of a child."""


def child_wait(execution_id: ExecutionId) -> ChildWait:
    return ChildWait(f"child:{execution_id}")
