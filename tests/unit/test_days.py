"""Where a day begins, also on those on which the clocks change."""

from __future__ import annotations

import subprocess
import sys
from datetime import datetime

import pytest

PROGRAM = "import sys; from agent_md.executions.days import local_midnight; print(local_midnight(float(sys.argv[1])))"


@pytest.mark.parametrize(
    ("zone", "at", "midnight"),
    [
        ("Europe/Berlin", "2026-02-01T12:00+01:00", "2026-02-01T00:00+01:00"),
        ("Europe/Berlin", "2026-03-29T12:00+02:00", "2026-03-29T00:00+01:00"),
        ("Europe/Berlin", "2026-10-25T12:00+01:00", "2026-10-25T00:00+02:00"),
        ("America/New_York", "2026-11-01T23:59+00:00", "2026-11-01T00:00-04:00"),
        ("Pacific/Kiritimati", "2026-05-05T10:30+00:00", "2026-05-06T00:00+14:00"),
        ("Africa/Cairo", "2026-04-24T12:00+03:00", "2026-04-24T01:00+03:00"),
    ],
)
def test_a_day_begins_at_its_own_midnight(zone: str, at: str, midnight: str) -> None:
    moment = datetime.fromisoformat(at).timestamp()
    run = [sys.executable, "-c", PROGRAM, str(moment)]
    done = subprocess.run(run, env={"TZ": zone}, capture_output=True, text=True, check=True, timeout=30)
    assert float(done.stdout) == datetime.fromisoformat(midnight).timestamp()
