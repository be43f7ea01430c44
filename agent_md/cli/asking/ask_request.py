"""Asks a request at a terminal: its questions one after the other, and the keys `e`, `a` and `?`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from agent_md.cli.asking.answer_parsing import parse_choice, parse_confirm, parse_json, parse_selection, parse_text
from agent_md.cli.asking.arguments_text import arguments_in, text_of
from agent_md.cli.asking.grant_prompt import GrantOptions, GrantTerms, ask_grant, first_terms, wants_grant
from agent_md.cli.asking.prompt import TerminalPrompt
from agent_md.cli.views.hanging_indent import paragraph
from agent_md.cli.views.question_keys import Command
from agent_md.cli.views.questions import QuestionText, own_text_entry, question_texts
from agent_md.errors import AnswerRefused
from agent_md.executions.answers import validate_response
from agent_md.executions.requests import Request
from agent_md.executions.states import Drift, RequestKind, RequestSource
from agent_md.visible_text import one_line

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["RequestDetails", "ask_request"]

T = TypeVar("T")

_EDITED = paragraph("  edited: `y` approves the call with these arguments")


class RequestDetails(Protocol):
    """What whoever asks knows of the request beside what it says itself."""

    editable: bool
    """Whether an approval may come with edited arguments."""
    granting: GrantOptions
    """What may be allowed from now on with an approval."""

    async def everything(self, request: Request) -> Sequence[RenderableType]:
        """All that is known of it."""

    async def edited(self, args: dict[str, Any]) -> Request:
        """The request as it is shown with edited arguments. Raises AnswerRefused."""


async def ask_request(
    request: Request,
    prompt: TerminalPrompt,
    details: RequestDetails,
    *,
    drift: Sequence[Drift] = (),
    now: float | None = None,
) -> Any:
    """The response that a human types to a request, of the shape its kind wants and already validated; edited arguments as
    `details` gave them.

    Structured questions are put one after the other. Raises PromptClosed; cancel the task to withdraw the question.
    """
    asking = _Asking(request, prompt, details, drift, now)
    if request.kind is RequestKind.QUESTIONS:
        return {"answers": await asking.structured()}
    return await asking.one()


class _Asking:
    def __init__(
        self,
        request: Request,
        prompt: TerminalPrompt,
        details: RequestDetails,
        drift: Sequence[Drift],
        now: float | None,
    ) -> None:
        self._request = request
        self._guarded = request.source is RequestSource.GATE and request.kind is RequestKind.CONFIRM
        self._shown = request
        """The request, with the arguments as they were edited."""
        self._draft: str | None = None
        """What was edited and did not count."""
        self._prompt = prompt
        self._details = details
        self._drift = drift
        self._now = now

    async def one(self) -> Any:
        """The response to a request of one question."""
        commands = self._commands(self._request.options or ())
        text = self._texts(commands)[0]
        while True:
            typed = await self._typed(text, partial(self._answer_or_command, commands=commands), commands)
            if isinstance(typed, GrantTerms):
                remember = await ask_grant(typed, self._prompt, self._details.granting)
                if remember is not None:
                    return {"approved": True, "remember": remember}
                text = replace(text, above=())
            elif typed is not Command.EDIT:
                return self._with_edited(typed)
            elif self._request.kind is RequestKind.CUSTOM:
                written = await self._written()
                if written is not None:
                    return written[0]
                text = replace(text, above=())
            elif await self._edit_arguments():
                text = self._texts(commands)[0]
                if self._shown is not self._request:
                    text = replace(text, above=(*text.above, _EDITED))
            else:
                text = replace(text, above=())

    async def structured(self) -> dict[str, str | list[str]]:
        """The answers to structured questions."""
        answers = {}
        texts = self._texts((Command.EVERYTHING,))
        for text, question in zip(texts, self._request.questions or (), strict=True):
            answers[question["question"]] = await self._structured(text, question)
        return answers

    async def _structured(self, text: QuestionText, question: dict[str, Any]) -> str | list[str]:
        labels = [option["label"] for option in question.get("options") or []]
        if not labels:
            return await self._prompt.ask(text, str)
        multi, other = bool(question.get("multiSelect")), own_text_entry(labels)
        options = (*labels, other)
        parse = partial(parse_selection, options=options, multi=multi)
        chosen = await self._typed(text, parse, self._commands(options))
        answers = [labels[at] for at in chosen if at < len(labels)]
        if len(labels) in chosen:
            own = await self._prompt.ask(QuestionText((), (), f"{other}: "), _own_text)
            answers += [] if own in answers else [own]
        return answers if multi else answers[0]

    def _commands(self, options: Sequence[str]) -> frozenset[Command]:
        """The keys that are not answers; an option is an option, whatever its name is."""
        commands = {Command.EVERYTHING} - {command for command in Command if command in options}
        if self._request.kind is RequestKind.CUSTOM or (self._guarded and self._details.editable):
            commands.add(Command.EDIT)
        if self._guarded and self._request.offer is not None:
            commands.add(Command.ALWAYS)
        return frozenset(commands if self._request.kind is not RequestKind.INPUT else ())

    def _texts(self, commands: Collection[Command]) -> list[QuestionText]:
        return question_texts(self._shown, self._prompt.screen, drift=self._drift, now=self._now, commands=commands)

    async def _typed(self, text: QuestionText, parse: Callable[[str], T], commands: Collection[Command]) -> T:
        """What `parse` makes of what was typed; everything is shown as often as that is wanted."""

        def or_nothing(line: str) -> tuple[T] | None:
            wanted = Command.EVERYTHING in commands and line.strip() == Command.EVERYTHING
            return None if wanted else (parse(line),)

        while (typed := await self._prompt.ask(text, or_nothing)) is None:
            await self._prompt.show(await self._details.everything(self._shown))
            text = replace(text, above=())
        return typed[0]

    def _answer_or_command(self, line: str, commands: Collection[Command]) -> Any:
        if Command.EDIT in commands and line.strip().lower() == Command.EDIT:
            return Command.EDIT
        if not self._guarded or not wants_grant(line):
            return self._validated(line)
        if self._shown is not self._request:
            raise AnswerRefused(
                "only the call as it was asked can be allowed from now on; `e` takes its arguments back"
            )
        return first_terms(self._request, self._details.granting)

    def _validated(self, line: str) -> Any:
        response = self._parsed(line)
        validate_response(self._request, response)
        return response

    def _parsed(self, line: str) -> Any:
        match self._request.kind:
            case RequestKind.CONFIRM:
                return parse_confirm(line)
            case RequestKind.CHOICE:
                return parse_choice(line, self._request.options or (), multi=bool(self._request.multi))
            case RequestKind.CUSTOM:
                return parse_json(line)
            case _:
                return parse_text(line)

    def _with_edited(self, response: Any) -> Any:
        if self._shown is self._request or not response["approved"]:
            return response
        return response | {"args": self._shown.tool_args}

    async def _edit_arguments(self) -> bool:
        """Whether the arguments have changed. Reports invalid arguments, and keeps them for the next time."""
        text = self._draft or text_of(self._shown.tool_args or {})
        try:
            self._draft = await self._prompt.edit(text, "arguments.yaml")
            if self._draft is None:
                return False
            args = arguments_in(self._draft)
            self._shown = self._request if args == self._request.tool_args else await self._details.edited(args)
        except AnswerRefused as refused:
            self._prompt.tell(f"  {one_line(str(refused))}")
            return False
        self._draft = None
        return True

    async def _written(self) -> tuple[Any] | None:
        """The response that was written in the editor, if it counts."""
        try:
            self._draft = await self._prompt.edit(self._draft or "", "answer.json")
            return None if self._draft is None else (self._validated(self._draft),)
        except AnswerRefused as refused:
            self._prompt.tell(f"  {one_line(str(refused))}")
            return None


def _own_text(line: str) -> str:
    if not line.strip():
        raise AnswerRefused("an own answer cannot be empty")
    return line
