"""Structured questions as an agent gives them."""

from __future__ import annotations

from typing import Any

__all__ = ["DATABASE", "FEATURES", "option", "question"]


def option(label: str, description: str = "", **more: Any) -> dict[str, Any]:
    return {"label": label, "description": description, **more}


def question(text: str, *options: dict[str, Any], multi: bool = False, header: str = "Topic") -> dict[str, Any]:
    given = list(options) or [option("A", "First"), option("B", "Second")]
    return {"question": text, "header": header, "multiSelect": multi, "options": given}


DATABASE = question(
    "Which database?",
    option("SQLite", "One file", markdown="app.db\n  users"),
    option("Postgres", "A server"),
    header="Database",
)
FEATURES = question(
    "Which features?", option("Search"), option("Export", "As CSV"), option("Über"), multi=True, header="Features"
)
