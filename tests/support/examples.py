"""What the walks of the documents need to know of single blocks and commands; each entry is by page and first line."""

from __future__ import annotations

from collections.abc import Iterator

from tests.support.documents import Block, Document

__all__ = ["BEFORE", "EXIT_CODES", "NOT_WALKED", "UNTIL", "left_out", "walked"]

NOT_WALKED: dict[tuple[str, str], str] = {
    (
        "ARCHITECTURE.md",
        "agent file ─▶ AgentSpec ─▶ LangGraph graph ─▶ the one loop ─▶ stored events ─▶ command line, HTTP",
    ): ("a picture"),
    (
        "README.md",
        "$ make demo     # an agent that pauses twice: you are asked; without a terminal, other processes answer",
    ): (
        "one of them runs this; the other: test_on_a_terminal_the_person_is_asked_also_after_a_run_that_was_left_waiting"
    ),
    ("README.md", "$ agentmd run cleaner"): ("it needs a terminal: test_the_session_of_the_readme_is_a_real_one"),
    (
        "README.md",
        "$ pip install .             # into a Python environment of yours, also to use it as a library",
    ): "it needs the network: it was tried by hand, each of the three",
    ("README.md", "$ pip install '.[openai,anthropic]'"): "the same",
    (
        "README.md",
        "$ agentmd chat helper --session garden",
    ): "it needs a terminal: test_the_chat_of_the_page_is_a_real_one",
    ("docs/human-in-the-loop.md", "? Confirm file_write code.py (80 lines, new) [y/N]: n not without tests"): (
        "it needs a terminal: test_a_long_text_is_named_by_its_size_shown_once_and_edited"
    ),
    ("docs/chat.md", "$ agentmd chat keeper"): "it needs a terminal: test_the_chat_of_the_page_is_a_real_one",
    ("docs/cli.md", "$ agentmd logs --cost --by model"): "its numbers are those of a workspace in use: "
    "test_the_table_of_the_page_is_a_real_one",
    ("docs/durability.md", "$ agentmd checkpoint --purge"): "its numbers are those of a workspace in use: "
    "test_what_a_purge_removes_and_says",
    ("docs/durability.md", "import os"): "test_a_copy_is_made_while_an_execution_waits_and_is_put_back",
    (
        "docs/models.md",
        "google/gemini-2.5-flash could not answer after 4 attempts: 503 UNAVAILABLE: The model is overloaded.",
    ): ("it needs a provider that fails: test_the_last_attempt_says_what_failed"),
    (
        "docs/agent-file.md",
        "Files are reached below these names only:",
    ): "no command prints it: test_paths_stand_before_the_day_by_alias_with_mode_and_description",
    ("docs/unattended.md", "$ agentmd service install"): (
        "it needs a systemd: test_installed_it_runs_and_removed_it_does_not"
    ),
    ("docs/unattended.md", "$ agentmd service print"): "test_the_unit_of_the_page_is_the_printed_one",
    ("docs/tools.md", "["): "test_the_questions_of_the_page_can_be_asked",
    ("docs/chat.md", "$ agentmd chat --url http://127.0.0.1:8000/agents/keeper"): (
        "it needs a terminal and a server on TCP: test_a_chat_from_its_first_line_to_its_last"
    ),
}
"""Blocks that no walk types or compares, and why; a `test_…` in the reason is one that does."""

BEFORE: dict[str, str] = {
    "docs/configuration.md": "agentmd new helper",
    "docs/models.md": "agentmd new cleaner --script",
    "docs/cli.md": "agentmd new helper --script; agentmd run helper; agentmd respond 1 --yes; mkdir -p ~/.config/fish/completions",
    "docs/durability.md": "agentmd new helper --script; agentmd run helper; agentmd respond 1 --yes --no-wait",
}
"""What a page takes for granted."""

EXIT_CODES: dict[tuple[str, str], int] = {
    ("README.md", "agentmd run helper"): 3,
    ("docs/human-in-the-loop.md", "agentmd run reporter"): 3,
    ("docs/human-in-the-loop.md", "agentmd run architect"): 3,
    ("docs/human-in-the-loop.md", "agentmd run publisher"): 3,
    ("docs/human-in-the-loop.md", "agentmd respond 3 --choice website"): 3,
    ("docs/human-in-the-loop.md", 'agentmd respond 3 --text "June in short"'): 3,
    ("docs/human-in-the-loop.md", "agentmd respond 3 --yes"): 3,
    ("docs/human-in-the-loop.md", "agentmd run sweeper"): 3,
    ("docs/human-in-the-loop.md", 'agentmd respond 4 --request 4-0.1 --no --reason "not before Friday"'): 3,
    ("docs/human-in-the-loop.md", "agentmd run sweeper --on-ask fail --fresh"): 4,
    ("docs/grants.md", "agentmd run tidier"): 3,
    ("docs/sub-agents.md", "agentmd run coordinator"): 3,
    ("docs/http-request.md", "agentmd run poster"): 3,
    ("docs/tools.md", "agentmd run publisher"): 3,
    ("docs/mcp.md", "agentmd run keeper"): 3,
    ("docs/trust.md", "agentmd trust"): 2,
}
"""Commands that do not end with 0 where there is no terminal."""

UNTIL: dict[tuple[str, str], str] = {
    ("README.md", "agentmd run -d helper"): "agentmd pending | grep -q helper",
    ("docs/watches.md", "mkdir inbox && echo hello > inbox/letter.txt"): "agentmd logs | grep -q success",
    ("docs/webhooks.md", "agentmd run teller"): "test -s received.txt",
}
"""What has to be so before the next command is typed: a person takes longer than that."""


def left_out(page: str) -> frozenset[str]:
    """The first lines of the blocks of a page that are not walked."""
    return frozenset(line for name, line in NOT_WALKED if name == page)


def walked(document: Document) -> Iterator[Block]:
    """The blocks of a page that its walk types, or writes as files."""
    for block in document.blocks():
        if block.first_line not in left_out(document.name) and (block.language in ("console", "sh") or block.file):
            yield block
