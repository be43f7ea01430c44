"""What the user has said yes to, in a file of theirs outside of every workspace; and the key that marks their folders.

`trust.json` is replaced whole, under a lock: a process that is killed leaves the one before, and of two that write at
once each finds what the other wrote.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent_md.agents.files import file_stamp
from agent_md.errors import TrustUnusable
from agent_md.stores.private_files import open_private, read_private, write_private
from agent_md.trust.items import Item

__all__ = ["TrustRecord", "user_state"]

_FORMAT = 1
_MOST_BYTES = 64 * 1024 * 1024


def user_state(environ: Mapping[str, str], home: Path) -> Path:
    """The folder of this program below `$XDG_STATE_HOME`, or `~/.local/state`."""
    base = environ.get("XDG_STATE_HOME", "")
    return (Path(base) if os.path.isabs(base) else home / ".local" / "state") / "agentmd"


class TrustRecord:
    """The record of one user. Reading makes nothing."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: tuple[object, dict[str, Any]] | None = None
        self._key: bytes | None = None

    @property
    def path(self) -> Path:
        return self._folder / "trust.json"

    def granted(self, workspace: Path, owner: int) -> frozenset[str] | None:
        """The digests of what was ever allowed to the workspace at this real path, when its owner was the same. None if
        it was never trusted. Raises TrustUnusable."""
        entry = self._entries().get(str(workspace))
        if entry is None or entry["owner"] != owner:
            return None
        return frozenset(entry["items"])

    def agents(self, workspace: Path, owner: int) -> frozenset[str | None]:
        """The agents to which something was ever allowed; None is the workspace. Raises TrustUnusable."""
        entry = self._entries().get(str(workspace))
        if entry is None or entry["owner"] != owner:
            return frozenset()
        return frozenset(item[0] for item in entry["items"].values())

    def add(self, workspace: Path, owner: int, items: Iterable[Item]) -> None:
        """Records a yes to these items, besides what was allowed before. Raises TrustUnusable."""
        with self._changing() as entries:
            before = entries.get(str(workspace))
            known = before["items"] if before is not None and before["owner"] == owner else {}
            new = {item.digest: [item.agent, item.kind, item.text] for item in items}
            entries[str(workspace)] = {"owner": owner, "trusted_at": time.time(), "items": {**known, **new}}

    def forget(self, workspace: Path) -> bool:
        """Withdraws the trust in a workspace; whether there was any. Raises TrustUnusable."""
        if str(workspace) not in self._entries():
            return False
        with self._changing() as entries:
            return entries.pop(str(workspace), None) is not None

    def key(self) -> bytes | None:
        """The secret that marks state folders of this user; None if none was made yet. Raises TrustUnusable."""
        if self._key is None:
            try:
                self._key = bytes.fromhex(read_private(self._folder / "key").strip()) or None
            except FileNotFoundError:
                return None
            except (OSError, ValueError) as error:
                raise self._unusable(self._folder / "key", error) from error
        return self._key

    def made_key(self) -> bytes:
        """The same; made now if there is none. Raises TrustUnusable."""
        if (key := self.key()) is not None:
            return key
        with self._locked():
            if self.key() is None:
                self._write(self._folder / "key", secrets.token_hex(32) + "\n")
        key = self.key()
        assert key is not None
        return key

    def _entries(self) -> dict[str, Any]:
        stamp = file_stamp(self.path)
        if self._read is None or self._read[0] != stamp:
            self._read = stamp, {} if stamp is None else self._parsed()
        return self._read[1]

    def _parsed(self) -> dict[str, Any]:
        try:
            with open(open_private(self.path, os.O_RDONLY), "rb") as file:
                data = json.loads(file.read(_MOST_BYTES))
            if data["format"] != _FORMAT:
                raise ValueError(f"its format is {data['format']}, this agentmd knows {_FORMAT}")
            entries: dict[str, Any] = data["workspaces"]
            for entry in entries.values():
                dict(entry["items"]), int(entry["owner"])
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._unusable(self.path, error) from error
        return entries

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Any]]:
        """The entries as they are now; as the block leaves them they are written."""
        with self._locked():
            self._read = None
            entries = dict(self._entries())
            yield entries
            self._write(self.path, json.dumps({"format": _FORMAT, "workspaces": entries}, indent=1) + "\n")
            self._read = None

    @contextmanager
    def _locked(self) -> Iterator[None]:
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = open_private(self._folder / "lock", os.O_RDWR | os.O_CREAT)
        except OSError as error:
            raise self._unusable(self._folder, error) from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _write(self, path: Path, text: str) -> None:
        try:
            write_private(path, text, durable=True)
        except OSError as error:
            raise self._unusable(path, error) from error

    def _unusable(self, path: Path, error: Exception) -> TrustUnusable:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        return TrustUnusable(
            f"what you trust cannot be read or recorded: {path}: {reason}. See who owns it, move it away, or set "
            "XDG_STATE_HOME; where nothing can be stored, set AGENTMD_TRUST=1 or AGENTMD_TRUST=adopt"
        )
