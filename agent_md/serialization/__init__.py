"""The JSON objects that the command line, the HTTP interface and webhooks return.

Times are ISO 8601 in UTC with `Z` and milliseconds. A `cost_usd` of null means that the cost is unknown. `agent_id` is the name of an
agent. Missing values are null; only a preview leaves out keys.
"""

from agent_md.serialization.agents import agent_detail, agent_shape, hook_path, invalid_shape
from agent_md.serialization.events import event_shape, run_event_line
from agent_md.serialization.executions import (
    cost_shape,
    execution_detail,
    execution_shape,
    refusal_shape,
    unknown_call_shape,
)
from agent_md.serialization.requests import grant_shape, request_shape, retraction_shape
from agent_md.serialization.sessions import session_shape, session_summary
from agent_md.serialization.times import duration_text, iso_time
from agent_md.serialization.triggers import firing_shape, trigger_shape

__all__ = [
    "agent_detail",
    "agent_shape",
    "cost_shape",
    "duration_text",
    "event_shape",
    "execution_detail",
    "execution_shape",
    "firing_shape",
    "grant_shape",
    "hook_path",
    "invalid_shape",
    "iso_time",
    "refusal_shape",
    "request_shape",
    "retraction_shape",
    "run_event_line",
    "session_shape",
    "session_summary",
    "trigger_shape",
    "unknown_call_shape",
]
