"""What custom tools may do while they run: ask, do effects once, know where they are; in the real App, over restarts."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest

from agent_md.errors import AgentFileInvalid, AnswerRefused
from agent_md.executions.requests import Request
from agent_md.executions.states import CallOutcome, CallState, Outcome, RequestKind, RequestSource, Status
from agent_md.ports.store import NewAnswer
from tests.support.driving import Sink, Workspace, call, turn
from tests.support.waiting import eventually

BOTH = pytest.mark.parametrize("way", ["def", "async def"])
SWALLOWED = "the tool swallowed its own request, so nobody was asked"


@pytest.fixture
def work(tmp_path: Path) -> Iterator[Workspace]:
    workspace = Workspace(tmp_path / "ws")
    yield workspace
    workspace.close()


def prepare(
    work: Workspace, body: str, *, way: str = "def", before: str = "", options: str = "", **settings: str
) -> None:
    """An agent that makes one call, of a tool `it` with this body; the tool has the source `before` above it."""
    source = f'{before}\n@tool\n{options}\n{way} it() -> object:\n    """It."""\n' + indent(body.strip("\n"), "    ")
    work.tools(source)
    work.agent("\n".join(["tools: [kit]", *(f"{name}: {value}" for name, value in settings.items())]))
    work.script(turn(call("it")), "Done.")


def start(work: Workspace, body: str, **more: str) -> None:
    """As `prepare`, and runs until the execution ends or waits."""
    prepare(work, body, **more)
    work.start()


def check_failed(work: Workspace, text: str) -> None:
    """Fails unless the call failed with this text and the execution went on."""
    work.check_succeeded()
    assert text in work.result(), work.result()
    assert work.calls()[0].outcome is CallOutcome.FAILED


def decide(work: Workspace, outcome: Outcome) -> None:
    value = {"approved": False, "reason": "too early"} if outcome is Outcome.DENIED else None
    work.app.store.record_answers([NewAnswer(work.the_request().id, outcome, value)], by="somebody")
    work.restart()
    work.go_on()


def by_message(work: Workspace) -> dict[str, Request]:
    return {request.message: request for request in work.open_requests()}


class TestRequests:
    @BOTH
    def test_a_confirmation(self, work: Workspace, way: str) -> None:
        start(work, "return request_confirmation('Really?', tool_name='rm', tool_args={'path': 'a'})", way=way)
        request = work.the_request()
        assert (request.kind, request.source, request.message) == (
            *(RequestKind.CONFIRM, RequestSource.TOOL, "Really?"),
        )
        assert (request.tool_name, request.tool_args) == ("rm", {"path": "a"})
        work.restart(lose_checkpoints=True)
        work.answer(response={"approved": True})
        work.check_succeeded()
        assert work.result() == "true"

    @BOTH
    def test_an_input_and_an_empty_one(self, work: Workspace, way: str) -> None:
        start(work, "return [request_input('Name?'), request_input('Remark?')]", way=way)
        work.restart()
        work.answer(response={"text": "Ann"})
        assert work.the_request().message == "Remark?"
        work.restart()
        work.answer(response={"text": ""})
        work.check_succeeded()
        assert work.result() == '["Ann", ""]'

    @BOTH
    def test_a_choice_of_one_and_of_several(self, work: Workspace, way: str) -> None:
        body = "return [request_choice('One?', ['a', 'b']), request_choice('Some?', ['a', 'b', 'c'], multi=True)]"
        start(work, body, way=way)
        assert work.the_request().options == ("a", "b")
        work.answer(response={"selected": ["b"]})
        assert work.the_request().multi is True
        work.answer(response={"selected": ["c", "a"]})
        work.check_succeeded()
        assert work.result() == '["b", ["a", "c"]]'

    @BOTH
    @pytest.mark.parametrize("value", [None, False, 0, "", [], {}, {"a": [1]}], ids=repr)
    def test_any_value_answers_a_custom_request(self, work: Workspace, way: str, value: Any) -> None:
        start(work, "return {'got': interrupt({'type': 'slider', 'max': 3})}", way=way)
        request = work.the_request()
        assert (request.kind, request.payload) == (RequestKind.CUSTOM, {"type": "slider", "max": 3})
        work.restart()
        work.record(request, value)
        work.go_on()
        work.check_succeeded()
        assert json.loads(work.result()) == {"got": value}

    def test_a_schema_is_kept_to(self, work: Workspace) -> None:
        start(work, "return interrupt({'n': 1}, response_schema={'type': 'integer', 'minimum': 2})")
        for wrong in (1, "3", None, {}):
            with pytest.raises(AnswerRefused):
                work.record(work.the_request(), wrong)
        assert work.execution.status is Status.WAITING
        work.answer(response=3)
        work.check_succeeded()
        assert work.result() == "3"

    @pytest.mark.parametrize(
        ("question", "why"),
        [
            ("interrupt({'text': 'x' * 17_000})", "has 17011 bytes, at most 16384 are allowed"),
            ("interrupt({'t': 'x' * (16 * 1024 - 7)})", "has 16385 bytes"),
            ("interrupt({'t': 'é' * 8200})", "has 16408 bytes"),
            ("interrupt({'t': chr(0xD800)})", "half a surrogate pair"),
            ("interrupt(['a'])", "takes a JSON object"),
            ("interrupt({'a': {1, 2}})", "not JSON"),
            ("interrupt({'a': float('nan')})", "not JSON"),
            ("interrupt((lambda d: d.update(d=d) or d)({}))", "or holds itself"),
            ("request_questions({'question': 'Which?'})", "is dict, expected a list of questions"),
            ("request_questions([])", "questions: has 0, expected 1 to 4"),
            ("interrupt({}, response_schema={'type': 'nothing'})", "no JSON Schema"),
            ("interrupt({}, response_schema={'pattern': '('})", "no JSON Schema"),
            ("interrupt({}, response_schema={'items': {'$ref': 'http://127.0.0.1:9/a'}})", "which is not in it"),
            ("interrupt({}, response_schema={'$ref': '#/$defs/b', '$defs': {'a': True}})", "which is not in it"),
            ("interrupt({}, response_schema={'$dynamicRef': 'http://127.0.0.1:9/a'})", "which is not in it"),
            ("interrupt({}, response_schema={'$id': 'http://127.0.0.1:9/', '$ref': 'a'})", "which is not in it"),
            ("interrupt({}, response_schema={'properties': {'enum': {'$ref': 'x'}}})", "which is not in it"),
            ("interrupt({}, response_schema={'$schema': 7})", "ValueError"),
            ("interrupt({}, response_schema={'a': json.loads('[' * 450 + ']' * 450)})", "nested deeper than 64"),
            ("interrupt({'x': json.loads('[' * 450 + ']' * 450)})", "payload is nested deeper than 64"),
            ("request_choice('Which?', [])", "no options"),
            ("request_choice('Which?', ['a', 'a'])", "two options are equal"),
            ("request_choice('Which?', ['a', ' '])", "an option is empty"),
            ("request_input(7)", "message is int"),
            ("request_confirmation('Sure?', tool_args={'a': object()})", "tool_args is not JSON"),
        ],
    )
    def test_a_question_that_cannot_be_asked_fails_the_call(self, work: Workspace, question: str, why: str) -> None:
        start(work, f"return {question}", before="import json")
        check_failed(work, why)
        assert work.requests() == []

    def test_a_schema_may_refer_to_itself(self, work: Workspace) -> None:
        schema = {"$ref": "#/$defs/n", "$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}}}}
        start(work, f"return interrupt({{}}, response_schema={schema})")
        with pytest.raises(AnswerRefused):
            work.record(work.the_request(), [[1]])
        work.answer(response=[[], [[]]])
        work.check_succeeded()

    @pytest.mark.parametrize(
        "schema",
        [
            {"enum": [{"$ref": "x"}]},
            {"const": {"$ref": "x"}},
            {"default": {"$dynamicRef": "x"}, "examples": [{"$ref": "x"}]},
            {"properties": {"$ref": {"type": "string"}}},
            {"$schema": "http://127.0.0.1:9/no-draft", "type": "object"},
            {
                "properties": {"$ref": {"$ref": "#/$defs/b"}},
                "$defs": {
                    "b": {"$id": "http://127.0.0.1:9/b", "$ref": "#/$defs/c", "$defs": {"c": {"type": "string"}}}
                },
            },
        ],
        ids=str,
    )
    def test_a_schema_with_all_that_it_refers_to(self, work: Workspace, schema: dict[str, Any]) -> None:
        start(work, f"return interrupt({{}}, response_schema={schema})")
        with pytest.raises(AnswerRefused, match="does not fit") if "enum" in schema else nullcontext():
            work.record(work.the_request(), {"$ref": "x"} if "enum" not in schema else {"$ref": "y"})

    @pytest.mark.parametrize(
        ("schema", "response", "why"),
        [
            ({"pattern": "^(a+)+$"}, "a" * 50 + "b", "it takes too long"),
            ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, 1, "RecursionError"),
            (
                {"else": {}, "x": {"$ref": "http://127.0.0.1:9/"}, "$ref": "#/x"},
                1,
                "refers to 'http://127.0.0.1:9/', which is not in it",
            ),
            ({"multipleOf": 0.1}, 10**400, "OverflowError"),
            ({}, [float("inf")], "not finite"),
            ({}, {"a": float("nan")}, "not finite"),
            ({}, json.loads("[" * 65 + "]" * 65), "nested deeper than 64"),
        ],
        ids=lambda value: str(value)[:40],
    )
    def test_an_answer_that_cannot_be_checked_is_refused(
        self, work: Workspace, schema: dict[str, Any], response: Any, why: str
    ) -> None:
        start(work, f"return interrupt({{}}, response_schema={schema})")
        with pytest.raises(AnswerRefused, match=why):
            work.record(work.the_request(), response)
        assert work.the_request().open

    def test_a_payload_of_just_16_kib(self, work: Workspace) -> None:
        start(work, "return interrupt({'t': 'é' + 'x' * (16 * 1024 - len('{\"t\":\"\"}') - 2)})")
        work.answer(response="ok")
        work.check_succeeded()

    @pytest.mark.parametrize(
        ("ask", "wanted"),
        [
            ("request_input('Name?')", "Action denied by user{}"),
            ("request_choice('Which?', ['a'])", "Action denied by user{}"),
            ("interrupt({'a': 1})", "Action denied by user{}"),
            ("request_confirmation('Sure?')", "false"),
        ],
    )
    @pytest.mark.parametrize("outcome", [Outcome.DENIED, Outcome.EXPIRED])
    @BOTH
    def test_what_is_not_granted_and_not_caught(
        self, work: Workspace, way: str, ask: str, wanted: str, outcome: Outcome
    ) -> None:
        start(work, f"return {ask}", way=way)
        decide(work, outcome)
        work.check_succeeded()
        assert work.result() == wanted.format(": too early" if outcome is Outcome.DENIED else " (timeout)")
        refused = CallOutcome.DONE if wanted == "false" else CallOutcome.DENIED
        assert work.calls()[0].outcome is refused

    @pytest.mark.parametrize("outcome", [Outcome.DENIED, Outcome.EXPIRED])
    def test_what_is_not_granted_and_caught(self, work: Workspace, outcome: Outcome) -> None:
        body = "try:\n    return request_input('Name?')\nexcept (RequestDenied, RequestExpired) as error:\n"
        start(work, body + "    return f'{type(error).__name__}, so: Bob'")
        decide(work, outcome)
        work.check_succeeded()
        wanted = "RequestDenied" if outcome is Outcome.DENIED else "RequestExpired"
        assert work.result() == f"{wanted}, so: Bob"

    def test_the_same_question_twice_has_two_answers(self, work: Workspace) -> None:
        start(work, "return [request_input('Name?') for _ in range(3)]")
        for name in ("Ann", "Bob", "Cid"):
            work.restart()
            work.answer(response={"text": name})
        work.check_succeeded()
        assert work.result() == '["Ann", "Bob", "Cid"]'

    def test_a_call_that_waits_holds_no_thread(self, work: Workspace) -> None:
        before = set(threading.enumerate())
        start(work, "return request_input('Name?')")
        for thread in set(threading.enumerate()) - before:
            thread.join(10)
        assert set(threading.enumerate()) <= before


GATHERED = """
async def ask(text):
    return request_input(text)
names = ["one", "two"]
if (context().workspace / "flip").exists():
    names.reverse()
answers = await asyncio.gather(*(ask(name) for name in names))
return dict(sorted(zip(names, answers)))
"""


class TestAtOnce:
    def test_questions_by_gather_are_all_open_at_once(self, work: Workspace) -> None:
        start(work, GATHERED, way="async def", before="import asyncio")
        assert sorted(by_message(work)) == ["one", "two"]

    @pytest.mark.parametrize("first", ["one", "two"])
    @pytest.mark.parametrize("flips", [(True, False), (False, True), (True, True)])
    def test_each_gets_its_own_answer_though_their_order_changes(
        self, work: Workspace, first: str, flips: tuple[bool, bool]
    ) -> None:
        start(work, GATHERED, way="async def", before="import asyncio")
        requests = by_message(work)
        second = ({"one", "two"} - {first}).pop()
        for name, flip in zip((first, second), flips, strict=True):
            (work.folder / "flip").unlink(missing_ok=True)
            if flip:
                work.write("flip")
            work.restart(lose_checkpoints=flip)
            work.answer(requests[name], {"text": f"answer {name}"})
        work.check_succeeded()
        assert work.result() == '{"one": "answer one", "two": "answer two"}'

    def test_one_answer_of_two_does_not_run_the_tool_again(self, work: Workspace) -> None:
        start(work, "effect('pass')\n" + GATHERED, way="async def", before="import asyncio")
        work.answer(by_message(work)["one"], {"text": "x"})
        assert work.effects() == {"pass": 1}
        work.answer(by_message(work)["two"], {"text": "y"})
        assert work.effects() == {"pass": 2}

    def test_what_gather_leaves_running_does_no_further_step(self, work: Workspace) -> None:
        """A call beside it keeps the driver busy until the answer is there, so that one drive runs both passes."""
        before = """
import asyncio
go, answered, passes, loops = asyncio.Event(), asyncio.Event(), [], []
@tool
async def beside() -> str:
    \"\"\"Runs meanwhile.\"\"\"
    loops.append(asyncio.get_running_loop())
    await answered.wait()
    return ""
"""
        body = """
async def ask():
    return request_input("Name?")
async def late():
    await go.wait()
    step(effect, "late")
if passes:
    go.set()
    for _ in range(5):
        await asyncio.sleep(0)
passes.append(1)
name, _ = await asyncio.gather(ask(), late())
return name
"""
        prepare(work, body, way="async def", before=before)
        work.script(turn(call("it"), call("beside")), "Done.")

        async def in_one_drive() -> None:
            driving = asyncio.create_task(work.advance(work.create()))
            await eventually(lambda: work.requests())
            work.record(work.the_request(), {"text": "Ann"})
            await eventually(lambda: work.module().loops)
            work.module().loops[0].call_soon_threadsafe(work.module().answered.set)
            await driving

        asyncio.run(in_one_drive())
        work.check_succeeded()
        assert work.execution.epoch == 1
        assert work.module().passes == [1, 1]
        assert work.effects() == {"late": 1}


class TestSwallowed:
    @BOTH
    def test_except_exception_does_not_swallow(self, work: Workspace, way: str) -> None:
        body = (
            "try:\n    name = request_input('Name?')\nexcept Exception:\n    name = 'nobody'\neffect(name)\nreturn name"
        )
        start(work, body, way=way)
        assert work.effects() == {}
        work.answer(response={"text": "Ann"})
        work.check_succeeded()
        assert work.effects() == {"Ann": 1}

    @BOTH
    def test_except_base_exception_fails_the_call(self, work: Workspace, way: str) -> None:
        body = "try:\n    request_input('Name?')\nexcept BaseException:\n    pass\nreturn 'fine'"
        start(work, body, way=way)
        check_failed(work, SWALLOWED)
        assert work.requests() == []

    @BOTH
    @pytest.mark.parametrize("then", ["raise ValueError('other')", "return request_input('Second?')", "raise"])
    def test_whatever_comes_after_it(self, work: Workspace, way: str, then: str) -> None:
        body = "for _ in range(2):\n    try:\n        request_input('First?')\n    except BaseException:\n"
        body += f"        if _:\n            {then}"
        start(work, body, way=way)
        check_failed(work, SWALLOWED)
        assert work.requests() == []

    def test_gather_that_returns_exceptions(self, work: Workspace) -> None:
        body = "async def ask(n):\n    return request_input(n)\n"
        body += "found = await asyncio.gather(ask('a'), ask('b'), return_exceptions=True)\nreturn str(found)"
        start(work, body, way="async def", before="import asyncio")
        check_failed(work, SWALLOWED)
        assert work.requests() == []

    def test_gather_that_returns_exceptions_and_then_a_question(self, work: Workspace) -> None:
        body = "async def ask(n):\n    return request_input(n)\n"
        body += "await asyncio.gather(ask('a'), ask('b'), return_exceptions=True)\nreturn request_input('c')"
        start(work, body, way="async def", before="import asyncio")
        check_failed(work, SWALLOWED)
        assert work.requests() == []

    @BOTH
    def test_a_retry_decorator(self, work: Workspace, way: str) -> None:
        retry = """
import functools
def retry(function):
    @functools.wraps(function)
    def again(*args):
        for _ in range(3):
            try:
                return function(*args)
            except BaseException as error:
                last = error
        raise last
    return again
@retry
def ask():
    return request_input("Name?")
"""
        start(work, "return ask()", way=way, before=retry)
        check_failed(work, SWALLOWED)
        assert work.requests() == []

    def test_questions_of_a_task_group_get_their_own_answers(self, work: Workspace) -> None:
        body = """
async with asyncio.TaskGroup() as group:
    tasks = [group.create_task(ask(name)) for name in ("first", "second")]
return " ".join(task.result() for task in tasks)
"""
        before = "import asyncio\nasync def ask(name):\n    return request_input(name)"
        start(work, body, way="async def", before=before)
        first, second = work.open_requests()
        work.answer(second, {"text": f"to {second.message}"})
        work.answer(first, {"text": f"to {first.message}"})
        work.check_succeeded()
        assert work.result() == "to first to second"

    def test_a_pause_of_its_own(self, work: Workspace) -> None:
        start(work, "raise Pause")
        check_failed(work, "the tool raised a Pause of its own")

    def test_a_cleanup_that_takes_its_time_is_no_swallowing(self, work: Workspace) -> None:
        body = """
async def ask(name, wait):
    try:
        return request_input(name)
    finally:
        for _ in range(wait):
            await asyncio.sleep(0)
return await asyncio.gather(ask("a", 3), ask("b", 0))
"""
        start(work, body, way="async def", before="import asyncio")
        assert sorted(by_message(work)) == ["a", "b"]


class TestThreads:
    def test_a_thread_of_the_tools_own_gets_a_clear_error(self, work: Workspace) -> None:
        body = "with ThreadPoolExecutor(1) as pool:\n    return pool.submit(request_input, 'Name?').result()"
        start(work, body, before="from concurrent.futures import ThreadPoolExecutor")
        check_failed(work, "agent_md.sdk was used outside a running tool (in a thread of its own, perhaps)")
        assert work.requests() == []

    def test_a_thread_that_asyncio_makes_may_ask(self, work: Workspace) -> None:
        start(work, "return await asyncio.to_thread(request_input, 'Name?')", way="async def", before="import asyncio")
        work.answer(response={"text": "Ann"})
        work.check_succeeded()
        assert work.result() == "Ann"

    def test_a_thread_with_the_context_of_the_call_may_ask(self, work: Workspace) -> None:
        body = "ctx = contextvars.copy_context()\nwith ThreadPoolExecutor(1) as pool:\n"
        body += "    return pool.submit(ctx.run, request_input, 'Name?').result()"
        start(work, body, before="import contextvars\nfrom concurrent.futures import ThreadPoolExecutor")
        work.answer(response={"text": "Ann"})
        work.check_succeeded()
        assert work.result() == "Ann"


class TestDeterminism:
    @BOTH
    def test_another_question_in_its_place_fails_the_call(self, work: Workspace, way: str) -> None:
        body = "n = len(list(context().workspace.glob('pass*')))\n(context().workspace / f'pass{n}').touch()\n"
        start(work, body + "return request_input(f'Question {n}?')", way=way)
        work.restart()
        work.answer(response={"text": "x"})
        check_failed(work, "the tool is not deterministic: it asked 'Question 0?' before, and now 'Question 1?'")
        assert len(work.requests()) == 1

    def test_what_a_step_gave_stays_the_same(self, work: Workspace) -> None:
        start(work, "n = step(time.time_ns)\nreturn request_input(f'Question {n}?')", before="import time")
        work.restart()
        work.answer(response={"text": "x"})
        work.check_succeeded()


class TestSteps:
    @BOTH
    @pytest.mark.parametrize("lose_checkpoints", [False, True])
    def test_each_effect_once_over_several_questions(self, work: Workspace, way: str, lose_checkpoints: bool) -> None:
        body = "done = []\nfor n in range(3):\n    done += [step(effect, f'step {n}'), request_input(f'{n}?')]\nreturn done"
        start(work, body, way=way)
        for n in range(3):
            work.restart(lose_checkpoints=lose_checkpoints)
            work.answer(response={"text": f"answer {n}"})
        work.check_succeeded()
        assert work.effects() == {"step 0": 1, "step 1": 1, "step 2": 1}
        assert work.result() == '["step 0", "answer 0", "step 1", "answer 1", "step 2", "answer 2"]'

    def test_an_async_function(self, work: Workspace) -> None:
        before = "import asyncio\nasync def slow(key, *, n):\n    await asyncio.sleep(0)\n    return {effect(key): n}"
        body = "first = await step(slow, 'a', n=(1, 2))\nrequest_input('?')\nreturn [first, await step(slow, 'b', n=3)]"
        start(work, body, way="async def", before=before)
        work.answer(response={"text": ""})
        work.check_succeeded()
        assert work.effects() == {"a": 1, "b": 1}
        assert work.result() == '[{"a": [1, 2]}, {"b": 3}]'

    @BOTH
    def test_an_exception_is_kept_and_raised_again(self, work: Workspace, way: str) -> None:
        before = "class Odd(Exception): ...\ndef fails(key):\n    effect(key)\n    raise Odd(key, 7)"
        body = (
            "try:\n    step(fails, 'a')\nexcept Odd as error:\n    kept = error.args\nrequest_input('?')\nreturn kept"
        )
        start(work, body, way=way, before=before)
        work.restart()
        work.answer(response={"text": ""})
        work.check_succeeded()
        assert work.effects() == {"a": 1}
        assert work.result() == '["a", 7]'

    def test_an_exception_that_cannot_be_made_again_keeps_its_text(self, work: Workspace) -> None:
        before = "class Odd(Exception):\n    def __init__(self, a, b):\n        super().__init__(a + b)\n"
        before += "def fails():\n    raise Odd('no ', 'way')"
        body = (
            "try:\n    step(fails)\nexcept Exception as error:\n    kept = str(error)\nrequest_input('?')\nreturn kept"
        )
        start(work, body, before=before)
        work.restart()
        work.answer(response={"text": ""})
        work.check_succeeded()
        assert work.result() == "no way"

    def test_a_result_that_is_no_json_fails_the_call_after_its_effect(self, work: Workspace) -> None:
        before = "def odd(key):\n    effect(key)\n    return {1, 2}"
        start(work, "return step(odd, 'a')", before=before)
        check_failed(work, "the result of a step must be JSON")
        assert work.effects() == {"a": 1}

    def test_it_fails_the_same_way_when_the_tool_runs_again(self, work: Workspace) -> None:
        before = "def odd(key):\n    effect(key)\n    return {1, 2}"
        body = "try:\n    step(odd, 'a')\nexcept TypeError as error:\n    kept = str(error)\nrequest_input('?')\nreturn kept"
        start(work, body, before=before)
        work.restart()
        work.answer(response={"text": ""})
        work.check_succeeded()
        assert "must be JSON" in work.result()
        assert work.effects() == {"a": 1}

    def test_another_function_in_its_place_fails_the_call(self, work: Workspace) -> None:
        before = "def one():\n    return effect('one')\ndef two():\n    return effect('two')"
        body = "again = (context().workspace / 'world.log').exists()\ntry:\n    step(two if again else one)\n"
        start(work, body + "except Exception:\n    pass\nrequest_input('?')\nreturn 'fine'", before=before)
        work.restart()
        work.answer(response={"text": ""})
        check_failed(work, "step 1 was kit.one before and is kit.two now")
        assert work.effects() == {"one": 1}

    @BOTH
    def test_a_request_inside_a_step_fails_the_call(self, work: Workspace, way: str) -> None:
        body = "try:\n    step(request_input, 'Name?')\nexcept Exception:\n    pass\nreturn 'fine'"
        start(work, body, way=way)
        check_failed(work, "a request was raised inside a step")
        assert work.requests() == []

    def test_a_step_inside_a_step_fails_the_call(self, work: Workspace) -> None:
        start(work, "return step(lambda: step(effect, 'a'))")
        check_failed(work, "another step was begun inside a step")
        assert work.effects() == {}

    def test_a_module_edited_meanwhile_keeps_its_steps(self, work: Workspace) -> None:
        start(work, "first = step(effect, 'a')\nreturn first + request_input('?')")
        module = work.folder / "agents/_config/tools/kit.py"
        module.write_text(module.read_text() + "\n# a remark\n")
        work.restart()
        work.answer(response={"text": "!"})
        work.answer()
        work.check_succeeded()
        assert work.result() == "a!"
        assert work.effects() == {"a": 1}

    @pytest.mark.parametrize("catches", [False, True])
    def test_a_step_that_was_cut_is_unknown(self, work: Workspace, catches: bool) -> None:
        """Its function leaves the process without an end that `step` could see."""
        before = "def cut(key):\n    effect(key)\n    raise SystemExit"
        body = "try:\n    step(cut, 'a')\nexcept SystemExit:\n    pass\n"
        body += "except StepUnknown as error:\n    " + ("return f'checked: {error}'" if catches else "raise")
        start(work, f"{body}\nrequest_input('?')\nreturn 'fine'", before=before)
        work.restart()
        work.answer(response={"text": ""})
        work.check_succeeded()
        assert work.effects() == {"a": 1}
        (found,) = work.calls()
        assert "it may have run" in work.result()
        if catches:
            assert work.result().startswith("checked: the step kit.cut was started before")
            assert found.outcome is CallOutcome.DONE
        else:
            assert (found.state, found.outcome) == (CallState.UNKNOWN, CallOutcome.UNKNOWN)


class TestForeignInterrupts:
    BEFORE = "from langgraph.types import interrupt as pause"

    @BOTH
    def test_two_in_one_tool(self, work: Workspace, way: str) -> None:
        body = "first = pause({'ask': 'one'})\neffect('between')\nsecond = pause('two')\nreturn [first, second]"
        start(work, body, way=way, before=self.BEFORE)
        assert work.the_request().payload == {"ask": "one"}
        work.restart()
        work.answer(response={"type": "edit", "n": 1})
        assert work.the_request().payload == {"value": "two"}
        work.restart(lose_checkpoints=True)
        work.answer(response=False)
        work.check_succeeded()
        assert work.result() == '[{"type": "edit", "n": 1}, false]'
        assert work.effects() == {"between": 2}

    def test_except_exception_does_not_swallow_it(self, work: Workspace) -> None:
        body = "try:\n    return pause({'a': 1})\nexcept Exception:\n    return 'swallowed'"
        start(work, body, before=self.BEFORE)
        work.answer(response="answer")
        work.check_succeeded()
        assert work.result() == "answer"

    def test_beside_a_guarded_call_of_the_same_tool(self, work: Workspace) -> None:
        work.tools('@tool\ndef it() -> str:\n    """It."""\n    return pause({"a": 1})\n', "kit")
        module = work.folder / "agents/_config/tools/kit.py"
        module.write_text(f"{self.BEFORE}\n{module.read_text()}")
        work.agent("tools: [kit]\nconfirm: [it]")
        work.script(turn(call("it"), call("it")), "Done.")
        work.start()
        first, second = work.open_requests()
        work.answer(second)
        (inner,) = [request for request in work.open_requests() if request.kind is RequestKind.CUSTOM]
        assert inner.position.index == 1
        work.answer(inner, "inner")
        work.answer(first)
        work.answer(response="last")
        work.check_succeeded()
        assert work.results_seen() == ["last", "inner"]


class TestEditedBetweenAskAndAnswer:
    """An answer belongs to the source that asked: another one runs only when a human has confirmed it."""

    BODY = "step(effect, 'before')\nif request_confirmation('Sure?'):\n    effect('old')\nreturn 'told'"

    def edited(self, work: Workspace, *, lose_checkpoints: bool = False) -> None:
        module = work.folder / "agents/_config/tools/kit.py"
        module.write_text(module.read_text().replace("effect('old')", "effect('new')"))
        work.restart(lose_checkpoints=lose_checkpoints)

    @BOTH
    @pytest.mark.parametrize("lose_checkpoints", [False, True])
    def test_nothing_of_it_runs_before_it_is_approved(self, work: Workspace, way: str, lose_checkpoints: bool) -> None:
        start(work, self.BODY, way=way)
        self.edited(work, lose_checkpoints=lose_checkpoints)
        work.answer()
        again = work.the_request()
        assert (again.source, again.kind) == (RequestSource.GATE, RequestKind.CONFIRM)
        assert again.message == "Confirm it {} (its source was changed since it asked)"
        assert work.effects() == {"before": 1}
        work.restart(lose_checkpoints=lose_checkpoints)
        work.answer()
        work.check_succeeded()
        assert work.effects() == {"before": 1, "new": 1}
        assert len(work.requests()) == 2

    @pytest.mark.parametrize("outcome", [Outcome.DENIED, Outcome.EXPIRED])
    def test_it_never_runs_when_it_is_not_approved(self, work: Workspace, outcome: Outcome) -> None:
        start(work, self.BODY)
        self.edited(work)
        work.answer()
        decide(work, outcome)
        work.check_succeeded()
        assert work.calls()[0].outcome is CallOutcome.DENIED
        assert work.effects() == {"before": 1}

    def test_each_edit_is_approved_anew(self, work: Workspace) -> None:
        start(work, self.BODY)
        self.edited(work)
        work.answer()
        work.record(work.the_request(), {"approved": True})
        module = work.folder / "agents/_config/tools/kit.py"
        module.write_text(module.read_text().replace("effect('new')", "effect('newer')"))
        work.go_on()
        assert "its source was changed since this was approved" in work.the_request().message
        work.answer()
        work.check_succeeded()
        assert work.effects() == {"before": 1, "newer": 1}

    def test_unedited_there_is_no_other_question(self, work: Workspace) -> None:
        start(work, self.BODY)
        work.restart(lose_checkpoints=True)
        work.answer()
        work.check_succeeded()
        assert work.effects() == {"before": 1, "old": 1}
        assert len(work.requests()) == 1

    def test_edited_and_put_back_there_is_none_either(self, work: Workspace) -> None:
        start(work, self.BODY)
        self.edited(work)
        module = work.folder / "agents/_config/tools/kit.py"
        module.write_text(module.read_text().replace("effect('new')", "effect('old')"))
        work.answer()
        work.check_succeeded()
        assert len(work.requests()) == 1


class TestContext:
    def test_its_values(self, work: Workspace) -> None:
        work.write("notes/a.txt")
        body = "c = context()\nreturn [c.agent, c.execution_id, c.session_id, str(c.workspace), str(c.resolve_path('notes/a.txt'))]"
        start(work, body)
        work.check_succeeded()
        folder = str(work.folder)
        assert json.loads(work.result()) == ["worker", 1, None, folder, f"{work.folder.resolve()}/notes/a.txt"]

    def test_a_path_outside_is_refused(self, work: Workspace) -> None:
        start(work, "return str(context().resolve_path('../out.txt'))")
        check_failed(work, "is not a path that this agent may use")

    def test_a_key_for_each_call_the_same_in_every_pass(self, work: Workspace) -> None:
        body = "key = context().idempotency_key\neffect(key)\nrequest_input('?')\nreturn key"
        start(work, body)
        work.restart(lose_checkpoints=True)
        work.answer(response={"text": ""})
        (key,) = work.effects()
        assert work.effects()[key] == 2
        work.start()
        assert len(work.effects()) == 2

    def test_no_other_workspace_has_the_key(self, work: Workspace, tmp_path: Path) -> None:
        other = Workspace(tmp_path / "other")
        keys = set()
        for workspace in (work, other):
            start(workspace, "return context().idempotency_key")
            keys.add(workspace.result())
        other.close()
        assert len(keys) == 2


class TestOptions:
    def test_requires_approval(self, work: Workspace) -> None:
        start(work, "return effect('a')", options="@tool_options(requires_approval=True)")
        assert work.effects() == {}
        work.answer()
        work.check_succeeded()
        assert work.effects() == {"a": 1}

    def test_requires_approval_is_lifted_like_any_guard(self, work: Workspace) -> None:
        start(work, "return effect('a')", options="@tool_options(requires_approval=True)", auto_approve="[it]")
        work.check_succeeded()
        assert work.requests() == []

    @BOTH
    @pytest.mark.parametrize("harmless", ["", ", read_only=True", ", idempotent=True"])
    def test_a_timeout_gives_the_call_up(self, work: Workspace, way: str, harmless: str) -> None:
        wait = "await asyncio.sleep(60)" if way != "def" else "threading.Event().wait(60)"
        options = f"@tool_options(timeout=0.05{harmless})"
        start(work, f"effect('a')\n{wait}", way=way, options=options, before="import asyncio, threading")
        work.check_succeeded()
        wanted = CallOutcome.FAILED if harmless else CallOutcome.UNKNOWN
        assert work.calls()[0].outcome is wanted
        assert "it did not end within 0.05 s" in work.result()
        assert ("may have run" in work.result()) == (not harmless)

    @pytest.mark.parametrize("timeout", ["0", "-1", "'5'", "True", "float('nan')"])
    def test_a_timeout_that_is_none_is_refused_with_its_line(self, work: Workspace, timeout: str) -> None:
        prepare(work, "return 1", options=f"@tool_options(timeout={timeout})")
        with pytest.raises(AgentFileInvalid, match=r"kit.py, line \d+: ValueError: timeout is .*above 0"):
            work.create()

    def test_what_a_tool_does_after_its_timeout_is_no_step(self, work: Workspace) -> None:
        before = """
import asyncio, threading
go, over = threading.Event(), threading.Event()
@tool
def beside() -> str:
    \"\"\"Runs until the other has gone on.\"\"\"
    assert go.wait(10) and over.wait(10)
    return ""
"""
        body = "try:\n    go.wait(60)\n    step(effect, 'late')\nfinally:\n    over.set()"
        prepare(work, body, options="@tool_options(timeout=0.05)", before=before)
        work.script(turn(call("it"), call("beside")), "Done.")

        def closed() -> None:
            if any(found.state.closed for found in work.calls()):
                work.module().go.set()

        work.start(Sink(closed))
        work.check_succeeded()
        assert work.results_seen()[0].startswith("Unknown: it did not end within 0.05 s")
        assert work.effects() == {}
