"""The output of `explain`: which calls ask, by which rule, and the other limits of a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.text import Text

from agent_md.agents.explained_rules import PossibleDecision
from agent_md.agents.explanation import ASKING_TOOLS, Explanation
from agent_md.agents.rules import EVERYTHING, parse_rule
from agent_md.agents.spec import SandboxSettings
from agent_md.cli.views.grants import grant_text, state_text
from agent_md.cli.views.hanging_indent import Hanging, paragraph
from agent_md.cli.views.pairs import Pairs
from agent_md.cli.views.table_layout import Listing
from agent_md.cli.views.tables import trigger_line
from agent_md.cli.views.triggers import held_text, skip_rules, skipped_text
from agent_md.executions.grants import Grant
from agent_md.executions.states import Decision, Drift
from agent_md.serialization import agent_detail, duration_text
from agent_md.visible_text import one_line

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["explanation_lines", "tool_lines"]


def explanation_lines(explanation: Explanation) -> Iterator[RenderableType]:
    """The explanation for people. Groups stand in the order in which calls are decided."""
    spec = explanation.spec
    head = f"{one_line(spec.icon)} {one_line(spec.name)}  {one_line(str(spec.model))}  {one_line(spec.source_path)}"
    yield Hanging(Text(head, "bold"))
    if not spec.enabled:
        yield Text("It is disabled: every run is refused.", "attention")
    for title, rows in _groups(explanation):
        yield Text(f"\n{title}", "bold")
        yield Pairs(rows)
    if notes := _notes(explanation):
        yield Text(f"\n{notes}")
    yield ""
    yield Pairs(_bounds(explanation))
    for number, note in enumerate(explanation.notes):
        yield from [] if number else [""]
        yield paragraph(f"note: {one_line(note)}")
    if explanation.problems:
        yield Text("\nIt cannot run as it is:", "failed")
        yield Pairs([(problem, "") for problem in explanation.problems])


def tool_lines(explanation: Explanation) -> Iterator[RenderableType]:
    """The tools of an agent for people, each with what becomes of its calls."""
    spec = explanation.spec
    yield Hanging(Text(f"{one_line(spec.icon)} {one_line(spec.name)}  {one_line(spec.source_path)}", "bold"))
    rows = [
        (one_line(tool.name), one_line(tool.arguments), one_line(tool.origin), _decisions(explanation, tool.name))
        for tool in explanation.tools
    ]
    yield Listing(("Tool", "Arguments", "From", "Calls"), rows, yielding=(3, 1, 2))
    yield from (paragraph(f"note: {one_line(problem)}") for problem in explanation.problems)
    yield from (paragraph(f"note: {one_line(text)}") for text in explanation.notes if "are not shown" in text)


def _decisions(explanation: Explanation, tool: str) -> str:
    """What becomes of the calls of a tool: the first rule that fits decides."""
    texts = []
    for possible in explanation.calls:
        if possible.tool == tool:
            verdict = possible.verdict
            word = {Decision.ASK: "ask", Decision.RUN: "run", Decision.REFUSE: "are refused"}[verdict.decision]
            rule = f": {one_line(verdict.rule)}" if verdict.rule not in (None, tool) else ""
            source = f" ({verdict.source}{rule})" if verdict.source else ""
            except_for = f", but {possible.unasked}" if possible.unasked else ""
            texts.append(f"{word}{source}{except_for}")
    if len(texts) > 1:
        texts[-1] = f"others {texts[-1]}"
    return "; ".join(texts)


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
    asking = {p.tool for p in calls if p.verdict.decision is not Decision.REFUSE}.intersection(ASKING_TOOLS)
    if asking:
        yield "Asks you something when it runs", [(", ".join(sorted(asking)), "")]


def _grant_row(grant: Grant, drift: Sequence[Drift]) -> tuple[str, str]:
    state = state_text(grant, drift)
    return grant.rule, grant_text(grant) + (f" ({state})" if state else "")


def _label(possible: PossibleDecision) -> str:
    """What calls it is about: the rule as written, or the tool, if it is about all of them."""
    rule = possible.verdict.rule
    if rule is None or rule == EVERYTHING or possible.unclear:
        return possible.tool
    parsed = parse_rule(rule)
    return possible.tool if parsed.pattern is None or parsed.effect is not None else rule


def _reason(explanation: Explanation, possible: PossibleDecision) -> str:
    verdict = possible.verdict
    if verdict.source == "requires_approval":
        return "requires_approval (the tool itself)" + (f", except {possible.unasked}" if possible.unasked else "")
    place = explanation.place_of(possible)
    name = "defaults.confirm_tools" if verdict.source == "confirm_tools" else str(verdict.source)
    effect = None if verdict.rule in (None, EVERYTHING) else parse_rule(str(verdict.rule)).effect
    if possible.unclear:
        why = "this pattern cannot be applied" if effect is None else f"what it {effect}s cannot be told"
        return f"{name}: {verdict.rule} ({place}); {why}"
    if effect is not None:
        return f"{name}: {verdict.rule} ({place})"
    return f'{name}: "*" ({place})' if verdict.rule == EVERYTHING else f"{name} ({place})"


def _notes(explanation: Explanation) -> str:
    rules = [p.verdict.rule for p in explanation.calls if p.verdict.rule not in (None, EVERYTHING)]
    bare = ", ".join(f"${{{secret.name}}}" for secret in explanation.spec.secrets if not secret.hosts)
    patterns = any(parse_rule(rule).pattern for rule in rules if rule is not None)
    return " ".join(
        text
        for text, holds in (
            ("Of several that fit, the upper one counts.", patterns),
            ("A call to which a pattern cannot be applied asks.", patterns and explanation.custom),
            (f"Calls that use {bare} ask whatever the rules say.", bool(bare)),
            ("Custom tools may ask you something when they run.", explanation.custom),
        )
        if holds
    )


def _bounds(explanation: Explanation) -> list[tuple[str, str]]:
    """What bounds a run, and what starts it: label and text."""
    spec = explanation.spec
    timeout = duration_text(spec.confirm_timeout)
    waiting = "refused while one waits for you" if spec.on_pending == "skip" else "started also while one waits for you"
    history = agent_detail(spec)["history"]
    messages = f" ({spec.history} messages)" if spec.history else ""
    return [
        (
            "A question",
            "stays open until it is answered" if timeout is None else f"expires after {timeout}, which denies it",
        ),
        ("A new run", f"is {waiting} (on_pending: {spec.on_pending})"),
        ("Limits", _limits(explanation)),
        *([("May call", one_line(", ".join(spec.agents)))] if spec.agents else []),
        *([("Custom tools", _sandbox_text(spec.sandbox, spec.allow_hosts))] if spec.sandbox else []),
        ("History", f"{history}{messages}"),
        ("Trigger", trigger_line(spec)),
        *_trigger_rows(explanation),
    ]


def _sandbox_text(sandbox: SandboxSettings, hosts: Sequence[str]) -> str:
    given = one_line(", ".join((*sandbox.environment, *hosts)))
    return "run in a sandbox, with " + (given or "no variables and no network")


def _trigger_rows(explanation: Explanation) -> Iterator[tuple[str, str]]:
    """What the trigger starts and what is skipped; empty for an agent without a trigger."""
    spec, state = explanation.spec, explanation.trigger
    if spec.trigger.type == "manual":
        return
    if explanation.fires:
        yield "Next fires", ", ".join(explanation.fires)
    yield "Skipped", skip_rules(spec) if spec.enabled else "whatever fires, since it is disabled"
    if spec.enabled and (held := held_text(spec, state)) is not None:
        yield "Now", held
    if (skipped := skipped_text(state)) is not None:
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
