from __future__ import annotations

import enum
import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from agent_md.tools.results import one_line, result_text, storable


class Colour(enum.Enum):
    RED = "red"


@dataclass
class Point:
    x: int
    way: Path


class Model(BaseModel):
    at: datetime


class Hostile:
    def __str__(self) -> str:
        raise RuntimeError


class HostileList(list[int]):
    def __iter__(self) -> Any:
        raise RuntimeError


AT = datetime(2024, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is\n", "as it is\n"),
        ("", ""),
        (None, "null"),
        (True, "true"),
        (3, "3"),
        (1.5, "1.5"),
        (float("nan"), "nan"),
        ([1, "é", None], '[1, "é", null]'),
        ({"a": {1: (2, 3)}}, '{"a": {"1": [2, 3]}}'),
        (Path("/a/b"), "/a/b"),
        (AT, "2024-01-02T00:00:00+00:00"),
        ({"at": AT, "c": Colour.RED}, '{"at": "2024-01-02T00:00:00+00:00", "c": "red"}'),
        (b"text", "text"),
        (b"\xff\x00", "base64:/wA="),
        ({"b", "a"}, '["a", "b"]'),
        (Point(1, Path("p")), '{"x": 1, "way": "p"}'),
        (Model(at=AT), '{"at": "2024-01-02T00:00:00Z"}'),
        (Hostile(), "<Hostile>"),
        ([Hostile()], '["<Hostile>"]'),
        (Point, str(Point)),
        (Model, str(Model)),
    ],
)
def test_texts(value: Any, text: str) -> None:
    assert result_text(value) == text


def test_values_that_fight_back() -> None:
    cyclic: list[Any] = []
    cyclic.append(cyclic)
    for value in (cyclic, HostileList([1]), 10**5000, float("inf"), {Hostile(): float("inf")}):
        assert isinstance(result_text(value), str)


def test_what_no_database_takes_is_replaced() -> None:
    assert storable("a\0b\ud800c\ud83d\ude00d") == "a\0b\ufffdc\U0001f600d"
    assert result_text({"k": "\udfff"}) == json.dumps({"k": "\ufffd"}, ensure_ascii=False)


def test_one_line() -> None:
    assert one_line("a\n b\tc", 10) == "a b c"
    assert one_line("abc def ghi", 9) == "abc def…"
    assert one_line("abc s3cret-value", 10) == "abc…", "a part of a secret is not known as one"
