"""The JSON objects that the command line, the HTTP interface and webhooks return.

Times are ISO 8601 in UTC with `Z` and milliseconds. A `cost_usd` of null means that the cost is unknown. `agent_id` is the name of an
agent. Missing values are null; only a preview leaves out keys.
"""

from agent_md.serialization.agents import agent_detail, agent_json, hook_path, invalid_json
from agent_md.serialization.events import event_json, run_event_line
from agent_md.serialization.executions import (
    cost_json,
    execution_detail,
    execution_json,
    refusal_json,
    unknown_call_json,
)
from agent_md.serialization.requests import given_answer_json, grant_json, request_json, retraction_json
from agent_md.serialization.sessions import listed_session_json, session_json, session_summary
from agent_md.serialization.times import duration_text, iso_time
from agent_md.serialization.triggers import firing_json, trigger_json

__all__ = [
    "agent_detail",
    "agent_json",
    "cost_json",
    "duration_text",
    "event_json",
    "execution_detail",
    "execution_json",
    "firing_json",
    "given_answer_json",
    "grant_json",
    "hook_path",
    "invalid_json",
    "iso_time",
    "listed_session_json",
    "refusal_json",
    "request_json",
    "retraction_json",
    "run_event_line",
    "session_json",
    "session_summary",
    "trigger_json",
    "unknown_call_json",
]
