"""Listings: what waits for a human, executions, agents. Pure functions to lines that fit any width."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from agent_md.agents.spec import AgentSpec, Trigger
from agent_md.cli.questions import indented, listed, remaining
from agent_md.cli.screen import PLAIN, Screen, Style
from agent_md.cli.text import cut, one_line, pad, width_of
from agent_md.executions.model import Execution, Request, RequestId
from agent_md.shapes import PathStep, duration_text

__all__ = [
    "AgentRow",
    "PendingRow",
    "agents_table",
    "executions_table",
    "pending_table",
    "request_prefix",
    "trigger_text",
]

_MARGIN = " "
_GAP = "  "
_NARROWEST = 5
"""Cells that the column which gives way keeps."""
_QUESTION_CELLS = 12
"""Cells that a question keeps beside its notes; in a narrower table notes are left out."""
_PREFIX = 8


@dataclass(frozen=True, slots=True)
class PendingRow:
    """An open request to list. `path` runs from the root execution to the asking one; empty = it is its own root."""

    request: Request
    drifted: bool = False
    path: tuple[PathStep, ...] = ()

    @property
    def root(self) -> int:
        return self.path[0].execution_id if self.path else self.request.execution_id

    @property
    def agents(self) -> str:
        return " > ".join(step.agent for step in self.path) or self.request.agent


@dataclass(frozen=True, slots=True)
class AgentRow:
    """An agent to list. `next_run` in seconds since 1970; `last` is its newest execution."""

    spec: AgentSpec
    next_run: float | None = None
    last: Execution | None = None


def pending_table(rows: Sequence[PendingRow], screen: Screen = PLAIN, *, now: float) -> list[str]:
    """Open requests: number of the root execution, agent, question with its notes.

    Where one execution has several open requests, each shows the prefix of its id that `--request` takes.
    """
    if not rows:
        return ["Nothing waits for an answer."]
    per_root = Counter(row.root for row in rows)
    ids = [row.request.id for row in rows]
    leading = [(str(row.root), one_line(row.agents)) for row in rows]
    widths = _widths(("#", "Agent"), leading, least=(2, 9))
    room = None
    if screen.width is not None:
        widths[1] = max(_NARROWEST, min(widths[1], screen.width // 3))
        room = max(screen.width - _span(widths) - len(_GAP), 1)
    table = []
    for row, cells in zip(rows, leading, strict=True):
        notes = _notes(row, now, request_prefix(row.request.id, ids) if per_root[row.root] > 1 else None)
        table.append((*cells, _with_notes(listed(row.request), notes, room)))
    return _table(("#", "Agent", "Question"), table, widths, screen)


def executions_table(executions: Sequence[Execution], screen: Screen = PLAIN) -> list[str]:
    """Executions in the given order: number, agent, status, trigger, start, time of work, tokens, cost."""
    if not executions:
        return ["No executions yet."]
    titles = ("#", "Agent", "Status", "Trigger", "Started", "Work", "Tokens", "Cost")
    cells = [_execution_cells(execution, screen) for execution in executions]
    return _table(titles, cells, _narrowed(_widths(titles, cells), screen, 1), screen)


def agents_table(
    rows: Sequence[AgentRow], invalid: Sequence[tuple[str, str]] = (), screen: Screen = PLAIN
) -> list[str]:
    """Agents, then the files that cannot be used: `invalid` are pairs of file and reason."""
    titles = ("", "Agent", "Trigger", "Next run", "Last run", "Status")
    cells = [_agent_cells(row, screen) for row in rows]
    lines = ["No agents."]
    if cells:
        lines = _table(titles, cells, _narrowed(_widths(titles, cells), screen, 2, 1), screen)
    if invalid:
        lines += ["", screen.painter("Files that cannot be used:", Style.RED)]
    for file, reason in invalid:
        lines += [f"  {one_line(file)}", *(f"  {line}" for line in indented(reason.strip("\n")))]
    return lines


def request_prefix(request_id: RequestId, among: Collection[RequestId]) -> str:
    """The shortest beginning of a request's id, of at least 8 characters, that no other one of `among` has."""
    for length in range(_PREFIX, len(request_id)):
        if sum(other.startswith(request_id[:length]) for other in among) <= 1:
            return request_id[:length]
    return request_id


def trigger_text(trigger: Trigger) -> str:
    """What starts an agent, in the words of its file: `every 5m`, `cron 0 8 * * 1 (Europe/Berlin)`, `watch in/*`."""
    if trigger.type == "watch":
        return one_line(f"watch {', '.join(trigger.paths)}")
    if trigger.type == "manual":
        return "manual"
    when = f"every {duration_text(trigger.every)}" if trigger.every is not None else f"cron {trigger.cron}"
    return one_line(f"{when} ({trigger.timezone})" if trigger.timezone else when)


def _notes(row: PendingRow, now: float, prefix: str | None) -> list[str]:
    """What is to be known beside the question, the most needed first."""
    notes = [] if prefix is None else [f" (request {one_line(prefix)})"]
    notes += [" (drifted)"] if row.drifted else []
    if row.request.expires_at is not None:
        notes.append(f" (expires in {remaining(row.request.expires_at - now)})")
    return notes


def _with_notes(question: str, notes: list[str], room: int | None) -> str:
    if room is None:
        return question + "".join(notes)
    kept = list(notes)
    while kept and room - width_of("".join(kept)) < _QUESTION_CELLS:
        kept.pop()
    tail = "".join(kept)
    return cut(question, room - width_of(tail)) + tail


def _execution_cells(execution: Execution, screen: Screen) -> tuple[str, ...]:
    usage = execution.usage
    return (
        str(execution.id),
        one_line(execution.agent),
        str(execution.status),
        str(execution.trigger),
        screen.date_time(execution.started_at or execution.created_at),
        f"{execution.work_ms / 1000:.1f} s",
        f"{usage.total_tokens:,}",
        "unknown" if usage.cost_usd is None else f"${usage.cost_usd:.4f}",
    )


def _agent_cells(row: AgentRow, screen: Screen) -> tuple[str, ...]:
    last = row.last
    return (
        one_line(row.spec.icon),
        one_line(row.spec.name),
        trigger_text(row.spec.trigger),
        "–" if row.next_run is None else screen.date_time(row.next_run),
        "never" if last is None else screen.date_time(last.started_at or last.created_at),
        _agent_status(row),
    )


def _agent_status(row: AgentRow) -> str:
    status = "–" if row.last is None else str(row.last.status)
    if row.spec.enabled:
        return status
    return "disabled" if row.last is None or row.last.status.final else f"{status} (disabled)"


def _widths(titles: Sequence[str], rows: Sequence[Sequence[str]], least: Sequence[int] = ()) -> list[int]:
    columns = zip(titles, *rows, strict=True)
    widths = [max(width_of(cell) for cell in column) for column in columns]
    return [max(pair) for pair in zip(widths, least, strict=True)] if least else widths


def _span(widths: Sequence[int]) -> int:
    return len(_MARGIN) + sum(widths) + len(_GAP) * (len(widths) - 1)


def _narrowed(widths: list[int], screen: Screen, *columns: int) -> list[int]:
    """The widths with as much taken from `columns`, one after the other, as the screen lacks."""
    narrowed = list(widths)
    for column in columns:
        over = 0 if screen.width is None else _span(narrowed) - screen.width
        if over > 0:
            narrowed[column] = max(_NARROWEST, narrowed[column] - over)
    return narrowed


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]], widths: Sequence[int], screen: Screen) -> list[str]:
    """Titles, a rule and the rows; `widths` are of the columns before the last, which takes what it needs."""

    def line(cells: Sequence[str]) -> str:
        leading = [pad(cell, width) for cell, width in zip(cells[:-1], widths, strict=False)]
        text = (_MARGIN + _GAP.join([*leading, cells[-1]])).rstrip()
        return text if screen.width is None else cut(text, screen.width)

    body = [line(row) for row in rows]
    rule = max(width_of(text) for text in (line(titles), *body)) - len(_MARGIN)
    return [screen.painter(line(titles), Style.BOLD), _MARGIN + "─" * rule, *body]
