"""What the gate decides about the calls of one message, from the spec, the tools and the arguments alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from langchain_core.messages.tool import ToolCall

from agent_md.agents.effects import Effects, Place
from agent_md.agents.spec import AgentSpec, ModelRef
from agent_md.errors import InvalidArguments, ToolError
from agent_md.executions.calls import Proposal
from agent_md.executions.grants import Grant, GrantId, GrantOffer, GrantScope
from agent_md.executions.ids import ExecutionId
from agent_md.executions.requests import CallEffect, Preview
from agent_md.executions.states import Decision, EffectKind
from agent_md.graph.gate import edited_plan, propose
from agent_md.tools.base import Plan, Settled, SettledState, Tool, ToolOptions, declared_digest

ID = ExecutionId(7)


@dataclass
class FakeTool:
    """Takes one text, `path`; refuses `bad`, cannot plan `gone`, and breaks at `broken`."""

    name: str = "shred"
    description: str = "Shreds."
    options: ToolOptions = field(default_factory=ToolOptions)
    parameters: dict[str, Any] = field(default_factory=dict)
    subjects_are_paths: bool = True

    def options_for(self, args: dict[str, Any]) -> ToolOptions:
        return self.options

    def validate(self, args: dict[str, Any]) -> dict[str, Any]:
        if args.get("path") == "broken":
            raise KeyError("path")
        if not isinstance(args.get("path"), str) or args["path"] == "bad":
            raise InvalidArguments("path: is bad")
        return args

    def subjects(self, args: dict[str, Any]) -> tuple[str, ...] | None:
        if args["path"] == "outside":
            raise ToolError("outside is not allowed")
        return (args["path"],)

    def effects(self, args: dict[str, Any]) -> Effects:
        return Effects(reads=(), writes=(Place(args["path"]),))

    def plan(self, args: dict[str, Any]) -> Plan:
        if args["path"] == "gone":
            raise ToolError("gone does not exist")
        return Plan(f"digest of {args['path']}", Preview(resolved=f"/ws/{args['path']}"))

    async def run(self, args: dict[str, Any], plan: Plan) -> str:
        raise AssertionError("the gate runs nothing")

    def settle(self, args: dict[str, Any], effect: CallEffect) -> Settled:
        return Settled(SettledState.CHANGED)


def spec(**fields: Any) -> AgentSpec:
    return AgentSpec("worker", "Work.", ModelRef("script", "worker"), **fields)


def call(path: object, name: str = "shred", call_id: str = "c1") -> ToolCall:
    return ToolCall(name=name, args={"path": path}, id=call_id)


def decide(
    agent: AgentSpec,
    *calls: ToolCall,
    left: int = 50,
    unreadable: Mapping[str, str] | None = None,
    tool: Tool | None = None,
) -> list[Proposal]:
    return propose(agent, {"shred": tool or FakeTool()}, ID, 3, calls, left, unreadable or {})


def test_a_guarded_call_gets_a_request_of_exactly_its_action() -> None:
    (proposal,) = decide(spec(confirm=("shred",), confirm_timeout=30.0), call("a"))
    assert proposal.decision is Decision.ASK
    request = proposal.request
    assert request is not None
    assert (request.id, str(request.position), request.digest) == ("7-3.0", "3.0", "digest of a")
    assert (request.tool_name, request.tool_args, request.expires_in) == ("shred", {"path": "a"}, 30.0)
    assert request.preview == Preview(resolved="/ws/a")


def test_each_call_of_a_message_has_its_own_position_and_request() -> None:
    proposals = decide(spec(confirm=("shred(a*)",)), *(call(path, call_id=path) for path in ("a1", "b", "a2")))
    assert [p.decision for p in proposals] == [Decision.ASK, Decision.RUN, Decision.ASK]
    assert [p.request.id for p in proposals if p.request] == ["7-3.0", "7-3.2"]
    assert [p.call_id for p in proposals] == ["a1", "b", "a2"]


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("bad", "Error: path: is bad"),
        (None, "Error: path: is bad"),
        ("outside", "Error: outside is not allowed"),
        ("gone", "Error: gone does not exist"),
        ("broken", "Error: shred failed: KeyError: 'path'"),
        ("secret/x", "Error: shred is not allowed by this agent's rules"),
    ],
)
def test_what_cannot_run_is_refused_and_nobody_is_asked(path: object, reason: str) -> None:
    (proposal,) = decide(spec(confirm=("shred",), deny=("shred(secret/*)",)), call(path))
    assert (proposal.decision, proposal.reason, proposal.request) == (Decision.REFUSE, reason, None)


def test_an_unguarded_call_is_not_planned() -> None:
    (proposal,) = decide(spec(), call("gone"))
    assert proposal.decision is Decision.RUN


def test_an_unknown_tool_is_refused_with_the_names_of_the_others() -> None:
    (proposal,) = decide(spec(), call("a", name="shed"))
    assert proposal.reason == "Error: there is no tool 'shed'; the tools are: shred"


@pytest.mark.parametrize("left", [2, 0, -4])
def test_calls_beyond_the_limit_are_refused(left: int) -> None:
    proposals = decide(spec(confirm=("shred",)), *(call("a", call_id=str(n)) for n in range(4)), left=left)
    allowed = max(left, 0)
    assert [p.decision for p in proposals] == [Decision.ASK] * allowed + [Decision.REFUSE] * (4 - allowed)
    assert proposals[-1].reason == "Error: not executed: max_tool_calls (50) is reached"


def test_an_unreadable_call_is_refused() -> None:
    (first, second) = decide(spec(), call("a", call_id="x"), call("a", call_id="y"), unreadable={"y": "no JSON"})
    assert first.decision is Decision.RUN
    assert (second.decision, second.reason) == (Decision.REFUSE, "Error: no JSON")


def test_a_tool_that_requires_approval() -> None:
    careful = FakeTool(options=ToolOptions(requires_approval=True))
    assert decide(spec(), call("a"), tool=careful)[0].decision is Decision.ASK
    assert decide(spec(auto_approve=("*",)), call("a"), tool=careful)[0].decision is Decision.RUN
    assert decide(spec(auto_approve=("*",), deny=("shred",)), call("a"), tool=careful)[0].decision is Decision.REFUSE


class TestGrants:
    """What is offered with a request, and which grants fit a call that asks."""

    def grant(self, number: int = 1, **fields: Any) -> Grant:
        of_tool = declared_digest(FakeTool())
        known = Grant(
            *(GrantId(number), "worker", ID, None, "shred(old/*)", GrantScope.AGENT),
            *("spec", of_tool, None, "cli:ann", 0.0, None),
        )
        return replace(known, **fields)

    def fitting(self, agent: AgentSpec, path: str, *grants: Grant, tool: Tool | None = None) -> tuple[GrantId, ...]:
        tools = {"shred": tool or FakeTool()}
        (proposal,) = propose(agent, tools, ID, 3, [call(path)], 50, {}, grants)
        assert proposal.decision is Decision.ASK or not proposal.grants
        return proposal.grants

    def test_the_request_offers_the_folder_of_its_file(self) -> None:
        (proposal,) = decide(spec(confirm=("shred",)), call("old/a"))
        assert proposal.request is not None
        assert proposal.request.offer == GrantOffer(
            "shred(old/*)", declared_digest(FakeTool()), ("old/a",), EffectKind.WRITE
        )

    def test_all_that_fit_are_named_in_their_order(self) -> None:
        grants = [self.grant(1), self.grant(2, rule="shred(new/*)"), self.grant(3, rule="shred")]
        assert self.fitting(spec(confirm=("shred",)), "old/a", *grants) == (1, 3)

    def test_what_runs_or_is_refused_by_a_rule_needs_none(self) -> None:
        assert self.fitting(spec(), "old/a", self.grant()) == ()
        assert self.fitting(spec(confirm=("shred",), deny=("shred(*a)",)), "old/a", self.grant()) == ()

    def test_what_the_tool_itself_requires_can_be_lifted(self) -> None:
        careful = FakeTool(options=ToolOptions(requires_approval=True))
        assert self.fitting(spec(), "old/a", self.grant(), tool=careful) == (1,)

    def test_one_of_another_tool_or_of_the_tool_as_it_was_fits_nothing(self) -> None:
        agent = spec(confirm=("shred",))
        assert self.fitting(agent, "old/a", self.grant(rule="shredder(old/*)")) == ()
        assert self.fitting(agent, "old/a", self.grant(), tool=FakeTool(description="Shreds well.")) == ()

    def test_a_denial_that_cannot_be_applied_to_the_call_is_never_lifted(self) -> None:
        agent = spec(confirm=("shred",), deny=("shred(path=x)",))
        assert self.fitting(agent, "old/a", self.grant(rule="shred")) == ()


class TestEdited:
    def plan(self, path: object, tool: str = "shred") -> Plan:
        return edited_plan(spec(deny=("shred(secret/*)",)), {"shred": FakeTool()}, tool, {"path": path})

    def test_the_digest_is_of_the_edited_action(self) -> None:
        assert self.plan("b").digest == "digest of b"

    @pytest.mark.parametrize("path", ["bad", "outside", "gone", "broken", "secret/x", 7])
    def test_what_is_refused(self, path: object) -> None:
        with pytest.raises(ToolError):
            self.plan(path)

    def test_a_tool_that_is_gone(self) -> None:
        with pytest.raises(ToolError, match="the tool 'shed' is gone"):
            self.plan("a", tool="shed")
