"""Copies of one ended execution, with its events and its thread, made in the two files at once: many would take long to run."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

__all__ = ["age", "copy_execution", "dump_executions", "thread_names"]

_DAY_S = 86_400
_OF_EXECUTION = ("events", "ledger", "calls")


def copy_execution(state_dir: Path, execution_id: int, count: int) -> None:
    """Adds `count` executions that are as this one in all but their numbers. It must have asked nothing."""
    with closing(sqlite3.connect(state_dir / "agentmd.db", timeout=30)) as store, store:
        (first,) = store.execute("SELECT max(id) + 1 FROM executions").fetchone()
        (created,) = store.execute("SELECT created_at FROM executions WHERE id = ?", (execution_id,)).fetchone()
        store.execute("CREATE TEMP TABLE numbers (n INTEGER)")
        store.executemany("INSERT INTO numbers VALUES (?)", [(first + n,) for n in range(count)])
        _copy(store, "executions", "id", execution_id, leave=())
        for table in _OF_EXECUTION:
            _copy(store, table, "execution_id", execution_id, leave=("seq",))
    with closing(sqlite3.connect(state_dir / "agentmd_checkpoints.db", timeout=30)) as file, file:
        for table in ("checkpoints", "writes"):
            columns = [row[1] for row in file.execute(f"PRAGMA table_info({table})")]
            rows = file.execute(
                f"SELECT * FROM {table} WHERE thread_id = ?", (f"{execution_id}@{created!r}",)
            ).fetchall()
            at = columns.index("thread_id")
            marks = ", ".join("?" * len(columns))
            file.executemany(
                f"INSERT INTO {table} VALUES ({marks})",
                ((*row[:at], f"{first + n}@{created!r}", *row[at + 1 :]) for n in range(count) for row in rows),
            )


def _copy(store: sqlite3.Connection, table: str, key: str, value: int, *, leave: tuple[str, ...]) -> None:
    columns = [row[1] for row in store.execute(f"PRAGMA table_info({table})") if row[1] not in leave]
    taken = ", ".join("numbers.n" if column == key else f"t.{column}" for column in columns)
    store.execute(
        f"INSERT INTO {table} ({', '.join(columns)}) SELECT {taken} FROM {table} t, numbers WHERE t.{key} = ?", (value,)
    )


def age(state_dir: Path, days: float) -> None:
    """Makes all that have ended older by so many days."""
    with closing(sqlite3.connect(state_dir / "agentmd.db", timeout=30)) as store, store:
        store.execute("UPDATE executions SET finished_at = finished_at - ?", (days * _DAY_S,))


def thread_names(state_dir: Path) -> set[str]:
    """The threads that are in the file of checkpoints; none if there is no file."""
    path = state_dir / "agentmd_checkpoints.db"
    if not path.exists():
        return set()
    with closing(sqlite3.connect(path, timeout=30)) as file:
        return {
            name
            for (name,) in file.execute(
                "SELECT thread_id FROM checkpoints UNION SELECT thread_id FROM writes"
            ).fetchall()
        }


def dump_executions(state_dir: Path, upto: int) -> list[tuple[object, ...]]:
    """All that is stored of the executions up to this number."""
    found: list[tuple[object, ...]] = []
    with closing(sqlite3.connect(state_dir / "agentmd.db", timeout=30)) as store:
        for table, key in (("executions", "id"), *((table, "execution_id") for table in _OF_EXECUTION)):
            found += store.execute(f"SELECT '{table}', * FROM {table} WHERE {key} <= ? ORDER BY 2, 3, 4", (upto,))
    return found
