"""Composition root: builds the registry, the store, the tools and the runner of one workspace from its settings.

Heavy modules are imported when they are first used, so that commands that only read the store do not load LangGraph.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING

from agent_md.agents.current import CurrentAgents
from agent_md.agents.registry import Registry
from agent_md.agents.spec import AgentSpec
from agent_md.app.agent_calls import build_run_agent
from agent_md.app.responder import Responder
from agent_md.app.retention import Retention
from agent_md.app.run_contexts import build_run_context
from agent_md.app.services import Services
from agent_md.app.starter import Starter
from agent_md.app.triggers import Triggers
from agent_md.engines.hand_back import HandBack
from agent_md.errors import ConfigInvalid, StoreError, StoreReadOnly, UnknownExecution
from agent_md.executions.execution import Execution
from agent_md.executions.grants import Grant, GrantId
from agent_md.executions.ids import ExecutionId, RequestId, WorkerId
from agent_md.executions.requests import Request
from agent_md.executions.states import Drift, Status
from agent_md.ports.journal import Journal
from agent_md.ports.mcp_lists import StoredTools
from agent_md.ports.progress import ProgressSink
from agent_md.ports.store import Store
from agent_md.settings import Settings
from agent_md.stores.sqlite.store import SqliteStore
from agent_md.stores.state_dir import make_state_dir
from agent_md.stores.workers import LockWorkers, WorkerHandle
from agent_md.system import SYSTEM, Process
from agent_md.trust.state_mark import StateFolder
from agent_md.trust.workspace_trust import WorkspaceTrust

if TYPE_CHECKING:
    from agent_md.assembly import Assembly
    from agent_md.graph.run_context import RunContext
    from agent_md.models.pricing import Prices
    from agent_md.preflight import Preflight
    from agent_md.runner.family_driver import FamilyDriver
    from agent_md.runner.loop import Runner
    from agent_md.stores.checkpoints import Checkpoints
    from agent_md.tools.mcp.declared import DeclaredTool
    from agent_md.tools.tool_modules import Source

__all__ = ["App"]

log = logging.getLogger(__name__)


class App:
    """One workspace, opened by one process. Its components are built on first use; `close` releases them."""

    def __init__(self, settings: Settings, *, notify: Callable[[str], None] = log.warning) -> None:
        """`notify` is called with notices for the user that need no action, one line of text each."""
        self.settings = settings
        """The settings in effect; see `use_settings`."""
        self.notify = notify
        self.hand_back = HandBack()
        self.agents = CurrentAgents(lambda: self.settings)
        self.trust = WorkspaceTrust(lambda: self.settings, lambda: self.registry)
        self.starter = Starter(self)
        self.responder = Responder(self)
        self.triggers = Triggers(self)
        self.retention = Retention(self)
        self.services = Services(self)
        self.touched: set[ExecutionId] = set()
        """The executions that this process drove or followed: their webhooks are due when it ends."""
        self.found_secrets: dict[str, str] = {}
        """The values of agents' secrets that this process has used or looked for, by name."""
        self._store: Store | None = None
        self._heard: dict[str, StoredTools] = {}
        self._worker: WorkerHandle | None = None
        self._checkpoints: Checkpoints | None = None
        self._opening = threading.RLock()
        """Components are built once, also when several threads use them first."""
        self._assembly: Assembly | None = None

    @property
    def assembly(self) -> Assembly:
        """Builds prompts, tools, sandboxes and budgets from specs."""
        from agent_md.assembly import Assembly

        with self._opening:
            if self._assembly is None:
                self._assembly = Assembly(
                    self.settings,
                    self.hand_back.ask,
                    heard=self._record_mcp_tools,
                    permit_server=self.trust.require_server,
                    private_hosts=self.trust.private_hosts,
                    permitted_path=self.trust.permits_path,
                    run_agent=partial(build_run_agent, self),
                    found_secrets=self.found_secrets,
                )
            return self._assembly

    @cached_property
    def preflight(self) -> Preflight:
        """Finds everything that prevents an agent from running here."""
        from agent_md.preflight import Preflight

        return Preflight(
            self.assembly, lambda: self.registry, self._run_context, lambda: self.reading_store, self.trust.allows
        )

    @property
    def registry(self) -> Registry:
        """The agent files as they are now; read again when one of them has changed."""
        return self.agents.registry()

    def use_settings(self, settings: Settings, prices: Prices) -> None:
        """Replaces the settings for everything that starts from now on, and sets the log level of this process."""
        settings.dotenv_file.keeps_last_good = self.settings.dotenv_file.keeps_last_good
        self.settings = settings
        self.assembly.use(settings, prices)
        logging.getLogger().setLevel(settings.log_level)

    # The store and this process as its worker

    @cached_property
    def _workers(self) -> LockWorkers:
        return LockWorkers(self.settings.state_dir / "workers")

    @property
    def store(self) -> Store:
        """The store, created if necessary, with overdue requests settled. Raises StoreError, StateDirUnusable, or Untrusted
        for one that this user did not make."""
        with self._opening:
            if self._store is None:
                self.trust.admit_state()
                make_state_dir(self.settings)
                self.trust.mark_state()
                self._store = SqliteStore(self.settings.database, workers=self._workers)
                self._store.settle_overdue()
                self._write_heard(self._store)
            return self._store

    def open(self) -> None:
        """Creates the state folder and the store if they do not exist. Raises as `store` does."""
        _ = self.store

    @property
    def reading_store(self) -> Store:
        """The store for a command that only reads: creates no file; settles overdue requests if the store is writable. A
        store that this user did not make is read without any change."""
        if self._store is None:
            self._store = self._opened_for_reading()
        return self._store

    def _opened_for_reading(self) -> SqliteStore:
        database = self.settings.database
        found = StateFolder.OURS if self.trust.adopts else self.trust.state()
        if found in (StateFolder.NONE, StateFolder.LINKED) or not database.exists():
            return SqliteStore(None, workers=self._workers)
        if found is StateFolder.OURS or (found is StateFolder.EARLIER and self.trust.is_admitted):
            return SqliteStore.for_reading(database, workers=self._workers)
        try:
            return SqliteStore(database, workers=self._workers, frozen=True)
        except StoreReadOnly:
            self.notify(f"{database} is of an earlier version and is not shown before `agentmd trust` takes it over")
            return SqliteStore(None, workers=self._workers)

    def find_execution(self, execution_id: ExecutionId) -> Execution:
        """The execution with this id. Does not create a store to look for it. Raises UnknownExecution."""
        if not self.settings.database.exists():
            raise UnknownExecution(
                f"there is no execution {execution_id}; `agentmd logs` lists them. "
                f"Nothing was ever run in the workspace {self.settings.workspace}"
            )
        return self.store.execution(execution_id)

    def abandoned(self) -> list[Execution]:
        """The executions that can be resumed, oldest first. Does not create a store to look for them."""
        return self.store.abandoned() if self.settings.database.exists() else []

    @property
    def worker(self) -> WorkerId:
        """The id of this process as a worker, which lives until `close` or the end of the process."""
        with self._opening:
            if self._worker is None:
                store = self.store
                self._worker = self._workers.acquire()
                store.register_worker(self._worker.id, os.getpid())
            return self._worker.id

    def note_stop_request(self) -> None:
        """Records that this process was asked to end, so that its executions are not suspected of having crashed it.
        Safe in a signal handler."""
        if self._worker is not None:
            self._worker.note_stop_request()

    def suspect_processes(self, execution: Execution) -> list[Process]:
        """The processes that hold the lock of the worker that drove the execution, if that worker has ended: forks made by
        C libraries inherit the lock. Nobody takes the execution over while they live, since they may still have effects."""
        worker = execution.worker
        if execution.status is not Status.RUNNING or worker is None:
            return []
        holders = SYSTEM.lock_holders(self.settings.state_dir / "workers" / f"{worker}.lock")
        owner = self.reading_store.worker_pid(worker)
        return [] if owner is None or any(holder.pid == owner for holder in holders) else holders

    # Driving

    def runner(self) -> Runner:
        """A runner on this workspace's store and checkpoints."""
        return self._runner(keeps_family=False)

    def family_driver(self, root: ExecutionId) -> FamilyDriver:
        """Drives the execution `root` and all executions below it in this process."""
        from agent_md.runner.family_driver import FamilyDriver

        return FamilyDriver(self.store, self._runner(keeps_family=True), self.worker, root)

    def _runner(self, *, keeps_family: bool) -> Runner:
        from agent_md.runner.loop import Runner

        return Runner(
            *(self.store, self._checkpointer, self._run_context),
            aside=self.assembly.tool_threads.aside,
            redactor=self.assembly.redactor,
            keeps_family=keeps_family,
        )

    def _run_context(self, execution: Execution, spec: AgentSpec, journal: Journal, sink: ProgressSink) -> RunContext:
        return build_run_context(self, execution, spec, journal, sink)

    def _checkpointer(self) -> Checkpoints:
        from agent_md.stores.checkpoints import Checkpoints

        with self._opening:
            if self._checkpoints is None:
                self._checkpoints = Checkpoints(self.settings.checkpoint_database, tell=self.notify)
            return self._checkpoints

    # Drift

    def spec_of(self, execution: Execution) -> AgentSpec:
        """The spec that an execution started with."""
        return AgentSpec.from_json(self.store.spec(execution.id))

    def drift_of(self, requests: Collection[Request]) -> dict[RequestId, tuple[Drift, ...]]:
        """For each request: what changed since it was asked or its execution started."""
        from agent_md.drift import drift_of

        return drift_of(requests, self.reading_store, self.registry, self._tool_source)

    def drift_of_grants(self, grants: Collection[Grant]) -> dict[GrantId, tuple[Drift, ...]]:
        """For each grant: what changed since it was given. Any change suspends the grant."""
        from agent_md.drift import drift_of_grants

        return drift_of_grants(grants, self.reading_store, self.registry, self._tool_source)

    def _tool_source(self, module: str) -> Source:
        from agent_md.tools.tool_modules import ModuleUnusable, Source, ToolModule

        if module.startswith("mcp:"):
            try:
                digest = self.assembly.mcp.digest_of(module, self.reading_store.mcp_lists.last)
            except ConfigInvalid as error:
                raise ModuleUnusable(str(error)) from None
            if digest is None:
                raise ModuleUnusable(f"{module}: its server does not offer it any more")
            return Source(digest, {})
        if self._assembly is not None:
            return self._assembly.tool_source(module)
        return ToolModule(self.settings.tools_dir, module).read()

    def _record_mcp_tools(self, server: str, tools: Sequence[DeclaredTool]) -> None:
        """Keeps what a server named, so that other processes can tell what has changed."""
        from agent_md.tools.mcp.declared import to_stored

        with self._opening:
            self._heard[server] = to_stored(tools)
            if self._store is not None:
                self._write_heard(self._store)

    def _write_heard(self, store: Store) -> None:
        """Servers may be listed before there is a store: what they named then is written once it is open."""
        with suppress(StoreError):
            for server, stored in self._heard.items():
                if store.mcp_lists.last(server) != stored:
                    store.mcp_lists.heard(server, stored)
            self._heard.clear()

    def close(self) -> None:
        """Ends the event loops of tools, releases the worker and closes the databases."""
        if self._assembly is not None:
            self._assembly.close()
        if self._worker is not None and self._store is not None:
            self._store.forget_worker(self._worker.id)
            self._worker.close()
        if self._checkpoints is not None:
            self._checkpoints.close()
        if self._store is not None:
            self._store.close()
