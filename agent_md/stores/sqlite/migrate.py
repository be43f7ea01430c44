"""The format of the database: recognises our files, and migrates them to the newest format."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from importlib import resources
from pathlib import Path

from agent_md.errors import StoreForeign, StoreNewer
from agent_md.stores.sqlite.file import begin, error_name, peek

__all__ = ["APPLICATION_ID", "migrate", "migrations", "refuse_unknown"]

APPLICATION_ID = 0x61676D64
"""Marks the file as agentmd's: "agmd" in ASCII."""


def migrations() -> list[str]:
    """The scripts that make each format from the one before; format 1 is made from an empty file."""
    folder = resources.files("agent_md.stores.sqlite") / "migrations"
    files = sorted((f for f in folder.iterdir() if f.name.endswith(".sql")), key=lambda f: f.name)
    return [f.read_text(encoding="utf-8") for f in files]


def refuse_unknown(path: Path, newest: int, *, mode: str) -> int:
    """Gives the format of the file, 0 for an empty one. Raises StoreForeign or StoreNewer, the file untouched."""
    try:
        owner, tables, version = peek(path, _identity, mode)
    except sqlite3.DatabaseError as error:
        if error_name(error) != "SQLITE_NOTADB":
            raise
        raise StoreForeign(
            f"{path} is not a SQLite database; it was left untouched. "
            "Move it away, or set `database` in config.yaml to another file"
        ) from None
    if owner != APPLICATION_ID and (tables or owner):
        raise StoreForeign(
            f"{path} is a database of another program; it was left untouched. "
            "Set `database` in config.yaml to another file"
        )
    if version > newest:
        raise StoreNewer(
            f"{path} was written by a newer agentmd (format {version}, this one knows {newest}); "
            "it was left untouched. Upgrade agentmd"
        )
    return version


def _identity(connection: sqlite3.Connection) -> tuple[int, int, int]:
    connection.execute("BEGIN")  # one snapshot: another process may be making the schema right now
    (owner,) = connection.execute("PRAGMA application_id").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
    return owner, tables, _version(connection)


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(connection: sqlite3.Connection, scripts: Sequence[str]) -> None:
    """Brings the database to the newest format in one transaction; whoever comes second finds it done."""
    if _version(connection) >= len(scripts):
        return
    begin(connection)
    try:
        for number in range(_version(connection) + 1, len(scripts) + 1):
            for statement in _statements(scripts[number - 1]):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version={number}")
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _statements(script: str) -> Iterator[str]:
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
