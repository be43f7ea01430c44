"""How fast commands that only read start, beside a bare Typer program with a Rich table: `python -m benchmarks.start_up`."""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tests.support.world import World

_BARE = """
import typer
from rich.console import Console
from rich.table import Table

app = typer.Typer()

@app.command()
def pending():
    table = Table("#", "Agent", "Question")
    table.add_row("1", "worker", "Go on?")
    Console().print(table)

app()
"""


def _milliseconds(command: Sequence[str], folder: Path) -> float:
    """The time that the processor needs for it, whatever else the machine does."""
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return 1000 * (used.ru_utime + used.ru_stime)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--times", type=int, default=15, help="how often each program is started")
    times = arguments.parse_args().times
    with tempfile.TemporaryDirectory() as name:
        world = World(Path(name))
        world.cli("run", "worker")  # it asks, and waits
        bare = Path(name) / "bare.py"
        bare.write_text(_BARE)
        ours = [sys.executable, "-m", "agent_md.cli.main"]
        programs = {
            "a bare program": [sys.executable, str(bare)],
            "agentmd pending": [*ours, "pending"],
            "agentmd list": [*ours, "list"],
            "agentmd --help": [*ours, "--help"],
        }
        measured: dict[str, list[float]] = {name: [] for name in programs}
        for _ in range(times + 1):
            for program, command in programs.items():
                measured[program].append(_milliseconds(command, world.workspace))
    print(f"processor time of {times} starts each; the ratio is to the bare program\n")
    print(f"{'':18}{'median ms':>11}{'least ms':>11}{'ratio':>8}")
    base = statistics.median(measured["a bare program"][1:])
    for program, found in measured.items():
        median = statistics.median(found[1:])  # the first start compiles
        print(f"{program:18}{median:11.0f}{min(found[1:]):11.0f}{median / base:8.2f}")


if __name__ == "__main__":
    main()
