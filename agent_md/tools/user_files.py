"""Files of the user that control other programs or hold keys: version control, configuration, start-up files of
shells."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

__all__ = ["VERSION_CONTROL", "UserFiles", "home_folders"]

VERSION_CONTROL = frozenset({".git", ".hg", ".svn"})
"""Folders with hooks and settings that name commands; `.git` may be a file that names such a folder."""

_NEVER = (
    *(".config", ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".password-store", ".mozilla"),
    *(".local/bin", ".local/lib", ".local/state/agentmd"),
    *(".local/share/applications", ".local/share/dbus-1", ".local/share/keyrings", ".local/share/systemd"),
    *("Library/Keychains", "Library/LaunchAgents", "Library/Preferences"),
)
"""Folders in a home that are out of bounds even where a declared path begins in them."""


@dataclass(frozen=True, slots=True)
class UserFiles:
    """Where they are. `homes` are the user's home folders, `config_homes` where configuration is besides `.config`.

    Out of bounds in a home: every hidden file; every hidden folder unless a root of the agent begins in it; and some
    folders always. Links in a home lead to files and folders that are out of bounds as well.
    """

    homes: tuple[Path, ...] = ()
    config_homes: tuple[Path, ...] = ()

    def folders(self) -> Iterator[Path]:
        """The folders that are out of bounds whatever the roots are."""
        yield from self.config_homes
        for home in self.homes:
            yield from (home / name for name in _NEVER)

    def hidden_files(self) -> Iterator[Path]:
        """The hidden files of the homes, with links among them."""
        for home in self.homes:
            with suppress(OSError), os.scandir(home) as entries:
                yield from (Path(entry.path) for entry in entries if entry.name.startswith(".") and entry.is_file())


def home_folders(home: Path) -> tuple[Path, ...]:
    """`home`, and the home folder that the system knows of this user: shells read the first, `ssh` the second."""
    homes = {home: None}
    with suppress(KeyError):
        homes[Path(pwd.getpwuid(os.getuid()).pw_dir)] = None
    return tuple(folder for folder in homes if folder.is_absolute())
