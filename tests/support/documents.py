"""The project's documents, taken apart: fenced blocks, links, headings, inline code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["ROOT", "Block", "Document", "blocks", "documents", "reference"]

ROOT = Path(__file__).resolve().parents[2]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_NAMED = re.compile(r"# ([\w./-]+\.\w+)\n")
_AGENT = re.compile(r"---\nname: (\S+)\n")
_CODE = re.compile(r"`([^`\n]+)`")


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and where it begins."""

    document: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.document}:{self.line}"

    @property
    def first_line(self) -> str:
        return self.text.partition("\n")[0]

    @property
    def file(self) -> str | None:
        """The path of the file that the block is: an agent's, or that in a comment in its first line."""
        if self.language in ("console", "sh"):
            return None
        if self.language == "markdown":
            found = _AGENT.match(self.text)
            return f"agents/{found[1]}.md" if found else None
        found = _NAMED.match(self.text)
        return found[1] if found else None


@dataclass(frozen=True)
class Document:
    """One markdown file; `name` is its path from the root of the repository."""

    name: str
    text: str

    @property
    def path(self) -> Path:
        return ROOT / self.name

    def blocks(self) -> Iterator[Block]:
        for found in _FENCE.finditer(self.text):
            yield Block(self.name, self.text.count("\n", 0, found.start()) + 1, found[1], found[2])

    @property
    def prose(self) -> str:
        """The text without its fenced blocks."""
        return _FENCE.sub("", self.text)

    def links(self) -> list[str]:
        return _LINK.findall(self.prose)

    def anchors(self) -> set[str]:
        """The anchors of its headings, as GitHub makes them."""
        return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in _HEADING.findall(self.prose)}

    def code(self) -> list[str]:
        """What stands in backticks; a `|` in a table is written `\\|` there."""
        return [code.replace("\\|", "|") for code in _CODE.findall(self.prose)]


def documents() -> list[Document]:
    """Every document of the project, those of the root first."""
    paths = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
    return [Document(str(path.relative_to(ROOT)), path.read_text(encoding="utf-8")) for path in paths]


def blocks(language: str) -> list[Block]:
    """Every fenced block of a language."""
    return [block for document in documents() for block in document.blocks() if block.language == language]


def reference() -> list[Document]:
    """The documents of docs/, decisions left out."""
    return [document for document in documents() if re.fullmatch(r"docs/[^/]+\.md", document.name)]
