"""Every page of the documents, walked from its top to its bottom: commands do and print what the page says."""

from __future__ import annotations

import re
import shutil
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import agent_md.api.server  # noqa: F401 - so that forks have it
from tests.support.documents import Document, documents
from tests.support.examples import EXIT_CODES, walked
from tests.support.shell import Shell
from tests.support.trusting import UNTRUSTED
from tests.support.walks import Said, same, walk

PAGES = [document for document in documents() if any(walked(document))]
KEYS = {"GOOGLE_API_KEY": "a-key", "OPENAI_API_KEY": "a-key"}
"""For agent files that name hosted models: they are checked, and nothing asks these models."""
ORDINARY = (
    *("README.md", "docs/agent-file.md", "docs/cli.md", "docs/grants.md", "docs/human-in-the-loop.md", "docs/tools.md"),
    *("docs/python.md", "docs/schedules.md", "docs/sub-agents.md", "docs/trust.md"),
)
"""Pages that are walked in the ordinary run; `-m stress` walks the others."""
AS_NEWCOMERS = ("README.md", "docs/trust.md")
"""Pages that are walked by somebody who has trusted nothing yet."""


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder whose path is short enough for a socket in it."""
    folder = Path(tempfile.mkdtemp(prefix="page-"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def shell(home: Path, page: Document) -> Iterator[Shell]:
    made = Shell(home, KEYS | (UNTRUSTED if page.name in AS_NEWCOMERS else {}))
    yield made
    made("agentmd -w garden stop", home)
    made.close()


def with_free_port(document: Document) -> Document:
    """The page with another port in the place of 9000, which somebody may use here."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    return replace(document, text=re.sub(r"\b9000\b", str(port), document.text))


WALKED = [pytest.param(page, id=page.name, marks=() if page.name in ORDINARY else pytest.mark.stress) for page in PAGES]


@pytest.mark.parametrize("page", WALKED)
def test_a_page_can_be_walked(page: Document, shell: Shell, home: Path) -> None:
    workspace, kept = home / "garden", home / "kept"
    workspace.mkdir()
    kept.mkdir()
    masks = {str(workspace): "/home/ann/garden", str(shell.home): "/home/ann"}

    for said in walk(with_free_port(page), shell, workspace, kept):
        check(page, said, masks)

    shell(f"agentmd -w . validate > {kept}/validated 2>&1; echo $? >> {kept}/validated", workspace)
    assert (kept / "validated").read_text().endswith("\n0\n"), (kept / "validated").read_text()


def check(page: Document, said: Said, masks: dict[str, str]) -> None:
    command, shown = said.typed.command, said.typed.printed
    told = f"{said.typed.block}: {command}\nended with {said.code} and printed:\n{said.output}"
    assert said.code == EXIT_CODES.get((page.name, command), 0), told
    assert not shown or same(shown, said.output, masks), f"{told}\nwhere the page shows:\n{shown}"
