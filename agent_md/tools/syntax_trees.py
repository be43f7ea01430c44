"""Syntax trees of Python source, parsed by one thread at a time."""

from __future__ import annotations

import ast
import threading
from contextlib import suppress

__all__ = ["syntax_tree"]

_ATTEMPTS = 20
_PARSING = threading.Lock()


def syntax_tree(source: str | bytes) -> ast.Module:
    """As `ast.parse`. Python 3.11 raises "AST constructor recursion depth mismatch" when two threads parse at once: our own
    take turns, and a parse that met another one, such as that of `traceback`, is made again."""
    with _PARSING:
        for _ in range(_ATTEMPTS):
            with suppress(SystemError):
                return ast.parse(source)
        return ast.parse(source)
