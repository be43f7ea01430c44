"""The command line of bubblewrap, and whether this machine supports it."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import agent_md

__all__ = ["Mount", "View", "bubblewrap_command", "isolation_problem"]

_INSTALL = (
    "install it with `sudo apt install bubblewrap` (Debian, Ubuntu), `sudo dnf install bubblewrap` (Fedora) or "
    "`sudo pacman -S bubblewrap` (Arch)"
)
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
_SYSTEM_SETTINGS = (
    *("/etc/alternatives", "/etc/ca-certificates", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d"),
    *("/etc/localtime", "/etc/mime.types", "/etc/pki", "/etc/ssl"),
)
_TMP_BYTES = 256 * 2**20
_PROCESSES = 1024


@dataclass(frozen=True, slots=True)
class Mount:
    """A folder or file that an isolated process sees where it is."""

    path: Path
    writable: bool = False


@dataclass(frozen=True, slots=True)
class View:
    """The files that an isolated process sees besides the programs of the system and the Python that runs this.

    Of `mounts` the inner ones count. What is `hidden` is empty there and cannot be written; `shown`, inside of that, can
    be read after all. Paths are absolute, and have no links.
    """

    mounts: tuple[Mount, ...] = ()
    hidden: tuple[Path, ...] = ()
    shown: tuple[Path, ...] = ()


def isolation_problem(platform: str = sys.platform) -> str | None:
    """Why no process can be isolated here, and what to do about it; None if it can."""
    if not platform.startswith("linux"):
        return (
            "sandboxed processes need bubblewrap, which is for Linux only; run the agent on Linux, or without `sandbox`"
        )
    program = shutil.which("bwrap")
    if program is None:
        return f"sandboxed processes need bubblewrap, and there is no bwrap here; {_INSTALL}"
    try:
        _probe(program)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", None) or str(error)
        return (
            f"{program} cannot isolate a process here: {' '.join(said.split())[:300]}. The system must allow user "
            "namespaces without privileges (kernel.unprivileged_userns_clone, kernel.apparmor_restrict_unprivileged_userns, "
            "or the security options of the container)"
        )
    return None


@lru_cache(maxsize=8)
def _probe(program: str) -> None:
    """Returns when bubblewrap works; only that is remembered."""
    command = [
        program,
        *_namespaces(program),
        "--ro-bind",
        "/",
        "/",
        "--proc",
        "/proc",
        "--dev",
        "/dev",
        "/bin/sh",
        "-c",
        ":",
    ]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL)


def bubblewrap_command(command: Sequence[str], view: View, folder: Path, memory_bytes: int) -> tuple[list[str], bytes]:
    """The command line, and what is to be read from its descriptor `{args}`: the arguments that may be many.

    The process has no network, sees no other process, ends with its parent, may start no namespaces of its own, and has
    `memory_bytes` of addresses, as each process that it starts.
    """
    program = shutil.which("bwrap") or "bwrap"
    arguments = [*_namespaces(program), *_files(program, view, folder)]
    limits = f'ulimit -c 0; ulimit -v {memory_bytes // 1024}; ulimit -p {_PROCESSES} 2>/dev/null || ulimit -u {_PROCESSES}; exec "$@"'
    return (
        [program, "--args", "{args}", "--", "/bin/sh", "-c", limits, "sh", *command],
        b"".join(os.fsencode(argument) + b"\0" for argument in arguments),
    )


def _namespaces(program: str) -> Iterator[str]:
    yield from ("--unshare-all", "--unshare-user", "--die-with-parent", "--new-session", "--cap-drop", "ALL")
    yield from ("--hostname", "sandbox")
    if "--disable-userns" in _known_options(program):
        yield "--disable-userns"


def _files(program: str, view: View, folder: Path) -> Iterator[str]:
    yield from ("--proc", "/proc", "--dev", "/dev")
    if "--size" in _known_options(program):
        yield from ("--size", str(_TMP_BYTES))
    yield from ("--tmpfs", "/tmp")  # noqa: S108 - a folder of the process alone
    for path in (*_SYSTEM, *_SYSTEM_SETTINGS):
        yield from ("--ro-bind-try", path, path)
    for _, _, arguments in sorted(_mounts(view), key=lambda mount: mount[:2]):
        yield from arguments
    for hidden in view.hidden:  # after what is shown in them, whose folders are made there
        if hidden.is_dir():
            yield from ("--remount-ro", str(hidden))
    yield from ("--dir", str(folder), "--remount-ro", "/", "--chdir", str(folder))


def _mounts(view: View) -> Iterator[tuple[int, int, tuple[str, ...]]]:
    """Depth, rank and arguments: an inner mount is made after the one around it."""
    for mount in view.mounts:
        path = str(mount.path)
        yield len(mount.path.parts), 0, ("--bind" if mount.writable else "--ro-bind", path, path)
    for hidden in view.hidden:
        path = str(hidden)
        empty = ("--tmpfs", path) if hidden.is_dir() else ("--ro-bind", os.devnull, path)
        yield len(hidden.parts), 1, empty
    for shown in (*view.shown, *_python_folders()):
        yield len(shown.parts), 2, ("--ro-bind-try", str(shown), str(shown))


def _python_folders() -> tuple[Path, ...]:
    """Where the interpreter, its packages and this one are, on the way to the interpreter through links too."""
    folders = {Path(place): None for place in (sys.prefix, sys.base_prefix, sys.exec_prefix)}
    program = Path(sys.executable)
    while program.is_symlink():
        program = program.parent / os.readlink(program)
        around = program.parent.parent
        seen = (
            (program, Path(os.path.normpath(program)))
            if _is_of_user(around)
            else (around, Path(os.path.normpath(around)))
        )
        folders |= dict.fromkeys(seen)
    folders |= {Path(os.path.realpath(folder)): None for folder in tuple(folders)}
    folders[Path(agent_md.__file__).parent] = None
    return tuple(folder for folder in folders if folder != Path("/"))


def _is_of_user(folder: Path) -> bool:
    """Whether the folder holds a home folder, or lies right in one, as `~/.local` does: more than an interpreter is there."""
    folder = Path(os.path.realpath(folder))
    homes = {Path(os.path.realpath(home)) for home in (Path.home(), pwd.getpwuid(os.getuid()).pw_dir)}
    return any(home.is_relative_to(folder) or folder.parent == home for home in homes)


@lru_cache(maxsize=8)
def _known_options(program: str) -> frozenset[str]:
    found = subprocess.run([program, "--help"], capture_output=True, text=True, timeout=20, check=False)
    words = (found.stdout + found.stderr).split()
    return frozenset(word for word in words if word.startswith("--"))
