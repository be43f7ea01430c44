"""Keeps the last loadable version of tool modules while the current one is invalid, in a server."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

from agent_md.tools.results import one_line
from agent_md.tools.tool_modules import ModuleUnusable, Source, ToolModule

__all__ = ["LastGoodModules", "read_source"]


@dataclass(frozen=True, slots=True)
class _Refused:
    digest: str
    mistake: str


class LastGoodModules:
    """Remembers the source of each tool module that could be loaded."""

    def __init__(self) -> None:
        self.version = 0
        """Changes whenever a source was found to be good or broken."""
        self._good: dict[ToolModule, Source] = {}
        self._refused: dict[ToolModule, _Refused] = {}

    def accept(self, module: ToolModule, source: Source) -> None:
        """Notes that this source could be loaded."""
        refused = self._refused.get(module)
        mended = refused is not None and refused.digest == source.digest
        self.version += mended or self._good.get(module) != source
        self._good[module] = source
        if mended:
            del self._refused[module]

    def refuse(self, module: ToolModule, source: Source, mistake: str) -> bool:
        """Notes that this source is of no use. True if an earlier one is used in its place from now on."""
        self.version += 1
        self._refused[module] = _Refused(source.digest, mistake)
        return self._earlier(module, source) is not None

    def read(self, module: ToolModule) -> Source:
        """The source as it is on disk, or the last one that could be loaded if that on disk is known to be broken.
        Raises ModuleUnusable as `ToolModule.read` does: a module that was deleted is not kept."""
        try:
            source = module.read()
        except ModuleUnusable:
            self._good.pop(module, None)
            raise
        earlier = self._earlier(module, source)
        return source if earlier is None or self.mistake(module, source) is None else earlier

    def mistake(self, module: ToolModule, source: Source) -> str | None:
        """What is known to be wrong with a source; nothing of it is run to find out."""
        known = self._refused.get(module)
        if known is not None and known.digest == source.digest:
            return known.mistake
        mistake = _syntax_error(source)
        if mistake is not None:
            self._refused[module] = _Refused(source.digest, mistake)
        return mistake

    def _earlier(self, module: ToolModule, source: Source) -> Source | None:
        good = self._good.get(module)
        return None if good is None or good.digest == source.digest else good


def read_source(module: ToolModule, kept: LastGoodModules | None) -> Source:
    """The source of a module as it is used now. Raises ModuleUnusable."""
    return module.read() if kept is None else kept.read(module)


def _syntax_error(source: Source) -> str | None:
    for file in source.files.values():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                compile(file.data, str(file.path), "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = getattr(error, "lineno", None)
            place = f"{file.path}, line {line}" if line else str(file.path)
            text = error.msg if isinstance(error, SyntaxError) else str(error)
            return f"{place}: {one_line(f'{type(error).__name__}: {text}', 500)}"
    return None
