"""The ids of executions, requests and workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NewType

if TYPE_CHECKING:
    pass

__all__ = ["ExecutionId", "RequestId", "WorkerId"]

ExecutionId = NewType("ExecutionId", int)

RequestId = NewType("RequestId", str)

WorkerId = NewType("WorkerId", str)
