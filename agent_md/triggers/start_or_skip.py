"""Starts due firings as executions, or skips them with a reason."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC

from agent_md.agents.registry import Registry
from agent_md.errors import AgentmdError, ConversationWaiting, FiringDecided, Untrusted, UsageError
from agent_md.executions.execution import Execution
from agent_md.executions.firings import Firing, FiringState
from agent_md.executions.states import Status, TriggerKind
from agent_md.ports.clock import Clock
from agent_md.ports.store import Store
from agent_md.triggers.fire_times import at_text
from agent_md.triggers.pauses import paused_by
from agent_md.triggers.watches import MOST_HOPS

__all__ = ["MOST_A_MINUTE", "FiringStarter", "StartFiring"]

log = logging.getLogger(__name__)

MOST_A_MINUTE = 20
"""Executions of an agent that its watch starts within a minute."""

_LONGEST_SAVE_S = 5.0
"""What is due waits no longer for files that are saved again and again."""

StartFiring = Callable[[Firing], Execution]
"""Creates the execution of a firing, queued. Raises UsageError when the agent cannot run, FiringDecided."""


class FiringStarter:
    """Starts due firings. If it is interrupted, no firing is lost: the next call starts those that are still due."""

    def __init__(
        self,
        store: Store,
        registry: Callable[[], Registry],
        start: StartFiring,
        told: Callable[[Firing], object] = lambda _: None,
        clock: Clock = time.time,
        *,
        being_saved: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """`told` is called with each firing that was skipped. While the files of an agent are `being_saved`, its due
        firings wait for them, a few seconds at most."""
        self._store = store
        self._registry = registry
        self._start = start
        self._told = told
        self._clock = clock
        self._being_saved = being_saved

    def start_due(self) -> list[Execution]:
        """The executions that were created, in the order of their firings. Raises StoreError."""
        decided = (self.decide(firing) for firing in self._store.firings.due())
        return [execution for execution in decided if execution is not None]

    def decide(self, firing: Firing) -> Execution | None:
        """Starts a firing that is due, skips it with its reason, or leaves it due until it can be started. Gives the
        execution that was created. Raises StoreError."""
        earlier = self._earlier(firing)
        if earlier is not None and earlier.created_at >= firing.due_at:
            return None  # of those that are caught up, one runs after the other
        reason = self._refusal(firing, earlier)
        if reason is None:
            if self._held(firing) or self._waits_for_files(firing):
                return None
            try:
                return self._start(firing)
            except FiringDecided:
                return None
            except ConversationWaiting as error:
                if firing.trigger is TriggerKind.WATCH:
                    return None
                reason = f"waiting: execution {', '.join(map(str, error.waiting))} waits for a human"
            except Untrusted as error:
                if firing.trigger is TriggerKind.WATCH:
                    return None
                reason = f"untrusted: {error}"
            except UsageError as error:
                reason = str(error)
        self._skip(firing, reason)
        return None

    def _skip(self, firing: Firing, reason: str) -> None:
        if self._store.firings.skip(firing.id, reason):
            due = at_text(firing.due_at, UTC)
            log.info("%s of %s, due at %s: skipped: %s", firing.trigger, firing.agent, due, reason)
            self._told(replace(firing, state=FiringState.SKIPPED, reason=reason))

    def _refusal(self, firing: Firing, earlier: Execution | None) -> str | None:
        """Why it is not even tried."""
        watch = firing.trigger is TriggerKind.WATCH
        pause = paused_by(self._store.firings.pauses(), firing.agent)
        if pause is not None and not watch:
            return f"paused by {pause.by}"
        try:
            spec = self._registry().get(firing.agent).spec
        except AgentmdError as error:
            return str(error)
        if not spec.enabled:
            return f"disabled in {spec.source_path}"
        if watch:
            return self._loop_refusal(firing)
        return None if earlier is None else f"overlapping: execution {earlier.id} still works"

    def _loop_refusal(self, firing: Firing) -> str | None:
        """Why a change set looks like one of a loop: of agents that feed each other, or of one that feeds itself."""
        if firing.hop > MOST_HOPS:
            return (
                f"hop limit: the files were written by an execution that the {firing.hop}th change set in a row started, "
                f"each of them written by the one before; at most {MOST_HOPS} follow one"
            )
        started = self._store.firings.listed(agent=firing.agent, states=[FiringState.STARTED], limit=MOST_A_MINUTE)
        begin = self._clock() - 60
        if (
            sum(other.trigger is firing.trigger and (other.decided_at or 0) > begin for other in started)
            < MOST_A_MINUTE
        ):
            return None
        return f"rate limit: {MOST_A_MINUTE} executions were started by this watch within a minute"

    def _held(self, firing: Firing) -> bool:
        """Whether a change set stays due: what changed is never lost to a pause, a question or an execution at work."""
        if firing.trigger is not TriggerKind.WATCH:
            return False
        if paused_by(self._store.firings.pauses(), firing.agent) is not None:
            return True
        open_ones = self._store.executions(statuses=(Status.QUEUED, Status.RUNNING, Status.WAITING), agent=firing.agent)
        waits = self._registry().get(firing.agent).spec.on_pending == "skip"
        return any(
            (waits and execution.session_id is None and execution.parent_id is None)
            if execution.status is Status.WAITING
            else execution.trigger is TriggerKind.WATCH
            for execution in open_ones
        )

    def _waits_for_files(self, firing: Firing) -> bool:
        if firing.trigger not in (TriggerKind.SCHEDULE, TriggerKind.WATCH):  # somebody waits for what it comes to
            return False
        return self._clock() - firing.due_at < _LONGEST_SAVE_S and self._being_saved(firing.agent)

    def _earlier(self, firing: Firing) -> Execution | None:
        """The scheduled execution of its agent that still works, if it is a tick."""
        if firing.trigger is not TriggerKind.SCHEDULE:
            return None
        working = self._store.executions(statuses=(Status.QUEUED, Status.RUNNING), agent=firing.agent)
        return next((execution for execution in working if execution.trigger is TriggerKind.SCHEDULE), None)
