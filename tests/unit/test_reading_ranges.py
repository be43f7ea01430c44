"""`file_read` reaches every byte of a text file, and each of its hints says exactly where to read on."""

from __future__ import annotations

import re
from io import BufferedReader
from pathlib import Path

import pytest

from agent_md.errors import InvalidArguments, ToolError
from agent_md.tools.bounded_read import RESULT_LIMIT, Reading
from agent_md.tools.files import FileRead
from tests.support.file_sandbox import make_workspace, sandbox_on

_BYTE = re.compile(r"byte=(\d+)")
_OFFSET = re.compile(r"offset=(\d+)")


def opened(path: Path) -> BufferedReader:
    return path.open("rb")


def from_byte(path: Path, byte: int, count: int = 2000) -> str:
    with opened(path) as file:
        return Reading(path.name, file, count).from_byte(byte)


def from_line(path: Path, line: int, count: int = 2000) -> str:
    with opened(path) as file:
        return Reading(path.name, file, count).from_line(line, numbered=False)


def read_by_bytes(path: Path) -> str:
    """The whole file as somebody reads it who follows the hints."""
    whole, byte = "", 1
    while True:
        text = from_byte(path, byte)
        if (
            note := re.search(r"\n?\[Bytes (\d+) to (\d+) of (\d+) are shown: read further with byte=(\d+)\.\]\Z", text)
        ) is None:
            return whole + text
        shown, end, size, following = (int(group) for group in note.groups())
        assert shown == byte
        assert following == end + 1
        assert size == path.stat().st_size
        body = text[: note.start()]
        if len(body.encode()) < end - shown + 1:
            body += "\n"  # the hint stands behind the line end of the text itself
        assert len(body.encode()) == end - shown + 1 <= RESULT_LIMIT
        whole, byte = whole + body, following


@pytest.mark.parametrize("unit", ["x", "ä", "€", "🙂", "x🙂ä\n"], ids=["1", "2", "3", "4", "mixed"])
def test_one_line_of_600_kb_is_read_to_its_end(tmp_path: Path, unit: str) -> None:
    path = tmp_path / "long.txt"
    content = "a" + unit * (600_000 // len(unit.encode()))
    path.write_text(content)
    assert read_by_bytes(path) == content


def test_the_hint_of_a_cut_line_leads_to_its_rest_and_to_the_next_line(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    line = "ä" * 300_000
    path.write_text(f"first\n{line}\nlast\n")
    assert from_line(path, 1).endswith("\n[The file goes on: read further with offset=2.]")
    text = from_line(path, 2)
    shown = text.partition("\n[Line 2 has 600001 bytes; its first 131072 are shown.]")[0]
    (byte,), (offset,) = _BYTE.findall(text), _OFFSET.findall(text)
    assert line.startswith(shown)
    assert from_line(path, int(offset)) == "last\n"
    rest = from_byte(path, int(byte))
    assert line.startswith(shown + rest.partition("\n[Bytes")[0])


def test_behind_a_cut_last_line_no_further_line_is_promised(tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_text("x" * 600_000 + "\n")
    assert from_line(path, 1).endswith("\n[Read on in it with byte=131073.]")


def test_a_byte_within_a_character_gives_the_whole_character(tmp_path: Path) -> None:
    path = tmp_path / "signs.txt"
    path.write_text("a🙂b")
    assert [from_byte(path, byte) for byte in range(1, 7)] == ["a🙂b", "🙂b", "🙂b", "🙂b", "🙂b", "b"]
    assert from_byte(path, 7) == "[The file has only 6 bytes.]"


def test_lines_are_counted_from_a_byte_too(tmp_path: Path) -> None:
    path = tmp_path / "lines.txt"
    path.write_text("one\ntwo\nthree\n")
    assert from_byte(path, 5, count=1) == "two\n[Bytes 5 to 8 of 14 are shown: read further with byte=9.]"
    assert from_byte(path, 9, count=1) == "three\n"


def test_what_lies_behind_the_counted_lines_is_reached_by_its_byte(tmp_path: Path) -> None:
    path = tmp_path / "giant.txt"
    with path.open("wb") as file:
        file.write(b"x" * (64 * 1024 * 1024 + 10) + b"\nend\n")
    with pytest.raises(ToolError, match="counted within its first 67108864 bytes") as refused:
        from_line(path, 2)
    (byte,) = _BYTE.findall(str(refused.value))
    assert from_byte(path, int(byte)) == "end\n"
    assert from_line(path, 1).endswith("\n[Read on in it with byte=131073, or behind it with byte=67108876.]")


def test_a_byte_goes_without_lines(tmp_path: Path) -> None:
    tool = FileRead(sandbox_on(make_workspace(tmp_path)))
    assert tool.validate({"path": "notes.txt", "byte": 3.0}) == {"path": "notes.txt", "byte": 3}
    with pytest.raises(InvalidArguments, match=r"offset: goes without byte; with_line_numbers: goes without byte"):
        tool.validate({"path": "notes.txt", "byte": 1, "offset": 2, "with_line_numbers": True})
