"""Searches regular expressions of others with a time limit, without blocking other threads."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

import regex  # type: ignore[import-untyped] # it has no types

from agent_md.errors import UsageError

__all__ = ["LONGEST_PATTERN", "PatternTooSlow", "TextPattern"]

LONGEST_PATTERN = 1000
_SEARCH_S = 0.5
"""Of computing, for one search."""


class PatternTooSlow(UsageError):
    """A search took longer than any that is of use."""


@dataclass(frozen=True, slots=True)
class TextPattern:
    """A regular expression in Python's syntax. Equal texts are equal patterns."""

    pattern: str
    _compiled: Any = field(compare=False, repr=False)

    @classmethod
    def of(cls, text: str) -> TextPattern:
        """Raises ValueError, saying why, for a text that is none, or that is too long."""
        if len(text) > LONGEST_PATTERN:
            raise ValueError(f"it has {len(text)} characters, and at most {LONGEST_PATTERN} are read")
        try:
            re.compile(text)  # whose syntax is documented, and whose messages are known
            return cls(text, regex.compile(text))
        except (re.error, regex.error, OverflowError) as error:
            raise ValueError(str(error)) from None
        except RecursionError:
            raise ValueError("it is nested too deeply") from None

    def found_in(self, text: str) -> bool:
        """Whether it is found anywhere in the text. Raises PatternTooSlow. Other threads run meanwhile."""
        try:
            return self._compiled.search(text, timeout=_SEARCH_S, concurrent=True) is not None
        except TimeoutError:
            raise PatternTooSlow(f"{self.pattern!r} takes too long to be searched for; write it simpler") from None
        except (RecursionError, MemoryError):
            raise PatternTooSlow(f"{self.pattern!r} needs too much memory; write it simpler") from None
