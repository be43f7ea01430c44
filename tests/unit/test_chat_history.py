"""The file that keeps the messages of chats, and what Tab completes in one."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from agent_md.cli.chat.completion import ChatCompleter
from agent_md.cli.chat.history import ChatHistory

FILE = "chat-history.jsonl"


def loaded(folder: Path) -> list[str]:
    """Newest first."""
    return list(ChatHistory(folder).load_history_strings())


def test_messages_come_back_newest_first_whatever_is_in_them(tmp_path: Path) -> None:
    texts = ["one", "two\nlines", "日本 \x1b[31m", "no \udce9 text"]
    for text in texts:
        ChatHistory(tmp_path).store_string(text)
    assert loaded(tmp_path) == texts[::-1]
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600


@pytest.mark.parametrize("text", ["", " \n", "x" * 70_000])
def test_blank_and_very_long_messages_are_not_kept(tmp_path: Path, text: str) -> None:
    ChatHistory(tmp_path).store_string(text)
    assert not (tmp_path / FILE).exists()


def test_lines_that_are_no_message_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / FILE).write_bytes(b'"one"\n\xff\xfe\n{"a": 1}\n[1\n5\n"two"\n"thr')
    assert loaded(tmp_path) == ["two", "one"]


def test_a_file_that_has_grown_too_large_keeps_the_newest(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("".join(f'"{number:>4000}"\n' for number in range(1100)))
    assert [int(text) for text in loaded(tmp_path)] == list(range(1099, 99, -1))
    assert (tmp_path / FILE).stat().st_size < 4_100_000
    assert len(loaded(tmp_path)) == 1000
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600


def test_a_link_in_its_place_is_neither_read_nor_written(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text('"secret"\n')
    (tmp_path / FILE).symlink_to(other)
    ChatHistory(tmp_path).store_string("mine")
    assert loaded(tmp_path) == []
    assert other.read_text() == '"secret"\n'


def test_without_a_state_folder_nothing_is_made(tmp_path: Path) -> None:
    ChatHistory(tmp_path / "none").store_string("one")
    assert loaded(tmp_path / "none") == []
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("may.csv", "more.csv", ".hidden", "bad\x1bname", "two words"):
        (tmp_path / name).touch()
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports/june.csv").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("/", ["/exit", "/help"]),
        ("/e", ["/exit"]),
        ("say /e", []),
        ("/e x", []),
        ("@", ["may.csv", "more.csv", "reports/"]),
        ("read @mo", ["more.csv"]),
        ("read @reports/", ["june.csv"]),
        ("read @../", []),
        ("read @reports/../", []),
        ("read @/", []),
        ("read @/etc/", []),
        ("read @none/", []),
        ("read @ ", []),
        ("mail a@m", []),
    ],
)
def test_what_tab_completes(folder: Path, typed: str, found: list[str]) -> None:
    completer = ChatCompleter(["/exit", "/help"], folder)
    assert [item.text for item in completer.get_completions(Document(typed), CompleteEvent())] == found


def test_files_are_completed_only_where_there_is_a_folder() -> None:
    assert list(ChatCompleter([], None).get_completions(Document("@"), CompleteEvent())) == []
