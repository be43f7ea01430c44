"""`new`: from an empty folder to a run, and what it refuses."""

from __future__ import annotations

import os
import resource
import signal
import unicodedata
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.support.forked_terminal import ForkedTerminal
from tests.support.processes import Cli, Finished

NO_KEY = {"GOOGLE_API_KEY": "", "GEMINI_API_KEY": ""}


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """An empty folder that is no workspace; the home folder is another one."""
    (tmp_path / "home").mkdir()
    empty = tmp_path / "empty"
    empty.mkdir()
    return empty


def in_folder(folder: Path, *args: str, columns: int = 200, **env: str | None) -> ForkedTerminal:
    return ForkedTerminal(args, cwd=folder, columns=columns, env={"HOME": str(folder.parent / "home"), **NO_KEY, **env})


def typed(folder: Path, *args: str, code: int = 0, **env: str | None) -> str:
    """What a command that asks nothing shows."""
    with in_folder(folder, *args, **env) as terminal:
        assert terminal.exit_code() == code, terminal.screen
        return terminal.screen


@pytest.fixture
def run(tmp_path: Path) -> Cli:
    (tmp_path / "ws").mkdir()
    return Cli(tmp_path / "ws", NO_KEY)


def files(workspace: Path) -> list[str]:
    return sorted(str(p.relative_to(workspace)) for p in (workspace / "agents").rglob("*") if p.is_file())


def check_refused(ended: Finished, text: str) -> None:
    assert (ended.code, ended.out) == (2, ""), ended
    assert text in ended.err
    assert ended.err.count("\n") == 1


def test_from_an_empty_folder_to_a_pause_without_a_key(here: Path) -> None:
    made = typed(here, "new", "helper", "--script")

    assert f"Wrote agents/helper.md in {here}\n" in made
    assert "Wrote agents/_config/scripts/helper.yaml, which its model plays\n" in made
    assert made.endswith("Next:\n  agentmd validate helper\n  agentmd explain helper\n  agentmd run helper\n")
    assert typed(here, "validate") == "✓ helper  agents/helper.md\n"
    assert "  file_write    confirm (agents/helper.md)\n" in typed(here, "explain", "helper")
    with in_folder(here, "run", "helper") as terminal:
        terminal.expect("[y/N]: ")
        terminal.send_line("y")
        assert terminal.exit_code() == 0
    assert (here / "helper-note.txt").read_text() == "Hello from helper.\n"


def test_on_a_terminal_it_asks(here: Path) -> None:
    with in_folder(here, "new", "helper", columns=80) as terminal:
        terminal.expect("? What is it for?")
        terminal.expect("> ")
        terminal.send_line('Keeps "notes": all')
        terminal.expect("? What is it to do?")
        terminal.expect("> ")
        terminal.send_line("Use ${SECRET}.")
        terminal.expect("write $${SECRET} for the text itself")
        terminal.expect("> ")
        terminal.send_line("Keep --- notes.")
        terminal.expect("  1. google/gemini-2.5-flash (the default; its key is missing)\n  2. script (")
        terminal.expect("Model [1]: ")
        terminal.send_line("gogle/x")
        terminal.expect("write google/x (the providers are google,")
        terminal.expect("Model [1]: ")
        terminal.send_line("2")
        assert terminal.exit_code() == 0
    text = (here / "agents/helper.md").read_text()
    assert 'description: "Keeps \\"notes\\": all"\n' in text
    assert text.endswith("---\nKeep --- notes.\n")
    assert typed(here, "validate").startswith("✓ helper")


def test_empty_answers_are_the_defaults_and_say_which_key_is_missing(here: Path) -> None:
    with in_folder(here, "new", "helper") as terminal:
        for prompt in ("> ", "> ", "Model [1]: "):
            terminal.expect(prompt)
            terminal.send_line()
        assert terminal.exit_code() == 0
    assert "google/gemini-2.5-flash needs a key: set GOOGLE_API_KEY" in terminal.screen
    assert str(here / ".env") in terminal.screen
    (here / ".env").write_text("GOOGLE_API_KEY=a-key\n")
    env = dict.fromkeys(NO_KEY)
    assert typed(here, "validate", **env) == "✓ helper  agents/helper.md\n"


@pytest.mark.parametrize("key", ["\x03", "\x04"])
@pytest.mark.parametrize("answered", [0, 2])
def test_leaving_a_question_writes_nothing(here: Path, key: str, answered: int) -> None:
    with in_folder(here, "new", "helper") as terminal:
        for _ in range(answered):
            terminal.expect("> ")
            terminal.send_line("text")
        terminal.expect("[1]: " if answered else "> ")
        terminal.send(key)
        assert terminal.exit_code() == 130
    assert terminal.screen.endswith("\nagentmd: nothing was written\n")
    assert list(here.iterdir()) == []


def test_without_a_terminal_nobody_is_asked(run: Cli) -> None:
    ended = run("new", "helper")

    assert ended.code == 0, ended
    assert files(run.workspace) == ["agents/helper.md"]
    validated = run("validate", env={"GOOGLE_API_KEY": "a-key"})
    assert validated.code == 0, validated


def test_everything_can_be_said_by_flags(run: Cli) -> None:
    flags = ("--description", "Übersetzt", "-p", "Translate $ARGUMENTS.", "--model", "ollama/qwen3:8b")
    ended = run("new", "über setzer", *flags, "--base-url", "http://gpu:11434")

    assert ended.code == 0, ended
    assert "The arguments of a run take the place of $ARGUMENTS;" in ended.out
    assert "run 'über setzer' ARGUMENTS\n" in ended.out
    listed = run("list", "--json").out
    assert '"model_provider": "ollama", "model_name": "qwen3:8b"' in listed
    assert 'base_url: "http://gpu:11434"' in (run.workspace / "agents/über setzer.md").read_text()


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["notes.md"], 'not "."; the name alone is enough: agentmd new notes'),
        (["agents/my notes.md"], "the name alone is enough: agentmd new 'my notes'"),
        (["../x"], 'cannot be the name of an agent: a name may have letters, digits, blanks, - and _, not "."'),
        ([" x"], "starts or ends with a blank"),
        ([""], "a name cannot be empty"),
        (["x" * 201], "longer than 200 bytes"),
        (["a\x1b[2J"], "U+001B"),
        (["x", "--model", "gemini-2.5-flash"], "is no PROVIDER/NAME; write google/gemini-2.5-flash"),
        (["x", "--model", "openai/"], "is no PROVIDER/NAME; write openai/NAME"),
        (
            ["x", "--model", "script/other"],
            "other.yaml; create it, or name another one as the model. Nothing was written",
        ),
        (["x", "--script", "--model", "google/x"], "--script is a model of its own"),
        (["x", "-p", "Use ${TOKEN}."], "the prompt has ${TOKEN}"),
        (["x", "-p", "\udcff"], "no UTF-8"),
        (["x", "--base-url", "ftp://x"], "is not an address"),
    ],
)
def test_what_is_refused_writes_nothing(run: Cli, args: Sequence[str], message: str) -> None:
    check_refused(run("new", *args), message)

    assert not (run.workspace / "agents").exists()


def test_a_name_that_is_taken(run: Cli) -> None:
    (run.workspace / "agents/team").mkdir(parents=True)
    for name in ("Straße", unicodedata.normalize("NFC", "café")):
        (run.workspace / f"agents/team/{name}.md").write_text("---\n---\n")
    (run.workspace / "agents/broken.md").write_text("no agent")
    (run.workspace / "agents/other.md").write_text("---\nname: alpha\n---\n")
    (run.workspace / "agents/gone.md").symlink_to("nowhere")
    before = files(run.workspace)

    for name, message in (
        ("STRASSE", 'there is an agent "Straße" already, in agents/team/Straße.md; take another name'),
        (unicodedata.normalize("NFD", "café"), "agents/team/café.md"),
        ("broken", "agents/broken.md; --force replaces it"),
        ("alpha", 'there is an agent "alpha" already, in agents/other.md'),
        ("other", "agents/other.md exists; --force replaces it"),
        ("gone", "agents/gone.md"),
    ):
        check_refused(run("new", name), message)
    check_refused(run("new", "alpha", "--force"), "take another name")
    assert files(run.workspace) == before


def test_force_replaces_the_file_and_keeps_the_old_one(run: Cli) -> None:
    for text in ("first", "second"):
        (run.workspace / "agents").mkdir(exist_ok=True)
        (run.workspace / "agents/a.md").write_text(text)
        assert "The one before is agents/a.md.old" in run("new", "a", "--script", "--force").out

    assert files(run.workspace) == [
        "agents/_config/scripts/a.yaml",
        "agents/a.md",
        "agents/a.md.old1",
        "agents/a.md.old2",
    ]
    assert [(run.workspace / f"agents/a.md.old{n}").read_text() for n in (1, 2)] == ["first", "second"]
    assert run("list", "--json").out.count('"name": "a"') == 1
    assert run("validate").code == 0


def test_a_script_that_is_there_is_taken(run: Cli) -> None:
    scripts = run.workspace / "agents/_config/scripts"
    scripts.mkdir(parents=True)
    (scripts / "a.yaml").write_text("conversations: [{turns: [{text: Mine.}]}]\n")
    (scripts / "b.yaml").write_text("conversations: [\n")

    assert "There was agents/_config/scripts/a.yaml" in run("new", "a", "--script").out
    assert run("run", "a", "--quiet").out == "Mine.\n"
    check_refused(run("new", "b", "--script"), "b.yaml")
    assert not (run.workspace / "agents/b.md").exists()


def test_the_file_is_as_open_as_others_that_are_made(run: Cli) -> None:
    assert run("new", "a", prepare=lambda: os.umask(0o027)).code == 0

    assert (run.workspace / "agents/a.md").stat().st_mode & 0o777 == 0o640


def test_a_folder_that_cannot_be_written_is_named(run: Cli) -> None:
    (run.workspace / "agents").write_text("a file")

    ended = run("new", "a")

    assert (ended.code, ended.out) == (1, "")
    assert str(run.workspace / "agents") in ended.err


def test_a_link_to_nowhere_is_not_said_to_be_replaced(run: Cli) -> None:
    (run.workspace / "agents").mkdir()
    (run.workspace / "agents/helper.md").symlink_to("nowhere")
    check_refused(run("new", "helper"), "take another name, or rename that one")
    check_refused(run("new", "helper", "--force"), "is no file; remove it")


def test_a_disk_that_is_full_is_named(run: Cli) -> None:
    def full() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, resource.RLIM_INFINITY))

    ended = run("new", "helper", "-p", "x" * 2000, prepare=full)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err == f"agentmd: {run.workspace}/agents/helper.md: File too large\n"
    assert files(run.workspace) == []


def test_below_a_workspace_the_agent_goes_into_it(here: Path) -> None:
    (here / "agents").mkdir()
    (here / "agents/a.md").write_text("---\n---\n")
    below = here / "deep/down"
    below.mkdir(parents=True)

    with ForkedTerminal(["new", "b", "--script"], cwd=below, env={"HOME": str(here)}) as terminal:
        assert terminal.exit_code() == 0

    assert (here / "agents/b.md").exists()
    assert not (below / "agents").exists()


def test_elsewhere_it_does_not_go_into_the_workspace_of_the_home_folder(here: Path) -> None:
    (here.parent / "home/agentmd").mkdir()

    assert f"in {here}\n" in typed(here, "new", "a", "--script")
    assert typed(here, "list").count("manual") == 1


def test_the_home_folder_never_becomes_a_workspace(here: Path) -> None:
    home = here.parent / "home"
    with in_folder(home, "new", "a", HOME=str(home)) as terminal:
        terminal.expect("> ")
        terminal.send("\x03")
        assert terminal.exit_code() == 130
    assert list(home.iterdir()) == []

    assert f"in {home}/agentmd\n" in typed(home, "new", "a", "--script", HOME=str(home))
    assert typed(home, "validate", HOME=str(home)) == "✓ a  agents/a.md\n"


def test_a_named_workspace_stands_in_the_next_commands(here: Path) -> None:
    there = here.parent / "an other"
    there.mkdir()

    assert f"  agentmd -w '{there}' run -- -x\n" in typed(here, "-w", str(there), "new", "--script", "--", "-x")
    assert typed(here, "-w", str(there), "validate", "--", "-x") == "✓ -x  agents/-x.md\n"
    missing = typed(here, "new", "a", "-w", str(here / "missing"), code=2)
    assert "which is not a folder; create it" in missing


def test_the_config_chooses_folder_and_model(run: Cli) -> None:
    (run.workspace / "config.yaml").write_text("agents_dir: bots\ndefaults: {provider: openai}\n")
    check_refused(run("new", "a"), "there is no default model of openai: name one with --model openai/NAME")

    assert run("new", "a", "--model", "openai/gpt-5").code == 0
    assert "provider: openai, name: gpt-5}" in (run.workspace / "bots/a.md").read_text()
