"""Decides whether a call runs, is refused, or asks a human first.

The decision is taken once, on the name and the arguments, as the model gave them and as the tool will get them, when its message is stored.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.messages.tool import ToolCall

from agent_md.agents.effects import Effects, Place
from agent_md.agents.grant_rules import fits, proposed_rule
from agent_md.agents.rules import Verdict, decide
from agent_md.agents.spec import AgentSpec
from agent_md.errors import InvalidArguments, ToolError
from agent_md.executions.calls import Proposal
from agent_md.executions.grants import Grant, GrantId, GrantOffer
from agent_md.executions.ids import ExecutionId, RequestId
from agent_md.executions.positions import Position
from agent_md.executions.request_occurrences import id_of_occurrence
from agent_md.executions.requests import NewRequest
from agent_md.executions.states import Decision, EffectKind, RequestKind, RequestSource
from agent_md.graph.call_outcomes import tool_errors
from agent_md.tools.base import Plan, Tool, tool_digest

__all__ = ["NOT_ALLOWED", "confirmation", "edited_args", "edited_plan", "offer_of", "propose"]

NOT_ALLOWED = "not allowed by this agent's rules"

_LIFTED_BY_GRANTS = frozenset({"confirm", "confirm_tools", "requires_approval"})
"""What makes a call ask that a grant can let run; nothing else is lifted, such as a `deny` rule that cannot be applied to
the call."""

_ALWAYS = "secrets"
"""What makes a call ask that uses a secret without hosts; nothing lifts it."""


def propose(
    spec: AgentSpec,
    tools: Mapping[str, Tool],
    execution_id: ExecutionId,
    turn: int,
    calls: Sequence[ToolCall],
    calls_left: int,
    unusable: Mapping[str, str],
    grants: Sequence[Grant] = (),
) -> list[Proposal]:
    """A decision for each call of AI message `turn`, with the request of each guarded one, and those of the `grants` that
    fit it.

    Calls beyond `calls_left` are refused. A call that cannot run (unknown tool, arguments that do not fit, a path
    outside) is refused with the reason for the model, and nobody is asked; `unusable` has such reasons by call id.
    """
    proposals = []
    for index, call in enumerate(calls):
        position, call_id, args = Position(turn, index), call["id"] or "", call["args"]
        fitting: tuple[GrantId, ...] = ()
        try:
            if index >= calls_left:
                raise ToolError(f"not executed: max_tool_calls ({spec.settings.max_tool_calls}) is reached")
            if call_id in unusable:
                raise InvalidArguments(unusable[call_id])
            args, request, fitting = _decide(spec, tools, execution_id, position, call, grants)
            decision, reason = (Decision.ASK if request else Decision.RUN), None
        except ToolError as error:
            decision, reason, request = Decision.REFUSE, f"Error: {error}", None
        proposals.append(Proposal(position, call_id, call["name"], args, decision, reason, request, fitting))
    return proposals


def _decide(
    spec: AgentSpec,
    tools: Mapping[str, Tool],
    execution_id: ExecutionId,
    position: Position,
    call: ToolCall,
    grants: Sequence[Grant],
) -> tuple[dict[str, Any], NewRequest | None, tuple[GrantId, ...]]:
    """The arguments that the tool will get, the request of a guarded call, None for one that runs, and the grants that
    fit it.

    Raises ToolError for one that is refused.
    """
    tool = tools.get(call["name"])
    if tool is None:
        raise ToolError(f"there is no tool {call['name']!r}; the tools are: {', '.join(sorted(tools))}")
    with tool_errors(tool):
        args = tool.validate(call["args"])
        subjects = tool.subjects(args)  # once: what it names may be changed by somebody
        effects = tool.effects(args)
        verdict = _by_rules(spec, tool, args, call["args"], subjects, effects)
        if verdict.decision is Decision.REFUSE:
            raise ToolError(f"{tool.name} is {NOT_ALLOWED}")
        if verdict.decision is Decision.RUN:
            return args, None, ()
        plan = tool.plan(args)
        offer, rule = offer_of(tool, args, plan, subjects, effects), _rule_of(verdict)
        request = confirmation(spec, execution_id, position, tool, args, plan, offer=offer, rule=rule)
        if verdict.source not in _LIFTED_BY_GRANTS:
            return args, request, ()
        digest = tool_digest(tool, plan)
        usable = [grant for grant in grants if grant.tool_digest == digest]
        return (
            args,
            request,
            tuple(grant.id for grant in usable if fits(grant.rule, tool.name, args, subjects, effects)),
        )


def _by_rules(
    spec: AgentSpec,
    tool: Tool,
    args: dict[str, Any],
    given: dict[str, Any],
    subjects: Sequence[str] | None,
    effects: Effects,
) -> Verdict:
    options = tool.options_for(args)
    verdict = decide(spec, tool.name, args, subjects, options.requires_approval, given, effects)
    if options.always_asks and verdict.decision is not Decision.REFUSE:
        return Verdict(Decision.ASK, _ALWAYS)
    return verdict


def _rule_of(verdict: Verdict) -> str | None:
    return ": ".join(filter(None, (verdict.source, verdict.rule))) or None


def offer_of(
    tool: Tool, args: dict[str, Any], plan: Plan, subjects: tuple[str, ...] | None, effects: Effects
) -> GrantOffer | None:
    """The rule that an approval of this action may allow for later calls; None if no rule can describe it, or if an
    approval covers the content of files, which may change."""
    if tool.options.covers or tool.options_for(args).always_asks:
        return None
    rule = proposed_rule(tool.name, args, subjects, schema=tool.parameters, paths=tool.subjects_are_paths)
    if rule is None:
        return None
    return GrantOffer(rule, tool_digest(tool, plan), subjects, _effect_on(subjects, effects))


def _effect_on(subjects: tuple[str, ...] | None, effects: Effects) -> EffectKind | None:
    """What the call does to all its subjects, if these are files."""
    places = None if subjects is None else tuple(map(Place, subjects))
    if places and effects.writes == places:
        return EffectKind.WRITE
    return EffectKind.READ if places and effects.reads == places and not effects.writes else None


def confirmation(
    spec: AgentSpec,
    execution_id: ExecutionId,
    position: Position,
    tool: Tool,
    args: dict[str, Any],
    plan: Plan,
    *,
    offer: GrantOffer | None,
    rule: str | None = None,
    occurrence: int = 0,
    why: str | None = None,
) -> NewRequest:
    """The request to confirm exactly this action, with the arguments that the tool will get; `rule` asks, `occurrence`
    counts the requests of the call, `why` says what is new."""
    message = f"Confirm {tool.name} {json.dumps(args, ensure_ascii=False)}"
    return NewRequest(
        id=id_of_occurrence(RequestId(f"{execution_id}-{position}"), occurrence),
        position=position,
        source=RequestSource.GATE,
        kind=RequestKind.CONFIRM,
        message=message if why is None else f"{message} ({why})",
        digest=plan.digest,
        tool_source=plan.source,
        covered=plan.covered,
        tool_name=tool.name,
        tool_args=args,
        preview=plan.preview,
        occurrence=occurrence,
        expires_in=spec.confirm_timeout,
        offer=offer,
        rule=rule,
    )


def edited_args(tools: Mapping[str, Tool], tool_name: str, args: dict[str, Any]) -> dict[str, Any]:
    """Arguments that a human edited, as the tool would get them. Raises InvalidArguments or ToolError."""
    tool = _tool(tools, tool_name)
    with tool_errors(tool):
        return tool.validate(args)


def _tool(tools: Mapping[str, Tool], name: str) -> Tool:
    if name not in tools:
        raise ToolError(f"the tool {name!r} is gone")
    return tools[name]


def edited_plan(spec: AgentSpec, tools: Mapping[str, Tool], tool_name: str, args: dict[str, Any]) -> Plan:
    """The action of a call with arguments that a human edited.

    Raises InvalidArguments or ToolError when its tool, a `deny` rule or the sandbox refuses them.
    """
    tool = _tool(tools, tool_name)
    with tool_errors(tool):
        checked = tool.validate(args)
        verdict = _by_rules(spec, tool, checked, args, tool.subjects(checked), tool.effects(checked))
        if verdict.decision is Decision.REFUSE:
            raise InvalidArguments(f"{tool_name} with these arguments is {NOT_ALLOWED}")
        return tool.plan(checked)
