"""`new`: creates an agent file that `validate` accepts."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated

import typer

from agent_md.agents.model_names import parse_model
from agent_md.agents.names import agent_name
from agent_md.agents.registry import scan
from agent_md.agents.scaffold import NewAgent, check_prompt, places_of
from agent_md.agents.spec import ModelRef
from agent_md.app.new_agent import NOTHING, check_free, is_begun_by, lacks, trust_own, workspace_of, write_agent
from agent_md.cli.command_context import WorkspaceOption, current_folder, terminal
from agent_md.cli.exit_codes import INTERRUPTED
from agent_md.cli.terminal.output import note, say
from agent_md.cli.views.hanging_indent import paragraph
from agent_md.cli.views.questions import QuestionText
from agent_md.errors import AnswerRefused, MissingKey, UsageError
from agent_md.settings import Settings, load_settings
from agent_md.visible_text import one_line
from agent_md.workspace import find_workspace

if TYPE_CHECKING:
    from rich.console import RenderableType

    from agent_md.cli.asking.prompt import TerminalPrompt

__all__ = ["new"]


@dataclass(frozen=True, slots=True)
class _Wishes:
    """What the flags or the answers say; None = nothing."""

    description: str | None = None
    prompt: str | None = None
    model: str | None = None
    base_url: str | None = None
    script: bool = False


def new(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="The agent's name; its file is NAME.md.", show_default=False)
    ],
    description: Annotated[
        str | None, typer.Option(metavar="TEXT", help="What it is for, shown in lists.", show_default=False)
    ] = None,
    prompt: Annotated[
        str | None,
        typer.Option(
            "--prompt",
            "-p",
            metavar="TEXT",
            help="Its instructions; may contain $ARGUMENTS and $1.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[str | None, typer.Option(metavar="PROVIDER/NAME", help="Its model.", show_default=False)] = None,
    base_url: Annotated[
        str | None, typer.Option(metavar="URL", help="The address of its model.", show_default=False)
    ] = None,
    script: Annotated[
        bool, typer.Option("--script", help="Try it without a key: a script, which is written too, replaces the model.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Replace its file, if there is one; the old one is kept.")
    ] = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Create an agent. Without options, on a terminal: asks for its values.

    Example: agentmd new helper
    """
    _check_name(name)
    wishes = _Wishes(description, prompt, model, base_url, script)
    with workspace_of(workspace, current_folder()) as root:
        settings = load_settings(root, environ=os.environ, cwd=root, home=Path.home())
        begins = is_begun_by(settings)
        target = settings.agents_dir / f"{name}.md"
        check_free(name, target, scan(settings.agents_dir, settings.workspace, settings.defaults), force=force)
        if wishes == _Wishes() and (asking := terminal(asks=True)) is not None:
            wishes = _asked(asking, name, settings)
        agent = _agent(name, wishes, settings)
        made = write_agent(agent, target, settings, force=force)
        if begins:
            trust_own(settings)
    say(*made, "", *_next_steps(agent, settings))


def _check_name(name: str) -> None:
    try:
        agent_name(name)
    except ValueError as error:
        stem = PurePosixPath(name).name.removesuffix(".md")
        hint = f"; the name alone is enough: agentmd new {_argument(stem)}" if _is_name(stem) else ""
        raise UsageError(f"{name!r} cannot be the name of an agent: {error}{hint}") from None


def _is_name(text: str) -> bool:
    with suppress(ValueError):
        return bool(agent_name(text))
    return False


# What


def _agent(name: str, wishes: _Wishes, settings: Settings) -> NewAgent:
    """What was wished, with defaults for the rest."""
    model = _model(name, wishes, settings)
    if wishes.base_url is not None:
        model = replace(model, base_url=wishes.base_url)
    return NewAgent(name, model, wishes.description or "", wishes.prompt or "")


def _model(name: str, wishes: _Wishes, settings: Settings) -> ModelRef:
    if wishes.script and (wishes.model or wishes.base_url):
        raise UsageError("--script is a model of its own: give it, or --model and --base-url")
    if wishes.script:
        return ModelRef("script", name)
    if wishes.model is not None:
        return _parsed_model(wishes.model)
    defaults = settings.defaults
    if defaults.model is None:
        raise UsageError(
            f"there is no default model of {defaults.provider}: name one with --model {defaults.provider}/NAME, "
            "or set defaults.model in config.yaml"
        )
    return ModelRef(defaults.provider, defaults.model)


def _parsed_model(text: str) -> ModelRef:
    try:
        return parse_model(text)
    except ValueError as error:
        raise UsageError(str(error)) from None


# Asking


def _asked(asking: TerminalPrompt, name: str, settings: Settings) -> _Wishes:
    """The answers of the person at the terminal. Ctrl-C and Ctrl-D end the command, with nothing written."""
    from agent_md.cli.asking.prompt import PromptClosed
    from agent_md.cli.terminal.interruptible import run_interruptible

    try:
        return run_interruptible(_questions(asking, name, settings))
    except (KeyboardInterrupt, PromptClosed):
        note(f"agentmd: {NOTHING}")
        raise typer.Exit(INTERRUPTED) from None


async def _questions(asking: TerminalPrompt, name: str, settings: Settings) -> _Wishes:
    description = await asking.ask(_question("What is it for? One line, shown in lists; may stay empty."), _one_line)
    prompt = await asking.ask(_question("What is it to do? Its instructions; empty: a general text to edit."), _prompt)
    try:
        usual = str(_model(name, _Wishes(), settings))
    except UsageError:  # no default
        usual = None
    choices = [*([usual] if usual else []), "script"]
    lines = [f"  {number}. {one_line(_described(choice, settings))}" for number, choice in enumerate(choices, 1)]
    question = QuestionText((), ("? Which model?", *lines, "  or another: PROVIDER/NAME"), "Model [1]: ")

    def chosen(line: str) -> str:
        answer = line.strip() or "1"
        if answer.isascii() and answer.isdigit() and 1 <= int(answer) <= len(choices):
            return choices[int(answer) - 1]
        with _refusing():
            return "script" if answer == "script" else str(_parsed_model(answer))

    model = await asking.ask(question, chosen)
    return _Wishes(description, prompt, None if model == "script" else model, script=model == "script")


def _question(text: str) -> QuestionText:
    return QuestionText((), (f"? {text}",), "> ")


def _one_line(text: str) -> str:
    if "\n" in text:
        raise AnswerRefused("one line is wanted")
    return text


def _prompt(line: str) -> str:
    with _refusing():
        check_prompt(line)
    return line


@contextmanager
def _refusing() -> Iterator[None]:
    """What cannot be used is asked again."""
    try:
        yield
    except UsageError as error:
        raise AnswerRefused(str(error)) from None


def _described(choice: str, settings: Settings) -> str:
    if choice == "script":
        return "script (plays a file that is written too: no key, for trying)"
    missing = lacks(_parsed_model(choice), settings)
    state = "" if missing is None else "; its key is missing" if isinstance(missing, MissingKey) else "; not usable yet"
    return f"{choice} (the default{state})"


# What comes next


def _next_steps(agent: NewAgent, settings: Settings) -> list[RenderableType]:
    lines: list[RenderableType] = []
    if missing := lacks(agent.model, settings):
        where = f" ({settings.workspace / '.env'})" if isinstance(missing, MissingKey) else ""
        lines += ["Before it can run:", paragraph(f"  {one_line(f'{missing}{where}')}"), ""]
    name, workspace = _argument(agent.name), _workspace_option(settings, os.environ)
    places = places_of(agent.prompt)
    message = "" if agent.model.provider == "script" else ' -m "What can you do here?"'
    if places:
        message = " ARGUMENTS"
        lines += [f"The arguments of a run take the place of {', '.join(places)}; write $$ for a $ that is meant.", ""]
    steps = (f"validate {name}", f"explain {name}", f"run {name}{message}")
    return [*lines, "Next:", *(f"  agentmd {workspace}{step}" for step in steps)]


def _workspace_option(settings: Settings, environ: Mapping[str, str]) -> str:
    """The option that names the workspace, if these commands, given here, would not find it."""
    with suppress(UsageError):
        if find_workspace(None, environ, current_folder(), Path.home())[0] == settings.workspace:
            return ""
    return f"-w {_quoted(str(settings.workspace))} "


def _argument(name: str) -> str:
    return f"-- {_quoted(name)}" if name.startswith("-") else _quoted(name)


def _quoted(text: str) -> str:
    return one_line(shlex.quote(text))
