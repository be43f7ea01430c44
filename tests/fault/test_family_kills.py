"""kill -9 of everything in a story of agents that call agents: none is stuck, no child is started twice."""

from __future__ import annotations

import itertools
import json
import random

import pytest

from agent_md.executions.execution import Execution
from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import CallOutcome, Status
from tests.support.world import MAY_HAVE_RUN, Story, World

PROCESSES = 4
"""One that runs the coordinator, and one for each answer."""


def _agent(name: str, settings: str) -> str:
    return f"---\nname: {name}\nmodel: {{provider: script, name: {name}}}\ntools: [effects]\nconfirm: [danger]\n{settings}\n---\nWork.\n"


def _script(*calls: dict[str, object], text: str) -> str:
    return json.dumps({"conversations": [{"turns": [{"calls": calls}, {"text": text}]}]})


def _call(name: str, **args: object) -> dict[str, object]:
    return {"name": name, "args": args}


class FamilyWorld(World):
    """A coordinator that starts two agents at once, with a guarded call of its own beside them. All three ask; the answer
    to one of them is no."""

    agent = "coordinator"

    def agents(self) -> dict[str, tuple[str, str]]:
        both = [_call("run_agent", agent_name=name) for name in ("left", "right")]
        own = _call("danger", key="C")
        return {
            "coordinator": (_agent("coordinator", "agents: [left, right]"), _script(*both, own, text="All done.")),
            "left": (_agent("left", ""), _script(_call("plain", key="U"), _call("danger", key="A"), text="Left.")),
            "right": (_agent("right", ""), _script(_call("danger", key="B"), text="Right.")),
        }

    def check(self) -> None:
        store = self.store()
        try:
            family = store.family(ExecutionId(1))
            calls = {member.agent: store.calls(member.id) for member in family}
        finally:
            store.close()
        told = [call.result for call in calls["coordinator"]]
        assert sorted(member.agent for member in family) == ["coordinator", "left", "right"], told
        assert {member.status for member in family} == {Status.SUCCESS}, family
        left, right, _ = calls["coordinator"]
        assert (left.result, right.result) == ("Left.", "Right.")
        effects = self.effects()
        for call in itertools.chain(calls["coordinator"][2:], calls["left"]):
            key = call.args["key"]
            if call.outcome is CallOutcome.UNKNOWN:
                assert MAY_HAVE_RUN in (call.result or "")
                assert effects[key] <= 1
            else:
                assert (call.outcome, effects[key]) == (CallOutcome.DONE, 1), call
        (denied,) = calls["right"]
        assert (denied.outcome, effects["B"]) == (CallOutcome.DENIED, 0)
        _check_nothing_is_left(family)


def _check_nothing_is_left(family: list[Execution]) -> None:
    assert not any(member.parked or member.worker for member in family)


@pytest.fixture(scope="module")
def family_story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    return Story(tmp_path_factory.mktemp("family"), FamilyWorld)


def _check_kill(story: Story, process: int, write: int, *, lost: bool) -> None:
    world = story.before(process)
    try:
        assert world.step(kill_before_write=write).killed
        if lost:
            world.lose_checkpoints()
        world.finish()
        world.check()
    except AssertionError as error:
        raise AssertionError(f"killed before write {write} of process {process}, lost: {lost}: {error}") from error


def test_the_family_without_a_kill(family_story: Story) -> None:
    assert len(family_story.writes) == PROCESSES
    assert all(count > 10 for count in family_story.writes)


def test_killed_before_one_write_in_sixty(family_story: Story) -> None:
    lost = itertools.cycle((True, False))
    for process, write in family_story.points[random.randrange(60) :: 60]:
        _check_kill(family_story, process, write, lost=next(lost))


@pytest.mark.stress
@pytest.mark.parametrize("process", range(PROCESSES))
@pytest.mark.parametrize("lost", [True, False], ids=["lost", "kept"])
def test_a_family_killed_before_every_write(family_story: Story, process: int, lost: bool) -> None:
    for write in range(1, family_story.writes[process] + 1):
        _check_kill(family_story, process, write, lost=lost)
