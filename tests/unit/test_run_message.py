"""The message of `run`: a text, a file, or standard input; and whether there is something that nobody reads."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from agent_md.cli.commands.run_message import LARGEST, has_unread, message_of
from agent_md.errors import UsageError


@pytest.mark.parametrize(
    ("given", "message"), [(None, None), ("Hi", "Hi"), ("@@ann", "@ann"), ("@@", "@"), ("a@b", "a@b"), ("", "")]
)
def test_a_text_is_itself(tmp_path: Path, given: str | None, message: str | None) -> None:
    assert message_of(given, tmp_path) == message


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"one\ntwo\n", "one\ntwo"),
        (b"one\r\n", "one"),
        (b"one\n\n", "one\n"),
        ("\ufeffgrüße 🐙".encode(), "grüße 🐙"),
        (b"\x1b[31mred", "\x1b[31mred"),
        (b"x" * LARGEST, "x" * LARGEST),
    ],
)
def test_a_file_is_its_text_without_one_line_end(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "task.txt").write_bytes(data)
    assert message_of("@task.txt", tmp_path) == message
    assert message_of(f"@{tmp_path / 'task.txt'}", Path("/nowhere")) == message


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is empty"),
        (b" \n", "is empty"),
        (b"a\0b", "has a NUL byte in line 1"),
        (b"\xff\xd8\xff", "is not UTF-8"),
        ("text".encode("utf-16"), "is encoded as UTF-16"),
        (b"x" * (LARGEST + 1), "is larger than 8192 KiB"),
        (None, "does not exist"),
    ],
)
def test_a_file_that_cannot_be_a_message(tmp_path: Path, data: bytes | None, reason: str) -> None:
    if data is not None:
        (tmp_path / "task.txt").write_bytes(data)
    with pytest.raises(UsageError, match=f"the file task.txt {reason}.*; nothing was started.*@@") as caught:
        message_of("@task.txt", tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "reason"), [("", "is a folder"), (".", "is a folder"), ("x" * 5000, "cannot be read")]
)
def test_a_name_of_no_file(tmp_path: Path, name: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        message_of(f"@{name}", tmp_path)


def test_a_named_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="is a named pipe, not a file"):
        message_of("@pipe", tmp_path)


@pytest.mark.parametrize(("written", "unread"), [(b"", False), (b"x", True)])
@pytest.mark.parametrize("closed", [False, True])
def test_what_is_in_a_pipe_is_seen_and_left_there(written: bytes, unread: bool, closed: bool) -> None:
    read, write = os.pipe()
    os.write(write, written)
    if closed:
        os.close(write)
    with open(read) as source:
        assert has_unread(source) is unread
        assert has_unread(source) is unread
    if not closed:
        os.close(write)


def test_a_file_counts_until_somebody_began_to_read_it(tmp_path: Path) -> None:
    (tmp_path / "list").write_text("one\ntwo\n")
    with open(tmp_path / "list") as source:
        assert has_unread(source)
        os.lseek(source.fileno(), 4, os.SEEK_SET)  # a shell's loop has read a line
        assert not has_unread(source)


def test_nothing_is_in_what_is_empty_closed_or_a_device(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for name in (tmp_path / "empty", Path(os.devnull)):
        with open(name) as source:
            assert not has_unread(source)
    assert not has_unread(source)
