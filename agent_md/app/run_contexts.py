"""Builds the context in which an execution runs: its tools, model, prices and budget."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from agent_md.agents.spec import AgentSpec
from agent_md.agents.system_prompt import briefing
from agent_md.app.mcp_tools import mcp_tools_of
from agent_md.executions.execution import Execution
from agent_md.ports.journal import Journal
from agent_md.ports.progress import ProgressSink

if TYPE_CHECKING:
    from agent_md.app.app import App
    from agent_md.graph.run_context import RunContext

__all__ = ["build_run_context"]


def build_run_context(
    app: App, execution: Execution, spec: AgentSpec, journal: Journal, sink: ProgressSink
) -> RunContext:
    """The context for one drive of an execution. Raises UsageError for tools or prices that cannot be used, and
    Untrusted for an address of its model that was not allowed."""
    from agent_md.graph.run_context import RunContext
    from agent_md.models.spec_model import SpecModel
    from agent_md.models.usage import usage_of
    from agent_md.tools.base import declaration
    from agent_md.tools.memory import memory_notice

    settings, assembly = app.settings, app.assembly
    app.trust.require_address(spec)
    prices = assembly.prices  # raises for invalid prices before a model is called
    mcp, unusable = mcp_tools_of(app, execution, spec)
    for text in unusable if execution.id else ():
        app.notify(assembly.redactor(spec).text(text))
    tools = assembly.tools(spec, lenient=True, mcp=mcp, execution=execution)
    declarations = [declaration(tool) for tool in tools.values()]
    sandbox = assembly.sandbox(spec)
    root = None if execution.parent_id is None else AgentSpec.from_json(app.reading_store.spec(execution.root))
    remembered = memory_notice(assembly.memory(spec))
    notices = [*unusable, *([] if remembered is None else [assembly.redactor(spec).text(remembered)])]
    model = SpecModel(
        *(spec, declarations, settings.environment(), assembly.scripts_dir),
        lambda: briefing(spec, datetime.now().astimezone(), notices),
    )
    return RunContext(
        execution=execution,
        spec=spec,
        store=app.reading_store,
        journal=journal,
        tools=tools,
        call_model=model,
        usage_of=lambda message: usage_of(message, spec.model, prices),
        sink=sink,
        workspace=settings.workspace,
        resolve_path=lambda path: sandbox.resolve(path, write=False).path,
        aside=assembly.tool_threads.aside,
        budget_of=lambda history: assembly.budget(spec, history, declarations, root=root),
        redactor=assembly.redactor(spec),
        close=model.close,
    )
