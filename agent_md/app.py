"""The one place that wires: from settings to a registry, a store, tools, models and the loop.

Nothing heavy is imported here until it is needed: commands that only read the store load none of LangGraph.
"""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_md.agents.registry import Registry, agent_files, scan
from agent_md.agents.rules import hides, unknown_tools
from agent_md.agents.spec import AgentSpec
from agent_md.agents.text import Prompt, render
from agent_md.errors import AgentDisabled, AgentFileInvalid, UnknownExecution, UsageError
from agent_md.executions.model import (
    Claim,
    Execution,
    ExecutionId,
    HookTarget,
    NewExecution,
    Request,
    Status,
    TriggerKind,
    WorkerId,
)
from agent_md.models.factory import KEY_VARIABLES, check_model, with_address
from agent_md.models.pricing import Prices, load_prices, price_of
from agent_md.models.script_file import load_script
from agent_md.ports import Idempotency, Journal, NewAnswer, ProgressSink, Store
from agent_md.runner.responding import choose_request, new_answer
from agent_md.settings import Settings
from agent_md.stores.sqlite.store import SqliteStore
from agent_md.stores.state_dir import make_state_dir
from agent_md.stores.workers import LockWorkers, WorkerHandle
from agent_md.tools.base import Tool, declaration

if TYPE_CHECKING:
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from agent_md.graph.bench import Bench
    from agent_md.runner.advance import Runner
    from agent_md.tools.sandbox import Sandbox
    from agent_md.webhooks.sender import Changes, WebhookSender

__all__ = ["App"]


class App:
    """One workspace, opened by one process. Parts are made when first used; `close` frees what was."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self._registry: Registry | None = None
        self._registry_signature: list[Any] = []
        self._store: Store | None = None
        self._worker: WorkerHandle | None = None
        self._checkpoints: Any = None

    @property
    def registry(self) -> Registry:
        """The agent files as they are now; read again when one of them has changed."""
        signature = [(path, _stamp(path)) for path in agent_files(self.settings.agents_dir)]
        if self._registry is None or signature != self._registry_signature:
            self._registry = scan(self.settings.agents_dir, self.settings.workspace, self.settings.defaults)
            self._registry_signature = signature
        return self._registry

    @cached_property
    def _workers(self) -> LockWorkers:
        return LockWorkers(self.settings.state_dir / "workers")

    @cached_property
    def prices(self) -> Prices:
        """What models cost, as it was when first asked for. Raises ConfigInvalid for a mistake in the user's file."""
        return load_prices(self.settings.prices)

    @property
    def _scripts_dir(self) -> Path:
        return self.settings.agents_dir / "_config" / "scripts"

    @property
    def store(self) -> Store:
        """The store, made if need be, with overdue requests settled. Raises StoreError or StateDirUnusable."""
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

    @property
    def worker(self) -> WorkerId:
        """This process as a worker, alive until `close` or its death."""
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
        trigger: TriggerKind = TriggerKind.MANUAL,
        session_id: str | None = None,
        session_must_exist: bool = False,
        exclusive: bool = False,
        said: Mapping[str, Any] | None = None,
        hook: HookTarget | None = None,
        claimed: bool = True,
        idempotency: Idempotency | None = None,
    ) -> Execution:
        """Creates an execution of an agent, claimed by this process or queued, after checking all that can be checked.

        It begins with the agent's `history` of its conversation. `said` is kept with the human message (fields of its
        stored form); `session_must_exist`, `exclusive` and `hook` as in NewExecution. Raises UsageError, with nothing
        created: unknown, invalid or disabled agent, no key, a limit that cannot be kept, rules that name unknown tools,
        a conversation that waits (ConversationWaiting), a session that is busy or not there.
        """
        spec = self.runnable_spec(name)
        system, human = self._prompt(spec, args, message)
        text = human.encode("utf-8", "backslashreplace").decode()  # an argument may hold bytes that are no text
        seed = [{"type": "human", "data": {**(said or {}), "content": text, "id": f"human:{uuid.uuid4().hex}"}}]
        if system.strip():
            seed.insert(0, {"type": "system", "data": {"content": system, "id": "system"}})
        return self.store.create(
            NewExecution(
                agent=spec.name,
                trigger=trigger,
                seed=tuple(seed),
                session_id=session_id,
                history=spec.history,
                session_must_exist=session_must_exist,
                exclusive=exclusive,
                hook=hook,
            ),
            spec=spec.to_json(),
            spec_digest=spec.digest,
            skip_if_waiting=spec.on_pending == "skip",
            worker=self.worker if claimed else None,
            idempotency=idempotency,
        )

    def runnable_spec(self, name: str) -> AgentSpec:
        """The agent's spec, checked for everything that would keep it from running here. Raises UsageError."""
        spec = self.registry.get(name).spec
        if not spec.enabled:
            raise AgentDisabled(f"{spec.name} is disabled; set `enabled: true` in {spec.source_path} to run it")
        problems = self.problems(spec)
        if problems:
            raise problems[0]
        return spec

    def problems(self, spec: AgentSpec) -> list[UsageError]:
        """Everything that would keep a parsed agent from running: model and key, limits, tools, rules."""
        found: list[UsageError] = []
        try:
            environ = self.settings.environment()
            check_model(with_address(spec.model, environ), environ, self._scripts_dir)
        except UsageError as error:
            found.append(error)
        try:
            found.extend(_unpriced(spec, self.prices))
        except UsageError as error:
            found.append(error)
        try:
            self._prompt(spec, (), None)
        except UsageError as error:
            found.append(error)
        try:
            tools = self.tools(spec)
        except UsageError as error:
            return [*found, error]
        found.extend(self._unknown_rules(spec, tools))
        return found

    def _unknown_rules(self, spec: AgentSpec, tools: Mapping[str, Tool]) -> list[UsageError]:
        from agent_md.tools.builtin import RESERVED_NAMES

        if spec.mcp:  # their tools are not known here
            return []
        known = {*RESERVED_NAMES, *tools}
        wrong = unknown_tools(spec, known)
        if any(rule in spec.confirm_tools for rule, _ in wrong):
            wrong = unknown_tools(spec, known, elsewhere=self._tools_of_all_agents())
        return [
            AgentFileInvalid(
                f"{_place_of(rule, spec)}: the rule {rule!r} names no tool of {spec.name}"
                + (f"; did you mean {near!r}?" if near else f"; its tools are: {', '.join(sorted(tools))}")
            )
            for rule, near in wrong
        ]

    def _tools_of_all_agents(self) -> set[str]:
        """`defaults.confirm_tools` is for all agents, and may name a tool that only some of them have."""
        return {name for entry in self.registry.agents for name in self.tools(entry.spec, lenient=True)}

    def check(self, spec: AgentSpec) -> list[str]:
        """Everything that is wrong with a parsed agent: what `problems` finds, and what building its graph does."""
        problems = [str(problem) for problem in self.problems(spec)]
        problems += self._script_mistakes(spec)
        try:
            self._build(spec)
        except Exception as error:  # of whatever library: an agent that cannot be built must not pass
            problems.append(f"its graph cannot be built: {type(error).__name__}: {error}")
        return problems

    def _build(self, spec: AgentSpec) -> None:
        from agent_md.graph.build import build_graph

        execution = Execution(ExecutionId(0), spec.name, spec.digest, TriggerKind.MANUAL, Status.QUEUED, created_at=0)
        journal = self.reading_store.journal(Claim(execution.id, WorkerId(""), 0))
        build_graph(self._bench(execution, spec, journal, _Nobody()), None)

    def drifted(self, execution: Execution) -> bool:
        """Whether the agent's file, or a default behind it, is no longer what the execution started with."""
        return self.registry.current_digest(execution.agent) != execution.spec_digest

    def spec_of(self, execution: Execution) -> AgentSpec:
        """The spec that an execution started with."""
        return AgentSpec.from_json(self.store.spec(execution.id))

    def choose_request(self, execution: Execution, wanted: str | None, *, prefix: bool = False) -> Request:
        """The request of an execution that is meant; see `agent_md.runner.responding.choose_request`."""
        return choose_request(execution, self.store.requests(execution.id), wanted, prefix=prefix)

    def new_answer(self, execution: Execution, request: Request, response: Any) -> NewAnswer:
        """The validated answer to a request; nothing is recorded. Raises AnswerRefused."""

        def edited_digest(tool: str, args: dict[str, Any]) -> str:
            from agent_md.graph.gate import edited_plan

            spec = self.spec_of(execution)
            return edited_plan(spec, self.tools(spec, lenient=True), tool, args).digest

        return new_answer(request, response, edited_digest)

    def _prompt(self, spec: AgentSpec, args: Sequence[str], message: str | None) -> Prompt:
        return render(
            *(spec.body, args, message, self.settings.environment(), self._never_in_prompts(spec)),
            placeholders=[secret.name for secret in spec.secrets],
        )

    def _script_mistakes(self, spec: AgentSpec) -> list[str]:
        """Calls of a script to tools that the agent does not have; they would end an execution."""
        if spec.model.provider != "script":
            return []
        try:
            script, tools = load_script(self._scripts_dir, spec.model.name), self.tools(spec)
        except UsageError:  # told by `problems`
            return []
        names = {call.name for talk in script.conversations for turn in talk.turns for call in turn.calls}
        return [
            f"the script {spec.model.name} calls {name!r}, which is no tool of {spec.name}; "
            f"its tools are: {', '.join(sorted(tools))}"
            for name in sorted(names - tools.keys())
        ]

    def _never_in_prompts(self, spec: AgentSpec) -> Collection[str]:
        return {*self.settings.dotenv, *(secret.name for secret in spec.secrets), *KEY_VARIABLES, "AGENTMD_API_KEY"}

    def tools(self, spec: AgentSpec, *, lenient: bool = False) -> dict[str, Tool]:
        """The tools of an agent by name. With `lenient` a module that cannot be loaded is left out, else UsageError."""
        from agent_md.graph.foreign_interrupt import foreign_interrupts
        from agent_md.tools.builtin import RESERVED_NAMES, builtin_tools
        from agent_md.tools.custom import load_custom_tools

        tools: list[Tool] = list(builtin_tools(self._sandbox(spec), lambda path: hides(spec, path)))
        for group in [[module] for module in spec.tools] if lenient else [list(spec.tools)]:
            try:
                tools += load_custom_tools(
                    self.settings.tools_dir,
                    group,
                    reserved=RESERVED_NAMES,
                    surroundings=foreign_interrupts,
                    workspace=self.settings.workspace,
                )
            except UsageError:
                if not lenient:
                    raise
        return {tool.name: tool for tool in tools}

    def _sandbox(self, spec: AgentSpec) -> Sandbox:
        from agent_md.tools.forbidden import Forbidden
        from agent_md.tools.sandbox import Sandbox

        settings = self.settings
        forbidden = Forbidden(
            settings.agents_dir,
            folders=(settings.state_dir, settings.tools_dir, settings.skills_dir),
            files=(
                settings.database,
                settings.checkpoint_database,
                settings.mcp_config,
                settings.workspace / "config.yaml",  # it says what is guarded
                settings.workspace / ".env",  # also under the name of what it links to
                *([] if settings.prices is None else [settings.prices]),  # limits on money are kept by it
            ),
        )
        return Sandbox(settings.workspace, spec.paths, forbidden)

    # Driving

    def runner(self) -> Runner:
        """The loop, on this workspace's store and checkpoints."""
        from agent_md.runner.advance import Runner

        return Runner(self.store, self._checkpointer, self._bench)

    def _checkpointer(self) -> BaseCheckpointSaver[str]:
        from agent_md.stores.checkpoints import Checkpoints

        if self._checkpoints is None:
            self._checkpoints = Checkpoints(self.settings.checkpoint_database)
        saver: BaseCheckpointSaver[str] = self._checkpoints
        return saver

    def _bench(self, execution: Execution, spec: AgentSpec, journal: Journal, sink: ProgressSink) -> Bench:
        from agent_md.graph.bench import Bench
        from agent_md.models.spec_model import SpecModel
        from agent_md.models.usage import usage_of

        prices = self.prices  # a mistake in them is told before a model is asked
        tools = self.tools(spec, lenient=True)
        sandbox = self._sandbox(spec)
        model = SpecModel(
            spec, [declaration(tool) for tool in tools.values()], self.settings.environment(), self._scripts_dir
        )
        return Bench(
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
            spent_today=lambda: self.reading_store.spent(spec.name, _midnight()),
            close=model.close,
        )

    # Telling

    def webhooks(self, changes: Changes) -> WebhookSender:
        """Tells receivers what the store has to tell; `changes` wake it."""
        from agent_md.outbound.transport import GuardedTransport
        from agent_md.webhooks.attempts import Attempts
        from agent_md.webhooks.derive import Deriver
        from agent_md.webhooks.post import HttpPost
        from agent_md.webhooks.sender import WebhookSender

        store, settings = self.store, self.settings
        post = HttpPost(GuardedTransport(settings.http.allow_hosts))
        return WebhookSender(
            store.outbox,
            Deriver(store, store.outbox, interrupt_delay=settings.webhooks.interrupt_delay),
            Attempts(store, store.outbox, settings.environment, post, time.time),
            changes,
            self.worker,
            clock=time.time,
        )

    def close(self) -> None:
        """Frees the worker and closes the databases."""
        if self._worker is not None and self._store is not None:
            self._store.forget_worker(self._worker.id)
            self._worker.close()
        if self._checkpoints is not None:
            self._checkpoints.close()
        if self._store is not None:
            self._store.close()


def _midnight() -> float:
    """When today began in the zone of this machine, in seconds since 1970."""
    return datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0).timestamp()


def _place_of(rule: str, spec: AgentSpec) -> str:
    own = rule in (*spec.confirm, *spec.auto_approve, *spec.deny)
    return spec.source_path if own else "defaults.confirm_tools in config.yaml"


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """What changes when a file is written or replaced; None for what cannot be looked at."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


class _Nobody:
    """A sink for a graph that is built and never run."""

    def stored(self) -> None: ...

    def delta(self, execution_id: ExecutionId, turn: int, text: str) -> None: ...

    def restart(self, execution_id: ExecutionId, turn: int) -> None: ...


def _unpriced(spec: AgentSpec, prices: Prices) -> list[UsageError]:
    """A limit on money that cannot be kept is refused, never ignored."""
    limit = next(
        (name for name in ("max_cost_usd", "max_cost_usd_per_day") if getattr(spec.settings, name) is not None), None
    )
    if limit is None or spec.model.provider == "script" or price_of(spec.model, prices) is not None:
        return []
    return [
        UsageError(
            f"{spec.name}: settings.{limit} is set, but the price of {spec.model} is unknown. Give it in a file that "
            "`prices` in config.yaml names, or remove the limit and use max_execution_tokens"
        )
    ]
