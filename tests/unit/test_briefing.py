"""What a model is told of its surroundings."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from langchain_core.messages import HumanMessage, SystemMessage

from agent_md.agents.spec import AgentSpec, ModelRef, PathMount
from agent_md.agents.system_prompt import briefing
from agent_md.models.history_format import briefed

BERLIN = datetime(2026, 11, 30, 9, 5, tzinfo=ZoneInfo("Europe/Berlin"))
PLAIN = AgentSpec("a", "Work.", ModelRef("script", "a"))
PLACES = AgentSpec(
    *("a", "Work.", ModelRef("script", "a")),
    paths=(PathMount("output", "out", "Reports,\none a day"), PathMount("data", "/srv/data", mode="ro")),
)
TODAY = "Today is Monday, 2026-11-30, in the zone CET (UTC+01:00)."


def test_the_day_and_the_zone_stand_in_it() -> None:
    assert briefing(PLAIN, BERLIN) == TODAY


def test_paths_stand_before_the_day_by_alias_with_mode_and_description() -> None:
    assert briefing(PLACES, BERLIN).splitlines() == [
        "Files are reached below these names only:",
        "- output/ (read and write): Reports, one a day",
        "- data/ (read only)",
        "",
        TODAY,
    ]
    assert "/srv" not in briefing(PLACES, BERLIN)


def test_all_but_the_day_is_the_same_on_another_one() -> None:
    later = briefing(PLACES, BERLIN.replace(day=29))
    assert later.rpartition("\n")[0] == briefing(PLACES, BERLIN).rpartition("\n")[0]
    assert "2026-11-29" in later


def test_it_ends_the_system_message_or_is_one() -> None:
    human = HumanMessage("Go.")
    assert briefed([SystemMessage("Work.\n"), human], "Now.") == [SystemMessage("Work.\n\nNow."), human]
    assert briefed([human], "Now.") == [SystemMessage("Now."), human]
