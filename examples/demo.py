"""The demonstration: an agent pauses for a confirmation and for a choice, and goes on.

On a terminal you are asked as it runs. Without one (or with CI=1) the run is left waiting, and other processes answer.
Each command is shown before it runs, and can be typed by hand from the root of the repository.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUTPUT = ROOT / "output"

SUCCESS = 0
LEFT_WAITING = 3


def main() -> int:
    """Runs the demonstration and gives its exit code: 0 when the agent has finished."""
    signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is for the command that runs; its exit code ends this too
    prepare()
    if (code := agentmd("trust", "--yes")) != SUCCESS:  # of this checkout, which you chose to run
        return code
    print()
    if sys.stdin.isatty() and sys.stdout.isatty() and not os.environ.get("CI"):
        return attended()
    return unattended()


def prepare() -> None:
    """Makes the files that the agent is to tidy; touches nothing but these, below output/."""
    archive = OUTPUT / "archive"
    for folder in (OUTPUT, archive):
        if folder.is_symlink():
            raise SystemExit(f"demo: {folder} is a link, and the demonstration must not leave its folder; remove it")
    archive.mkdir(parents=True, exist_ok=True)
    (archive / "draft.txt").unlink(missing_ok=True)
    write(OUTPUT / "stale.log", "2026-01-05 07:00:01 nothing to report\n")
    write(OUTPUT / "draft.txt", "Notes for the quarterly report. Unfinished.\n")


def write(path: Path, text: str) -> None:
    """Writes a file anew, never through a link that is in its place."""
    path.unlink(missing_ok=True)
    path.write_text(text, encoding="utf-8")


def attended() -> int:
    """The run asks here."""
    print("The agent `cleaner` tidies output/ and asks you twice. Nothing outside output/ can be touched.\n")
    code = agentmd("run", "cleaner")
    if code == SUCCESS:
        print("\nEverything that happened is kept: agentmd logs")
    return code


def unattended() -> int:
    """The run stops at each question, and a process of its own answers it."""
    print("Nobody can be asked here, so the run stops at each question and another process answers it.\n")
    code, execution = agentmd_and_number("run", "cleaner")
    for answer in (["--yes"], ["--choice", "archive"]):
        if code != LEFT_WAITING:
            return code
        agentmd("pending")
        print(flush=True)
        code, _ = agentmd_and_number("respond", execution, *answer)
    agentmd("logs", "-e", execution)
    return code


def agentmd(*args: str) -> int:
    """Shows a command, runs it with its output shown, and gives its exit code."""
    return run(args, None)[0]


def agentmd_and_number(*args: str) -> tuple[int, str]:
    """As `agentmd`; also the number of the execution that the command says it left waiting, or else ""."""
    code, errors = run(args, subprocess.PIPE)
    print(f"{errors}(exit code {code})\n", flush=True)
    found = re.search(r"agentmd respond (\d+)", errors)
    return code, found[1] if found else ""


def run(args: tuple[str, ...], errors: int | None) -> tuple[int, str]:
    print(f"$ agentmd {shlex.join(args)}", flush=True)
    environ = {name: value for name, value in os.environ.items() if name != "AGENTMD_WORKSPACE"}
    command = Path(sysconfig.get_path("scripts")) / "agentmd"
    try:
        ended = subprocess.run([command, *args], cwd=ROOT, env=environ, stderr=errors, text=True, check=False)
    except FileNotFoundError:
        raise SystemExit(f"demo: {command} is missing; run `make demo`, or install the project first") from None
    return ended.returncode, ended.stderr or ""


if __name__ == "__main__":
    sys.exit(main())
