"""Rules with patterns over commands: what is lifted, what is guarded, and that no other spelling gets around them."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path
from typing import Any

import pytest

from agent_md.agents.command_rules import command_subject, match_command, parse_command_pattern
from agent_md.agents.effects import UNKNOWN_EFFECTS, Match
from agent_md.agents.grant_rules import fits, proposed_rule
from agent_md.agents.rules import RuleInvalid, decide, parse_rule
from agent_md.agents.spec import AgentSpec, ModelRef
from agent_md.errors import InvalidArguments, ToolError
from agent_md.executions.states import Decision
from tests.support.builtins import command_tool
from tests.support.file_sandbox import make_workspace, sandbox_on


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = make_workspace(tmp_path)
    (folder / "out").mkdir(exist_ok=True)
    return folder


def spec(**rules: tuple[str, ...]) -> AgentSpec:
    return AgentSpec("worker", "Work.", ModelRef("script", "worker"), **rules)  # type: ignore[arg-type]


def decided(workspace: Path, agent: AgentSpec, path: str = "", **args: Any) -> Decision:
    """What becomes of a call: refused also where its arguments are."""
    tool = command_tool(sandbox_on(workspace), **({"PATH": path} if path else {}))
    try:
        checked = tool.validate(args)
        subjects = tool.subjects(checked)
    except (InvalidArguments, ToolError):
        return Decision.REFUSE
    return decide(agent, tool.name, checked, subjects, True, args, UNKNOWN_EFFECTS).decision


@pytest.mark.parametrize(
    ("pattern", "words", "fits_it"),
    [
        ("git status", ["git", "status"], True),
        ("git status", ["git", "status", "-s"], False),
        ("git status", ["git"], False),
        ("git *", ["git", "status"], True),
        ("git *", ["git"], False),
        ("git *", ["git", "status", "-s"], False),
        ("git **", ["git"], True),
        ("git **", ["git", "log", "-1", "a b"], True),
        ("git log --format=*", ["git", "log", "--format=%H %s"], True),
        ("git commit -m 'first one'", ["git", "commit", "-m", "first one"], True),
        ("git commit -m 'first one'", ["git", "commit", "-m", "first", "one"], False),
        ("**", ["anything", "at", "all"], True),
        ("make ''", ["make", ""], True),
        ("make ''", ["make"], False),
    ],
)
def test_a_pattern_is_matched_word_by_word(pattern: str, words: list[str], fits_it: bool) -> None:
    found = match_command(pattern, command_subject(words, liftable=True), every=True)
    assert (found is Match.YES) is fits_it
    assert match_command(pattern, command_subject(words, liftable=False), every=True) is Match.NO


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("git 'status", "a quote without its other half"),
        ("git ** status", "before its end"),
        ("git a**", "before its end"),
    ],
)
def test_a_pattern_that_says_nothing_is_refused_where_it_is_written(pattern: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        parse_command_pattern(pattern)
    with pytest.raises(RuleInvalid, match=problem):
        parse_rule(f"run_command({pattern})")


def _spellings() -> list[dict[str, Any]]:
    """Commands that look like `git status`, or do it and more."""
    programs = [
        *(
            "Git",
            "GIT",
            "git ",
            " git",
            "git\n",
            "git\t",
            "gıt",
            "ɡit",
            "git\u200b",
            "\u202egit",
            "/bin/../tmp/git",
            "./git",
        ),
        *(
            "bin/git",
            "../git",
            "git/",
            "git;",
            "git&&rm",
            "'git'",
            '"git"',
            "$(git)",
            "`git`",
            "${GIT}",
            "~/git",
            "git*",
        ),
        *("/usr/bin/git", "//usr/bin/git", "/usr/bin/./git", "/usr/bin/../bin/git", "linked", "./linked"),
    ]
    arguments = [
        *("Status", "status ", " status", "status\n", "status;rm", "status&&rm x", "status|sh", "$(status)", "`rm x`"),
        *(
            "'status'",
            '"status"',
            "stat*",
            "status\u200b",
            "ѕtatus",
            "--status",
            "-status",
            "STATUS",
            "status\x1b[0m",
            "",
        ),
    ]
    wrapped = [
        ["env", "git", "status"],
        ["env", "-S", "git status"],
        ["sh", "-c", "git status"],
        ["bash", "-lc", "git status && rm -rf ."],
        ["busybox", "sh", "-c", "git status"],
        ["nice", "git", "status"],
        ["timeout", "1", "git", "status"],
        ["xargs", "git", "status"],
        ["setsid", "git", "status"],
        ["sudo", "git", "status"],
        ["find", ".", "-exec", "git", "status", ";"],
        ["git", "-c", "alias.status=!rm", "status"],
        ["git", "-c", "core.fsmonitor=rm", "status"],
        ["git", "--exec-path=.", "status"],
        ["git", "-C", ".", "status"],
        ["git", "--git-dir=x", "status"],
        ["git", "status", "--short"],
        ["git", "status", ";", "rm"],
        ["git", "status", "&&", "rm"],
        ["git", "status", "|", "sh"],
        ["git", "status", ">", "x"],
        ["git", "status", ""],
        ["", "git", "status"],
        ["git", "", "status"],
        ["git status"],
        ["git status", ""],
        ["git", "status\0"],
        ["git"],
        ["status", "git"],
    ]
    commands = [
        *([program, "status"] for program in programs),
        *(["git", argument] for argument in arguments),
        *([program, argument] for program, argument in itertools.product(programs[:10], arguments[:12])),
        *wrapped,
    ]
    calls: list[dict[str, Any]] = [{"command": command} for command in commands]
    calls += [
        {"command": [line], "shell": True}
        for line in ("git status", "git status && rm x", "git\nstatus", "git status;")
    ]
    calls += [{"command": ["git", "status"], "shell": True}, {"command": ["git", "status"], "folder": "out"}]
    calls += [
        {"command": ["git", "status"], "shell": "yes"},
        {"command": "git status"},
        {"command": [["git", "status"]]},
    ]
    calls += [{"command": ["git", "status"], "cwd": "."}, {"command": []}, {"command": ["git", "status"], "timeout": 0}]
    return calls


SPELLINGS = _spellings()


def test_no_other_spelling_of_a_lifted_command_runs_unasked(workspace: Path) -> None:
    assert len(SPELLINGS) >= 200
    (workspace / "bin").mkdir()
    for name in ("git", "bin/git"):
        shutil.copy("/bin/sh", workspace / name)
    (workspace / "linked").symlink_to(shutil.which("git") or "/usr/bin/git")
    agent = spec(auto_approve=("run_command(git status)",))
    assert decided(workspace, agent, command=["git", "status"]) is Decision.RUN
    path = f"{workspace}:{workspace / 'bin'}:.::/usr/bin:/bin"
    assert decided(workspace, agent, path, command=["git", "status"]) is Decision.RUN  # that of the system
    for call in SPELLINGS:
        assert decided(workspace, agent, path, **call) is not Decision.RUN, call


def test_a_plain_name_is_never_that_of_a_program_that_the_agent_may_change(workspace: Path) -> None:
    shutil.copy("/bin/sh", workspace / "mine")
    (workspace / "away").symlink_to("/bin")
    agent = spec(auto_approve=("run_command(mine)", "run_command(./mine)", f"run_command({workspace}/mine)"))
    assert decided(workspace, agent, str(workspace), command=["mine"]) is Decision.REFUSE
    assert decided(workspace, agent, command=["./mine"]) is Decision.ASK
    assert decided(workspace, agent, command=[f"{workspace}/mine"]) is Decision.ASK
    assert decided(workspace, spec(auto_approve=("run_command(./away/ls)",)), command=["./away/ls"]) is Decision.ASK
    assert decided(workspace, spec(auto_approve=("run_command",)), command=["./mine"]) is Decision.RUN


@pytest.mark.parametrize(
    "command",
    [
        ["rm", "-rf", "x"],
        ["/bin/rm", "-rf", "x"],
        ["/usr/bin/rm", "x"],
        ["env", "rm", "x"],
        ["nice", "-n", "5", "/bin/rm", "x"],
    ],
)
def test_a_denied_command_is_denied_wherever_it_stands(workspace: Path, command: list[str]) -> None:
    agent = spec(deny=("run_command(rm **)",), auto_approve=("*",))
    assert decided(workspace, agent, command=command) is Decision.REFUSE
    assert decided(workspace, agent, command=command, folder="out") is Decision.REFUSE


@pytest.mark.parametrize(
    "args",
    [
        {"command": ["sh", "-c", 'r""m x']},
        {"command": ["python3", "-c", "import os"]},
        {"command": ["find", ".", "-delete"]},
        {"command": ["echo x; rm y"], "shell": True},
        {"command": ["ls", "--x=rm"]},
        {"command": ["./made"]},
    ],
)
def test_where_a_denied_command_may_hide_it_asks(workspace: Path, args: dict[str, Any]) -> None:
    shutil.copy("/bin/sh", workspace / "made")
    agent = spec(deny=("run_command(rm **)",), auto_approve=("*",))
    assert decided(workspace, agent, **args) is Decision.ASK
    assert decided(workspace, agent, command=["ls", "-l"]) is Decision.RUN


def test_it_asks_by_default_and_for_rules_over_effects(workspace: Path) -> None:
    assert decided(workspace, spec(), command=["true"]) is Decision.ASK
    assert decided(workspace, spec(auto_approve=("*",)), command=["true"]) is Decision.RUN
    lifted = ("write(*)", "read(*)")
    assert decided(workspace, spec(confirm=("write(*)",), auto_approve=lifted), command=["true"]) is Decision.ASK
    assert decided(workspace, spec(deny=("write(secret/*)",), auto_approve=("*",)), command=["true"]) is Decision.ASK


def test_a_grant_is_for_exactly_the_command(workspace: Path) -> None:
    tool = command_tool(sandbox_on(workspace))
    args = tool.validate({"command": ["git", "commit", "-m", "it's done"]})

    def offered(args: dict[str, Any]) -> str | None:
        return proposed_rule(
            tool.name, args, tool.subjects(args), schema=tool.parameters, paths=tool.subjects_are_paths
        )

    rule = offered(args)
    assert rule is not None
    assert fits(rule, tool.name, args, tool.subjects(args))
    other = tool.validate({"command": ["git", "commit", "-m", "it's", "done"]})
    assert not fits(rule, tool.name, other, tool.subjects(other))
    for unoffered in (["ls", "*"], ["ls", "a?"]):
        assert offered(tool.validate({"command": unoffered})) is None
    assert offered(tool.validate({"command": ["ls"], "folder": "out"})) is None
    assert offered(tool.validate({"command": ["ls"], "shell": True})) is None
