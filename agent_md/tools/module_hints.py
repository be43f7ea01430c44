"""Hints for common errors in tool modules and in `tools`. Reads sources, runs nothing."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from agent_md.tools.builtin import BUILTIN_NAMES
from agent_md.tools.syntax_trees import syntax_tree

if TYPE_CHECKING:
    from langchain_core.tools import BaseTool

    from agent_md.tools.tool_modules import Source

__all__ = ["asks_for_sandbox", "awaited_requests", "instead_of", "never_made"]

_REQUESTS = ("interrupt", "request_choice", "request_confirmation", "request_input", "request_questions")
_SDK = "agent_md.sdk"
_LARGEST = 1 << 20
"""Bytes of a module that is looked through for the name of a tool."""


def instead_of(name: str, modules: Sequence[str], folder: Path) -> str | None:
    """What to write instead of `name` in `tools: [modules]`, if it is the name of a tool and of no module."""
    others = [other for other in modules if other != name]
    if name in BUILTIN_NAMES:
        return f"tools: {name} is a built-in tool, which every agent has; {_line(others)}"
    module = next((path.stem for path in sorted(folder.glob("*.py")) if name in _tool_names(path)), None)
    if module is None:
        return None
    return f"tools: names modules, and {name} is a tool of {folder / module}.py; {_line([*others, module])}"


def _line(modules: Sequence[str]) -> str:
    return f"write tools: [{', '.join(dict.fromkeys(modules))}]" if modules else "remove the line"


def _tool_names(path: Path) -> set[str]:
    """The names that a module seems to give its tools."""
    try:
        if path.stat().st_size > _LARGEST:
            return set()
        tree = syntax_tree(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return set()
    return {name for node in ast.walk(tree) for name in _named_by(node)}


def _named_by(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) if node.decorator_list:
            yield name
        case ast.Call(func=ast.Name(id="tool"), args=[ast.Constant(value=str(name)), *_]):
            yield name
        case ast.keyword(arg="name", value=ast.Constant(value=str(name))):
            yield name
        case ast.AnnAssign(target=ast.Name(id="name"), value=ast.Constant(value=str(name))):
            yield name


def never_made(module: ModuleType, tools: Sequence[BaseTool]) -> list[str]:
    """Of each tool class of a module of which there is no tool: what to write."""
    from langchain_core.tools import BaseTool

    own = [
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, BaseTool) and value.__module__ == module.__name__
    ]
    return [
        f"{made.__name__} is a tool class, and no tool is made of it; write below it: {_variable(made)} = {made.__name__}()"
        for made in own
        if not inspect.isabstract(made)
        and not any(isinstance(tool, made) for tool in tools)
        and not any(other is not made and issubclass(other, made) for other in own)
    ]


def _variable(made: type) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", made.__name__).lower()


def awaited_requests(source: bytes) -> list[tuple[int, str]]:
    """Requests of the SDK that a module awaits, which gives an error after the human has answered: lines and names."""
    try:
        tree = syntax_tree(source)
    except (SyntaxError, ValueError, RecursionError):  # told by who imports it
        return []
    nodes = list(ast.walk(tree))
    names = {
        alias.asname or alias.name: alias.name
        for node in nodes
        if isinstance(node, ast.ImportFrom) and node.module == _SDK
        for alias in node.names
        if alias.name in _REQUESTS
    }
    return [
        (node.lineno, name)
        for node in nodes
        if isinstance(node, ast.Await)
        and isinstance(node.value, ast.Call)
        and (name := _request(node.value.func, names))
    ]


def _request(function: ast.expr, names: dict[str, str]) -> str | None:
    match function:
        case ast.Name(id=name):
            return names.get(name)
        case ast.Attribute(attr=name) if name in _REQUESTS and "sdk" in ast.unparse(function.value):
            return name
        case _:
            return None


def asks_for_sandbox(source: Source) -> bool:
    """Whether a module, or one of the folder that it imports, declares `tool_options(sandbox=True)`: it is not imported
    then to find out."""
    return any(_declares_sandbox(file.data) for file in source.files.values())


@lru_cache(maxsize=512)
def _declares_sandbox(data: bytes) -> bool:
    try:
        tree = syntax_tree(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    names = {"tool_options"}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names |= {alias.asname for alias in node.names if alias.name == "tool_options" and alias.asname}
    return any(
        isinstance(node, ast.Call)
        and (getattr(node.func, "attr", None) or getattr(node.func, "id", None)) in names
        and any(given.arg == "sandbox" and not _is_false(given.value) for given in node.keywords)
        for node in ast.walk(tree)
    )


def _is_false(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is False
