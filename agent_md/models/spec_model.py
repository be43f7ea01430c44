"""The model of one spec for one drive: created at its first call, called with retries, closed at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agent_md.agents.spec import AgentSpec
from agent_md.models.factory import close_model, key_values, make_chat_model, remedy, with_address
from agent_md.models.history_format import briefed, for_model
from agent_md.models.retry import RetryPolicy, call_with_retry
from agent_md.models.streaming import stream_answer

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage, BaseMessage
    from langchain_core.runnables import Runnable

__all__ = ["SpecModel"]


class SpecModel:
    """Callable as `agent_md.graph.run_context.CallModel`. A drive that never calls it needs no key and no client.

    `tools` are declarations in OpenAI's function form, which every client of LangChain takes. `briefing` gives what the
    model is told at the end of the system message; it is asked at each call and stored nowhere.
    """

    def __init__(
        self,
        spec: AgentSpec,
        tools: Sequence[dict[str, Any]],
        environ: Mapping[str, str],
        scripts_dir: Path,
        briefing: Callable[[], str],
    ) -> None:
        self._briefing = briefing
        self._spec = spec
        self._tools = tools
        self._environ = environ
        self._scripts_dir = scripts_dir
        self._model: BaseChatModel | None = None
        self._bound: Runnable[Any, Any] | None = None

    async def __call__(
        self, messages: Sequence[BaseMessage], on_text: Callable[[str], None], on_retry: Callable[[int, int], None]
    ) -> AIMessage:
        """The model's whole answer. Raises ModelFailed after retries; MissingKey or another UsageError before any."""
        model = await self._ready()
        history = briefed(for_model(messages, self._spec.model), self._briefing())
        policy = RetryPolicy()
        return await call_with_retry(
            lambda: stream_answer(model, history, on_text),
            policy,
            model=str(self._spec.model),
            secrets=key_values(self._environ),
            on_retry=lambda failures, *_: on_retry(failures + 1, policy.attempts),
            remedy=lambda trouble: remedy(with_address(self._spec.model, self._environ), trouble),
        )

    async def _ready(self) -> Runnable[Any, Any]:
        if self._bound is None and self._spec.model.provider == "script":
            return await asyncio.to_thread(self._made)  # it is read from a file of others, which may take a second
        return self._made()

    def _made(self) -> Runnable[Any, Any]:
        if self._bound is None:
            ref = with_address(self._spec.model, self._environ)
            self._model = make_chat_model(
                ref, self._spec.settings, environ=self._environ, scripts_dir=self._scripts_dir
            )
            self._bound = self._model.bind_tools(list(self._tools))
        return self._bound

    async def close(self) -> None:
        if self._model is not None:
            await close_model(self._model)
