"""The text of a memory file: sections of Markdown, read and changed one at a time, everything else kept as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["LONGEST_NAME", "MemoryText"]

LONGEST_NAME = 200
"""Most characters of a section's name."""

_HEADING = re.compile(r"^##[ \t]+(.*?)[ \t]*$")
_LIKE_HEADING = re.compile(r"^(\\*)(##[ \t])")
_ESCAPED = re.compile(r"^\\(\\*##[ \t])")


class MemoryText:
    """A memory: `## NAME` begins the section of that name, which is compared letter by letter.

    A line of a section's content that looks like a heading has a backslash before it in the file. What precedes the
    first section is a person's, and is kept. Of sections with equal names, which a person may write, the first counts.
    """

    def __init__(self, text: str) -> None:
        self._before: list[str] = []
        self._sections: list[tuple[str, list[str]]] = []
        for line in text.splitlines():
            heading = _HEADING.match(line)
            if heading is not None:
                self._sections.append((heading[1], []))
            elif self._sections:
                self._sections[-1][1].append(_ESCAPED.sub(r"\1", line))
            else:
                self._before.append(line)

    def names(self) -> list[str]:
        """The names of the sections, in the order of the file."""
        return list(dict.fromkeys(name for name, _ in self._sections))

    def section(self, name: str) -> str | None:
        """The content, without blank lines around it; None if there is no such section."""
        lines = next((lines for found, lines in self._sections if found == name), None)
        return None if lines is None else "\n".join(lines).strip("\n")

    def save(self, name: str, content: str) -> None:
        """Replaces the content of a section; adds the section at the end if it is not there. Blank content removes it."""
        lines = content.strip("\n").splitlines()
        at = next((at for at, (found, _) in enumerate(self._sections) if found == name), None)
        if not content.strip():
            self._sections = [section for section in self._sections if section[0] != name]
        elif at is None:
            self._sections.append((name, lines))
        else:
            self._sections[at] = (name, lines)

    def append(self, name: str, content: str) -> None:
        """Adds lines at the end of a section."""
        present = self.section(name)
        self.save(name, content if not present else f"{present}\n{content}")

    def __str__(self) -> str:
        return "\n".join(self._lines()).strip("\n") + "\n"

    def _lines(self) -> Iterator[str]:
        yield from "\n".join(self._before).rstrip("\n").splitlines()
        for name, lines in self._sections:
            yield from ("", f"## {name}", "")
            yield from (_LIKE_HEADING.sub(r"\1\\\2", line) for line in "\n".join(lines).strip("\n").splitlines())
