"""What LangChain tools may get from the runner instead of the model, and which are refused since no call would work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from agent_md.errors import AgentFileInvalid, InvalidArguments
from agent_md.tools.base import Tool
from agent_md.tools.builtin import RESERVED_NAMES
from agent_md.tools.custom import load_custom_tools
from tests.support.driving import Workspace, call, turn

HEAD = """
from typing import Annotated, Any
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import BaseTool, InjectedToolArg, InjectedToolCallId, StructuredTool, Tool, tool
from langgraph.prebuilt import InjectedState, InjectedStore, ToolRuntime
from pydantic import BaseModel, Field
"""


@pytest.fixture
def load(tmp_path: Path) -> Callable[[str], Tool]:
    def one(source: str) -> Tool:
        (tmp_path / "m.py").write_text(HEAD + dedent(source))
        (tool,) = load_custom_tools(tmp_path, ["m"], reserved=RESERVED_NAMES)
        return tool

    return one


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path / "ws")
    yield workspace
    workspace.close()


def run_one(work: Workspace, source: str) -> str:
    """The result of one call of the tool `one` with `x: 1`, in an execution."""
    work.tools(HEAD + dedent(source))
    work.agent("tools: [kit]")
    work.script(turn(call("one", x=1)), "Done.")
    work.start()
    work.check_succeeded()
    return str(work.results_seen()[0])


SUPPORTED = {
    "call id": """
        @tool
        def one(x: int, tool_call_id: Annotated[str, InjectedToolCallId]) -> list:
            '''One.'''
            return [x, tool_call_id]
    """,
    "call id, async, another name": """
        @tool
        async def one(x: int, call: Annotated[str, InjectedToolCallId]) -> list:
            '''One.'''
            return [x, call]
    """,
    "call id, the only argument besides": """
        class Given(BaseModel):
            x: int

        @tool(args_schema=Given)
        def one(x: int, call: Annotated[str, InjectedToolCallId]) -> list:
            '''One.'''
            return [x, call]
    """,
    "call id, schema as JSON": """
        SCHEMA = {"type": "object", "title": "one", "description": "One.", "properties": {"x": {"type": "integer"}}}

        @tool(args_schema=SCHEMA)
        def one(x: int, call: Annotated[str, InjectedToolCallId]) -> list:
            return [x, call]
    """,
    "call id in a class": """
        class One(BaseTool):
            name: str = "one"
            description: str = "One."

            def _run(self, x: int, call: Annotated[str, InjectedToolCallId]) -> list:
                return [x, call]

        one = One()
    """,
    "runtime": """
        @tool
        def one(x: int, runtime: ToolRuntime) -> list:
            '''One.'''
            assert runtime.context.agent == "worker" and runtime.store is None
            return [x, runtime.tool_call_id]
    """,
    "runtime with types, async": """
        @tool
        async def one(x: int, runtime: ToolRuntime[Any, dict]) -> list:
            '''One.'''
            runtime.stream_writer("nobody reads this")
            return [x, runtime.context.tool_call_id]
    """,
    "config": """
        @tool
        def one(x: int, config: RunnableConfig) -> list:
            '''One.'''
            assert "configurable" in config
            return [x, context().tool_call_id]
    """,
    "nothing that anybody fills, with a default": """
        @tool
        def one(x: int, more: Annotated[str, InjectedToolArg] = "call_0_0") -> list:
            '''One.'''
            return [x, context().tool_call_id]
    """,
}


@pytest.mark.parametrize("source", SUPPORTED.values(), ids=SUPPORTED)
def test_a_tool_gets_the_call_and_where_it_runs(work: Workspace, source: str) -> None:
    result = run_one(work, source)
    (stored,) = work.calls()
    assert result == f'[1, "{stored.call_id}"]'
    assert stored.args == {"x": 1}


def test_a_tool_without_arguments_of_the_model_gets_them_too(load: Callable[[str], Tool]) -> None:
    tool = load("""
        @tool
        def one(call: Annotated[str, InjectedToolCallId], runtime: ToolRuntime) -> str:
            '''One.'''
            return call
    """)
    assert tool.parameters.get("properties") == {}
    with pytest.raises(InvalidArguments, match="call: unknown argument"):
        tool.validate({"call": "of the model"})


def test_state_of_a_runtime_is_refused_where_it_is_used(work: Workspace) -> None:
    result = run_one(
        work,
        """
        @tool
        def one(x: int, runtime: ToolRuntime) -> str:
            '''One.'''
            return runtime.state["messages"]
        """,
    )
    assert result == (
        "Error: one used runtime.state: there is no graph state for tools: take what it needs as an argument, "
        "or from agent_md.sdk.context()"
    )


REFUSED = {
    "InjectedState": (
        "@tool\ndef one(s: Annotated[dict, InjectedState]) -> str:\n    '''One.'''\n    return ''",
        r"the argument s of one is InjectedState, and there is no graph state for tools: take what it needs as",
    ),
    "InjectedState of a key": (
        "@tool\ndef one(s: Annotated[list, InjectedState('messages')]) -> str:\n    '''One.'''\n    return ''",
        r"the argument s of one is InjectedState",
    ),
    "InjectedStore": (
        "@tool\ndef one(s: Annotated[Any, InjectedStore()]) -> str:\n    '''One.'''\n    return ''",
        r"the argument s of one is InjectedStore, and there is no LangGraph store: keep data in files",
    ),
    "InjectedToolArg": (
        "@tool\ndef one(s: Annotated[str, InjectedToolArg]) -> str:\n    '''One.'''\n    return ''",
        r"the argument s of one is InjectedToolArg, and nothing fills it here: give it a default",
    ),
    "in a schema": (
        "class G(BaseModel):\n    s: Annotated[dict, InjectedState]\n"
        "@tool(args_schema=G)\ndef one(s) -> str:\n    '''One.'''\n    return ''",
        r"the argument s of one is InjectedState",
    ),
    "classic Tool": (
        "one = Tool(name='one', func=lambda text: text, description='One.')",
        r"one is a classic Tool with one unnamed text as its input.*decorate the function with @tool",
    ),
    "classic Tool by the decorator": (
        "@tool(infer_schema=False)\ndef one(text: str) -> str:\n    '''One.'''\n    return text",
        r"one is a classic Tool",
    ),
    "async as sync": (
        "async def f(x: int) -> int:\n    '''One.'''\n    return x\n"
        "one = StructuredTool.from_function(func=f, name='one')",
        r"its function is async, and would never be awaited: give it as coroutine, not as func",
    ),
    "async _run": (
        "class One(BaseTool):\n    name: str = 'one'\n    description: str = 'One.'\n"
        "    async def _run(self, x: int) -> int:\n        return x\none = One()",
        r"define _arun instead of an async _run",
    ),
    "no function": (
        "class G(BaseModel):\n    x: int\none = StructuredTool(name='one', description='One.', args_schema=G)",
        r"one has no function: give it func or coroutine",
    ),
    "schema with more": (
        "class G(BaseModel):\n    x: int\n    y: int\n@tool(args_schema=G)\ndef one(x: int) -> int:\n    '''One.'''\n    return x",
        r"the function of one does not fit its arguments: it does not take y",
    ),
    "schema with less": (
        "class G(BaseModel):\n    x: int\n@tool(args_schema=G)\ndef one(x: int, y: int) -> int:\n    '''One.'''\n    return x",
        r"the function of one does not fit its arguments: nothing gives it y",
    ),
    "a name of LangChain": (
        "@tool\ndef one(config: dict) -> int:\n    '''One.'''\n    return 1",
        r"the argument config of one would never be given: LangChain keeps this name",
    ),
    "another name of LangChain": (
        "@tool\ndef one(run_manager: str) -> int:\n    '''One.'''\n    return 1",
        r"the function of one does not fit its arguments: nothing gives it run_manager",
    ),
    "alias": (
        "class G(BaseModel):\n    x: int = Field(alias='the-x')\n"
        "@tool(args_schema=G)\ndef one(x: int) -> int:\n    '''One.'''\n    return x",
        r"the argument x of one has the alias 'the-x', by which no call can give it",
    ),
    "method": (
        "class C:\n    @tool\n    def one(self, x: int) -> int:\n        '''One.'''\n        return x\none = C().one",
        r"one is a method, which @tool does not bind to an object",
    ),
    "generator": (
        "@tool\ndef one(x: int):\n    '''One.'''\n    yield x",
        r"the function of one is a generator, and would give nothing",
    ),
    "async generator": (
        "@tool\nasync def one(x: int):\n    '''One.'''\n    yield x",
        r"the function of one is a generator, and would give nothing",
    ),
    "positional only": (
        "@tool\ndef one(x: int, /) -> int:\n    '''One.'''\n    return x",
        r"the function of one does not fit its arguments: it does not take x",
    ),
}


@pytest.mark.parametrize(("source", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_tool_whose_calls_could_not_work_is_refused_at_load(
    load: Callable[[str], Tool], source: str, reason: str
) -> None:
    with pytest.raises(AgentFileInvalid, match=r"m\.py.*" + reason):
        load(source)


FITS = {
    "several arguments": "@tool\ndef one(a: int, b: int = 2, *, c: str = 'c') -> int:\n    '''One.'''\n    return a",
    "keywords": "@tool\ndef one(a: int, **more: Any) -> int:\n    '''One.'''\n    return a",
    "callbacks": "@tool\ndef one(a: int, callbacks: Any = None) -> int:\n    '''One.'''\n    return a",
    "classic Tool with a schema of one field": (
        "class G(BaseModel):\n    text: str\n"
        "one = Tool(name='one', func=lambda text: text, description='One.', args_schema=G)"
    ),
    "schema as JSON that lets something out": (
        "@tool(args_schema={'type': 'object', 'title': 'one', 'description': 'One.', 'properties': {'x': {}}})\n"
        "def one(x) -> int:\n    return x"
    ),
    "alias only in what is written": (
        "class G(BaseModel):\n    x: int = Field(serialization_alias='the-x')\n"
        "@tool(args_schema=G)\ndef one(x: int) -> int:\n    '''One.'''\n    return x"
    ),
    "schema of pydantic 1": (
        "from pydantic.v1 import BaseModel as B1\nclass G(B1):\n    x: int\n"
        "@tool(args_schema=G)\ndef one(x: int) -> int:\n    '''One.'''\n    return x"
    ),
    "run_manager": (
        "class One(BaseTool):\n    name: str = 'one'\n    description: str = 'One.'\n"
        "    def _run(self, x: int, run_manager=None) -> int:\n        return x\none = One()"
    ),
}


@pytest.mark.parametrize("source", FITS.values(), ids=FITS)
def test_a_tool_whose_calls_work_is_taken(load: Callable[[str], Tool], source: str) -> None:
    assert load(source).name == "one"


def test_validate_says_so(work: Workspace) -> None:
    work.tools(HEAD + "@tool\ndef one(s: Annotated[dict, InjectedState]) -> str:\n    '''One.'''\n    return ''\n")
    work.agent("tools: [kit]")
    (problem,) = work.app.preflight.check(work.app.registry.get("worker").spec)
    assert "the argument s of one is InjectedState" in problem
