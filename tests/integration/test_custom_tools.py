from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from agent_md import sdk
from agent_md.errors import AgentFileInvalid, ClaimLost, InvalidArguments, ToolError
from agent_md.executions.error_text import LONGEST_ERROR
from agent_md.executions.states import Outcome, RequestKind
from agent_md.graph.foreign_interrupt import foreign_interrupts
from agent_md.tools.base import Plan, TargetChanged, Tool, ToolOptions
from agent_md.tools.builtin import RESERVED_NAMES
from agent_md.tools.custom import load_custom_tools
from tests.support.call_context import FakeCall, answered, running_call

HEAD = "from langchain_core.tools import tool\n"


@pytest.fixture
def tools_dir(tmp_path: Path) -> Path:
    return tmp_path / "tools"


@pytest.fixture
def load(tools_dir: Path) -> Callable[..., list[Tool]]:
    """Writes modules and loads them, in the order given."""

    def write_and_load(**modules: str) -> list[Tool]:
        for name, source in modules.items():
            write(tools_dir, name, source)
        return load_custom_tools(tools_dir, list(modules), reserved=RESERVED_NAMES, surroundings=foreign_interrupts)

    return write_and_load


def write(tools_dir: Path, name: str, source: str) -> None:
    tools_dir.mkdir(exist_ok=True)
    (tools_dir / f"{name}.py").write_text(HEAD + dedent(source))


async def call(tool: Tool, **args: Any) -> str:
    valid = tool.validate(args)
    return await tool.run(valid, tool.plan(valid))


class TestLoading:
    def test_tools_of_several_modules_sync_and_async(self, load: Callable[..., list[Tool]]) -> None:
        tools = load(
            first='''
                @tool
                def add(a: int, b: int = 1) -> int:
                    """Adds two numbers."""
                    return a + b
                again = add
                @tool("renamed")
                async def something() -> str:
                    """Does something."""
                    return ""
                ''',
            second="""
                from langchain_core.tools import BaseTool
                class Shout(BaseTool):
                    name: str = "shout"
                    description: str = "Shouts."
                    def _run(self, text: str) -> str:
                        return text.upper()
                shout = Shout()
                """,
        )
        assert [tool.name for tool in tools] == ["add", "renamed", "shout"]
        assert tools[0].description == "Adds two numbers."
        assert tools[0].parameters["properties"]["a"]["type"] == "integer"
        assert tools[0].parameters["required"] == ["a"]
        assert tools[0].options == ToolOptions()
        assert tools[0].subjects({"a": 1}) is None

    def test_a_source_is_imported_once(self, load: Callable[..., list[Tool]], tools_dir: Path) -> None:
        source = '''
            from pathlib import Path
            with (Path(__file__).parent / "imports").open("a") as log:
                log.write("x")
            @tool
            def one() -> str:
                """One."""
                return ""
            '''
        load(m=source)
        load(m=source)
        assert (tools_dir / "imports").read_text() == "x"

    def test_names_are_private(self, load: Callable[..., list[Tool]]) -> None:
        load(json='@tool\ndef one() -> str:\n    """One."""\n    return ""\n')
        assert sys.modules["json"].__file__ != "json.py"
        assert hasattr(sys.modules["json"], "dumps")

    def test_annotations_of_a_module_are_its_own(self, load: Callable[..., list[Tool]]) -> None:
        (tool,) = load(
            m='''
                seen = []
                @tool
                def one(n: int) -> str:
                    """One."""
                    return str(type(one.func.__annotations__["n"]))
                '''
        )
        assert asyncio.run(call(tool, n=1)) == "<class 'type'>"

    @pytest.mark.parametrize(
        ("source", "line", "reason"),
        [
            ("def broken(:\n    pass\n", 2, "SyntaxError: "),
            ("import does_not_exist\n", 2, "ModuleNotFoundError: No module named 'does_not_exist'"),
            ("\n\ndef f():\n    1 / 0\nf()\n", 5, "ZeroDivisionError: division by zero"),
            ("raise SystemExit(3)\n", 2, "SystemExit: 3"),
            ("from . import other\n", 2, "ImportError: "),
            ("@tool\ndef nodoc(a: int) -> str:\n    return ''\n", 2, "ValueError: "),
            (
                '@tool\ndef file_read() -> str:\n    """R."""\n    return ""\n',
                2,
                "'file_read' is taken by a built-in tool",
            ),
            (
                '@tool("a b")\ndef x() -> str:\n    """R."""\n    return ""\n',
                2,
                "'a b' has signs that models do not take",
            ),
            ("x = 1\n", None, "there is no tool in it"),
        ],
    )
    def test_mistakes_name_file_and_line(
        self, load: Callable[..., list[Tool]], tools_dir: Path, source: str, line: int | None, reason: str
    ) -> None:
        with pytest.raises(AgentFileInvalid) as error:
            load(broken=source)
        text = str(error.value)
        assert text.startswith(f"{tools_dir}/broken.py{f', line {line}' if line else ''}: ")
        assert reason in text
        assert "\n" not in text

    def test_a_name_of_another_module_is_taken(self, load: Callable[..., list[Tool]], tools_dir: Path) -> None:
        one = '@tool\ndef one() -> str:\n    """One."""\n    return ""\n'
        with pytest.raises(AgentFileInvalid) as error:
            load(first=one, second=one)
        assert str(error.value) == (
            f"{tools_dir}/second.py, line 2: the tool name 'one' is taken by module first; give the tool another name"
        )

    def test_two_tools_of_one_name_in_a_module(self, load: Callable[..., list[Tool]]) -> None:
        one = '@tool("one")\ndef {}() -> str:\n    """One."""\n    return ""\n'
        with pytest.raises(AgentFileInvalid, match="line 6: the tool name 'one' is taken by module first"):
            load(first=one.format("a") + one.format("b"))

    def test_a_missing_module_and_all_mistakes_at_once(self, tools_dir: Path) -> None:
        write(tools_dir, "weather", "x = 1")
        with pytest.raises(AgentFileInvalid) as error:
            load_custom_tools(tools_dir, ["wether", "weather"], reserved=())
        assert str(error.value).splitlines() == [
            f"{tools_dir}/wether.py: there is no such module; did you mean weather?",
            f"{tools_dir}/weather.py: there is no tool in it; decorate a function with langchain_core's @tool",
        ]

    @pytest.mark.parametrize("name", ["../evil", "a/b", "/etc/x", "a.b", "", ".", "a\0b", "a.py"])
    def test_a_module_name_is_never_a_path(self, tools_dir: Path, name: str) -> None:
        write(tools_dir.parent, "evil", "raise KeyError\n")
        tools_dir.mkdir()
        with pytest.raises(AgentFileInvalid, match="is no name of a module"):
            load_custom_tools(tools_dir, [name], reserved=())

    def test_the_loader_itself_imports_no_framework(self) -> None:
        code = (
            "import sys, agent_md.tools.custom, agent_md.tools.builtin\n"
            "print([m for m in ('langchain_core', 'langgraph', 'pydantic', 'jsonschema') if m in sys.modules])"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        assert done.stdout == "[]\n"


OPTIONS = '''
    from agent_md.sdk import tool_options
    from langchain_core.tools import BaseTool
    @tool_options(requires_approval=True, timeout=5)
    @tool
    def above() -> str:
        """A."""
        return ""
    @tool
    @tool_options(read_only=True)
    async def below() -> str:
        """B."""
        return ""
    @tool_options(idempotent=True)
    class Whole(BaseTool):
        name: str = "whole"
        description: str = "W."
        def _run(self) -> str:
            return ""
    whole = Whole()
    '''


def test_options_in_either_order(load: Callable[..., list[Tool]]) -> None:
    above, below, whole = load(m=OPTIONS)
    assert above.options == ToolOptions(requires_approval=True, timeout=5)
    assert below.options == ToolOptions(read_only=True, writes=())
    assert whole.options == ToolOptions(idempotent=True)


class TestArguments:
    @pytest.fixture
    def tool(self, load: Callable[..., list[Tool]]) -> Tool:
        (tool,) = load(
            m='''
                from typing import Literal
                from pydantic import BaseModel
                class Place(BaseModel):
                    city: str
                @tool
                def book(place: Place, nights: int, kind: Literal["a", "b"] = "a") -> str:
                    """Books."""
                    return f"{place.city} {nights} {kind}"
                '''
        )
        return tool

    def test_arguments_stay_json_and_arrive_typed(self, tool: Tool) -> None:
        args = {"place": {"city": "Ulm"}, "nights": 2.0}
        assert tool.validate(args) == {"place": {"city": "Ulm"}, "nights": 2, "kind": "a"}
        assert asyncio.run(call(tool, **args)) == "Ulm 2 a"

    def test_each_field_that_does_not_fit_is_named(self, tool: Tool) -> None:
        with pytest.raises(InvalidArguments) as error:
            tool.validate({"place": {}, "kind": "c", "nigths": 2})
        text = str(error.value)
        assert text.startswith("Invalid arguments for book: nigths: unknown argument (known: place, nights, kind); ")
        for part in ("place.city: Field required", "nights: Field required", "kind: Input should be 'a' or 'b'"):
            assert part in text

    def test_a_schema_as_json(self, load: Callable[..., list[Tool]]) -> None:
        (tool,) = load(
            m='''
                @tool(args_schema={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})
                def twice(n: int) -> int:
                    """Twice."""
                    return 2 * n
                '''
        )
        assert asyncio.run(call(tool, n=2)) == "4"
        with pytest.raises(InvalidArguments, match=r"m: unknown argument.*n: is missing|n: is missing.*m: unknown"):
            tool.validate({"m": 1})


class TestSource:
    SOURCE = '@tool\ndef one(n: int) -> str:\n    """One."""\n    return "first"\n'

    def test_a_digest_is_of_arguments_and_source(self, load: Callable[..., list[Tool]], tools_dir: Path) -> None:
        (tool,) = load(m=self.SOURCE)
        first = tool.plan({"n": 1})
        assert tool.plan({"n": 1}) == first
        assert tool.plan({"n": 2}).digest != first.digest
        write(tools_dir, "m", self.SOURCE.replace("first", "other"))
        assert tool.plan({"n": 1}).digest != first.digest

    async def test_what_was_edited_since_the_plan_does_not_run(
        self, load: Callable[..., list[Tool]], tools_dir: Path
    ) -> None:
        (tool,) = load(m=self.SOURCE)
        plan = tool.plan({"n": 1})
        write(tools_dir, "m", self.SOURCE.replace("first", "other"))
        with pytest.raises(TargetChanged, match="the source of one"):
            await tool.run({"n": 1}, plan)

    async def test_what_runs_is_the_source_of_the_plan(self, load: Callable[..., list[Tool]], tools_dir: Path) -> None:
        (tool,) = load(m=self.SOURCE)
        assert await call(tool, n=1) == "first"
        write(tools_dir, "m", self.SOURCE.replace("first", "other"))
        assert await call(tool, n=1) == "other"
        write(tools_dir, "m", self.SOURCE)
        assert await call(tool, n=1) == "first"

    async def test_the_arguments_must_fit_the_new_source(
        self, load: Callable[..., list[Tool]], tools_dir: Path
    ) -> None:
        (tool,) = load(m=self.SOURCE)
        write(tools_dir, "m", self.SOURCE.replace("n: int", "m: int"))
        with pytest.raises(InvalidArguments, match="m: Field required"):
            await call(tool, n=1)

    async def test_a_module_or_tool_that_is_gone(self, load: Callable[..., list[Tool]], tools_dir: Path) -> None:
        (tool,) = load(m=self.SOURCE)
        write(tools_dir, "m", self.SOURCE.replace("def one", "def two"))
        with pytest.raises(ToolError, match="has no tool of this name any more"):
            await call(tool, n=1)
        write(tools_dir, "m", "def (")
        with pytest.raises(ToolError, match="line 2: SyntaxError"):
            await call(tool, n=1)
        (tools_dir / "m.py").unlink()
        with pytest.raises(ToolError, match="there is no such module"):
            tool.plan({"n": 1})


FAILURES = '''
    import asyncio
    import sys
    from langchain_core.tools import ToolException
    from agent_md.errors import ClaimLost, ToolError
    from agent_md.sdk import Pause, RequestDenied
    class Mute(Exception):
        def __str__(self):
            raise KeyError
    KINDS = {
        "value": lambda: ValueError("bad\\nvalue"),
        "long": lambda: ValueError("x" * 5000),
        "empty": ValueError,
        "mute": Mute,
        "exit": lambda: SystemExit(3),
        "interrupt": KeyboardInterrupt,
        "generator": GeneratorExit,
        "cancel": asyncio.CancelledError,
        "stop": lambda: StopIteration(1),
        "stop_async": StopAsyncIteration,
        "group": lambda: BaseExceptionGroup("g", [SystemExit()]),
        "tool": lambda: ToolException("no luck"),
        "ours": lambda: ToolError("said plainly"),
        "denied": lambda: RequestDenied("Action denied by user"),
        "pause": Pause,
        "lost": lambda: ClaimLost("not ours any more"),
    }
    @tool
    def sync_fail(kind: str) -> str:
        """Fails."""
        raise KINDS[kind]()
    @tool
    async def async_fail(kind: str) -> str:
        """Fails."""
        await asyncio.sleep(0)
        raise KINDS[kind]()
    '''


TEXTS = '''
    import threading

    class Own(Exception):
        def __str__(self):
            {how}

    @tool
    {kind}def one():
        """One."""
        {way} Own()
'''


@pytest.mark.parametrize("way", ["return", "raise"])
@pytest.mark.parametrize("kind", ["", "async "])
class TestTexts:
    """A result and an error turn into text by code of the tool's own."""

    async def test_are_made_off_the_drivers_loop(self, load: Callable[..., list[Tool]], kind: str, way: str) -> None:
        (tool,) = load(m=TEXTS.format(kind=kind, way=way, how='return f"on {threading.get_ident()}"'))
        said = await said_by(tool)
        assert "on " in said
        assert f"on {threading.get_ident()}" not in said

    async def test_may_raise_what_ends_a_program(self, load: Callable[..., list[Tool]], kind: str, way: str) -> None:
        (tool,) = load(m=TEXTS.format(kind=kind, way=way, how="raise SystemExit(3)"))
        assert await said_by(tool) == ("one failed: SystemExit: 3" if way == "return" else "one failed: Own")


async def said_by(tool: Tool) -> str:
    try:
        return await call(tool)
    except ToolError as error:
        return str(error)


@pytest.mark.parametrize("index", [0, 1], ids=["sync", "async"])
class TestFailures:
    @pytest.mark.parametrize(
        ("kind", "text"),
        [
            ("value", "ValueError: bad\nvalue"),
            ("long", "ValueError: xxx"),
            ("empty", "ValueError"),
            ("mute", "Mute"),
            ("exit", "SystemExit: 3"),
            ("interrupt", "KeyboardInterrupt"),
            ("generator", "GeneratorExit"),
            ("cancel", "CancelledError"),
            ("stop_async", "StopAsyncIteration"),
            ("group", "BaseExceptionGroup: g (1 sub-exception)"),
            ("tool", "ToolException: no luck"),
        ],
    )
    async def test_become_errors_of_the_tool(
        self, load: Callable[..., list[Tool]], index: int, kind: str, text: str
    ) -> None:
        tool = load(m=FAILURES)[index]
        with pytest.raises(ToolError) as error:
            await call(tool, kind=kind)
        message = str(error.value)
        assert message.startswith(f"{tool.name} failed: {text}")
        assert len(message) < LONGEST_ERROR + 100
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    async def test_a_stop_iteration_too(self, load: Callable[..., list[Tool]], index: int) -> None:
        tool = load(m=FAILURES)[index]
        with pytest.raises(ToolError, match=rf"^{tool.name} failed: .*StopIteration"):
            await call(tool, kind="stop")

    @pytest.mark.parametrize(
        ("kind", "expected"),
        [("ours", ToolError), ("denied", sdk.RequestDenied), ("pause", sdk.Pause), ("lost", ClaimLost)],
    )
    async def test_what_passes_unchanged(
        self, load: Callable[..., list[Tool]], index: int, kind: str, expected: type[BaseException]
    ) -> None:
        with pytest.raises(expected) as error:
            await call(load(m=FAILURES)[index], kind=kind)
        assert type(error.value) is expected
        assert "failed:" not in str(error.value)


BLOCKING = '''
    import asyncio
    import contextvars
    import threading
    started, release, cleaned = threading.Event(), threading.Event(), threading.Event()
    @tool
    def sync_block() -> str:
        """Blocks."""
        started.set()
        release.wait()
        return "late"
    @tool
    async def async_block() -> str:
        """Blocks."""
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.set()
        return ""
    @tool
    async def stubborn() -> str:
        """Swallows what it should not."""
        started.set()
        try:
            await asyncio.Event().wait()
        except BaseException:
            return "still here"
    @tool
    def where() -> str:
        """Says on which thread it runs."""
        thread = threading.current_thread()
        return f"{thread.name} {thread.daemon}"
    '''


class TestRunning:
    @pytest.fixture
    def blocking(self, load: Callable[..., list[Tool]], tools_dir: Path) -> tuple[list[Tool], dict[str, Any]]:
        """The tools, and the names of their module."""
        tools = load(m=BLOCKING)
        file = str(tools_dir / "m.py")
        return tools, next(vars(m) for m in list(sys.modules.values()) if getattr(m, "__file__", None) == file)

    @pytest.mark.parametrize("index", [0, 1, 2], ids=["sync", "async", "stubborn"])
    async def test_a_cancellation_ends_the_await(self, blocking: tuple[list[Tool], dict[str, Any]], index: int) -> None:
        tools, events = blocking
        running = asyncio.create_task(call(tools[index]))
        await asyncio.to_thread(events["started"].wait)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert events["cleaned"].is_set() is (index == 1)
        events["release"].set()

    async def test_a_sync_tool_runs_on_a_daemon_thread(self, load: Callable[..., list[Tool]]) -> None:
        assert await call(load(m=BLOCKING)[3]) == "tool where True"

    def test_a_sync_tool_does_not_hold_up_the_exit(self, tools_dir: Path) -> None:
        write(tools_dir, "m", BLOCKING)
        code = f"""
            import asyncio, sys
            from pathlib import Path
            from agent_md.tools.custom import load_custom_tools
            tool = load_custom_tools(Path({str(tools_dir)!r}), ["m"], reserved=())[0]
            async def main():
                running = asyncio.create_task(tool.run({{}}, tool.plan({{}})))
                module = next(m for n, m in sys.modules.items() if n.startswith("_agentmd_tools_") and n.endswith(".m"))
                await asyncio.to_thread(module.started.wait)
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
            asyncio.run(main())
            print("out")
            """
        done = subprocess.run(
            [sys.executable, "-c", dedent(code)], capture_output=True, text=True, check=True, timeout=60
        )
        assert done.stdout == "out\n"

    async def test_results_become_text(self, load: Callable[..., list[Tool]]) -> None:
        listing, artifact, message, handled = load(
            m='''
                from pathlib import Path
                from langchain_core.messages import ToolMessage
                from langchain_core.tools import ToolException
                @tool
                def listing() -> list:
                    """L."""
                    return [Path("a"), {"b": None}]
                @tool(response_format="content_and_artifact")
                async def artifact() -> tuple:
                    """A."""
                    return "the content", object()
                @tool
                def message() -> ToolMessage:
                    """M."""
                    return ToolMessage("said", tool_call_id="x")
                def fail() -> str:
                    """F."""
                    raise ToolException("sorry")
                handled = tool(fail)
                handled.handle_tool_error = True
                del fail
                '''
        )
        assert await call(listing) == '["a", {"b": null}]'
        assert await call(artifact) == "the content"
        assert await call(message) == "said"
        assert await call(handled) == "sorry"


ASKING = '''
    import asyncio
    from agent_md import sdk
    from agent_md.sdk import context, request_input
    @tool
    def ask_sync() -> str:
        """Asks."""
        return request_input("Name?") + " in " + context().agent
    @tool
    async def ask_async() -> str:
        """Asks."""
        await asyncio.sleep(0)
        return sdk.request_input("Name?") + " in " + sdk.context().agent
    @tool
    def ask_in_vain() -> str:
        """Asks and catches."""
        try:
            return request_input("Name?")
        except Exception:
            return "swallowed"
    '''


class TestRequests:
    @pytest.mark.parametrize("index", [0, 1], ids=["sync", "async"])
    async def test_the_sdk_works_in_both(self, load: Callable[..., list[Tool]], index: int) -> None:
        tool = load(m=ASKING)[index]
        with running_call(FakeCall([answered({"text": "Ada"})])):
            assert await call(tool) == "Ada in cleaner"
        with running_call(FakeCall()), pytest.raises(sdk.Pause):
            await call(tool)
        with running_call(FakeCall([(Outcome.EXPIRED, None)])), pytest.raises(sdk.RequestExpired):
            await call(tool)

    async def test_except_exception_does_not_catch_a_pause(self, load: Callable[..., list[Tool]]) -> None:
        with running_call(FakeCall()), pytest.raises(sdk.Pause):
            await call(load(m=ASKING)[2])


INTERRUPTING = '''
    import asyncio
    import langgraph.types
    import langgraph.types as types
    from langgraph.types import interrupt
    from pydantic import BaseModel
    class Reply(BaseModel):
        amount: int
    @tool
    def sync_from() -> str:
        """Asks twice."""
        return f"{interrupt({'question': 'How many?'})} {interrupt('plain')}"
    @tool
    async def async_from() -> str:
        """Asks twice."""
        await asyncio.sleep(0)
        return f"{interrupt({'question': 'How many?'})} {interrupt('plain')}"
    @tool
    def sync_module() -> str:
        """Asks twice."""
        return f"{langgraph.types.interrupt({'question': 'How many?'})} {types.interrupt('plain')}"
    @tool
    async def async_module() -> str:
        """Asks twice."""
        return f"{langgraph.types.interrupt({'question': 'How many?'})} {types.interrupt('plain')}"
    @tool
    def with_schema() -> str:
        """Asks with schemas."""
        first = interrupt({}, response_schema=Reply)
        return f"{first.amount} {interrupt({}, response_schema={'type': 'string'})}"
    '''


@pytest.mark.parametrize("index", range(4), ids=["sync-from", "async-from", "sync-module", "async-module"])
class TestForeignInterrupts:
    async def test_an_interrupt_of_langgraph_is_a_custom_request(
        self, load: Callable[..., list[Tool]], index: int
    ) -> None:
        tool = load(m=INTERRUPTING)[index]
        fake = FakeCall([answered(None), answered({"a": [1]})])
        with running_call(fake):
            assert await call(tool) == "None {'a': [1]}"
        assert [kind for kind, _, _ in fake.asked] == [RequestKind.CUSTOM, RequestKind.CUSTOM]
        assert [fields["payload"] for _, _, fields in fake.asked] == [{"question": "How many?"}, {"value": "plain"}]
        assert fake.asked[0][1] == "How many?"

    async def test_it_pauses_where_it_stands(self, load: Callable[..., list[Tool]], index: int) -> None:
        tool = load(m=INTERRUPTING)[index]
        for answers in ([], [answered("x")]):
            fake = FakeCall(list(answers))
            with running_call(fake), pytest.raises(sdk.Pause):
                await call(tool)
            assert len(fake.asked) == len(answers) + 1

    async def test_a_denial_is_an_error_of_the_tool(self, load: Callable[..., list[Tool]], index: int) -> None:
        with running_call(FakeCall([(Outcome.DENIED, None)])), pytest.raises(sdk.RequestDenied):
            await call(load(m=INTERRUPTING)[index])


async def test_schemas_of_foreign_interrupts(load: Callable[..., list[Tool]]) -> None:
    fake = FakeCall([answered({"amount": 3}), answered("x")])
    with running_call(fake):
        assert await call(load(m=INTERRUPTING)[4]) == "3 x"
    assert fake.asked[0][2]["response_schema"]["properties"]["amount"]["type"] == "integer"
    assert fake.asked[1][2]["response_schema"] == {"type": "string"}


async def test_calls_at_once_keep_their_answers_apart(load: Callable[..., list[Tool]]) -> None:
    tool = load(m=INTERRUPTING)[1]

    async def one(name: str) -> str:
        with running_call(FakeCall([answered(name), answered("end")])):
            return await call(tool)

    assert await asyncio.gather(*(one(f"n{i}") for i in range(5))) == [f"n{i} end" for i in range(5)]


async def test_a_graph_run_by_a_tool_is_its_own(load: Callable[..., list[Tool]]) -> None:
    (tool,) = load(
        m='''
            from typing import TypedDict
            from langgraph.graph import END, START, StateGraph
            class State(TypedDict):
                n: int
            def build():
                graph = StateGraph(State)
                graph.add_node("more", lambda state: {"n": state["n"] + 1})
                graph.add_edge(START, "more")
                graph.add_edge("more", END)
                return graph.compile()
            @tool
            def count(n: int) -> str:
                """Counts."""
                return str(build().invoke({"n": n})["n"])
            '''
    )
    assert await call(tool, n=1) == "2"


def test_a_plan_of_another_call_is_not_run(load: Callable[..., list[Tool]]) -> None:
    (tool,) = load(m=TestSource.SOURCE)
    with pytest.raises(TargetChanged):
        asyncio.run(tool.run({"n": 1}, Plan("another")))
