"""What the model is told of an answer has no part of a secret, wherever it is cut."""

from __future__ import annotations

import httpx
import pytest

from agent_md.outbound.fetch import Fetched
from agent_md.redaction import Redactor
from agent_md.tools.http_result import result_text

_SECRET = "Canary-abcdefgh-1234567"


@pytest.mark.parametrize(
    ("header", "longest", "body"),
    [("Location", 2000, b"text"), ("Link", 2000, b"text"), ("Content-Type", 100, b"\0\1")],
)
def test_a_secret_is_taken_out_before_a_header_is_cut(header: str, longest: int, body: bytes) -> None:
    fetched = Fetched(200, "https://example.org/", httpx.Headers({header: "a" * (longest - 15) + _SECRET}), body)
    told = result_text(fetched, "text", Redactor({"CANARY_TOKEN": _SECRET}), 50_000, 100_000)
    assert "canary-abc" not in told.lower()
