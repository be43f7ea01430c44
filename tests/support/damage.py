"""Ways in which a database file may be damaged, for tests of what can be made anew."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

__all__ = ["DAMAGES", "UNSEEN", "side_files"]


def side_files(path: Path) -> list[Path]:
    """The files that SQLite keeps beside a database."""
    return [Path(f"{path}{suffix}") for suffix in ("-wal", "-shm")]


def _overwrite(path: Path, start: float, length: float) -> None:
    """Garbage over a part of the file, in the file itself: who has it open sees it."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(int(size * start))
        file.write(os.urandom(max(1, int(size * length))))


def _without_log(path: Path) -> None:
    for beside in side_files(path):
        beside.unlink(missing_ok=True)


def _truncated(to: Callable[[int], int]) -> Callable[[Path], None]:
    def truncate(path: Path) -> None:
        _without_log(path)
        os.truncate(path, to(path.stat().st_size))

    return truncate


def _garbage(start: float, length: float) -> Callable[[Path], None]:
    def spoil(path: Path) -> None:
        _without_log(path)
        _overwrite(path, start, length)

    return spoil


def _log_is_garbage(path: Path) -> None:
    for beside in side_files(path):
        beside.write_bytes(os.urandom(40_000))


def _only_the_log_is_left(path: Path) -> None:
    path.unlink()
    for beside in side_files(path):
        if not beside.exists():
            beside.write_bytes(b"left over")


def _a_folder(path: Path) -> None:
    _without_log(path)
    path.unlink()
    (path / "inside").mkdir(parents=True)


def _not_to_be_read(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.with_name("nowhere"))


DAMAGES: dict[str, Callable[[Path], None]] = {
    "empty": _truncated(lambda _: 0),
    "cut in the header": _truncated(lambda _: 50),
    "cut in the middle": _truncated(lambda size: size // 2),
    "cut at a page": _truncated(lambda size: size - 4096),
    "all garbage": _garbage(0, 1),
    "garbage in the header": _garbage(0, 0.01),
    "garbage in the middle": _garbage(0.2, 0.7),
    "garbage beside it": _log_is_garbage,
    "only the log is left": _only_the_log_is_left,
    "a folder": _a_folder,
    "a link to nowhere": _not_to_be_read,
}

UNSEEN = {"empty", "garbage beside it", "only the log is left"}
"""Those that SQLite itself takes for an empty or a whole database; no file need be put aside."""
