"""Tab completion in a chat: its commands, and file names after `@`."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from agent_md.visible_text import one_line

__all__ = ["ChatCompleter"]

_MOST = 500
"""Files of a folder that are looked at."""


class ChatCompleter(Completer):
    """Commands at the beginning of a message, and with a `folder` the files below it: `@reports/may.csv`.

    Hidden files and names that hold control or hidden characters are left out. Nothing is opened.
    """

    def __init__(self, commands: Sequence[str], folder: Path | None) -> None:
        self._commands = commands
        self._folder = folder

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        before = document.text_before_cursor
        if before.startswith("/") and not any(character.isspace() for character in before):
            return [Completion(name, -len(before)) for name in self._commands if name.startswith(before)]
        word = before.split()[-1] if before and not before[-1].isspace() else ""
        if self._folder is not None and word.startswith("@"):
            return sorted(self._files(word[1:]), key=lambda found: found.text)
        return []

    def _files(self, typed: str) -> Iterator[Completion]:
        parent, _, beginning = typed.rpartition("/")
        if self._folder is None or typed.startswith("/") or ".." in parent.split("/"):
            return
        try:
            with os.scandir(self._folder / parent) as entries:
                found = [(entry.name, entry.is_dir()) for entry in islice(entries, _MOST)]
        except OSError:
            return
        for name, is_folder in found:
            if name.startswith(beginning) and not name.startswith(".") and one_line(name) == name and " " not in name:
                yield Completion(name + "/" * is_folder, -len(beginning))
