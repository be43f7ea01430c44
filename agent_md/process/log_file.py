"""Writes the log of a workspace's processes to a file, never to the terminal."""

from __future__ import annotations

import io
import logging
import logging.handlers
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from agent_md.errors import AgentmdError
from agent_md.models.factory import KEY_VARIABLES
from agent_md.redaction import Redactor
from agent_md.settings import Settings
from agent_md.stores.private_files import open_private

__all__ = ["log_to_file"]

_LOG_BYTES = 5_000_000


class _LogFile(logging.handlers.RotatingFileHandler):
    """Made with the first line; what cannot be written is lost, because nothing of a log is for the terminal.

    Several processes write it: one that finds it renamed by another goes on in the new one."""

    def emit(self, record: logging.LogRecord) -> None:
        """The line goes to the file that has the name now."""
        with suppress(OSError):
            if self.stream is not None and not _is_at(self.stream, self.baseFilename):
                self.stream.close()
                self.stream = self._open()
        super().emit(record)

    def _open(self) -> io.TextIOWrapper:
        path = Path(self.baseFilename)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = open_private(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND)
        return io.TextIOWrapper(open(descriptor, "ab"), encoding="utf-8", errors="backslashreplace")

    def handleError(self, record: logging.LogRecord) -> None:
        """Nothing."""


def _is_at(file: io.TextIOWrapper, path: str) -> bool:
    try:
        return os.path.samestat(os.lstat(path), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False


class _WithoutSecrets(logging.Formatter):
    """Takes secrets out of whole lines, tracebacks included."""

    def __init__(self, settings: Settings, more: Mapping[str, str]) -> None:
        super().__init__("%(asctime)s %(levelname)s %(process)d %(name)s: %(message)s")
        self._settings = settings
        self._more = more
        self._known: dict[str, str] = {}
        self._redactor = Redactor()

    def format(self, record: logging.LogRecord) -> str:
        with suppress(AgentmdError):  # a `.env` that is broken by now
            secrets = {**self._settings.secrets(KEY_VARIABLES), **self._more}
            if secrets != self._known:
                self._known, self._redactor = secrets, Redactor(secrets)
        return self._redactor.text(super().format(record))


def log_to_file(settings: Settings, more_secrets: Mapping[str, str]) -> None:
    """Logs of the loop and of libraries go to a file in the state folder. `more_secrets` are taken out too, with what they
    are when a line is written."""
    handler = _LogFile(
        settings.state_dir / "agentmd.log",
        maxBytes=_LOG_BYTES,
        backupCount=1,
        delay=True,
    )
    handler.setFormatter(_WithoutSecrets(settings, more_secrets))
    logging.getLogger().addHandler(handler)
    logging.getLogger().setLevel(settings.log_level)
    for name in ("httpx", "httpx2"):  # they tell each address that is asked, which may hold a password or a token
        logging.getLogger(name).setLevel(logging.WARNING)
