"""Completion: in a real bash, and what the scripts of the other shells ask for."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.agent_folder import AgentFolder, call
from tests.support.chatting import Piped
from tests.support.terminal import Terminal

FILE_CALL = {"calls": [call("file_write", path="a.txt", content="a")]}


@pytest.fixture
def work(folder: AgentFolder) -> AgentFolder:
    folder.agent("cleaner", [FILE_CALL, {"text": "."}], "description: Cleans up")
    folder.agent("my notes", [{"text": "."}])
    return folder


@pytest.fixture
def bin_folder(tmp_path: Path) -> Path:
    """A folder with `agentmd` in it."""
    folder = tmp_path / "bin"
    folder.mkdir()
    program = folder / "agentmd"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m agent_md.cli.main "$@"\n')
    program.chmod(0o755)
    return folder


def offered(work: AgentFolder, *words: str, shell: str = "fish") -> list[str]:
    """What a shell is told, in its form."""
    *before, last = ["agentmd", "-w", str(work.path), *words]
    typed = [*map(shlex.quote, before), last]
    asked = {"_AGENTMD_COMPLETE": f"complete_{shell}"}
    if shell == "bash":
        asked |= {"COMP_WORDS": "\n".join(typed), "COMP_CWORD": str(len(before))}
    else:
        asked |= {"_TYPER_COMPLETE_ARGS": " ".join(typed), "_TYPER_COMPLETE_FISH_ACTION": "get-args"}
    ended = work.cli(named=False, env=asked)
    assert (ended.code, ended.err) == (0, ""), ended
    return ended.out.splitlines()


def script_for(shell: str) -> str:
    """A line of that shell that reads the script."""
    return f'eval "$(_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION=1 agentmd --show-completion {shell})"'


def values(work: AgentFolder, *words: str) -> list[str]:
    return [line.partition("\t")[0] for line in offered(work, *words)]


def test_commands_options_and_values(work: AgentFolder) -> None:
    assert {"run", "respond", "new", "explain"} <= set(values(work, ""))
    assert values(work, "re") == ["respond", "resume", "retry"]
    assert values(work, "run", "cleaner", "--") == [
        *(
            "--message",
            "--session",
            "--fresh",
            "--model",
            "--detach",
            "--quiet",
            "--json",
            "--on-ask",
            "--answers-from-script",
            "--help",
        )
    ]
    assert "--quiet" not in values(work, "run", "-q", "-")
    assert values(work, "run", "x", "--on-ask", "") == ["wait", "deny", "fail"]
    assert values(work, "run", "x", "--on-ask=d") == ["--on-ask=deny"]
    assert values(work, "chat", "cleaner", "--c") == ["--continue"]
    assert values(work, "run", "-m", "") == []
    assert offered(work, "sta") == [
        "start\tStart the server: drives executions and serves HTTP",
        "status\tShow whether a server answers: exit 0 if one does, 1 if not",
    ]


def test_names_of_agents(work: AgentFolder) -> None:
    (work.path / "agents/broken.md").write_text("no agent")
    (work.path / "agents/off.md").write_text('---\nenabled: false\ndescription: "a\\nb\\tc\\e[2J"\n---\n')

    for command in ("run", "explain", "validate", "logs"):
        assert values(work, command, "") == ["cleaner", "my notes", "off"]
    assert values(work, "run", "-m", "text", "--json", "c") == ["cleaner"]
    assert values(work, "run", "--", "my") == ["my notes"]
    assert values(work, "run", "cleaner", "") == []
    assert offered(work, "run", "c") == ["cleaner\tCleans up"]
    assert offered(work, "run", "o") == ["off\tdisabled"]
    assert offered(work, "run", "m", shell="bash") == ["my\\ notes"]
    assert offered(work, "run", '"my n', shell="bash") == ["my notes"]
    assert offered(work, "run", "my\\ n", shell="bash") == ["my\\ notes"]
    (line,) = offered(work, "run", "c", shell="zsh")
    assert line == r"local -a found; found=($'cleaner\U0000003aCleans\U00000020up'); _describe agentmd found"
    assert offered(work, "run", "x", shell="zsh") == ["_files"]


def test_executions_by_what_can_be_done_with_them(work: AgentFolder) -> None:
    assert [work.cli("run", "cleaner").code, work.cli("run", "my notes").code] == [3, 0]
    assert work.cli("cancel", "1").code == 0
    work.begin("cleaner")

    assert offered(work, "respond", "") == ['3\tcleaner: Confirm file_write {"path": "a.txt", "content": "a"}']
    assert values(work, "cancel", "") == ["3"]
    assert values(work, "logs", "-e", "") == ["3", "2", "1"]
    assert values(work, "resume", "") == []
    assert values(work, "respond", "3", "--request", "") == ["3-0.0"]
    assert values(work, "respond", "9", "--request", "") == []


def test_options_of_an_open_choice(work: AgentFolder) -> None:
    asks = call("ask_user", question="Which?", kind="choice", options=["keep it", "drop\n$(rm)"])
    work.agent("chooser", [{"calls": [asks]}, {"text": "."}])
    work.begin("chooser")

    assert values(work, "respond", "1", "--choice", "") == ["keep it"]
    assert offered(work, "respond", "1", "--choice", "k", shell="bash") == ["keep\\ it"]


def test_grants_that_can_be_revoked(work: AgentFolder) -> None:
    assert [work.cli("run", "cleaner").code, work.cli("respond", "1", "--always", "--scope", "agent").code] == [3, 0]

    assert offered(work, "grants", "revoke", "") == ["1\tcleaner: file_write(a.txt)"]
    assert values(work, "grants", "cleaner", "") == []
    assert values(work, "respond", "1", "--always", "--scope", "") == ["execution", "session", "agent"]


def test_sessions_newest_first(work: AgentFolder) -> None:
    for session in ("tuesday", "my notes"):
        assert Piped(work, "my notes", "--session", session).end("Hi\n").code == 0

    assert values(work, "chat", "my notes", "--session", "") == ["my notes", "tuesday"]
    assert values(work, "chat", "cleaner", "--session", "") == []
    assert offered(work, "chat", "--session", "t") == ["tuesday\tmy notes"]
    assert offered(work, "chat", "--session", "m", shell="bash") == ["my\\ notes"]


def test_nothing_is_made_and_nothing_is_said_whatever_is_wrong(work: AgentFolder, tmp_path: Path) -> None:
    before = sorted(work.path.rglob("*"))
    for words in (["run", ""], ["respond", ""], ["logs", "-e", ""]):
        offered(work, *words)
    assert [path for path in sorted(work.path.rglob("*")) if ".out" not in path.parts] == [
        path for path in before if ".out" not in path.parts
    ]

    (work.path / "config.yaml").write_text("nonsense: [")
    assert offered(work, "run", "") == []
    (work.path / "config.yaml").unlink()
    (work.path / ".agentmd").mkdir()
    (work.path / ".agentmd/agentmd.db").write_text("no database " * 100)
    assert offered(work, "respond", "") == []
    assert offered(work, "-w", str(tmp_path / "missing"), "run", "") == []
    assert offered(work, "nonsense", "") == []


def test_a_waiting_workspace_is_not_written(work: AgentFolder) -> None:
    work.begin("cleaner")
    state = work.path / ".agentmd"
    before = {path: path.read_bytes() for path in state.rglob("*") if path.is_file() and path.suffix != ".db-shm"}

    assert values(work, "respond", "") == ["1"]

    after = {path: path.read_bytes() for path in state.rglob("*") if path.is_file() and path.suffix != ".db-shm"}
    assert after == before


def completed_by_bash(bin_folder: Path, words: Sequence[str]) -> list[str]:
    """What bash would offer for the last word, with our script and its own way to split words."""
    listed = " ".join(f"'{word}'" for word in words)
    program = (
        f"{script_for('bash')}\n"
        f"COMP_WORDS=({listed}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))\n"
        '_agentmd_completion agentmd "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"\n'
        'printf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    env = {**os.environ, "PATH": f"{bin_folder}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "--norc", "-c", program], env=env, capture_output=True, text=True, check=True, timeout=30
    )
    assert done.stderr == ""
    return done.stdout.splitlines()


def test_bash_gives_its_words_as_they_are_typed(work: AgentFolder, bin_folder: Path) -> None:
    named = ["agentmd", "-w", str(work.path)]

    assert completed_by_bash(bin_folder, [*named, "run", "cleaner", "--on-ask", "=", "d"]) == ["deny"]


def test_tab_in_a_real_bash(work: AgentFolder, bin_folder: Path) -> None:
    env = {"PATH": f"{bin_folder}:{os.environ['PATH']}", "PS1": "READY> ", "TERM": "dumb", "INPUTRC": "/dev/null"}
    bash = shutil.which("bash")
    assert bash is not None
    with Terminal([bash, "--norc", "--noprofile", "-i"], cwd=work.path, env=env) as terminal:
        terminal.expect("READY> ")
        terminal.send_line(script_for("bash"))
        terminal.expect("READY> ")
        terminal.send("agentmd lo\t")
        terminal.expect("agentmd logs ")
        terminal.send("my\t")
        terminal.expect("my\\ notes ")
        terminal.send_line()
        terminal.expect("No executions yet.")
        terminal.expect("READY> ")
        terminal.send('agentmd logs "my\t')
        terminal.expect('my notes" ')
        terminal.send_line()
        terminal.expect("No executions yet.")
        terminal.expect("READY> ")
        terminal.send("agentmd list -w age\t")
        terminal.expect("agents/")
        terminal.send_line("; exit 0")
        assert terminal.exit_code() == 0


def test_bash_runs_nothing_of_what_a_model_offers(work: AgentFolder) -> None:
    options = ["$(touch x)", "`touch x`", 'it\'s "so"', "a\\b", "why not! 5$", "x; touch x"]
    asks = call("ask_user", question="Which?", kind="choice", options=options)
    work.agent("chooser", [{"calls": [asks]}, {"text": "."}])
    work.begin("chooser")

    for typed in ("", "'", '"', "''", '""'):
        quote = typed if len(typed) == 1 else ""
        words = offered(work, "respond", "1", "--choice", typed, shell="bash")
        line = " ".join(f"{quote}{word}{quote}" for word in words)
        program = ["bash", "-c", f"printf '%s\\n' {line}"]
        done = subprocess.run(program, cwd=work.path, capture_output=True, text=True, check=True, timeout=30)
        assert done.stdout.splitlines() == options
        assert not (work.path / "x").exists()


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_tab_in_the_other_shells(work: AgentFolder, bin_folder: Path, shell: str) -> None:
    """What a model offers is put into the line as one word, and nothing of it is run."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"NOT RUN: there is no {shell} here")
    hostile = r"\$(touch pwned)`touch pwned`"
    asks = call("ask_user", question="Which?", kind="choice", options=[hostile])
    work.agent("chooser", [{"calls": [asks]}, {"text": "."}])
    work.begin("chooser")
    env = {"PATH": f"{bin_folder}:{os.environ['PATH']}", "TERM": "dumb", "HOME": str(bin_folder), "PS1": "READY> "}
    start = {
        "zsh": [program, "-f", "-i"],
        "fish": [program, "--no-config", "-i"],
    }[shell]
    with Terminal(start, cwd=work.path, env=env) as terminal:
        if shell == "zsh":
            terminal.send_line("autoload -Uz compinit; compinit -u -D; PS1='REA''DY> '")
        else:
            terminal.send_line("function fish_prompt; echo REA'DY> '; end")
        terminal.expect("READY> ")
        terminal.send_line(script_for(shell))
        terminal.expect("READY> ")
        terminal.send("agentmd logs my\t")
        terminal.expect("my\\ notes ")
        terminal.send_line()
        terminal.expect("No executions yet.")
        terminal.expect("READY> ")
        terminal.send("agentmd respond 1 --choice \t")
        terminal.expect("touch")
        terminal.send("\x15exit\r")
        terminal.exit_code()
    assert not (work.path / "pwned").exists()


def test_it_is_fast_because_it_loads_no_framework(work: AgentFolder) -> None:
    program = (
        "import sys\nfrom agent_md.cli.main import main\n"
        "try:\n    main()\nfinally:\n"
        "    slow = {'langgraph', 'langchain_core', 'fastapi', 'pydantic'} & set(sys.modules)\n"
        "    print(sorted(slow), file=sys.stderr)\n"
    )
    asked = {"_AGENTMD_COMPLETE": "complete_fish", "_TYPER_COMPLETE_ARGS": f"agentmd -w {work.path} run "}
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )

    assert done.stdout.splitlines() == ["cleaner\tCleans up", "my notes"]
    assert done.stderr == "[]\n"
