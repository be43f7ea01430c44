"""Random agents, grants, calls, clocks and ends of sessions against an oracle that knows nothing of the product.

Nothing runs unasked that the oracle would ask for; and, as long as the clock goes forward, nothing is asked that it would
let run.
"""

from __future__ import annotations

import re
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from langchain_core.messages.tool import ToolCall

from agent_md.agents.effects import UNKNOWN_EFFECTS, Effects
from agent_md.agents.spec import AgentSpec, ModelRef
from agent_md.errors import AgentmdError, AnswerRefused, CancelRequested, GrantLapsed
from agent_md.executions.execution import Execution, Usage
from agent_md.executions.grants import GrantId, GrantScope, scopes_of
from agent_md.executions.ids import ExecutionId, RequestId
from agent_md.executions.positions import Position
from agent_md.executions.requests import CallEffect, ToolSource
from agent_md.executions.states import Decision
from agent_md.graph.gate import propose
from agent_md.runner.responding import new_answer
from agent_md.stores.sqlite.store import SqliteStore
from agent_md.tools.base import Plan, Settled, SettledState, ToolOptions
from tests.support.clock import ManualClock
from tests.support.scenes import W1, ai, begin, journal_of
from tests.support.workers import FakeWorkers

VALUES = ("a/x", "a/y", "a/b/x", "ab/x", "b/x", "x")
RULES = {
    "paths": ("paths", "paths(a/*)", "paths(*)", "paths(a/x)", "paths(*x)", "paths(a/?)", "paths(b/*)", "paths(x)"),
    "exact": ("exact", "exact(to=a/x)", "exact(to=*)", "exact(to=a/*)", "exact(to=x)"),
    "vague": ("vague", "vague(to=a/x)", "vague(to=*)"),
}
"""`paths` has subjects, `exact` is matched by its argument, to `vague` no pattern can be applied."""
ALL_RULES = [text for texts in RULES.values() for text in texts]
HOURS = {"1h": 3600.0, "3h": 3 * 3600.0, "never": None}

calls = st.tuples(st.sampled_from(list(RULES)), st.sampled_from(VALUES))
some_rules = st.lists(st.sampled_from(ALL_RULES), max_size=2).map(tuple)
specs = st.builds(
    AgentSpec,
    name=st.sampled_from(["one", "two"]),
    body=st.sampled_from(["", "v2"]),
    model=st.just(ModelRef("script", "x")),
    confirm_tools=st.just(("paths",)),
    confirm=some_rules,
    deny=some_rules,
    auto_approve=some_rules,
)


@dataclass
class FakeTool:
    """One of the three tools, in a version."""

    name: str
    version: int
    parameters: dict[str, Any] = field(
        default_factory=lambda: {"type": "object", "properties": {"to": {}}, "additionalProperties": False}
    )

    @property
    def description(self) -> str:
        return f"Version {self.version if self.name == 'paths' else 0}."

    @property
    def options(self) -> ToolOptions:
        return ToolOptions(requires_approval=self.name == "exact")

    @property
    def subjects_are_paths(self) -> bool:
        return self.name == "paths"

    def options_for(self, args: dict[str, Any]) -> ToolOptions:
        return self.options

    def validate(self, args: dict[str, Any]) -> dict[str, Any]:
        return args

    def subjects(self, args: dict[str, Any]) -> tuple[str, ...] | None:
        return {"paths": (args["to"],), "exact": None, "vague": ()}[self.name]

    def effects(self, args: dict[str, Any]) -> Effects:
        return UNKNOWN_EFFECTS

    def plan(self, args: dict[str, Any]) -> Plan:
        return Plan("digest", source=None if self.name == "paths" else ToolSource("kit", f"source {self.version}"))

    async def run(self, args: dict[str, Any], plan: Plan) -> str:
        raise AssertionError("nothing is run here")

    def settle(self, args: dict[str, Any], effect: CallEffect) -> Settled:
        return Settled(SettledState.CHANGED)


class NothingEdited:
    def args(self, tool: str, edited: dict[str, Any]) -> dict[str, Any]:
        raise AssertionError

    def plan(self, tool: str, edited: dict[str, Any]) -> Plan:
        raise AssertionError


# The oracle


def pattern_of(text: str) -> tuple[str, str | None]:
    tool, _, rest = text.partition("(")
    return tool, rest[:-1] if rest else None


def fits(text: str, tool: str, value: str) -> bool | None:
    """Whether a rule fits a call; None = that cannot be said: what is there of its arguments may fit, and does not have to."""
    wanted, pattern = pattern_of(text)
    if wanted != tool or pattern is None:
        return wanted == tool
    glob = pattern if tool == "paths" else pattern.removeprefix("to=")
    expression = "".join({"*": ".*", "?": "."}.get(char, re.escape(char)) for char in glob)
    found = re.fullmatch(expression, value) is not None
    return found if tool != "vague" else None


def may_fit(text: str, tool: str, value: str) -> bool | None:
    """As `fits`, for rules that ask or refuse: what fits as it is given is enough for them."""
    as_given = text.startswith(tool) and fits(text.replace("vague", "exact"), "exact", value)
    return True if tool == "vague" and as_given else fits(text, tool, value)


def by_rules(spec: AgentSpec, tool: str, value: str) -> tuple[Decision, bool]:
    """The decision without grants, and whether a grant may change it."""
    denied = [may_fit(text, tool, value) for text in spec.deny]
    if True in denied:
        return Decision.REFUSE, False
    if None in denied:
        return Decision.ASK, False
    guards = [may_fit(text, tool, value) for text in (*spec.confirm, *spec.confirm_tools)]
    if tool != "exact" and not any(found in (True, None) for found in guards):
        return Decision.RUN, False
    lifted = any(fits(text, tool, value) for text in spec.auto_approve)
    return (Decision.RUN, False) if lifted else (Decision.ASK, True)


@dataclass
class Run:
    """An execution as the oracle knows it."""

    id: ExecutionId
    spec: AgentSpec
    session: tuple[str, str, int] | None
    turn: int = 0


@dataclass
class Allowed:
    """A grant as the oracle knows it."""

    id: GrantId
    run: Run
    rule: str
    scope: GrantScope
    version: int
    given_at: float
    until: float | None
    dead: bool = False

    def allows(self, run: Run, tool: str, value: str, version: int, now: float) -> bool:
        covers = {
            GrantScope.EXECUTION: self.run is run,
            GrantScope.SESSION: self.run.session is not None and self.run.session == run.session,
            GrantScope.AGENT: self.run.spec.name == run.spec.name,
        }[self.scope]
        lives = not self.dead and self.given_at <= now and (self.until is None or now < self.until)
        same = self.run.spec == run.spec and self.version == version
        return covers and lives and same and fits(self.rule, tool, value) is True


class World(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.store = SqliteStore(None, workers=FakeWorkers(W1), clock=self.clock)
        self.runs: list[Run] = []
        self.sessions: dict[tuple[str, str], int] = {}
        self.deleted: set[tuple[str, str, int]] = set()
        self.version = 0
        self.grants: list[Allowed] = []
        self.asked: dict[RequestId, tuple[Run, str, str, int]] = {}
        self.lifted: list[tuple[Run, Position, GrantId]] = []
        self.forward = True

    def teardown(self) -> None:
        self.store.close()

    def execution(self, run: Run) -> Execution:
        return self.store.execution(run.id)

    def lives(self, run: Run) -> bool:
        return run.session not in self.deleted

    def see_expired(self) -> None:
        for grant in self.grants:
            grant.dead |= grant.until is not None and grant.until <= self.clock.now

    @initialize(spec=specs, session=st.sampled_from([None, "s"]))
    def first(self, spec: AgentSpec, session: str | None) -> None:
        self.begin(spec, session)

    @rule(spec=specs, session=st.sampled_from([None, "s", "t"]))
    def begin(self, spec: AgentSpec, session: str | None) -> None:
        execution = begin(self.store, agent=spec.name, session_id=session, spec=spec.to_json())
        place = None
        if session is not None:
            place = (spec.name, session, self.sessions.setdefault((spec.name, session), 0))
        self.runs.append(Run(execution.id, spec, place))

    @rule(data=st.data())
    def begin_again(self, data: st.DataObject) -> None:
        """The same agent once more: in the same session, or without one."""
        like = data.draw(st.sampled_from(self.runs))
        same = data.draw(st.booleans()) and like.session is not None
        self.begin(like.spec, like.session[1] if same and like.session is not None else None)

    @rule(data=st.data(), wanted=st.lists(calls, min_size=1, max_size=3))
    def message(self, data: st.DataObject, wanted: list[tuple[str, str]]) -> None:
        run = data.draw(st.sampled_from(self.runs))
        tools = {name: FakeTool(name, self.version) for name in RULES}
        given = [ToolCall(name=tool, args={"to": value}, id=str(n)) for n, (tool, value) in enumerate(wanted)]
        usable = self.store.grants.usable(run.id)
        proposals = propose(run.spec, tools, run.id, run.turn, given, 50, {}, usable)
        journal_of(self.store, self.execution(run)).record_model_step(
            run.turn, ai("", *proposals), "", Usage(), proposals
        )
        opened = {request.id: request for request in self.store.requests(run.id)}
        for index, (tool, value) in enumerate(wanted):
            position = Position(run.turn, index)
            call = self.store.call(run.id, position)
            assert call is not None
            decision, liftable = by_rules(run.spec, tool, value)
            allowing = [g for g in self.grants if g.allows(run, tool, value, self.version, self.clock.now)]
            allowed = liftable and self.lives_for(run, allowing)
            if call.grant_id is None:
                assert call.decision is decision
                assert not (self.forward and allowed)
            else:
                assert (call.decision, decision) == (Decision.RUN, Decision.ASK)
                assert allowed
                assert call.grant_id in [grant.id for grant in allowing]
                self.lifted.append((run, position, call.grant_id))
            requests = [request for request in opened.values() if request.position == position]
            assert len(requests) == (call.decision is Decision.ASK)
            for request in requests:
                self.asked[request.id] = (run, tool, value, self.version)
        run.turn += 1

    def lives_for(self, run: Run, allowing: list[Allowed]) -> bool:
        return any(g.scope is not GrantScope.SESSION or (self.lives(run) and self.lives(g.run)) for g in allowing)

    @precondition(lambda self: self.asked)
    @rule(
        data=st.data(),
        text=st.one_of(st.none(), st.none(), st.sampled_from(ALL_RULES)),
        scope=st.sampled_from([None, *GrantScope]),
        until=st.sampled_from(list(HOURS)),
    )
    def allow(self, data: st.DataObject, text: str | None, scope: GrantScope | None, until: str) -> None:
        request_id = data.draw(st.sampled_from(sorted(self.asked)))
        run, tool, value, version = self.asked[request_id]
        request, scopes = self.store.request(request_id), scopes_of(self.execution(run))
        remember = (
            {"until": until} | ({} if text is None else {"rule": text}) | ({} if scope is None else {"scope": scope})
        )
        widest = {"exact": f"exact(to={value})", "paths": f"paths({value.rpartition('/')[0]}/*)", "vague": None}[tool]
        if value == "x" and tool == "paths":
            widest = "paths(x)"
        assert (request.offer and request.offer.rule) == widest
        try:
            answer = new_answer(request, {"approved": True, "remember": remember}, NothingEdited(), scopes)
        except AnswerRefused:
            assert widest is None or text is not None or scope not in (None, *scopes)
            return
        assert answer.grant is not None
        assert scope in (None, *scopes)
        assert widest is not None
        assert fits(answer.grant.rule, tool, value)
        assert not any(fits(answer.grant.rule, tool, v) and not fits(widest, tool, v) for v in VALUES)
        del self.asked[request_id]
        [stored] = self.store.record_answers([answer], by="ann").answers
        self.see_expired()
        assert stored.grant_id is not None
        now, lasts = self.clock.now, HOURS[until]
        end = None if lasts is None else now + lasts
        self.grants.append(Allowed(stored.grant_id, run, answer.grant.rule, answer.grant.scope, version, now, end))

    @precondition(lambda self: self.grants)
    @rule(data=st.data())
    def revoke(self, data: st.DataObject) -> None:
        grant_id = data.draw(st.sampled_from(sorted({grant.id for grant in self.grants})))
        self.store.grants.revoke(grant_id, by="bob")
        self.see_expired()
        for grant in self.grants:
            grant.dead |= grant.id == grant_id

    @precondition(lambda self: self.lifted)
    @rule(data=st.data())
    def start(self, data: st.DataObject) -> None:
        run, position, grant_id = self.lifted.pop(data.draw(st.integers(0, len(self.lifted) - 1)))
        execution = self.execution(run)
        refused: type[AgentmdError] | None = None
        if execution.cancelled_by is not None:
            refused = CancelRequested
        elif self.store.grants.get(grant_id).ended == "revoked":
            refused = GrantLapsed
        with nullcontext() if refused is None else pytest.raises(refused):
            journal_of(self.store, execution).start_call(position, {}, None, grant_id=grant_id)

    @rule(seconds=st.sampled_from([1800.0, 3600.0, 7200.0]), settles=st.booleans())
    def wait(self, seconds: float, settles: bool) -> None:
        self.clock.advance(seconds)
        if settles:
            self.store.settle_overdue()
            self.see_expired()

    @rule(seconds=st.sampled_from([1.0, 3600.0, 10_000.0]))
    def set_clock_back(self, seconds: float) -> None:
        self.clock.advance(-seconds)
        self.forward = False

    @rule()
    def change_tools(self) -> None:
        self.version = 1 - self.version

    @precondition(lambda self: self.sessions)
    @rule(data=st.data())
    def delete_session(self, data: st.DataObject) -> None:
        agent, session_id = data.draw(st.sampled_from(sorted(self.sessions)))
        number = self.sessions[agent, session_id]
        if any(run.session == (agent, session_id, number) for run in self.runs):
            self.store.sessions.delete(agent, session_id, by="bob")
            self.deleted.add((agent, session_id, number))
            self.sessions[agent, session_id] = number + 1


def run_world(examples: int, steps: int) -> None:
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        World, settings=settings(max_examples=examples, stateful_step_count=steps, deadline=None)
    )


def test_nothing_runs_unasked_that_the_oracle_would_ask_for() -> None:
    run_world(60, 30)


@pytest.mark.stress
def test_nothing_runs_unasked_that_the_oracle_would_ask_for_in_long_worlds() -> None:
    run_world(1500, 60)
