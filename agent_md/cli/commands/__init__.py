"""The table of commands: the module of each, so that only the one that is used is imported."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["COMMANDS", "Place"]


class Place(NamedTuple):
    """A module of this package, the function of the command in it, and the first sentence of its docstring."""

    module: str
    function: str
    summary: str


COMMANDS = {
    "run": Place("run", "run", "Run an agent once."),
    "chat": Place("chat", "chat", "Talk with an agent: each message is a turn of one session."),
    "pending": Place("pending", "pending", "List every question that waits for an answer, oldest first."),
    "respond": Place("respond", "respond", "Answer an execution's questions and continue it."),
    "resume": Place("resume", "resume", "Continue an execution that is queued or whose process died."),
    "retry": Place("retry", "retry", "Start a failed execution again, with the same message."),
    "cancel": Place("cancel", "cancel", "Abort an execution that waits or runs."),
    "settle": Place("settle", "settle", "Record whether a call that may have run did run."),
    "new": Place("new", "new", "Create an agent."),
    "list": Place("list_agents", "list_agents", "List the agents, and the files that cannot be used."),
    "logs": Place("logs", "logs", "Show executions, or all events of one."),
    "answers": Place("answers", "answers", "List how questions were answered: who, when, what."),
    "sessions": Place("sessions", "sessions", "List conversations; show or delete one."),
    "validate": Place("validate", "validate", "Check agent files, models, keys, tools and rules."),
    "explain": Place("explain", "explain", "Show which calls of an agent ask you, and by which rule."),
    "tools": Place("tools", "tools", "List the tools of agents, and which of their calls ask you."),
    "grants": Place("grants", "grants", "List and revoke grants: calls that answers allowed from now on."),
    "trust": Place("trust", "trust", "Show what a workspace would run, send and change; trust it."),
    "info": Place("info", "info", "Show the settings in effect, and the source of each."),
    "schedule": Place("schedule", "schedule", "Show when agents fire next; pause and resume them."),
    "checkpoint": Place("checkpoint", "checkpoint", "Show the disk space of checkpoints, and remove old ones."),
    "start": Place("server", "start", "Start the server: drives executions and serves HTTP."),
    "stop": Place("server", "stop", "Stop the server; running executions have 3 s to end."),
    "status": Place("server", "status", "Show whether a server answers: exit 0 if one does, 1 if not."),
    "inbox": Place("inbox", "inbox", "Open the page where requests are answered."),
    "service": Place("service", "service", "Run the server as a service: starts at login, and after failures."),
}
