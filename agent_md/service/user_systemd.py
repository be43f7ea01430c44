"""Calls the user's systemd: `systemctl --user`."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from agent_md.errors import AgentmdError, NoServiceManager

__all__ = ["UserSystemd", "lingers"]

_ANSWER_S = 60.0


class UserSystemd:
    """Loads, starts and stops units of the user that runs this process."""

    def __init__(self) -> None:
        """Raises NoServiceManager if there is no systemd here that manages services of this user."""
        program = shutil.which("systemctl")
        if program is None:
            raise NoServiceManager(_refusal("there is no systemctl"))
        self._program = program
        asked = self._run("show", "--property=Version")
        if asked.returncode:
            raise NoServiceManager(_refusal(_last_line(asked) or "it does not answer"))

    def reload(self) -> None:
        """Reads the unit files again."""
        self._do("daemon-reload")

    def enable(self, name: str) -> None:
        """Starts a unit now and at every login (or boot, with lingering). Raises AgentmdError with systemd's words."""
        self._do("enable", "--now", f"{name}.service")

    def disable(self, name: str) -> None:
        """Stops a unit, and does not start it any more."""
        self._do("disable", "--now", f"{name}.service")

    def active(self, name: str) -> bool:
        """Whether a unit runs, or is about to."""
        return self._run("is-active", f"{name}.service").stdout.strip() in ("active", "activating", "reloading")

    def _do(self, *words: str) -> None:
        done = self._run(*words)
        if done.returncode:
            raise AgentmdError(f"systemctl --user {' '.join(words)} failed: {_last_line(done) or done.returncode}")

    def _run(self, *words: str) -> subprocess.CompletedProcess[str]:
        command = [self._program, "--user", "--no-pager", *words]
        try:
            return subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                errors="replace",
                timeout=_ANSWER_S,
                check=False,
                env={**os.environ, "LC_ALL": "C"},
            )
        except subprocess.TimeoutExpired:
            raise AgentmdError(f"systemctl --user {words[0]} did not end within {_ANSWER_S:g} s") from None


def lingers(user: str) -> bool:
    """Whether services of the user run without a login."""
    return Path("/var/lib/systemd/linger", user).exists()


def _refusal(reason: str) -> str:
    return (
        f"systemd manages no services of this user here ({reason}); nothing was changed. "
        "`agentmd service print` shows the unit, and `agentmd start -d` starts a server without it"
    )


def _last_line(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
    return lines[-1] if lines else ""
