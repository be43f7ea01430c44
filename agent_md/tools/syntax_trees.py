"""Syntax trees of Python source, parsed by one thread at a time."""

from __future__ import annotations

import ast
import threading

__all__ = ["syntax_tree"]

_PARSING = threading.Lock()


def syntax_tree(source: str | bytes) -> ast.Module:
    """As `ast.parse`. Python 3.11 raises "AST constructor recursion depth mismatch" when two threads parse at once."""
    with _PARSING:
        return ast.parse(source)
