"""The script model: a chat model that plays a file, for trying agentmd without a key, and for tests."""

from __future__ import annotations

import asyncio
import difflib
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage, UsageMetadata
from langchain_core.messages.tool import tool_call, tool_call_chunk
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import BaseTool
from langchain_core.utils.function_calling import convert_to_openai_tool
from pydantic import ConfigDict, PrivateAttr, SkipValidation

from agent_md.errors import ModelFailed
from agent_md.models.failures import ProviderFailure
from agent_md.models.script_file import ErrorKind, Expectation, Script, Turn, load_script
from agent_md.models.text_pattern import PatternTooSlow

__all__ = ["ScriptFailed", "ScriptModel"]

_MOST_PIECES = 1000
_MATCHING_S = 5.0
"""For finding the conversation of a message."""

_PREFIX = {ErrorKind.RATE_LIMIT: "429 ", ErrorKind.TRANSPORT: "", ErrorKind.BAD_REQUEST: "400 "}


class ScriptFailed(ModelFailed):
    """The script does not fit what happened: it is exhausted, an `expect` is unmet, a called tool is not bound."""


@dataclass(frozen=True, slots=True)
class _Scene:
    """The turn that is due; `number` counts from 0 since the last human message."""

    conversation: int
    number: int
    turn: Turn


class ScriptModel(BaseChatModel):
    """Answers with the turn of its script that is due.

    The turn is the number of AI messages since the last human message: the same messages give the same answer in any
    process. Only the count of simulated failures (`error.times`) is memory, of this instance and its bound copies.
    A script that does not fit raises ScriptFailed, a simulated failure ProviderFailure.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True)

    script: SkipValidation[Script]
    bound: tuple[str, ...] = ()
    """Names of the tools that may be called."""
    _failures: dict[tuple[int, int], int] = PrivateAttr(default_factory=dict)

    @classmethod
    def load(cls, scripts_dir: Path, name: str) -> ScriptModel:
        """The model of `{scripts_dir}/{name}.yaml`. Raises ScriptInvalid."""
        return cls(script=load_script(scripts_dir, name))

    @property
    def _llm_type(self) -> str:
        return "script"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> ScriptModel:
        """A copy that may call these tools and no others. `tool_choice` changes nothing: the script chooses."""
        names = tuple(convert_to_openai_tool(tool)["function"]["name"] for tool in tools)
        return self.model_copy(update={"bound": names})

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        scene = self._scene(messages)
        time.sleep(scene.turn.delay)
        return self._result(scene)

    async def _agenerate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        scene = await asyncio.to_thread(self._scene, messages)
        await asyncio.sleep(scene.turn.delay)
        return self._result(scene)

    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        scene = self._scene(messages)
        time.sleep(scene.turn.delay)
        yield from self._chunks(scene)

    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        scene = await asyncio.to_thread(self._scene, messages)
        await asyncio.sleep(scene.turn.delay)
        for chunk in self._chunks(scene):
            yield chunk
            await asyncio.sleep(0)  # a long text holds up nobody

    # The play

    def _scene(self, messages: list[BaseMessage]) -> _Scene:
        start = next((i for i in reversed(range(len(messages))) if isinstance(messages[i], HumanMessage)), None)
        if start is None:
            raise ScriptFailed(f"{self._where()} cannot answer: the conversation has no human message")
        said, since = str(messages[start].text), messages[start + 1 :]
        number = sum(isinstance(message, AIMessage) for message in since)
        try:
            index = self._conversation(said)
        except PatternTooSlow as slow:
            raise ScriptFailed(f"{self._where()} cannot be played: {slow}") from None
        conversation = self.script.conversations[index]
        if number >= len(conversation.turns):
            raise ScriptFailed(
                f"{self._where()} is exhausted: conversation {index + 1} has {len(conversation.turns)} turns, "
                f"turn {number + 1} was asked for; add a turn"
            )
        turn = conversation.turns[number]
        where = f"{self._where(turn)}: turn {number + 1} of conversation {index + 1}"
        if turn.expect is not None:
            _check_expectation(turn.expect, since, where)
        self._check_calls(turn, where)
        return _Scene(index, number, turn)

    def _conversation(self, said: str) -> int:
        deadline = time.monotonic() + _MATCHING_S
        for index, conversation in enumerate(self.script.conversations):
            if conversation.user is None or conversation.user.found_in(said):
                return index
            if time.monotonic() > deadline:
                raise PatternTooSlow(
                    "its patterns together take too long to be searched for; write fewer, or simpler ones"
                )
        raise ScriptFailed(f"{self._where()} has no conversation for {_short(said)!r}; add one without `match`")

    def _check_calls(self, turn: Turn, where: str) -> None:
        for call in turn.calls:
            if call.name not in self.bound:
                near = difflib.get_close_matches(call.name, self.bound, n=1)
                hint = f"did you mean {near[0]!r}?" if near else f"bound: {', '.join(self.bound) or 'none'}"
                raise ScriptFailed(f"{where} calls {call.name!r}, a tool that is not bound; {hint}")

    def _where(self, turn: Turn | None = None) -> str:
        return f"script {self.script.path}" + (f", line {turn.line}" if turn is not None else "")

    def _fail_if_simulated(self, scene: _Scene) -> None:
        error, key = scene.turn.error, (scene.conversation, scene.number)
        failed = self._failures.get(key, 0)
        if error is None or (error.times is not None and failed >= error.times):
            return
        self._failures[key] = failed + 1
        raise ProviderFailure(_PREFIX[error.kind] + error.message, transient=error.kind is not ErrorKind.BAD_REQUEST)

    # The answer

    def _result(self, scene: _Scene) -> ChatResult:
        self._fail_if_simulated(scene)
        turn = scene.turn
        message = AIMessage(
            content=turn.text,
            tool_calls=[
                tool_call(name=call.name, args=deepcopy(call.args), id=_call_id(scene, index))
                for index, call in enumerate(turn.calls)
            ],
            additional_kwargs=deepcopy(turn.additional_kwargs),
            response_metadata=self._metadata(turn),
            usage_metadata=_usage(turn),
        )
        return ChatResult(generations=[ChatGeneration(message=message)])

    def _chunks(self, scene: _Scene) -> Iterator[ChatGenerationChunk]:
        self._fail_if_simulated(scene)
        turn = scene.turn
        for word in _words(turn.text):
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))
        for index, call in enumerate(turn.calls):
            part = tool_call_chunk(name=call.name, args=json.dumps(call.args), id=_call_id(scene, index), index=index)
            yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_call_chunks=[part]))
        last = AIMessageChunk(
            content="",
            additional_kwargs=deepcopy(turn.additional_kwargs),
            response_metadata=self._metadata(turn),
            usage_metadata=_usage(turn),
            chunk_position="last",
        )
        yield ChatGenerationChunk(message=last)

    def _metadata(self, turn: Turn) -> dict[str, Any]:
        return {
            "model_provider": "script",
            "model_name": self.script.name,
            "finish_reason": turn.finish,
            "cost_usd": turn.usage.cost,
        }


def _check_expectation(expect: Expectation, since: list[BaseMessage], where: str) -> None:
    names = {
        call["id"]: call["name"] for message in since if isinstance(message, AIMessage) for call in message.tool_calls
    }
    results = [
        str(message.text)
        for message in since
        if isinstance(message, ToolMessage) and (message.name or names.get(message.tool_call_id)) == expect.tool
    ]
    wanted = f"{where} expects a result of {expect.tool} that matches {expect.result.pattern!r}"
    if not results:
        raise ScriptFailed(f"{wanted}, but {expect.tool} gave none since the last human message")
    try:
        found = expect.result.found_in(results[-1])
    except PatternTooSlow as slow:
        raise ScriptFailed(f"{wanted}, but {slow}") from None
    if not found:
        raise ScriptFailed(f"{wanted}, but the last one was {_short(results[-1])!r}")


def _call_id(scene: _Scene, index: int) -> str:
    return f"call_{scene.number}_{index}"


def _usage(turn: Turn) -> UsageMetadata:
    spent = turn.usage
    return UsageMetadata(input_tokens=spent.input, output_tokens=spent.output, total_tokens=spent.input + spent.output)


def _words(text: str) -> list[str]:
    """Pieces that make the text again when joined: each word with the blanks after it; in a long text several words."""
    words = re.findall(r"\S+\s*|\s+", text)
    together = -(-len(words) // _MOST_PIECES)
    return words if together < 2 else ["".join(words[at : at + together]) for at in range(0, len(words), together)]


def _short(text: str) -> str:
    return text if len(text) <= 120 else text[:119] + "…"
