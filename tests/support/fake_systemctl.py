"""A `systemctl --user` for tests: it keeps what it is told in `$FAKE_SYSTEMD`, and runs the one unit that is enabled.

With a file `dead` there nothing answers; with a file `refuses` nothing can be enabled.
"""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

HOME, STATE = Path(os.environ["HOME"]), Path(os.environ["FAKE_SYSTEMD"])


def plain(word: str) -> str:
    return word.replace("%%", "%")


def main(words: list[str]) -> int:
    with open(STATE / "log", "a") as log:
        print(*words, file=log)
    if (STATE / "dead").exists():
        print("Failed to connect to bus: No medium found", file=sys.stderr)
        return 1
    verb, *rest = [word for word in words if word not in ("--user", "--no-pager")]
    if verb == "daemon-reload":
        found = sorted(path.name for path in (HOME / ".config/systemd/user").glob("*.service"))
        (STATE / "loaded").write_text("\n".join(found))
    elif verb == "enable":
        return enable(rest[-1])
    elif verb == "disable":
        end()
    elif verb == "is-active":
        print("active" if running() else "inactive")
        return 0 if running() else 3
    return 0


def enable(name: str) -> int:
    if name not in (STATE / "loaded").read_text().split("\n") or (STATE / "refuses").exists():
        print(f"Failed to enable unit: Unit file {name} does not exist.", file=sys.stderr)
        return 1
    if running():
        return 0
    pairs = [line.partition("=") for line in (HOME / ".config/systemd/user" / name).read_text().splitlines()]
    fields = {key: value for key, _, value in pairs}
    program, *arguments = map(plain, shlex.split(fields["ExecStart"]))
    command = [program, *(word.replace("$$", "$") for word in arguments)]
    environ = dict(plain(word).split("=", 1) for word in shlex.split(fields["Environment"]))
    keep = {name: os.environ[name] for name in ("HOME", "PATH", "XDG_STATE_HOME")}
    with open(STATE / "journal", "w") as journal:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=journal,
            stderr=journal,
            cwd=HOME,
            env={**keep, **environ},
            start_new_session=True,
        )
    (STATE / "pid").write_text(str(child.pid))
    return 0


def running() -> int | None:
    """The process of the unit, if it lives."""
    try:
        pid = int((STATE / "pid").read_text())
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return None
    return None if state == "Z" else pid


def end() -> None:
    pid = running()
    if pid is not None:
        os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + 30
        while running() and time.monotonic() < deadline:
            time.sleep(0.02)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
