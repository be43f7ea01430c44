"""Starting executions: of an agent, of one that failed, and of a trigger's firing."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent_md.agents.spec import AgentSpec, ModelRef
from agent_md.errors import AgentDisabled
from agent_md.executions.chat_messages import human_message
from agent_md.executions.execution import Execution, HookTarget, NewChild, NewExecution
from agent_md.executions.firings import Firing, FiringId
from agent_md.executions.ids import ExecutionId
from agent_md.executions.states import TriggerKind
from agent_md.ports.store import Idempotency

if TYPE_CHECKING:
    from agent_md.app.app import App

__all__ = ["Starter"]


class Starter:
    """Creates executions in one workspace."""

    def __init__(self, app: App) -> None:
        self._app = app

    def start(
        self,
        name: str,
        *,
        args: Sequence[str] = (),
        message: str | None = None,
        model: ModelRef | None = None,
        fresh: bool = False,
        trigger: TriggerKind = TriggerKind.MANUAL,
        session_id: str | None = None,
        session_must_exist: bool = False,
        exclusive: bool = False,
        chat_message: Mapping[str, Any] | None = None,
        hook: HookTarget | None = None,
        claimed: bool = True,
        idempotency: Idempotency | None = None,
        firing: FiringId | None = None,
    ) -> Execution:
        """Creates an execution of an agent, claimed by this process or queued, after all checks that can be made first.

        It starts with the messages of its conversation that the agent's `history` allows, or with none if `fresh`.
        `model` replaces the agent's model. `chat_message` is the message that starts the turn, without its text, which is
        `message`. `session_must_exist`, `exclusive` and `hook` as in NewExecution.

        Raises UsageError, with nothing created: an unknown, invalid or disabled agent, one that is not trusted (Untrusted), a missing API key, an image that
        the model does not take, a limit that cannot be enforced, rules that name unknown tools, a conversation that waits
        (ConversationWaiting), a spent budget (BudgetSpent), a session that is busy or does not exist.
        """
        from agent_md.models.images import refuse_images

        assembly = self._app.assembly
        spec = self.runnable_spec(name, model)
        refuse_images(spec.model, [chat_message or {}])
        new = NewExecution(
            agent=spec.name,
            trigger=trigger,
            seed=self._first_messages(spec, args, message, chat_message or {}),
            session_id=session_id,
            history=0 if fresh else spec.history,
            session_must_exist=session_must_exist,
            exclusive=exclusive,
            hook=hook,
            budget=assembly.budget(spec),
        )
        return self._create(new, spec, claimed=claimed, idempotency=idempotency, firing=firing)

    def new_child(self, name: str, args: Sequence[str], parent_id: ExecutionId) -> NewChild:
        """An execution of an agent for a call of another execution to start. Raises UsageError as `start` does."""
        spec = self.runnable_spec(name)
        seed = self._first_messages(spec, args, None, {})
        new = NewExecution(spec.name, TriggerKind.AGENT, seed, parent_id=parent_id)
        return NewChild(new, spec.to_json(), spec.digest)

    def _first_messages(
        self, spec: AgentSpec, args: Sequence[str], message: str | None, chat_message: Mapping[str, Any]
    ) -> tuple[dict[str, Any], ...]:
        assembly = self._app.assembly
        system, human = assembly.prompt(spec, args, message)
        text = human.encode("utf-8", "backslashreplace").decode()  # an argument may hold bytes that are not UTF-8
        seed = [human_message(chat_message, text, f"human:{uuid.uuid4().hex}")]
        if system.strip():
            seed.insert(0, {"type": "system", "data": {"content": system, "id": "system"}})
        return tuple(assembly.redactor(spec).value(seed))

    def retry(self, failed: Execution, *, trigger: TriggerKind = TriggerKind.MANUAL, claimed: bool = True) -> Execution:
        """Creates an execution of the same agent, as its file is now, in the same session, with the system text and the
        message of the failed one. Raises as `start` does; DrivenElsewhere for one that has not ended, UsageError for one
        that succeeded."""
        from agent_md.runner.retrying import first_messages_again

        messages = first_messages_again(self._app.store, failed)
        spec = self.runnable_spec(failed.agent)
        new = NewExecution(
            agent=spec.name,
            trigger=trigger,
            seed=messages,
            session_id=failed.session_id,
            history=spec.history,
            session_must_exist=failed.session_id is not None,
            exclusive=failed.session_id is not None,
            budget=self._app.assembly.budget(spec),
        )
        return self._create(new, spec, claimed=claimed)

    def fire(self, firing: Firing) -> Execution:
        """Creates the execution of a firing, queued. Raises as `start` does, and FiringDecided."""
        return self.start(firing.agent, message=firing.message, trigger=firing.trigger, claimed=False, firing=firing.id)

    def runnable_spec(self, name: str, model: ModelRef | None = None) -> AgentSpec:
        """The spec of an agent that can run here; `model` replaces its model. Raises UsageError for an agent that cannot."""
        spec = self._app.registry.get(name).spec
        spec = spec if model is None else spec.with_model(model)
        if not spec.enabled:
            raise AgentDisabled(f"{spec.name} is disabled; set `enabled: true` in {spec.source_path} to run it")
        self._app.trust.require(spec)
        problems = self._app.preflight.problems(spec)
        if problems:
            raise problems[0]
        return spec

    def _create(
        self,
        new: NewExecution,
        spec: AgentSpec,
        *,
        claimed: bool,
        idempotency: Idempotency | None = None,
        firing: FiringId | None = None,
    ) -> Execution:
        return self._app.store.create(
            new,
            spec=spec.to_json(),
            spec_digest=spec.digest,
            skip_if_waiting=spec.on_pending == "skip",
            worker=self._app.worker if claimed else None,
            idempotency=idempotency,
            firing=firing,
        )
