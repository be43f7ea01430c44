"""Installs and removes the service in the user's systemd."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from agent_md.errors import AgentmdError, UsageError
from agent_md.service.unit_files import Service, is_as_written, systemd_unit
from agent_md.service.user_systemd import UserSystemd

__all__ = ["Installation"]


class Installation:
    """The unit file of one service below `home`, which may be there."""

    def __init__(self, service: Service, home: Path) -> None:
        self.name = service.name
        self.path = home / f".config/systemd/user/{service.name}.service"
        self._service = service

    def install(self, refuse: Callable[[], None]) -> bool:
        """Writes the unit and starts it, now and at every login; gives whether it ran already with another one.

        `refuse` is called if it does not run, and may raise. After an error everything is as it was before.
        """
        text, systemd = systemd_unit(self._service), UserSystemd()
        before = self._written()
        active = systemd.active(self.name)
        if not active:
            refuse()
        if text != before:
            self._write(text)
        try:
            systemd.reload()
            systemd.enable(self.name)
        except AgentmdError:
            self._undo(systemd, before)
            raise
        return active and text != before

    def uninstall(self) -> bool:
        """Stops the service and removes its unit; False if there is none."""
        if self._written() is None:
            return False
        systemd = UserSystemd()
        systemd.disable(self.name)
        self.path.unlink(missing_ok=True)
        systemd.reload()
        return True

    def _written(self) -> str | None:
        """The unit that is there, None if there is none. Raises UsageError if it is not as agentmd wrote it."""
        if not os.path.lexists(self.path):
            return None
        try:
            text = "" if self.path.is_symlink() else self.path.read_text(encoding="utf-8")
        except (OSError, ValueError):
            text = ""
        if not is_as_written(text):
            raise UsageError(
                f"{self.path} is not as `agentmd service install` wrote it, and is left untouched. Move it away; "
                "changes of yours belong into `systemctl --user edit`"
            )
        return text

    def _write(self, text: str) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self.path.with_name(f".{self.path.name}.{os.getpid()}")
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(self.path)

    def _undo(self, systemd: UserSystemd, before: str | None) -> None:
        with suppress(AgentmdError):
            if before is None:
                systemd.disable(self.name)
        if before is None:
            self.path.unlink(missing_ok=True)
        else:
            self._write(before)
        with suppress(AgentmdError):
            systemd.reload()
