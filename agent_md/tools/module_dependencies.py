"""Finds the modules of the tools folder that a module imports, without running it."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from agent_md.tools.syntax_trees import syntax_tree

__all__ = ["Imports", "belongs_to_folder", "imports_of", "parents"]

_LOADERS = frozenset({"imp", "importlib", "pkgutil", "runpy", "zipimport"})
_HARMLESS = frozenset({"metadata", "resources"})
"""Parts of importlib that load no modules."""
_RUNS_CODE = frozenset({"__import__", "compile", "eval", "exec"})
_IMPORT_STATE = frozenset({"meta_path", "modules", "path", "path_hooks"})
"""Attributes of `sys` by which a module changes what is imported."""


@dataclass(frozen=True, slots=True)
class Imports:
    """The imports of a source, as dotted names relative to the tools folder; a name need not be a module there.

    `packages` are imported completely (`import *`). `hidden`: the source may load code dynamically."""

    modules: tuple[str, ...] = ()
    packages: tuple[str, ...] = ()
    hidden: bool = False


def belongs_to_folder(top: str, importer: str) -> bool:
    """Whether `import top` means a file of the tools folder, if there is one: not for names of the standard library, nor
    in the module of this name itself, which wraps an installed package."""
    return top not in sys.stdlib_module_names and top != importer


@lru_cache(maxsize=512)
def imports_of(data: bytes, module: str, *, is_package: bool) -> Imports:
    """The imports of the module with this source and dotted name; none if it does not compile."""
    try:
        tree = syntax_tree(data)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return Imports()
    package = module if is_package else module.rpartition(".")[0]
    importer = "" if is_package or package else module
    modules: set[str] = set()
    packages: set[str] = set()
    hidden = False
    for node in ast.walk(tree):
        hidden = hidden or _loads_code(node)
        if isinstance(node, ast.Import):
            modules.update(alias.name for alias in node.names if _of_folder(alias.name, importer))
        elif isinstance(node, ast.ImportFrom) and (base := _base(node, package, importer)) is not None:
            modules.update(_joined(base, alias.name) for alias in node.names)
            packages.update(base for alias in node.names if alias.name == "*")
    return Imports(tuple(sorted(modules)), tuple(sorted(packages)), hidden)


def _of_folder(name: str, importer: str) -> bool:
    return belongs_to_folder(name.partition(".")[0], importer)


def _base(node: ast.ImportFrom, package: str, importer: str) -> str | None:
    """The module that names are imported from, "" for the tools folder itself; None for one that is not in it."""
    if node.level == 0:
        return node.module if node.module and _of_folder(node.module, importer) else None
    parts = package.split(".") if package else []
    up = node.level - 1
    if up > len(parts):
        return None  # beyond the folder: it fails when it is imported
    return ".".join([*parts[: len(parts) - up], *filter(None, [node.module])])


def _joined(base: str, name: str) -> str:
    return base if name == "*" else f"{base}.{name}" if base else name


def _loads_code(node: ast.AST) -> bool:
    match node:
        case ast.Import(names=names):
            return any(_is_loader(alias.name) for alias in names)
        case ast.ImportFrom(module=str(module), names=names, level=0):
            imported = [f"{module}.{alias.name}" for alias in names]
            return any(_is_loader(name) for name in imported) or (
                module == "sys" and any(alias.name in _IMPORT_STATE for alias in names)
            )
        case ast.Name(id=name):
            return name in _RUNS_CODE
        case ast.Attribute(value=ast.Name(id="sys"), attr=attribute):
            return attribute in _IMPORT_STATE
    return False


def _is_loader(name: str) -> bool:
    top, _, rest = name.partition(".")
    return top in _LOADERS and rest.partition(".")[0] not in _HARMLESS


def parents(module: str) -> Iterator[str]:
    """The packages that a module is in, outermost first."""
    parts = module.split(".")
    return (".".join(parts[:end]) for end in range(1, len(parts)))
