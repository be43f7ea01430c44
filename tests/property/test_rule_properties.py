"""The glob of rules against a regular expression, and the safety of decisions."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from agent_md.agents.rules import Match, decide, match, parse_rule
from agent_md.agents.spec import AgentSpec, ModelRef
from agent_md.executions.states import Decision

GLOBS = st.text("ab/*?", min_size=1, max_size=8)
SUBJECTS = st.text("ab/\n", max_size=8)
SPEC = AgentSpec("a", "", ModelRef("script", "a"), confirm_tools=())


def fits(glob: str, subject: str) -> bool:
    expression = "".join({"*": ".*", "?": "."}.get(char, re.escape(char)) for char in glob)
    return re.fullmatch(expression, subject, re.DOTALL) is not None


@settings(deadline=None)
@given(GLOBS, SUBJECTS)
def test_a_glob_is_what_the_regular_expression_says(glob: str, subject: str) -> None:
    found = match(parse_rule(f"t({glob})"), "t", {}, (subject,))

    assert (found is Match.YES) == fits(glob, subject)


@settings(deadline=None)
@given(st.lists(GLOBS, max_size=3), st.lists(GLOBS, max_size=3), st.lists(SUBJECTS, max_size=2), st.booleans())
def test_a_call_never_runs_against_a_rule(deny: list[str], approve: list[str], subjects: list[str], asks: bool) -> None:
    spec = replace(SPEC, deny=tuple(f"t({g})" for g in deny), auto_approve=tuple(f"t({g})" for g in approve))

    decision = decide(spec, "t", {}, tuple(subjects), asks).decision

    if any(fits(glob, subject) for glob in deny for subject in subjects):
        assert decision is Decision.REFUSE
    elif deny and not subjects:
        assert decision is Decision.ASK
    elif asks:
        lifted = bool(subjects) and any(all(fits(glob, subject) for subject in subjects) for glob in approve)
        assert decision is (Decision.RUN if lifted else Decision.ASK)
    else:
        assert decision is Decision.RUN
