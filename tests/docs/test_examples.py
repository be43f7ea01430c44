"""No example of the documents is only looked at: each is typed, written, loaded or compared by a test, or says why not."""

from __future__ import annotations

import re

import pytest

from tests.support.documents import ROOT, Block, Document, documents
from tests.support.examples import BEFORE, EXIT_CODES, NOT_WALKED, UNTIL, walked
from tests.support.walks import typed

DOCUMENTS = documents()
TESTS = {
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^ *(?:async )?def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE)
}


def unproved(document: Document) -> list[Block]:
    """The blocks that nothing tries, and that do not say why."""
    walking = list(walked(document))
    found: list[Block] = []
    before: Block | None = None
    for block in document.blocks():
        listed = (document.name, block.first_line) in NOT_WALKED
        loaded = block.language == "yaml"  # by test_yaml_is_a_whole_file_or_fields_of_an_agent_file
        compared = block.language in ("", "json") and before is not None and not typed(before)[-1].printed
        if not (listed or loaded or compared or block in walking):
            found.append(block)
        before = block if block in walking and block.language in ("console", "sh") else None
    return found


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: document.name)
def test_every_block_is_tried(document: Document) -> None:
    assert [f"{block}: {block.first_line}" for block in unproved(document)] == []


def test_a_block_that_nothing_tries_is_found() -> None:
    text = (
        "```console\n$ true\n```\n```json\n{}\n```\n```\nwho says so?\n```\n```python\n1 / 0\n```\n```sh\nfalse\n```\n"
    )
    assert [block.first_line for block in unproved(Document("x.md", text))] == ["who says so?", "1 / 0"]


@pytest.mark.parametrize("entry", NOT_WALKED, ids=" ".join)
def test_what_is_not_walked_is_there_once_and_tried_as_it_says(entry: tuple[str, str]) -> None:
    there = [block for d in DOCUMENTS for block in d.blocks() if (d.name, block.first_line) == entry]
    assert len(there) == 1
    assert set(re.findall(r"test_\w+", NOT_WALKED[entry])) <= TESTS


def test_what_is_told_of_commands_is_told_of_commands_that_are_there() -> None:
    commands = {
        (d.name, step.command) for d in DOCUMENTS for block in walked(d) if not block.file for step in typed(block)
    }
    assert EXIT_CODES.keys() | UNTIL.keys() <= commands
    assert BEFORE.keys() <= {name for name, _ in commands} | {d.name for d in DOCUMENTS if any(walked(d))}
