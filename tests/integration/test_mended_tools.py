"""Ways around the rules and limits of custom tools, each closed."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from agent_md.errors import ToolError
from agent_md.executions.states import CallOutcome, Decision
from agent_md.tools.base import Tool
from agent_md.tools.custom import load_custom_tools
from tests.support.driving import Workspace, call, turn

RM = '''
@tool
def rm(path: str, force: bool = False, amount: int = 0, mode: str = "hard") -> str:
    """Removes."""
    return f"{path} {force} {amount} {mode}"
'''


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path / "ws")
    yield workspace
    workspace.close()


@pytest.fixture
def load(tmp_path: Path) -> Callable[..., Tool]:
    def write_and_load(source: str, workspace: Path | None = None) -> Tool:
        folder = tmp_path / "tools"
        folder.mkdir(exist_ok=True)
        (folder / "m.py").write_text("from langchain_core.tools import tool\n" + dedent(source))
        (loaded,) = load_custom_tools(folder, ["m"], reserved=(), workspace=workspace)
        return loaded

    return write_and_load


async def run(tool: Tool, **args: Any) -> str:
    valid = tool.validate(args)
    return await tool.run(valid, tool.plan(valid))


class TestSpelling:
    @pytest.mark.parametrize(
        "args",
        [
            *({"force": value} for value in (True, "yes", 1, "true", "on", "1", 1.0)),
            *({"amount": value} for value in (1000, 1000.0, "+1000", "1_000", "1000.0")),
        ],
        ids=repr,
    )
    def test_no_spelling_gets_around_a_denial(self, work: Workspace, args: dict[str, Any]) -> None:
        work.tools(RM)
        work.agent('tools: [kit]\nauto_approve: "*"\ndeny: ["rm(force=true)", "rm(amount=1000)"]')
        work.script(turn(call("rm", path="c", **args)), "Done.")
        work.start()
        work.check_succeeded()
        assert work.calls()[0].outcome is CallOutcome.REFUSED

    def test_a_default_is_an_argument_like_any(self, work: Workspace) -> None:
        work.tools(RM)
        work.agent('tools: [kit]\nconfirm: ["rm(mode=hard)"]')
        work.script(turn(call("rm", path="c", amount="+7"), call("rm", path="d", mode="soft")), "Done.")
        work.start()
        effective = {"path": "c", "force": False, "amount": 7, "mode": "hard"}
        assert work.the_request().tool_args == effective
        assert work.calls()[0].args == effective
        work.answer()
        work.check_succeeded()
        assert work.results_seen() == ["c False 7 hard", "d False 0 soft"]

    def test_an_approval_fits_what_was_given_and_what_is_used(self, work: Workspace) -> None:
        work.tools(RM)
        work.agent('tools: [kit]\nconfirm: [rm]\nauto_approve: ["rm(amount=7)"]')
        work.script(turn(call("rm", path="a", amount="+7"), call("rm", path="b", amount=7)), "Done.")
        work.start()
        assert [call.decision for call in work.calls()] == [Decision.ASK, Decision.RUN]

    def test_edited_arguments_are_used_and_kept_as_the_tool_gets_them(self, work: Workspace) -> None:
        work.tools(RM)
        work.agent("tools: [kit]\nconfirm: [rm]")
        work.script(turn(call("rm", path="a")), "Done.")
        work.start()
        work.answer(None, {"approved": True, "args": {"path": "b", "force": "yes"}})
        work.check_succeeded()
        assert work.calls()[0].args == {"path": "b", "force": True, "amount": 0, "mode": "hard"}
        assert work.result().endswith("b True 0 hard")


class TestForms:
    def test_checked_again_they_stay_the_same(self, load: Callable[..., Tool]) -> None:
        tool = load(RM)
        once = tool.validate({"path": "c", "force": "yes", "amount": "+7"})
        assert tool.validate(once) == once
        assert tool.subjects(once) is None

    @pytest.mark.parametrize(
        "field",
        [
            "key: SecretStr = SecretStr('x')",
            "key: str = Field(default_factory=lambda: str(next(NUMBERS)))",
            "key: Path | str = Path('a')",
        ],
        ids=["no JSON", "another each time", "another type"],
    )
    async def test_what_json_cannot_say_stays_as_given_and_is_unclear(
        self, load: Callable[..., Tool], field: str
    ) -> None:
        tool = load(
            f'''
            import itertools
            from pathlib import Path
            from pydantic import BaseModel, Field, SecretStr
            NUMBERS = itertools.count()
            class Args(BaseModel):
                n: int
                {field}
            @tool(args_schema=Args)
            def it(n: int, key: object) -> str:
                """It."""
                return f"{{n!r}} {{type(key).__name__}}"
            '''
        )
        given = {"n": "1"}
        assert tool.validate(given) == given
        assert tool.subjects(given) == ()
        assert (await run(tool, **given)).startswith("1 ")

    async def test_a_validator_that_changes_a_value_is_matched_by_its_result(self, load: Callable[..., Tool]) -> None:
        tool = load(
            '''
            from pydantic import BaseModel, field_validator
            class Args(BaseModel):
                name: str
                @field_validator("name")
                @classmethod
                def lower(cls, value: str) -> str:
                    return value.strip().lower()
            @tool(args_schema=Args)
            def it(name: str) -> str:
                """It."""
                return name
            '''
        )
        assert tool.validate({"name": " PROD "}) == {"name": "prod"}
        assert await run(tool, name=" PROD ") == "prod"

    async def test_defaults_of_a_schema_as_json(self, load: Callable[..., Tool]) -> None:
        tool = load(
            '''
            @tool(args_schema={"type": "object", "properties": {"n": {"type": "integer"}, "mode": {"type": "string"}}})
            def it(n: int = 3, mode: str = "hard") -> str:
                """It."""
                return f"{n} {mode}"
            '''
        )
        assert tool.validate({"n": 2.0}) == {"n": 2, "mode": "hard"}
        assert await run(tool, n=2.0) == "2 hard"

    async def test_variadic_arguments_are_not_invented(self, load: Callable[..., Tool]) -> None:
        tool = load('@tool\ndef it(n: int, **kwargs: str) -> str:\n    """It."""\n    return f"{n} {kwargs}"\n')
        assert tool.validate({"n": 1}) == {"n": 1}
        assert await run(tool, n=1) == "1 {}"


async def test_an_async_tool_that_swallows_its_cancellation_is_given_up(load: Callable[..., Tool]) -> None:
    tool = load(
        '''
        import asyncio, threading
        RELEASED, BEGUN, ENDED = asyncio.Event(), threading.Event(), threading.Event()
        LOOPS = []
        @tool
        async def stubborn() -> str:
            """Stubborn."""
            LOOPS.append(asyncio.get_running_loop())
            BEGUN.set()
            while not RELEASED.is_set():
                try:
                    await RELEASED.wait()
                except asyncio.CancelledError:
                    pass
            ENDED.set()
            return "late"
        '''
    )
    names = tool._module.load(tool._module.read())  # type: ignore[attr-defined]
    running = asyncio.create_task(run(tool))
    await asyncio.to_thread(names.BEGUN.wait)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert not names.ENDED.is_set()
    names.LOOPS[0].call_soon_threadsafe(names.RELEASED.set)
    assert await asyncio.to_thread(names.ENDED.wait, 10)


async def test_an_async_tool_that_is_cancelled_may_tidy_up(load: Callable[..., Tool], tmp_path: Path) -> None:
    tool = load(
        '''
        import asyncio, pathlib, threading
        BEGUN = threading.Event()
        @tool
        async def tidy(path: str) -> str:
            """Tidy."""
            BEGUN.set()
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                pathlib.Path(path).touch()
        '''
    )
    running = asyncio.create_task(run(tool, path=str(tmp_path / "tidied")))
    names = tool._module.load(tool._module.read())  # type: ignore[attr-defined]
    await asyncio.to_thread(names.BEGUN.wait)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert (tmp_path / "tidied").exists()


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_each_call_begins_in_the_workspace(
    load: Callable[..., Tool], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.chdir(tmp_path)
    tool = load(
        f'''
        import os
        @tool
        {kind} leave() -> str:
            """Leaves."""
            here = os.getcwd()
            os.chdir("/")
            return here
        ''',
        workspace=tmp_path,
    )
    assert [await run(tool), await run(tool)] == [os.path.realpath(tmp_path)] * 2


async def test_a_workspace_that_is_gone_is_an_error_of_the_tool(load: Callable[..., Tool], tmp_path: Path) -> None:
    tool = load(RM, workspace=tmp_path / "gone")
    with pytest.raises(ToolError, match="cannot be entered"):
        await run(tool, path="a")
