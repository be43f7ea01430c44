"""The completions of a partial command line: commands, options, agents, executions, requests. Reads only.

Only looked at: nothing is made, written or settled.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_md.agents.registry import Registry, scan
from agent_md.cli.command_context import current_folder
from agent_md.cli.views.listed_request import listed
from agent_md.executions.execution import Execution
from agent_md.executions.requests import Request
from agent_md.ports.store import Store
from agent_md.settings import Settings, load_settings
from agent_md.stores.sqlite.store import SqliteStore
from agent_md.stores.workers import LockWorkers
from agent_md.visible_text import one_line
from agent_md.wording.request_text import asked_by

__all__ = ["Candidate", "candidates"]

_NEWEST = 50


@dataclass(frozen=True, slots=True)
class Candidate:
    """A word that may stand here, and what it is, on one line."""

    value: str
    help: str = ""


@dataclass(slots=True)
class _Typed:
    """How far the words before the last one have come. `values` are those of options, by their names in Python."""

    command: Any
    path: tuple[str, ...] = ()
    waiting: Any = None
    """The option that still needs its value."""
    arguments: list[str] = field(default_factory=list)
    only_arguments: bool = False
    values: dict[str, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)


def candidates(root: Any, words: Sequence[str]) -> list[Candidate]:
    """What the last of the words may become, the others being as they are. `root` is the command of the whole program.

    Raises whatever the workspace makes it raise.
    """
    *before, last = words or [""]
    typed = _typed(root, before)
    if typed is None:
        return []
    prefix = ""
    if typed.waiting is None and not typed.only_arguments and last.startswith("-"):
        name, equals, rest = last.partition("=")
        typed.waiting = _option(typed.command, name) if equals else None
        if typed.waiting is None:
            return [item for item in _options(typed) if item.value.startswith(last)]
        prefix, last = f"{name}=", rest
    found = (item for item in _values(typed) if item.value.startswith(last))
    return [Candidate(prefix + item.value, item.help) for item in found]


def _typed(root: Any, words: Iterable[str]) -> _Typed | None:
    """Where the words lead; None for a command that there is not."""
    typed = _Typed(root)
    for word in words:
        if typed.waiting is not None:
            typed.values[typed.waiting.name], typed.waiting = word, None
        elif word == "--" and not typed.only_arguments:
            typed.only_arguments = True
        elif word.startswith("-") and len(word) > 1 and not typed.only_arguments:
            _take_option(typed, word)
        elif not typed.path:
            if word not in root.commands:
                return None
            typed.command, typed.path = root.commands[word], (word,)
        else:
            typed.arguments.append(word)
    return typed


def _take_option(typed: _Typed, word: str) -> None:
    name, equals, value = word.partition("=")
    option = _option(typed.command, name)
    if option is None:
        return
    typed.used.add(option.name)
    if equals:
        typed.values[option.name] = value
    elif not option.is_flag:
        typed.waiting = option


def _option(command: Any, name: str) -> Any:
    return next((p for p in command.params if p.param_type_name == "option" and name in p.opts), None)


def _options(typed: _Typed) -> Iterator[Candidate]:
    for param in typed.command.params:
        if param.param_type_name == "option" and (param.multiple or param.name not in typed.used):
            longest = max(param.opts, key=len)
            yield Candidate(longest, _first_sentence(param.help or ""))
    yield Candidate("--help", "Show this message and exit")


def _values(typed: _Typed) -> list[Candidate]:
    if typed.waiting is None and not typed.path:
        commands = typed.command.commands.items()
        return [Candidate(name, command.get_short_help_str(limit=100).rstrip(".")) for name, command in commands]
    param = typed.waiting or _argument(typed)
    if param is None:
        return []
    if provide := _PROVIDERS.get(param.name):
        with _workspace(typed) as workspace:
            return list(provide(workspace, typed))
    return [Candidate(item.value) for item in param.shell_complete(None, "") if item.type == "plain"]


def _argument(typed: _Typed) -> Any:
    """The argument that the next word is for."""
    arguments = [param for param in typed.command.params if param.param_type_name == "argument"]
    taken = len(typed.arguments)
    return arguments[taken] if taken < len(arguments) else None


def _first_sentence(text: str) -> str:
    return text.partition(". ")[0].partition("; ")[0].rstrip(".")


# What is in the workspace


@dataclass(slots=True)
class _Workspace:
    settings: Settings
    store: Store | None

    @property
    def registry(self) -> Registry:
        return scan(self.settings.agents_dir, self.settings.workspace, self.settings.defaults)


@contextmanager
def _workspace(typed: _Typed) -> Iterator[_Workspace]:
    named = typed.values.get("workspace")
    settings = load_settings(
        None if named is None else Path(named), environ=os.environ, cwd=current_folder(), home=Path.home()
    )
    if not settings.database.exists():
        yield _Workspace(settings, None)
        return
    store = SqliteStore(settings.database, workers=LockWorkers(settings.state_dir / "workers"), frozen=True)
    try:
        yield _Workspace(settings, store)
    finally:
        store.close()


def _agents(workspace: _Workspace, typed: _Typed) -> Iterator[Candidate]:
    for entry in workspace.registry.agents:
        spec = entry.spec
        yield Candidate(spec.name, one_line(spec.description) if spec.enabled else "disabled")


def _executions(workspace: _Workspace, typed: _Typed) -> Iterator[Candidate]:
    store = workspace.store
    if store is None:
        return
    match typed.path:
        case ("respond",):
            asking = {request.root.execution_id: request for request in reversed(store.open_requests())}
            yield from (_asking(request) for request in reversed(asking.values()))
        case ("cancel",):
            yield from (
                _described(execution) for execution in store.executions(limit=_NEWEST) if not execution.status.final
            )
        case ("resume",):
            yield from (_described(execution) for execution in store.abandoned())
        case _:
            yield from (_described(execution) for execution in store.executions(limit=_NEWEST))


def _described(execution: Execution) -> Candidate:
    return Candidate(str(execution.id), one_line(f"{execution.agent}: {execution.status}"))


def _asking(request: Request) -> Candidate:
    root = request.root
    return Candidate(str(root.execution_id), f"{one_line(root.agent)}: {asked_by(request)}{listed(request)}")


def _sessions(workspace: _Workspace, typed: _Typed) -> Iterator[Candidate]:
    if workspace.store is not None:
        named = typed.arguments if typed.path != ("sessions",) else []  # that one takes the agent as an option
        found = workspace.store.sessions.listed(agent=named[0] if named else None)
        newest = sorted(found, key=lambda session: session.changed_at, reverse=True)[:_NEWEST]
        yield from (Candidate(each.id, one_line(each.agent)) for each in newest if one_line(each.id) == each.id)


def _open_requests(workspace: _Workspace, typed: _Typed) -> list[Request]:
    if workspace.store is None or not typed.arguments:
        return []
    named = typed.arguments[0]
    return [
        request
        for request in workspace.store.open_requests()
        if named in (str(request.root.execution_id), str(request.execution_id))
    ]


def _requests(workspace: _Workspace, typed: _Typed) -> Iterator[Candidate]:
    yield from (Candidate(request.id, listed(request)) for request in _open_requests(workspace, typed))


def _choices(workspace: _Workspace, typed: _Typed) -> Iterator[Candidate]:
    for request in _open_requests(workspace, typed):
        yield from (Candidate(option) for option in request.options or ())


def _grants(workspace: _Workspace, typed: _Typed) -> Iterator[Candidate]:
    if workspace.store is not None and typed.arguments == ["revoke"]:
        for grant in workspace.store.grants.listed(limit=_NEWEST):
            yield Candidate(str(grant.id), f"{one_line(grant.agent)}: {one_line(grant.rule)}")


_PROVIDERS: dict[str, Callable[[_Workspace, _Typed], Iterable[Candidate]]] = {
    "agent": _agents,
    "execution": _executions,
    "session": _sessions,
    "request": _requests,
    "choice": _choices,
    "grant": _grants,
}
"""By the names that parameters have in Python, whatever the command."""
