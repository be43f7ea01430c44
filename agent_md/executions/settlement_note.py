"""Validates the note of a settlement of a call that may have run."""

from __future__ import annotations

from agent_md.errors import UsageError

__all__ = ["LONGEST_NOTE", "checked_note"]

LONGEST_NOTE = 4000
"""Characters."""


def checked_note(text: str | None) -> str | None:
    """The note as it is kept; a blank one is none. Raises UsageError for one that is too long."""
    if text is None or not text.strip():
        return None
    note = text.strip().encode("utf-8", "backslashreplace").decode()  # an argument may hold bytes that are no text
    if len(note) > LONGEST_NOTE:
        raise UsageError(
            f"the note has {len(note):,} characters, at most {LONGEST_NOTE:,} are allowed; nothing was settled"
        )
    return note
