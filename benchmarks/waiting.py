"""What executions that wait cost a server: `python -m benchmarks.waiting --count 1000`."""

from __future__ import annotations

import argparse
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.support.processes import preload
from tests.support.scenes import parked
from tests.support.server import Server
from tests.support.world import World

_TIMES = 50


def _milliseconds(request: Callable[[], object]) -> float:
    def once() -> float:
        started = time.perf_counter()
        request()
        return 1000 * (time.perf_counter() - started)

    return statistics.median(once() for _ in range(_TIMES))


def _measure(folder: Path, count: int) -> list[float]:
    """Milliseconds until the server is ready and of two requests, and its memory in MB, with `count` that wait."""
    world = World(folder)
    world.cli("run", "worker")
    store = world.store()
    for number in range(count):
        parked(store, agent="worker", session_id=str(number))
    store.close()
    started = time.perf_counter()
    with Server(world.workspace) as server:
        ready = 1000 * (time.perf_counter() - started)
        pending = _milliseconds(lambda: server.client.get("/pending?limit=50"))
        one = _milliseconds(lambda: server.client.get("/executions/1"))
        status = Path(f"/proc/{server.process.pid}/status").read_text()
        memory = int(re.findall(r"VmRSS:\s+(\d+) kB", status)[0]) / 1024
    return [ready, pending, one, memory]


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--count", type=int, default=1000, help="executions that wait")
    count = arguments.parse_args().count
    preload()
    print(
        f"{'waiting':>8} {'ready ms':>9} {'GET /pending?limit=50 ms':>25} {'GET /executions/1 ms':>21} {'memory MB':>10}"
    )
    for number in (0, count):
        with tempfile.TemporaryDirectory() as folder:
            ready, pending, one, memory = _measure(Path(folder) / "ws", number)
        print(f"{number:>8} {ready:>9.0f} {pending:>25.1f} {one:>21.1f} {memory:>10.1f}")


if __name__ == "__main__":
    main()
