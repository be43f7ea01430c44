"""Asks the person at the terminal whether a workspace is trusted, after everything it would do was shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from agent_md.cli.terminal.output import say
from agent_md.cli.views.questions import QuestionText
from agent_md.errors import AgentmdError, AnswerRefused, StoreError, Untrusted
from agent_md.executions.execution import Execution
from agent_md.executions.states import Status
from agent_md.trust.items import Item
from agent_md.trust.state_mark import StateFolder
from agent_md.visible_text import one_line

if TYPE_CHECKING:
    from agent_md.app import App
    from agent_md.cli.asking.prompt import TerminalPrompt

__all__ = ["admit", "ask_trust", "show_items", "show_state"]

_YES, _NO = ("y", "yes"), ("", "n", "no")
_OPEN = (Status.QUEUED, Status.RUNNING, Status.WAITING)
_SHOWN = 20


def admit(app: App, prompt: TerminalPrompt | None, *, starts: bool) -> None:
    """Returns when something of the workspace may run, having asked at the `prompt` if need be. With `starts` what was
    added since is asked about too; a no to that leaves the agents concerned to be refused. Raises Untrusted."""
    trust = app.trust
    trust.require_owner()
    refused = _refused(app)
    new = trust.new_items() if starts or refused is not None else []
    if refused is None and not new:
        return
    if prompt is None or trust.state() in (StateFolder.UNMARKED, StateFolder.TRACKED):
        if refused is not None:
            raise refused
        return
    show_items(app, new)
    if trust.state() is StateFolder.EARLIER:
        show_state(app)
    if ask_trust(prompt, again=trust.is_recorded):
        trust.grant(new)
    elif refused is not None:
        raise refused


def _refused(app: App) -> Untrusted | None:
    try:
        app.trust.require_known()
    except Untrusted as error:
        return error
    return None


def show_items(app: App, items: Sequence[Item]) -> None:
    """Prints what the workspace would do, before it is asked about."""
    from agent_md.cli.views.trust_list import trust_lines

    folder = one_line(str(app.settings.workspace))
    if not items and app.trust.is_recorded:
        say(f"{folder} would do nothing that you have not trusted it with.")
    elif not items:
        say(f"{folder} asks for nothing but built-in tools and models of your own.")
    elif app.trust.is_recorded:
        say(f"{folder} would do more than you trusted it with:", *trust_lines(items))
    else:
        say(f"{folder} is not trusted yet. It would do this:", *trust_lines(items))


def show_state(app: App) -> None:
    """Prints what is open in a state folder that is to be taken over: the next process would go on with it."""
    try:
        left = app.reading_store.executions(statuses=_OPEN, limit=_SHOWN + 1)
    except (StoreError, AgentmdError):
        left = []
    say(f"Its state folder was not made by this version here: {one_line(str(app.settings.state_dir))}")
    if not left:
        say("  nothing that can be read in it is queued or waits")
    for execution in left[:_SHOWN]:
        say(f"  {_open_execution(execution)}")
    if len(left) > _SHOWN:
        say("  and more")


def _open_execution(execution: Execution) -> str:
    what = {Status.WAITING: "waits for an answer"}.get(execution.status, "goes on by itself")
    return f"execution {execution.id} of {one_line(execution.agent)}: {execution.status}, {what}"


def ask_trust(prompt: TerminalPrompt, *, again: bool) -> bool:
    """The answer to the question below what was shown, which is `again` about a workspace that was trusted before; no when
    the input ends."""
    from agent_md.cli.asking.prompt import PromptClosed
    from agent_md.cli.terminal.interruptible import run_interruptible

    try:
        return run_interruptible(
            prompt.ask(QuestionText((), (), f"? Trust it{' with this too' if again else ''}? [y/N]: "), _answer)
        )
    except PromptClosed:
        return False


def _answer(line: str) -> bool:
    typed = line.strip().lower()
    if typed in _YES or typed in _NO:
        return typed in _YES
    raise AnswerRefused("y or n")
