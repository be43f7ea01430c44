"""The one place that wires: from settings to a registry, a store, tools, models and the loop.

Nothing heavy is imported here until it is needed: commands that only read the store load none of LangGraph.
"""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from agent_md.agents.current import CurrentAgents
from agent_md.agents.registry import Registry
from agent_md.agents.spec import AgentSpec, ModelRef
from agent_md.agents.system_prompt import briefing
from agent_md.engines.hand_back import HandBack
from agent_md.errors import AgentDisabled, UnknownExecution
from agent_md.executions.chat_messages import human_message
from agent_md.executions.execution import Execution, HookTarget, NewExecution
from agent_md.executions.firings import Firing, FiringId, TriggerState
from agent_md.executions.grants import Grant, GrantId, GrantScope, scopes_of
from agent_md.executions.ids import ExecutionId, RequestId, WorkerId
from agent_md.executions.requests import Request
from agent_md.executions.states import Drift, Status, TriggerKind
from agent_md.ports.journal import Journal
from agent_md.ports.progress import ProgressSink
from agent_md.ports.store import Idempotency, NewAnswer, Store
from agent_md.settings import Settings
from agent_md.stores.sqlite.store import SqliteStore
from agent_md.stores.state_dir import make_state_dir
from agent_md.stores.workers import LockWorkers, WorkerHandle
from agent_md.system import SYSTEM, Process

if TYPE_CHECKING:
    from agent_md.assembly import Assembly
    from agent_md.graph.run_context import RunContext
    from agent_md.models.pricing import Prices
    from agent_md.preflight import Preflight
    from agent_md.reloading.loop import Announce
    from agent_md.reloading.reloading import Reloading
    from agent_md.runner.loop import Runner
    from agent_md.runner.retention_sweep import Threads
    from agent_md.stores.checkpoints import Checkpoints
    from agent_md.tools.base import Plan, Tool
    from agent_md.tools.tool_modules import Source
    from agent_md.triggers.incoming_webhooks import HookReceiver
    from agent_md.triggers.loop import TriggerLoop
    from agent_md.triggers.start_or_skip import FiringStarter
    from agent_md.triggers.watch_loop import WatchLoop
    from agent_md.webhooks.sender import WebhookSender

__all__ = ["App"]

log = logging.getLogger(__name__)


class App:
    """One workspace, opened by one process. Parts are made when first used; `close` frees what was."""

    def __init__(self, settings: Settings, *, tell: Callable[[str], None] = log.warning) -> None:
        """`tell` says to people what they should know and need not act upon, in a line of text."""
        self.settings = settings
        """The settings in effect; see `use`."""
        self._tell = tell
        self.give_back = HandBack()
        self.agents = CurrentAgents(lambda: self.settings)
        self._store: Store | None = None
        self._worker: WorkerHandle | None = None
        self._checkpoints: Checkpoints | None = None
        self._opening = threading.RLock()
        """Parts are made once, also when several threads ask for them first."""
        self.worked_on: set[ExecutionId] = set()
        """The executions that this process drove or followed; who ends it may have to tell of them."""
        self._parts: Assembly | None = None

    @property
    def parts(self) -> Assembly:
        """What agents are made of here."""
        from agent_md.assembly import Assembly

        with self._opening:
            if self._parts is None:
                self._parts = Assembly(self.settings, self.give_back.ask)
            return self._parts

    @cached_property
    def checks(self) -> Preflight:
        """What keeps agents from running here."""
        from agent_md.preflight import Preflight

        return Preflight(self.parts, lambda: self.registry, self._run_context, lambda: self.reading_store)

    @property
    def registry(self) -> Registry:
        """The agent files as they are now; read again when one of them has changed."""
        return self.agents.registry()

    def use(self, settings: Settings, prices: Prices) -> None:
        """Replaces the settings in effect, for what begins from now on, and the level of this process's log."""
        settings.dotenv_file.keeps_last_good = self.settings.dotenv_file.keeps_last_good
        self.settings = settings
        self.parts.use(settings, prices)
        logging.getLogger().setLevel(settings.log_level)

    @cached_property
    def _workers(self) -> LockWorkers:
        return LockWorkers(self.settings.state_dir / "workers")

    @property
    def store(self) -> Store:
        """The store, made if need be, with overdue requests settled. Raises StoreError or StateDirUnusable."""
        with self._opening:
            if self._store is None:
                make_state_dir(self.settings)
                self._store = SqliteStore(self.settings.database, workers=self._workers)
                self._store.settle_overdue()
            return self._store

    def open(self) -> None:
        """Makes what is not there: the state folder and the store. Raises as `store` does."""
        _ = self.store

    @property
    def reading_store(self) -> Store:
        """The store for a command that only reads: nothing is made, and overdue requests are settled if it can be."""
        if self._store is None:
            if not self.settings.database.exists():
                self._store = SqliteStore(None, workers=self._workers)
            else:
                self._store = SqliteStore.for_reading(self.settings.database, workers=self._workers)
        return self._store

    def existing(self, execution_id: ExecutionId) -> Execution:
        """An execution of a workspace that has any; no state is made to look for it. Raises UnknownExecution."""
        if not self.settings.database.exists():
            raise UnknownExecution(
                f"there is no execution {execution_id}; `agentmd logs` lists them. "
                f"Nothing was ever run in the workspace {self.settings.workspace}"
            )
        return self.store.execution(execution_id)

    def abandoned(self) -> list[Execution]:
        """What could go on, oldest first; no state is made to look for it."""
        return self.store.abandoned() if self.settings.database.exists() else []

    def told_to_stop(self) -> None:
        """Notes that somebody wants this process to end: its end, however it comes, is counted against nothing that it
        drives. Safe in a signal handler."""
        if self._worker is not None:
            self._worker.told_to_stop()

    def left_behind(self, execution: Execution) -> list[Process]:
        """The processes that hold the lock of the worker that drove the execution, if that has ended itself: forks of a C
        library have the lock too. Nobody takes the execution over while they live, since they may still have effects."""
        worker = execution.worker
        if execution.status is not Status.RUNNING or worker is None:
            return []
        holders = SYSTEM.lock_holders(self.settings.state_dir / "workers" / f"{worker}.lock")
        owner = self.reading_store.worker_pid(worker)
        return [] if owner is None or any(holder.pid == owner for holder in holders) else holders

    @property
    def worker(self) -> WorkerId:
        """This process as a worker, alive until `close` or its death."""
        with self._opening:
            if self._worker is None:
                store = self.store
                self._worker = self._workers.acquire()
                store.register_worker(self._worker.id, os.getpid())
            return self._worker.id

    # Agents

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
        said: Mapping[str, Any] | None = None,
        hook: HookTarget | None = None,
        claimed: bool = True,
        idempotency: Idempotency | None = None,
        firing: FiringId | None = None,
    ) -> Execution:
        """Creates an execution of an agent, claimed by this process or queued, after checking all that can be checked.

        It begins with the agent's `history` of its conversation, or if it is `fresh` with none; with `model` that one
        answers, instead of the agent's. `said` is the chat message that begins the turn, its
        text apart, which is `message`; `session_must_exist`, `exclusive` and `hook` as in NewExecution. Raises UsageError, with nothing
        created: unknown, invalid or disabled agent, no key, an image that the model does not take, a limit that cannot be kept, rules that name unknown tools,
        a conversation that waits (ConversationWaiting), money that is spent (BudgetSpent), a session that is busy or not there.
        """
        from agent_md.models.images import refuse_images

        spec = self.runnable_spec(name, model)
        refuse_images(spec.model, [said or {}])
        system, human = self.parts.prompt(spec, args, message)
        text = human.encode("utf-8", "backslashreplace").decode()  # an argument may hold bytes that are no text
        seed = [human_message(said or {}, text, f"human:{uuid.uuid4().hex}")]
        if system.strip():
            seed.insert(0, {"type": "system", "data": {"content": system, "id": "system"}})
        seed = self.parts.redactor(spec).value(seed)
        return self.store.create(
            NewExecution(
                agent=spec.name,
                trigger=trigger,
                seed=tuple(seed),
                session_id=session_id,
                history=0 if fresh else spec.history,
                session_must_exist=session_must_exist,
                exclusive=exclusive,
                hook=hook,
                budget=self.parts.budget(spec),
            ),
            spec=spec.to_json(),
            spec_digest=spec.digest,
            skip_if_waiting=spec.on_pending == "skip",
            worker=self.worker if claimed else None,
            idempotency=idempotency,
            firing=firing,
        )

    def retry(self, failed: Execution, *, trigger: TriggerKind = TriggerKind.MANUAL, claimed: bool = True) -> Execution:
        """A new execution of the same agent, as its file is now, in the same session, told what the failed one was told:
        its system text and its message. Raises as `start` does; DrivenElsewhere for one that has not ended, UsageError
        for one that succeeded."""
        from agent_md.runner.retrying import first_messages_again

        messages = first_messages_again(self.store, failed)
        spec = self.runnable_spec(failed.agent)
        return self.store.create(
            NewExecution(
                agent=spec.name,
                trigger=trigger,
                seed=messages,
                session_id=failed.session_id,
                history=spec.history,
                session_must_exist=failed.session_id is not None,
                exclusive=failed.session_id is not None,
                budget=self.parts.budget(spec),
            ),
            spec=spec.to_json(),
            spec_digest=spec.digest,
            skip_if_waiting=spec.on_pending == "skip",
            worker=self.worker if claimed else None,
        )

    def runnable_spec(self, name: str, model: ModelRef | None = None) -> AgentSpec:
        """The agent's spec, with another `model` if one is given, checked for everything that would keep it from running
        here. Raises UsageError."""
        spec = self.registry.get(name).spec
        spec = spec if model is None else spec.with_model(model)
        if not spec.enabled:
            raise AgentDisabled(f"{spec.name} is disabled; set `enabled: true` in {spec.source_path} to run it")
        problems = self.checks.problems(spec)
        if problems:
            raise problems[0]
        return spec

    def drift_of(self, requests: Collection[Request]) -> dict[RequestId, tuple[Drift, ...]]:
        """What is no longer as it was when each request was asked, or its execution started."""
        from agent_md.drift import drift_of

        return drift_of(requests, self.reading_store, self.registry, self._tool_source)

    def _tool_source(self, module: str) -> Source:
        from agent_md.tools.tool_modules import ToolModule

        if self._parts is not None:
            return self._parts.tool_source(module)
        return ToolModule(self.settings.tools_dir, module).read()

    def drift_of_grants(self, grants: Collection[Grant]) -> dict[GrantId, tuple[Drift, ...]]:
        """What is no longer as it was when each grant was given, which suspends it."""
        from agent_md.drift import drift_of_grants

        return drift_of_grants(grants, self.reading_store, self.registry, lambda name: self.parts.tool_source(name))

    def spec_of(self, execution: Execution) -> AgentSpec:
        """The spec that an execution started with."""
        return AgentSpec.from_json(self.store.spec(execution.id))

    def choose_request(self, execution: Execution, wanted: str | None, *, prefix: bool = False) -> Request:
        """The request of an execution that is meant; see `agent_md.runner.responding.choose_request`."""
        from agent_md.runner.responding import choose_request

        return choose_request(execution, self.store.requests(execution.id), wanted, prefix=prefix)

    def choose_answered(self, execution: Execution, wanted: str | None) -> Request:
        """The request whose answer is to be retracted; see `agent_md.runner.responding.choose_answered`."""
        from agent_md.runner.responding import choose_answered

        return choose_answered(execution, self.store.requests(execution.id), wanted)

    def new_answer(
        self, execution: Execution, request: Request, response: Any, *, scopes: Sequence[GrantScope] | None = None
    ) -> NewAnswer:
        """The validated answer to a request; nothing is recorded. `scopes` that a grant may have, the default first; None =
        those of the execution. Raises AnswerRefused."""
        from agent_md.runner.responding import new_answer

        allowed = scopes_of(execution) if scopes is None else scopes
        return new_answer(request, response, _Editing(self, execution), allowed)

    def edited(self, execution: Execution, request: Request, args: dict[str, Any]) -> Request:
        """The request as it is shown with edited arguments, which are checked. Raises AnswerRefused."""
        from agent_md.runner.responding import edited_request

        return edited_request(request, args, _Editing(self, execution))

    # Driving

    def runner(self) -> Runner:
        """The loop, on this workspace's store and checkpoints."""
        from agent_md.runner.loop import Runner

        aside = self.parts.tool_threads.aside
        return Runner(self.store, self._checkpointer, self._run_context, aside=aside, redactor=self.parts.redactor)

    def _checkpointer(self) -> Checkpoints:
        from agent_md.stores.checkpoints import Checkpoints

        with self._opening:
            if self._checkpoints is None:
                self._checkpoints = Checkpoints(self.settings.checkpoint_database, tell=self._tell)
            return self._checkpoints

    def _run_context(self, execution: Execution, spec: AgentSpec, journal: Journal, sink: ProgressSink) -> RunContext:
        from agent_md.graph.run_context import RunContext
        from agent_md.models.spec_model import SpecModel
        from agent_md.models.usage import usage_of
        from agent_md.tools.base import declaration

        prices = self.parts.prices  # a mistake in them is told before a model is asked
        tools = self.parts.tools(spec, lenient=True)
        declarations = [declaration(tool) for tool in tools.values()]
        sandbox = self.parts.sandbox(spec)
        model = SpecModel(
            *(spec, declarations, self.settings.environment(), self.parts.scripts_dir),
            lambda: briefing(spec, datetime.now().astimezone()),
        )
        return RunContext(
            execution=execution,
            spec=spec,
            store=self.reading_store,
            journal=journal,
            tools=tools,
            call_model=model,
            usage_of=lambda message: usage_of(message, spec.model, prices),
            sink=sink,
            workspace=self.settings.workspace,
            resolve_path=lambda path: sandbox.resolve(path, write=False).path,
            aside=self.parts.tool_threads.aside,
            budget_of=lambda history: self.parts.budget(spec, history, declarations),
            redactor=self.parts.redactor(spec),
            close=model.close,
        )

    # Retention

    def threads(self, rest: Callable[[float], bool | None] = time.sleep) -> Threads:
        """The checkpoints of this workspace's executions, to be measured and cleared up; `rest` as in ThreadFile."""
        from agent_md.runner.retention_sweep import Threads
        from agent_md.stores.thread_file import ThreadFile

        file = ThreadFile(self.settings.checkpoint_database, tell=self._tell, rest=rest)
        return Threads(self.reading_store, file, time.time)

    def remove_executions(self, days: int, rest: Callable[[float], bool | None] = time.sleep) -> int:
        """Removes executions that ended `days` ago and are not needed; gives how many. `rest` as in `threads`."""
        from agent_md.runner.retention_sweep import remove_executions

        return remove_executions(self.store, days, time.time, rest)

    def thin_firings(self, rest: Callable[[float], bool | None] = time.sleep) -> int:
        """Removes skipped firings but the newest of each agent; gives how many. `rest` as in `threads`."""
        from agent_md.runner.retention_sweep import thin_firings

        return thin_firings(self.store, rest)

    # Reloading

    def reloading(self, announce: Announce) -> Reloading:
        """What reads changed files again, for a process that runs for long; see `follow_files`."""
        from agent_md.reloading.reloading import follow_files

        return follow_files(self.agents, self.parts, self.use, announce)

    # Triggers

    def next_fire(self, spec: AgentSpec) -> float | None:
        """When an agent's schedule fires next, in seconds since 1970; None if it has none, or that is not known."""
        if spec.trigger.type != "schedule":
            return None
        from agent_md.triggers.schedules import next_fire

        return next_fire(self.reading_store.firings, spec, time.time())

    def trigger_state(self, spec: AgentSpec) -> TriggerState:
        """How an agent's trigger stands; an empty state for an agent without."""
        if spec.trigger.type == "manual":
            return TriggerState()
        from agent_md.triggers.state import trigger_state

        return trigger_state(self.reading_store, spec)

    def next_fires(self, spec: AgentSpec, count: int) -> list[str]:
        """The next fires of an agent's schedule as ISO 8601 in its zone; an interval that has not begun begins now."""
        if spec.trigger.type != "schedule":
            return []
        from agent_md.triggers.fire_times import at_text, zone_of
        from agent_md.triggers.upcoming import coming

        zone = zone_of(spec.trigger)
        found = coming(self.reading_store.firings, [spec], time.time(), count)
        return [at_text(fire.at, zone) for fire in found]

    def trigger_loop(self, started: Callable[[], object], told: Callable[[Firing], object]) -> TriggerLoop:
        """Makes and starts the firings of this workspace. `started` is called when executions were created, `told`, on whichever thread, with
        each firing that was skipped."""
        from agent_md.triggers.loop import TriggerLoop
        from agent_md.triggers.schedules import Scheduler

        aside = self.parts.tool_threads.aside
        scheduler = Scheduler(self.store.firings, lambda: self.registry)
        return TriggerLoop(scheduler, self._starter(told), started, aside=aside)

    def hook_receiver(self, told: Callable[[Firing], object]) -> HookReceiver:
        """Takes deliveries to the webhooks of agents; `told` as in `trigger_loop`."""
        from agent_md.triggers.incoming_webhooks import HookReceiver

        return HookReceiver(self.store.firings, self._starter(told))

    def _starter(self, told: Callable[[Firing], object]) -> FiringStarter:
        from agent_md.triggers.start_or_skip import FiringStarter

        def being_saved(agent: str) -> bool:
            return self.parts.being_saved(self.registry.get(agent))

        return FiringStarter(self.store, self.agents.registry, self.fire, told, being_saved=being_saved)

    def watch_loop(self, made: Callable[[], object]) -> WatchLoop:
        """Makes firings of what changes in watched files; `made` is called when there are new ones."""
        from agent_md.triggers.watch_loop import WatchLoop
        from agent_md.triggers.watches import AgentWatch

        def watch(spec: AgentSpec) -> AgentWatch:
            return AgentWatch(spec, self.parts.sandbox(spec), self.store.firings)

        return WatchLoop(lambda: [entry.spec for entry in self.registry.agents], watch, made)

    def fire(self, firing: Firing) -> Execution:
        """Creates the execution of a firing, queued. Raises as `start` does, and FiringDecided."""
        return self.start(firing.agent, message=firing.message, trigger=firing.trigger, claimed=False, firing=firing.id)

    # Telling

    def notifies(self, execution_id: ExecutionId) -> bool:
        """Whether any webhook tells of this execution."""
        spec = AgentSpec.from_json(self.store.spec(execution_id))
        return bool(spec.notify) or self.store.outbox.target(execution_id) is not None

    def webhooks(self, *, interrupt_delay: float | None = None) -> WebhookSender:
        """Tells receivers what the store has to tell. `interrupt_delay` in seconds, if not as configured."""
        from agent_md.outbound.transport import GuardedTransport
        from agent_md.webhooks.attempts import Attempts
        from agent_md.webhooks.derive import Deriver
        from agent_md.webhooks.post import HttpPost
        from agent_md.webhooks.sender import WebhookSender

        def delay() -> float:
            return self.settings.webhooks.interrupt_delay if interrupt_delay is None else interrupt_delay

        store = self.store
        post = HttpPost(GuardedTransport(lambda: self.settings.http.allow_hosts))
        return WebhookSender(
            store.outbox,
            Deriver(store, store.outbox, interrupt_delay=delay),
            Attempts(store, store.outbox, lambda: self.settings.environment(), post, time.time),
            self.worker,
            clock=time.time,
        )

    def close(self) -> None:
        """Ends the loops of tools, frees the worker and closes the databases."""
        if self._parts is not None:
            self._parts.close()
        if self._worker is not None and self._store is not None:
            self._store.forget_worker(self._worker.id)
            self._worker.close()
        if self._checkpoints is not None:
            self._checkpoints.close()
        if self._store is not None:
            self._store.close()


class _Editing:
    """`agent_md.runner.responding.Editing` of one execution; its tools are loaded when a call was edited."""

    def __init__(self, app: App, execution: Execution) -> None:
        self._app = app
        self._execution = execution

    @cached_property
    def _spec(self) -> AgentSpec:
        return self._app.spec_of(self._execution)

    @cached_property
    def _tools(self) -> dict[str, Tool]:
        return self._app.parts.tools(self._spec, lenient=True)

    def args(self, tool: str, edited: dict[str, Any]) -> dict[str, Any]:
        from agent_md.graph.gate import edited_args

        return edited_args(self._tools, tool, edited)

    def plan(self, tool: str, edited: dict[str, Any]) -> Plan:
        from agent_md.graph.gate import edited_plan

        return edited_plan(self._spec, self._tools, tool, edited)
