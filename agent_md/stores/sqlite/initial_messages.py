"""The first messages of executions, stored as references: each message is stored only once.

The column `executions.seed` holds a JSON object of these, or, in rows of formats up to 4, the list of all messages:

- `lead`: the execution's own messages before the human one, or `{"as": ID}`: the same as that execution's;
- `kept`: the messages that its session was created with, in the first execution that is told of them;
- `begun`: `{"of": ID, "from": N}`: those that execution keeps, from the N-th on (0 = the first);
- `turns`: earlier executions of the conversation, by id, whose messages come next; `[ID, N]`: from the N-th on;
- `past`: the messages themselves, shortened, instead of `begun` and `turns`, where what these refer to was to be removed.

The message that comes last, the human one, is that of the event `human`.

References go to older executions of the same conversation, and never to one that refers on. What they refer to does not
change: only ended executions are referred to for their messages, and the messages that a session was created with are
copied into its first execution, so that to delete a session leaves every opening whole. Whoever removes executions
leaves none that is referred to, or writes out what refers to it (`write_out`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from agent_md.executions.execution import NewExecution
from agent_md.executions.history import MESSAGE_EVENTS, conversation_of, lead_of, own_messages, shortened, window_start
from agent_md.stores.sqlite.database import Database
from agent_md.stores.sqlite.rows import dump

__all__ = ["LEFT_TRACES", "Conversation", "SqliteInitialMessages", "message_count", "messages_of", "referred_to"]

LEFT_TRACES = (
    "(x.status = 'success' OR EXISTS (SELECT 1 FROM calls c"
    " WHERE c.execution_id = x.id AND c.outcome IN ('done', 'failed', 'unknown')))"
)
"""A turn that failed before any call started leaves the conversation as it was."""

_MESSAGES = ", ".join(f"'{kind}'" for kind in MESSAGE_EVENTS)

_Messages = list[dict[str, Any]]


class Conversation(NamedTuple):
    """The stored data of a conversation besides its executions; empty for one without a session, or a new one."""

    lives: bool = False
    """Whether there is a session, not deleted."""
    floor: int = 0
    """Executions up to this number belong to a session of this id that was deleted."""
    begun: Sequence[dict[str, Any]] = ()
    """The messages that the session was created with."""


class SqliteInitialMessages:
    """Makes and reads openings; `made` must be called inside `Database.write()`."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def read(self, execution_id: int) -> _Messages:
        """The first messages of an execution. A referenced message that was removed is left out."""
        stored = self.stored(execution_id)
        if isinstance(stored, list):
            return stored
        human = [json.loads(data)["message"] for (data,) in self._human(execution_id)]
        return [*self._lead_of(stored), *self._past_of(execution_id, stored), *human]

    def _past_of(self, execution_id: int, stored: dict[str, Any]) -> _Messages:
        past: _Messages = []
        if "past" in stored:
            return list(stored["past"])
        if begun := stored.get("begun"):
            past += self._part(begun["of"] or execution_id, "kept")[begun["from"] :]
        turns = [(turn, 0) if isinstance(turn, int) else tuple(turn) for turn in stored.get("turns", ())]
        said = messages_of(self._db, [turn for turn, _ in turns])
        for turn, start in turns:
            past += said.get(turn, [])[start:]
        return [shortened(message) for message in past]

    def write_out(self, execution_id: int) -> None:
        """Keeps an opening without references; it reads as before. Must run inside `Database.write()`."""
        stored = self.stored(execution_id)
        if not isinstance(stored, dict):
            return
        kept = {"kept": stored["kept"]} if "kept" in stored else {}
        written = {"lead": self._lead_of(stored), **kept, "past": self._past_of(execution_id, stored)}
        self._db.run("UPDATE executions SET seed = ? WHERE id = ?", dump(written), execution_id)

    def in_thread(self, execution_id: int) -> _Messages:
        """All of it, if it was stored as a list: then the thread has it too."""
        stored = self.stored(execution_id)
        return stored if isinstance(stored, list) else []

    def stored(self, execution_id: int) -> Any:
        """The opening as the column holds it."""
        row = self._db.one("SELECT seed FROM executions WHERE id = ?", execution_id)
        return [] if row is None else json.loads(row[0])

    def _part(self, execution_id: int, name: str) -> _Messages:
        stored = self.stored(execution_id)
        part = stored.get(name) if isinstance(stored, dict) else None
        return part if isinstance(part, list) else []

    def _human(self, execution_id: int) -> list[Any]:
        return self._db.all("SELECT data FROM events WHERE execution_id = ? AND key = 'human'", execution_id)

    def made(self, new: NewExecution, conversation: Conversation) -> str:
        """The opening of a new execution in stored form: its own messages, and before the human one the window of its
        conversation. The last of its own messages is expected in its event `human`."""
        if not new.seed:
            return "[]"
        if new.parent_id is not None:
            return dump({"lead": list(new.seed[:-1])})
        last_id, last = self._last(new, conversation.floor)
        lead = lead_of(new.seed, conversation.begun)
        made: dict[str, Any] = {"lead": lead}
        if lead and last_id and lead == self._lead_of(last):
            made["lead"] = {"as": _of(last["lead"], "as") or last_id}
        talk = conversation_of(conversation.begun)
        turns = self._past(new, conversation.floor)
        start = window_start([*talk, *(message for _, said in turns for message in said)], new.history)
        if start < len(talk):
            holder = last_id if "kept" in last else _of(last.get("begun"), "of")
            made["begun"] = {"of": holder, "from": start}
            if not holder:
                made["kept"] = talk
        place = len(talk)
        references = []
        for turn, said in turns:
            first = max(0, start - place)
            if first < len(said):
                references.append([turn, first] if first else turn)
            place += len(said)
        if references:
            made["turns"] = references
        return dump(made)

    def _last(self, new: NewExecution, floor: int) -> tuple[int, dict[str, Any]]:
        """The newest execution of the conversation with its opening, if it is one that can be referred to."""
        row = self._db.one(
            "SELECT id, seed FROM executions WHERE agent = ? AND session_id IS ? AND parent_id IS NULL AND id > ?"
            " ORDER BY id DESC LIMIT 1",
            *(new.agent, new.session_id, floor),
        )
        stored = None if row is None else json.loads(row[1])
        return (row[0], stored) if isinstance(stored, dict) else (0, {})

    def _lead_of(self, stored: dict[str, Any]) -> _Messages:
        lead = stored["lead"]
        return self._part(lead["as"], "lead") if isinstance(lead, dict) else lead

    def _past(self, new: NewExecution, floor: int) -> list[tuple[int, _Messages]]:
        """The last turns with their messages, oldest first, as many as the window may need."""
        rows = self._db.all(
            "SELECT x.id FROM executions x WHERE x.agent = ? AND x.session_id IS ? AND x.parent_id IS NULL"
            f" AND x.end_seq IS NOT NULL AND +x.id > ? AND {LEFT_TRACES}"  # the plus keeps SQLite to the index by end
            " ORDER BY x.end_seq DESC LIMIT ?",
            *(new.agent, new.session_id, floor, new.history),
        )
        turns: list[tuple[int, _Messages]] = []
        count = 0
        for (turn,) in rows:
            if count >= new.history:
                break
            said = messages_of(self._db, [turn]).get(turn, [])
            turns.insert(0, (turn, said))
            count += len(said)
        return turns


def referred_to(stored: Any) -> set[int]:
    """The executions that an opening refers to."""
    if not isinstance(stored, dict):
        return set()
    turns = [turn if isinstance(turn, int) else turn[0] for turn in stored.get("turns", ())]
    return {*turns, _of(stored["lead"], "as"), _of(stored.get("begun"), "of")} - {0}


def message_count(db: Database, execution_id: int) -> int:
    """How many messages the execution has added to its conversation."""
    (count,) = db.one(f"SELECT count(*) FROM events WHERE execution_id = ? AND type IN ({_MESSAGES})", execution_id)
    return int(count)


def messages_of(db: Database, execution_ids: Sequence[int]) -> dict[int, _Messages]:
    """The messages of executions in conversation order, by execution; those that said nothing are left out."""
    rows = db.all(
        f"SELECT execution_id, key, data FROM events WHERE type IN ({_MESSAGES})"
        " AND execution_id IN (SELECT value FROM json_each(?))",
        json.dumps(list(execution_ids)),
    )
    events: dict[int, list[tuple[str, dict[str, Any]]]] = {}
    for execution_id, key, data in rows:
        events.setdefault(execution_id, []).append((key, json.loads(data)))
    return {execution_id: own_messages(found) for execution_id, found in events.items()}


def _of(reference: Any, name: str) -> int:
    return reference[name] if isinstance(reference, dict) else 0
