"""`explain`: which calls of an agent ask a human, by which rule, and what else bounds a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any

import typer

from agent_md.agents.rules import EVERYTHING, parse_rule
from agent_md.agents.spec import AgentSpec
from agent_md.agents.verdicts import Possible, Subjects, ToolFacts, possible_verdicts
from agent_md.app import App
from agent_md.cli.agent_notes import triggers_idle, without_server
from agent_md.cli.command_context import WorkspaceOption, open_app, screen
from agent_md.cli.option_values import JsonOption
from agent_md.cli.terminal.output import say
from agent_md.cli.views.grants import grant_text, state_text
from agent_md.cli.views.screen import PLAIN, Screen, Style
from agent_md.cli.views.tables import trigger_line
from agent_md.cli.views.triggers import held_text, skip_rules, skipped_text
from agent_md.cli.views.visible_text import fold, json_line, one_line, pad, width_of
from agent_md.errors import InvalidArguments, ToolError
from agent_md.executions.firings import TriggerState
from agent_md.executions.grants import Grant
from agent_md.executions.model import Decision, Drift
from agent_md.serialization import agent_detail, duration_text, grant_shape, trigger_shape
from agent_md.tools.base import Tool

__all__ = ["Explanation", "explain", "explained", "facts_of", "lines_of", "shape_of"]

_ASKING_TOOLS = ("ask_user", "ask_user_question")
_LABEL_CELLS = 34
_NARROWEST = 10
_FIRES = 3
_INDENT = "  "


@dataclass(frozen=True, slots=True)
class Explanation:
    """What is to be said of an agent. `guards` says where `confirm_tools` was set; `problems` keep it from running,
    `notes` do not."""

    spec: AgentSpec
    calls: tuple[Possible, ...]
    guards: str
    custom: bool = False
    problems: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    day_limit: float | None = None
    """US dollars that all agents of the workspace together may spend in a day."""
    trigger: TriggerState = field(default_factory=TriggerState)
    fires: tuple[str, ...] = ()
    """The next fires of its schedule, in its zone."""
    grants: tuple[tuple[Grant, tuple[Drift, ...]], ...] = ()
    """Those that have not ended, each with what suspends it."""

    def place_of(self, possible: Possible) -> str | None:
        """The file that has the rule; None when no rule decides, or the tool itself."""
        source = possible.verdict.source
        if source in (None, "requires_approval"):
            return None
        return self.guards if source == "confirm_tools" else self.spec.source_path


def explain(
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="The agent's name.", show_default=False)],
    as_json: JsonOption = False,
    workspace: WorkspaceOption = None,
) -> None:
    """Show which calls of an agent ask you, and by which rule.

    Example: agentmd explain cleaner
    """
    with open_app(workspace, drives=True) as app:
        explanation = explained(app, app.registry.get(agent).spec)
    if as_json:
        say(json_line(shape_of(explanation)))
        return
    say(*lines_of(explanation, screen()))


def explained(app: App, spec: AgentSpec) -> Explanation:
    """The explanation of an agent as it would run now. Raises AgentFileInvalid if its tools cannot be loaded."""
    from agent_md.tools.custom import CustomTool

    tools = app.parts.tools(spec)
    calls = [possible for name in sorted(tools) for possible in possible_verdicts(spec, facts_of(tools[name]))]
    origin = app.settings.origins["defaults.confirm_tools"]
    return Explanation(
        spec,
        tuple(calls),
        "built in" if origin == "default" else origin,
        custom=any(isinstance(tool, CustomTool) for tool in tools.values()),
        problems=tuple(str(problem) for problem in app.checks.problems(spec)),
        grants=_grants(app, spec),
        notes=(
            *app.checks.trigger_problems(spec),
            *app.checks.notes(spec),
            *without_server(app, spec),
            *triggers_idle(app, [spec]),
        ),
        day_limit=app.settings.max_cost_usd_per_day,
        trigger=app.trigger_state(spec),
        fires=tuple(app.next_fires(spec, _FIRES)),
    )


def _grants(app: App, spec: AgentSpec) -> tuple[tuple[Grant, tuple[Drift, ...]], ...]:
    found = app.reading_store.grants.listed(agents=[spec.name])
    drift = app.drift_of_grants(found)
    return tuple((grant, drift[grant.id]) for grant in found)


def facts_of(tool: Tool) -> ToolFacts:
    """What rules see of a tool."""
    from agent_md.tools.custom import CustomTool

    arguments: Mapping[str, Any] = tool.parameters.get("properties", {})
    kind = Subjects.UNSURE if isinstance(tool, CustomTool) else _subjects_of(tool, arguments)
    required = tool.parameters.get("required", ())
    return ToolFacts(tool.name, kind, frozenset(arguments), frozenset(required), tool.options.requires_approval)


def _subjects_of(tool: Tool, arguments: Mapping[str, Any]) -> Subjects:
    try:
        subjects = tool.subjects(dict.fromkeys(arguments, "x"))
    except InvalidArguments:
        return Subjects.ARGUMENTS
    except ToolError:  # it looked for a subject, and found one that is out of bounds
        return Subjects.SUBJECTS
    return Subjects.ARGUMENTS if subjects is None else Subjects.SUBJECTS


# JSON


def shape_of(explanation: Explanation) -> dict[str, Any]:
    """The explanation as JSON has it: every tool once for each outcome its calls can have."""
    spec = explanation.spec
    detail = agent_detail(spec)
    names = {possible.tool for possible in explanation.calls}
    kept = ("settings", "history", "trigger_type", "trigger_every", "trigger_cron", "trigger_paths", "trigger_hook")
    return {
        "agent": spec.name,
        "file": spec.source_path,
        "enabled": spec.enabled,
        "model": str(spec.model),
        "calls": [
            {
                "tool": possible.tool,
                "decision": str(possible.verdict.decision),
                "source": possible.verdict.source,
                "rule": possible.verdict.rule,
                "place": explanation.place_of(possible),
                "unclear": possible.unclear,
            }
            for possible in explanation.calls
        ],
        "grants": [grant_shape(grant, drift) for grant, drift in explanation.grants],
        "ask_themselves": [name for name in _ASKING_TOOLS if name in names],
        "confirm_timeout": duration_text(spec.confirm_timeout),
        "on_pending": spec.on_pending,
        **{key: detail[key] for key in kept},
        "workspace_max_cost_usd_per_day": explanation.day_limit,
        "trigger_state": trigger_shape(explanation.trigger),
        "next_fires": list(explanation.fires),
        "problems": list(explanation.problems),
        "notes": list(explanation.notes),
    }


# Text


def lines_of(explanation: Explanation, screen: Screen = PLAIN) -> list[str]:
    """The explanation for people, in lines that fit the screen. Groups stand in the order in which calls are decided."""
    spec = explanation.spec
    head = f"{one_line(spec.icon)} {one_line(spec.name)}  {one_line(str(spec.model))}  {one_line(spec.source_path)}"
    lines = [screen.painter(head, Style.BOLD)]
    if not spec.enabled:
        lines.append(screen.painter("It is disabled: every run is refused.", Style.ATTENTION))
    for title, rows in _groups(explanation):
        lines += ["", screen.painter(title, Style.BOLD), *_rows(rows, screen)]
    if notes := _notes(explanation):
        lines += ["", *_wrapped(notes, screen)]
    lines += ["", *(line for label, text in _bounds(explanation, screen) for line in _labelled(label, text, screen))]
    if explanation.notes:
        lines += ["", *(line for note in explanation.notes for line in _wrapped(f"note: {note}", screen))]
    if explanation.problems:
        lines += ["", screen.painter("It cannot run as it is:", Style.RED)]
        lines += [f"{_INDENT}{line}" for problem in explanation.problems for line in _wrapped(problem, screen, 2)]
    return lines


def _groups(explanation: Explanation) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """The outcomes that there are: a title, and what it is about and why."""
    calls = explanation.calls
    for title, decision, lifted in (
        ("Refused, and nobody is asked", Decision.REFUSE, False),
        ("Runs, although a rule would ask", Decision.RUN, True),
        ("Asks you first", Decision.ASK, False),
    ):
        if decision is Decision.ASK and explanation.grants:
            yield "Runs for now, although a rule would ask", [_grant_row(*each) for each in explanation.grants]
        group = [p for p in calls if p.verdict.decision is decision and (p.verdict.source == "auto_approve") == lifted]
        if group:
            yield title, [(_label(possible), _reason(explanation, possible)) for possible in group]
    free = [p.tool for p in calls if p.verdict.source is None]
    bound = {p.tool for p in calls if p.verdict.source is not None}
    whole = [tool for tool in free if tool not in bound]
    rows = [(", ".join(whole), "")] if whole else []
    if free:
        yield "Runs", rows + [(tool, "all other calls") for tool in free if tool in bound]
    asking = {p.tool for p in calls if p.verdict.decision is not Decision.REFUSE}.intersection(_ASKING_TOOLS)
    if asking:
        yield "Asks you something when it runs", [(", ".join(sorted(asking)), "")]


def _grant_row(grant: Grant, drift: Sequence[Drift]) -> tuple[str, str]:
    state = state_text(grant, drift)
    return grant.rule, grant_text(grant) + (f" ({state})" if state else "")


def _label(possible: Possible) -> str:
    """What calls it is about: the rule as written, or the tool, if it is about all of them."""
    rule = possible.verdict.rule
    if rule is None or rule == EVERYTHING or possible.unclear or parse_rule(rule).pattern is None:
        return possible.tool
    return rule


def _reason(explanation: Explanation, possible: Possible) -> str:
    verdict = possible.verdict
    if verdict.source == "requires_approval":
        return "requires_approval (the tool itself)"
    place = explanation.place_of(possible)
    name = "defaults.confirm_tools" if verdict.source == "confirm_tools" else str(verdict.source)
    if possible.unclear:
        return f"{name}: {verdict.rule} ({place}); this pattern cannot be applied"
    return f'{name}: "*" ({place})' if verdict.rule == EVERYTHING else f"{name} ({place})"


def _rows(rows: Sequence[tuple[str, str]], screen: Screen) -> list[str]:
    """Two columns; what is too wide for the first, or for the line, goes on in the next one."""
    widest = max((width_of(one_line(label)) for label, reason in rows if reason), default=0)
    width = min(widest, _LABEL_CELLS if screen.width is None else min(_LABEL_CELLS, screen.width // 2 - len(_INDENT)))
    lines = []
    for raw_label, raw_reason in rows:
        label, reason = one_line(raw_label), one_line(raw_reason)
        if not reason:
            lines += [f"{_INDENT}{line}" for line in _wrapped(label, screen, len(_INDENT))]
        elif width_of(label) <= width:
            lines += _labelled(pad(label, width), reason, screen)
        else:
            lines += [f"{_INDENT}{label}", *_labelled(" " * width, reason, screen)]
    return lines


def _labelled(label: str, text: str, screen: Screen) -> list[str]:
    first, *rest = _wrapped(text, screen, 2 * len(_INDENT) + width_of(label))
    blank = " " * width_of(label)
    return [f"{_INDENT}{label}{_INDENT}{first}", *(f"{_INDENT}{blank}{_INDENT}{line}" for line in rest)]


def _wrapped(text: str, screen: Screen, less: int = 0) -> list[str]:
    return [piece.rstrip() for piece in fold(one_line(text), screen.room(less, _NARROWEST))]


def _notes(explanation: Explanation) -> str:
    rules = [p.verdict.rule for p in explanation.calls if p.verdict.rule not in (None, EVERYTHING)]
    patterns = any(parse_rule(rule).pattern for rule in rules if rule is not None)
    return " ".join(
        text
        for text, holds in (
            ("Of several that fit, the upper one counts.", patterns),
            ("A call to which a pattern cannot be applied asks.", patterns and explanation.custom),
            ("Custom tools may ask you something when they run.", explanation.custom),
        )
        if holds
    )


def _bounds(explanation: Explanation, screen: Screen) -> list[tuple[str, str]]:
    """What bounds a run, and what starts it: label and text, the labels of one width."""
    spec = explanation.spec
    timeout = duration_text(spec.confirm_timeout)
    waiting = "refused while one waits for you" if spec.on_pending == "skip" else "started also while one waits for you"
    history = agent_detail(spec)["history"]
    messages = f" ({spec.history} messages)" if spec.history else ""
    rows = [
        (
            "A question",
            "stays open until it is answered" if timeout is None else f"expires after {timeout}, which denies it",
        ),
        ("A new run", f"is {waiting} (on_pending: {spec.on_pending})"),
        ("Limits", _limits(explanation)),
        ("History", f"{history}{messages}"),
        ("Trigger", trigger_line(spec)),
        *_trigger_rows(explanation, screen),
    ]
    width = max(len(label) for label, _ in rows)
    return [(label.ljust(width), text) for label, text in rows]


def _trigger_rows(explanation: Explanation, screen: Screen) -> Iterator[tuple[str, str]]:
    """What is started by the trigger and what is skipped; nothing for an agent without."""
    spec, state = explanation.spec, explanation.trigger
    if spec.trigger.type == "manual":
        return
    if explanation.fires:
        yield "Next fires", ", ".join(explanation.fires)
    yield "Skipped", skip_rules(spec) if spec.enabled else "whatever fires, since it is disabled"
    if spec.enabled and (held := held_text(spec, state)) is not None:
        yield "Now", held
    if (skipped := skipped_text(state, screen.zone)) is not None:
        yield "Before", skipped


def _limits(explanation: Explanation) -> str:
    limits = asdict(explanation.spec.settings)
    texts = [
        f"{limits['max_tool_calls']} calls",
        f"{limits['max_execution_tokens']:,} tokens",
        f"{duration_text(limits['timeout'])} of work",
    ]
    if limits["max_cost_usd"] is not None:
        texts.append(f"${limits['max_cost_usd']:g}")
    if limits["max_cost_usd_per_day"] is not None:
        texts.append(f"${limits['max_cost_usd_per_day']:g} a day")
    if explanation.day_limit is not None:
        texts.append(f"${explanation.day_limit:g} a day with all other agents")
    return ", ".join(texts)
