"""Where code of tools runs: on a loop of its module or on a thread, with its context, and given up when it must be."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest

from agent_md.sdk import Pause
from agent_md.tools.base import CutOff
from agent_md.tools.threads import MOST_ABANDONED, Outcome, ToolThreads

VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


@pytest.fixture
def threads() -> Iterator[ToolThreads]:
    made = ToolThreads()
    yield made
    made.close()


class Gate:
    """Blocks the thread that comes to it, until it is opened."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.open = threading.Event()

    def __call__(self) -> None:
        self.reached.set()
        self.open.wait()

    async def on_a_loop(self) -> None:
        self()

    async def until_reached(self) -> None:
        assert await asyncio.to_thread(self.reached.wait, 30)


@pytest.fixture
def gate() -> Iterator[Gate]:
    made = Gate()
    yield made
    made.open.set()


async def where() -> tuple[Any, int]:
    await asyncio.sleep(0)
    return asyncio.get_running_loop(), threading.get_ident()


async def cancelled(running: asyncio.Task[Outcome]) -> None:
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


def begin(threads: ToolThreads, make: Callable[[], Awaitable[Any]], module: str = "m") -> asyncio.Task[Outcome]:
    return asyncio.create_task(threads.on_loop(module, "tool it", make))


async def test_calls_of_a_module_share_a_loop_that_is_not_the_drivers(threads: ToolThreads) -> None:
    first, second = [(await begin(threads, where)).result() for _ in range(2)]
    other = (await begin(threads, where, "other")).result()
    assert first == second
    assert len({first[0], other[0], asyncio.get_running_loop()}) == 3
    assert threading.get_ident() not in (first[1], other[1])


async def test_both_run_in_the_context_of_the_call(threads: ToolThreads) -> None:
    async def look() -> str:
        return await asyncio.create_task(_value())

    async def _value() -> str:
        return VARIABLE.get()

    VARIABLE.set("here")
    assert (await begin(threads, look)).value == "here"
    assert (await threads.on_thread("t", VARIABLE.get)).value == "here"
    assert (await threads.on_thread("t", lambda: VARIABLE.set("there"))).error is None
    assert VARIABLE.get() == "here"


@pytest.mark.parametrize(
    "kind", [SystemExit, KeyboardInterrupt, GeneratorExit, asyncio.CancelledError, Pause, ValueError]
)
async def test_whatever_is_raised_is_an_outcome(threads: ToolThreads, kind: type[BaseException]) -> None:
    def fail() -> None:
        raise kind

    async def fail_on_loop() -> None:
        fail()

    assert type((await begin(threads, fail_on_loop)).error) is kind
    assert type((await threads.on_thread("t", fail)).error) is kind
    assert (await begin(threads, where)).error is None


async def test_an_exit_in_a_task_of_the_tools_own_does_not_end_the_loop(threads: ToolThreads) -> None:
    async def leave() -> None:
        raise SystemExit(3)

    async def call() -> str:
        try:
            await asyncio.create_task(leave())
        except SystemExit:
            return "seen"
        return "not seen"

    before = (await begin(threads, where)).result()
    assert (await begin(threads, call)).value == "seen"
    assert (await begin(threads, where)).result() == before


async def test_a_cancelled_call_may_tidy_up(threads: ToolThreads) -> None:
    begun, tidied = threading.Event(), threading.Event()

    async def tidy() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.05)
            tidied.set()

    running = begin(threads, tidy)
    await asyncio.to_thread(begun.wait)
    await cancelled(running)
    assert tidied.is_set()
    assert threads.abandoned == 0


async def test_a_second_cancellation_does_not_cut_the_tidying_short(threads: ToolThreads) -> None:
    begun, tidying, tidied = threading.Event(), threading.Event(), threading.Event()

    async def tidy() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            tidying.set()
            await asyncio.sleep(0.1)
            tidied.set()

    running = begin(threads, tidy)
    await asyncio.to_thread(begun.wait)
    running.cancel()
    await asyncio.to_thread(tidying.wait)
    await cancelled(running)
    assert tidied.is_set()


async def test_a_stubborn_call_is_left_and_its_loop_kept(threads: ToolThreads) -> None:
    begun, end = threading.Event(), threading.Event()

    async def stubborn() -> None:
        begun.set()
        while not end.is_set():
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.01)

    before = (await begin(threads, where)).result()
    running = begin(threads, stubborn)
    await asyncio.to_thread(begun.wait)
    await cancelled(running)
    assert (await begin(threads, where)).result() == before
    assert threads.abandoned == 0
    end.set()


@pytest.mark.parametrize("when", ["at once", "when it is cancelled"])
async def test_a_blocked_loop_is_replaced_and_its_other_calls_are_cut_off(
    threads: ToolThreads, gate: Gate, when: str
) -> None:
    begun = threading.Event()

    async def beside() -> None:
        begun.set()
        await asyncio.Event().wait()

    async def block() -> None:
        try:
            if when == "at once":
                gate()
            gate.reached.set()
            await asyncio.Event().wait()
        finally:
            gate.open.wait()

    before = (await begin(threads, where)).result()
    other = begin(threads, beside)
    await asyncio.to_thread(begun.wait)
    running = begin(threads, block)
    await gate.until_reached()
    waiting = None if when != "at once" else begin(threads, where)
    await cancelled(running)
    assert isinstance((await other).error, CutOff)
    after = (await begin(threads, where)).result()
    assert after[0] is not before[0]
    if waiting is not None:  # it had not begun, and begins on the new loop
        assert (await waiting).result() == after
    assert threads.abandoned == 1
    gate.open.set()
    await eventually_none_abandoned(threads)


async def eventually_none_abandoned(threads: ToolThreads) -> None:
    for _ in range(3000):
        if threads.abandoned == 0:
            return
        await asyncio.sleep(0.01)
    raise AssertionError(f"{threads.abandoned} threads are left")


async def test_one_that_waits_for_a_blocked_loop_and_is_cancelled_never_begins(
    threads: ToolThreads, gate: Gate
) -> None:
    begun = threading.Event()

    async def late() -> None:
        begun.set()

    blocking = begin(threads, gate.on_a_loop)
    await gate.until_reached()
    running = begin(threads, late)
    await asyncio.sleep(0)
    await cancelled(running)
    assert threads.abandoned == 0  # who blocks it has time left
    gate.open.set()
    assert (await blocking).error is None
    await begin(threads, where)
    assert not begun.is_set()


async def test_a_cancelled_thread_is_left_at_once_and_counted_until_it_ends(threads: ToolThreads, gate: Gate) -> None:
    running = asyncio.create_task(threads.on_thread("t", gate))
    await gate.until_reached()
    await cancelled(running)
    assert threads.abandoned == 1
    gate.open.set()
    await eventually_none_abandoned(threads)


async def test_with_as_many_left_as_are_kept_the_process_is_told(gate: Gate) -> None:
    told: list[int] = []
    threads = ToolThreads(lambda: told.append(threads.abandoned))
    for number in range(MOST_ABANDONED):
        assert told == []
        reached = threading.Event()
        running = asyncio.create_task(threads.on_thread(f"t{number}", lambda reached=reached: (reached.set(), gate())))  # type: ignore[misc]
        await asyncio.to_thread(reached.wait)
        await cancelled(running)
    assert told == [MOST_ABANDONED]


async def test_what_is_raised_too_late_goes_where_tools_print(
    threads: ToolThreads, gate: Gate, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        gate()
        raise ValueError("too late")

    running = asyncio.create_task(threads.on_thread("tool it", fail))
    await gate.until_reached()
    await cancelled(running)
    gate.open.set()
    await eventually_none_abandoned(threads)
    await asyncio.sleep(0)
    said = capsys.readouterr()
    assert said.out == ""
    assert "tool it raised after it was given up:" in said.err
    assert "ValueError: too late" in said.err


def test_closing_ends_what_can_be_ended(gate: Gate) -> None:
    threads = ToolThreads()
    tidied = threading.Event()

    async def leave_a_task() -> None:
        async def forever() -> None:
            try:
                await asyncio.Event().wait()
            finally:
                tidied.set()

        leave_a_task.kept = asyncio.create_task(forever())  # type: ignore[attr-defined]
        await asyncio.sleep(0)

    async def go() -> threading.Thread:
        await threads.on_loop("m", "it", leave_a_task)
        blocked = asyncio.create_task(threads.on_loop("other", "it", gate.on_a_loop))
        await gate.until_reached()
        blocked.cancel()
        outcome = await threads.on_loop("m", "it", _thread)
        found: threading.Thread = outcome.result()
        return found

    async def _thread() -> threading.Thread:
        return threading.current_thread()

    thread = asyncio.run(go())
    threads.close()
    assert tidied.is_set()
    assert not thread.is_alive()
