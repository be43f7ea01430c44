"""A process that is a worker: `python -m tests.support.holder DIRECTORY WHAT:FD`.

Prints its worker id and, if it has one, the pid of its child; then does one command a line of its standard input, and
prints "ok" after each; ends at the end of its input.

WHAT: `alone`; `fork`, with a forked child that outlives it; `exec`, with a started program that outlives it and
inherits what can be inherited. The children end when the writing end of the pipe FD is closed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from agent_md.stores.workers import LockWorkers

__all__: list[str] = []


def main(directory: Path, what: str) -> None:
    workers = LockWorkers(directory)
    handle = workers.acquire()
    kind, _, descriptor = what.partition(":")
    child = 0
    if kind == "fork":
        up, child_is_up = os.pipe()
        if (child := os.fork()) == 0:
            handle.close()  # what an exit handler in the child would do
            os.write(child_is_up, b"!")
            os.read(int(descriptor), 1)
            os._exit(0)
        os.read(up, 1)
    if kind == "exec":
        wait = [sys.executable, "-S", "-c", f"import os; os.read({descriptor}, 1)"]
        child = subprocess.Popen(wait, close_fds=False).pid
    print(handle.id, child, flush=True)
    for command in sys.stdin:
        if command.strip() == "probe":
            assert workers.alive(handle.id)
        elif command.strip() == "close":
            handle.close()
        print("ok", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
