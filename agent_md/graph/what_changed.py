"""Why an action is asked about again, in words."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from agent_md.executions.requests import CoveredFile, Request
from agent_md.tools.base import Plan
from agent_md.tools.pinned_path import ABSENT

__all__ = ["Reason", "because", "changed"]

Reason = Callable[[Plan], str]
"""Returns what is new about an action as it is planned now."""

_MOST_NAMED = 5


def because(text: str) -> Reason:
    """A reason that is known already."""
    return lambda _: text


def changed(when: str, shown: Request | None = None) -> Reason:
    """What changed `when`: the target, the source of the tool, or files that an approval covers. With the request that
    was `shown`, it names which."""

    def why(plan: Plan) -> str:
        if plan.covered or (shown is not None and shown.covered):
            return f"{'; '.join(_parts(plan, shown)) or 'it was changed'} {when}"
        target = plan.preview.resolved if plan.preview else None
        how = "is gone, and would be made as a new file: it was removed" if plan.makes_file else "was changed"
        source = "its source" if plan.source is None else plan.source.in_words
        return f"{target or source} {how} {when}"

    return why


def _parts(plan: Plan, shown: Request | None) -> Iterator[str]:
    if shown is None:
        yield "its source, or a file that an approval covers, was changed"
        return
    if plan.source != shown.tool_source:
        yield "its source was changed"
    before, now = _states(shown.covered), _states(plan.covered)
    texts = [_text(path, before.get(path), now.get(path)) for path in sorted({*before, *now})]
    found = [text for text in texts if text is not None]
    yield from found[:_MOST_NAMED]
    if len(found) > _MOST_NAMED:
        yield f"{len(found) - _MOST_NAMED} more files were changed"


def _states(covered: tuple[CoveredFile, ...]) -> dict[str, str]:
    return {file.path: file.state for file in covered}


def _text(path: str, before: str | None, now: str | None) -> str | None:
    if before == now:
        return None
    if now in (None, ABSENT):
        return f"{path} was removed"
    return f"{path} was {'added' if before in (None, ABSENT) else 'changed'}"
