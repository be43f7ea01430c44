"""The tables of requests, executions and agents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import tzinfo
from itertools import pairwise
from typing import TYPE_CHECKING

from agent_md.agents.spec import AgentSpec, Trigger
from agent_md.cli.views.listed_request import listed
from agent_md.cli.views.money import dollars
from agent_md.cli.views.table_layout import Listing
from agent_md.cli.views.text_width import width_of
from agent_md.cli.views.times import date_time
from agent_md.executions.execution import Execution
from agent_md.executions.ids import ExecutionId, RequestId
from agent_md.executions.requests import Request
from agent_md.executions.spending import Refusal
from agent_md.executions.states import Drift
from agent_md.serialization import duration_text, hook_path
from agent_md.visible_text import counted, one_line, visible
from agent_md.wording.request_text import drift_name, remaining

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = [
    "AgentRow",
    "PendingRow",
    "agents_table",
    "executions_table",
    "pending_table",
    "refusals_table",
    "request_prefixes",
    "trigger_line",
    "trigger_text",
]

_PREFIX = 8
MAY_HAVE_RUN = "⚠"
"""Stands behind the status of an execution with calls that may have run."""


@dataclass(frozen=True, slots=True)
class PendingRow:
    """An open request to list, under its root execution."""

    request: Request
    drift: tuple[Drift, ...] = ()

    @property
    def root(self) -> int:
        return self.request.root.execution_id

    @property
    def agents(self) -> str:
        return " > ".join(step.agent for step in self.request.path) or self.request.agent


@dataclass(frozen=True, slots=True)
class AgentRow:
    """An agent to list. `next_run` in seconds since 1970; `last` is its newest execution, whose process may have
    `died`; `paused` = its triggers are."""

    spec: AgentSpec
    next_run: float | None = None
    last: Execution | None = None
    died: bool = False
    paused: bool = False


def pending_table(rows: Sequence[PendingRow], *, now: float) -> RenderableType:
    """Open requests: number of the root execution, agent, question with its notes.

    Where one execution has several open requests, each shows the prefix of its id that `--request` takes.
    """
    if not rows:
        return "Nothing waits for an answer."
    per_root = Counter(row.root for row in rows)
    prefixes = request_prefixes([row.request.id for row in rows])
    table = []
    for row in rows:
        prefix = prefixes[row.request.id] if per_root[row.root] > 1 else None
        question = listed(row.request) + "".join(_notes(row, now, prefix))
        table.append((str(row.root), one_line(row.agents), question))
    return Listing(("#", "Agent", "Question"), table, yielding=(2, 1), least=(2, 9))


def executions_table(
    executions: Sequence[Execution],
    *,
    left: Collection[ExecutionId] = (),
    only: Collection[ExecutionId] | None = None,
    zone: tzinfo | None = None,
) -> list[RenderableType]:
    """Executions in the given order: number, agent, status, trigger, start, working time, tokens, cost.

    `left` are those whose process died: their status is `died`, and a line below says how to continue them. Calls that
    may have run are marked after the status, and named in a line below. With `only`, just these rows, without titles.
    """
    if not executions:
        return ["No executions yet."]
    titles = ("#", "Agent", "Status", "Trigger", "Started", "Work", "Tokens", "Cost")
    cells = [_execution_cells(execution, zone, died=execution.id in left) for execution in executions]
    chosen = [index for index, execution in enumerate(executions) if only is None or execution.id in only]
    shown: list[RenderableType] = [Listing(titles, cells, yielding=(4, 1), only=None if only is None else chosen)]
    for execution in (executions[index] for index in chosen):
        if execution.id in left:
            shown.append(f"The process that drove {execution.id} died: agentmd resume {execution.id}")
        if execution.unknown_calls:
            calls = counted(execution.unknown_calls, "call")
            shown.append(
                f"{MAY_HAVE_RUN} {calls} of execution {execution.id} may have run: agentmd logs -e {execution.id}"
            )
    return shown


def refusals_table(refusals: Sequence[Refusal], *, zone: tzinfo | None = None) -> RenderableType:
    """Runs that were refused, in the given order: when, agent, trigger, why."""
    cells = [
        (date_time(refusal.at, zone), one_line(refusal.agent), str(refusal.trigger), one_line(refusal.reason))
        for refusal in refusals
    ]
    return Listing(("Refused", "Agent", "Trigger", "Why"), cells, yielding=(3, 1))


def agents_table(
    rows: Sequence[AgentRow], invalid: Sequence[tuple[str, str]] = (), *, zone: tzinfo | None = None
) -> list[RenderableType]:
    """Agents with their descriptions, then the files that cannot be used: `invalid` are pairs of file and reason."""
    from rich.padding import Padding
    from rich.text import Text

    titles = ("   Agent", "Trigger", "Next run", "Last run", "Status")
    shown: list[RenderableType] = ["No agents."]
    if rows:
        below = [one_line(row.spec.description) for row in rows]
        shown = [Listing(titles, [_agent_cells(row, zone) for row in rows], yielding=(1, 0), below=below)]
    if invalid:
        shown += ["", Text("Files that cannot be used:", "red")]
    for file, reason in invalid:
        shown.append(Padding(Text(one_line(file), overflow="fold"), (0, 0, 0, 2)))
        shown.append(Padding(Text(visible(reason.strip("\n")), overflow="fold"), (0, 0, 0, 4)))
    return shown


def request_prefixes(request_ids: Collection[RequestId]) -> dict[RequestId, str]:
    """For each id its shortest beginning, of at least 8 characters, that no other one has."""
    ordered = sorted(set(request_ids))
    shared = [0, *(_length_shared(one, other) for one, other in pairwise(ordered)), 0]
    return {request_id: request_id[: max(_PREFIX, 1 + max(shared[i : i + 2]))] for i, request_id in enumerate(ordered)}


def _length_shared(one: str, other: str) -> int:
    different = (i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    return next(different, min(len(one), len(other)))


def trigger_text(trigger: Trigger) -> str:
    """What starts an agent, in the words of its file: `manual`, `every 5m`, `cron 0 8 * * 1 (Europe/Berlin)`,
    `watch in/*`, `webhook`."""
    if trigger.type in ("manual", "webhook"):
        return trigger.type
    if trigger.type == "watch":
        return one_line(f"watch {', '.join(trigger.paths)}")
    when = f"every {duration_text(trigger.every)}" if trigger.every is not None else f"cron {trigger.cron}"
    return one_line(f"{when} ({trigger.timezone})" if trigger.timezone else when)


def trigger_line(spec: AgentSpec) -> str:
    """As `trigger_text`, and of a webhook where it takes deliveries."""
    path = hook_path(spec)
    return trigger_text(spec.trigger) + ("" if path is None else f" at POST {path}")


def _notes(row: PendingRow, now: float, prefix: str | None) -> list[str]:
    """What is to be known beside the question, the most needed first."""
    notes = [] if prefix is None else [f" (request {one_line(prefix)})"]
    notes += [f" (drifted: {', '.join(map(drift_name, row.drift))})"] if row.drift else []
    if (left := row.request.time_left(now)) is not None:
        notes.append(f" (expires in {remaining(left)})")
    return notes


def _execution_cells(execution: Execution, zone: tzinfo | None, *, died: bool) -> tuple[str, ...]:
    usage = execution.usage
    return (
        str(execution.id),
        one_line(execution.agent),
        _status(execution, died=died),
        str(execution.trigger),
        date_time(execution.started_at or execution.created_at, zone),
        f"{execution.work_ms / 1000:.1f} s",
        f"{usage.total_tokens:,}",
        "unknown" if usage.cost_usd is None else dollars(usage.cost_usd),
    )


def _status(execution: Execution, *, died: bool) -> str:
    status = "died" if died else str(execution.status)
    if execution.cut is not None:
        status = f"{status}, cut"
    return f"{status} {MAY_HAVE_RUN}" if execution.unknown_calls else status


def _agent_cells(row: AgentRow, zone: tzinfo | None) -> tuple[str, ...]:
    last, icon = row.last, one_line(row.spec.icon)
    return (
        f"{icon}{' ' * (2 - width_of(icon))} {one_line(row.spec.name)}",
        trigger_text(row.spec.trigger),
        _next_run(row, zone),
        "never" if last is None else date_time(last.started_at or last.created_at, zone),
        _agent_status(row),
    )


def _next_run(row: AgentRow, zone: tzinfo | None) -> str:
    if row.next_run is not None:
        return date_time(row.next_run, zone)
    return "paused" if row.paused and row.spec.trigger.type != "manual" else "–"


def _agent_status(row: AgentRow) -> str:
    status = "–" if row.last is None else _status(row.last, died=row.died)
    if row.spec.enabled:
        return status
    return "disabled" if row.last is None or row.last.status.final else f"{status} (disabled)"
