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
    "respond": Place("respond", "respond", "Answer an execution's question and go on with it."),
    "resume": Place("resume", "resume", "Go on with an execution that is queued or whose process died."),
    "retry": Place("retry", "retry", "Begin a failed execution anew, with the message it was given."),
    "cancel": Place("cancel", "cancel", "Abort an execution that waits or runs."),
    "settle": Place("settle", "settle", "Say what became of a call that may have run."),
    "new": Place("new", "new", "Make a new agent."),
    "list": Place("list_agents", "list_agents", "List the agents, and the files that cannot be used."),
    "logs": Place("logs", "logs", "Show executions, or everything that happened in one."),
    "answers": Place("answers", "answers", "List how questions were answered: who, when, what."),
    "sessions": Place("sessions", "sessions", "List conversations; show or delete one."),
    "validate": Place("validate", "validate", "Check agent files, models, keys, tools and rules."),
    "explain": Place("explain", "explain", "Show which calls of an agent ask you, and by which rule."),
    "grants": Place("grants", "grants", "List what was allowed from now on in answers; revoke it."),
    "info": Place("info", "info", "Show the settings in effect, and where each came from."),
    "schedule": Place("schedule", "schedule", "Show when agents fire next; pause and resume them."),
    "checkpoint": Place("checkpoint", "checkpoint", "Show what the checkpoints take on the disk, and remove old ones."),
    "start": Place("server", "start", "Start the server: it drives executions and answers HTTP."),
    "stop": Place("server", "stop", "Stop the server; what runs has 3 s to end, the rest is queued."),
    "status": Place("server", "status", "Say whether a server answers: exit 0 if one does, 1 if not."),
    "service": Place("service", "service", "Start the server at login or boot, and again when it fails."),
}
