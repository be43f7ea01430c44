"""Units of systemd and property lists of launchd: whatever the workspace is called, the server is started there."""

from __future__ import annotations

import os
import plistlib
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agent_md.errors import UsageError
from agent_md.python_command import python_command
from agent_md.service.unit_files import Service, is_as_written, launchd_plist, systemd_unit

PYTHON = Path("/opt/o d$d %n/bin/python")
HOSTILE = (
    "a b",
    "50%",
    "%h",
    'q"q',
    "it's",
    "$HOME ${HOME}",
    "back\\",
    "\\x41\\n",
    "#;&|<>",
    "-dash",
    "=",
    "é",
    "日本",
    " ",
)


def served(workspace: Path, python: Path = PYTHON) -> Service:
    _, *words = python_command("-m", "agent_md.cli.main", "start", "--workspace", str(workspace))
    return Service(workspace, (str(python), *words))


def fields(unit: str) -> dict[str, str]:
    return {key: value for key, _, value in (line.partition("=") for line in unit.split("\n") if line[:1] != "#")}


def command(unit: str) -> list[str]:
    """As systemd reads it: quotes and backslashes first, then `%%`, and in arguments `$$`."""
    program, *arguments = (word.replace("%%", "%") for word in shlex.split(fields(unit)["ExecStart"]))
    return [program, *(word.replace("$$", "$") for word in arguments)]


paths = st.text(st.characters(exclude_categories=("Cc", "Cs"), exclude_characters="/"), min_size=1).map(
    lambda name: Path("/home/ann") / name
)


@given(paths)
@example(Path("/"))
def test_the_workspace_is_named_as_it_is(workspace: Path) -> None:
    service = served(workspace)
    unit = systemd_unit(service)
    start = list(service.command)
    assert command(unit) == start
    (environ,) = shlex.split(fields(unit)["Environment"])
    assert environ.replace("%%", "%") == f"AGENTMD_WORKSPACE={workspace}"
    plist = plistlib.loads(launchd_plist(service, Path("/Users/ann")).encode())
    assert (plist["ProgramArguments"], plist["Label"]) == (start, service.name)
    assert set(service.name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-")
    assert len(service.name) <= 60
    assert not any(line.endswith("\\") for line in unit.split("\n")), "it would go on in the next line"
    assert is_as_written(unit)


@pytest.mark.parametrize("workspace", ["/a\nExecStartPre=/bin/x", "/a\rb", "/a\x1bb", "/a\x00", "/a\tb", "/\udcff"])
def test_paths_with_control_characters_are_refused(workspace: str) -> None:
    with pytest.raises(UsageError, match="control characters"):
        served(Path(workspace))


@pytest.mark.parametrize("python", ['/opt/a"b/python', "/opt/it's/python", "/opt/a\\b/python"])
def test_a_program_that_systemd_would_not_start_is_refused(python: str) -> None:
    service = served(Path("/w"), Path(python))
    with pytest.raises(UsageError, match="quotes or backslashes"):
        systemd_unit(service)
    assert plistlib.loads(launchd_plist(service, Path("/Users/ann")).encode())["ProgramArguments"][0] == python


def test_every_workspace_has_a_name_of_its_own() -> None:
    names = {served(Path(folder)).name for folder in ("/a/work", "/b/work", "/a/Work", "/a/w ork", "/é")}
    assert len(names) == 5


def test_a_unit_that_was_changed_is_not_as_written() -> None:
    unit = systemd_unit(served(Path("/w")))
    assert is_as_written(unit)
    for changed in ("", unit + "\n", unit.replace("mixed", "process"), unit[:-1], "[Service]\n"):
        assert not is_as_written(changed)


def test_the_unit_of_the_page_is_the_printed_one() -> None:
    page = (Path(__file__).parents[2] / "docs/unattended.md").read_text(encoding="utf-8")
    service = served(Path("/home/ann/garden"), Path("/home/ann/.venv/bin/python"))
    assert f"```console\n$ agentmd service print\n{systemd_unit(service)}```" in page
    assert f"The service {service.name} is installed: /home/ann/.config/systemd/user/{service.name}.service" in page


@pytest.mark.parametrize("folder", HOSTILE)
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path, folder: str) -> None:
    analyze = shutil.which("systemd-analyze")
    if analyze is None:
        pytest.skip("NOT RUN: systemd-analyze is not here, so no unit was checked by systemd")
    python = tmp_path / "o d$d %n/python"
    python.parent.mkdir()
    python.symlink_to("/bin/true")
    service = served(Path("/home/ann") / folder, python)
    unit = tmp_path / f"{service.name}.service"
    unit.write_text(systemd_unit(service))
    runtime = tmp_path / "runtime"
    runtime.mkdir(mode=0o700)
    done = subprocess.run(
        [analyze, "--user", "verify", str(unit)],
        capture_output=True,
        text=True,
        env={**os.environ, "XDG_RUNTIME_DIR": str(runtime)},
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
