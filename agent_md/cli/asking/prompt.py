"""Asks a human on the terminal, without a thread and without a busy process: a cancelled question is gone at once.

Only what is typed while a question stands open can answer it. What was typed before it, and what was half typed when
it was withdrawn, is thrown away. Several lines that come at once belong to the one question, and never end it.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
import termios
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TextIO, TypeVar, assert_never

from agent_md.cli.asking.answer_parsing import parse_choice, parse_confirm, parse_json, parse_selection, parse_text
from agent_md.cli.asking.grant_prompt import (
    Granting,
    Terms,
    first_terms,
    grant_question,
    parse_step,
    wants_grant,
)
from agent_md.cli.terminal.line_mode import LineMode
from agent_md.cli.terminal.pager import pager_command, show_paged
from agent_md.cli.terminal.standard_streams import person
from agent_md.cli.views.questions import QuestionText, own_text_entry, question_texts, rows_of
from agent_md.cli.views.screen import Screen
from agent_md.cli.views.visible_text import one_line, wrapped
from agent_md.errors import AgentmdError, AnswerRefused
from agent_md.executions.answers import validate_response
from agent_md.executions.model import Drift, Request, RequestKind, RequestSource

__all__ = ["PromptClosed", "TerminalPrompt", "ask_request", "can_prompt"]

T = TypeVar("T")

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class PromptClosed(AgentmdError):
    """The terminal gave its end of input (Ctrl-D) or is gone; the question stays unanswered."""


def can_prompt(source: TextIO | None = None, output: TextIO | None = None) -> bool:
    """Whether both standard input and standard output are terminals; only then may a human be asked."""
    streams = (source or person(sys.stdin), output or person(sys.stdout))
    return all(stream is not None and not stream.closed and stream.isatty() for stream in streams)


class LineReader(Protocol):
    """Reads texts from one terminal: `LineEditor`, or `LineMode` where nothing can be drawn."""

    async def read(self, prompt: str, *, typed_ahead: bool = False) -> str:
        """The text that was typed after the prompt. Raises EOFError at the end of input."""


class TerminalPrompt:
    """Questions on one terminal, one at a time. To withdraw a question, cancel the task that asks it.

    Ctrl-C is left to the process's SIGINT handler, which cancels that task too.
    """

    def __init__(
        self,
        screen: Screen,
        *,
        source: int | None = None,
        output: TextIO | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.screen = screen
        self._source = person(sys.stdin).fileno() if source is None else source
        self._output = person(sys.stdout) if output is None else output
        self._environ = environ
        self._reader: LineReader | None = None

    async def ask(self, question: QuestionText, parse: Callable[[str], T]) -> T:
        """What `parse` makes of the line that was typed; the question is put again while it raises AnswerRefused.

        Raises PromptClosed at the end of input. Cancelled, it leaves the cursor on a fresh line and nothing half typed.
        """
        try:
            await self._show(question)
            while True:
                typed = ""
                try:
                    typed = await self._answer(question.prompt)
                    return parse(_clean(typed))
                except AnswerRefused as refused:
                    lines = len(typed.splitlines())
                    at_once = f"{lines} lines came at once, and none of them counts: " if lines > 1 else ""
                    self.tell(f"  {at_once}{one_line(str(refused))}")
        except (OSError, termios.error) as error:
            raise PromptClosed(f"the terminal is gone ({error})") from error

    def tell(self, line: str) -> None:
        """A visible line that belongs to a question and wants no answer, folded at words."""
        with contextlib.suppress(OSError):  # a terminal that is gone is noticed by whoever asks next
            self._write("".join(f"{piece}\n" for piece in wrapped(line, self.screen.width)))

    async def _show(self, question: QuestionText) -> None:
        above = "".join(f"{line}\n" for line in question.above)
        if not await self._paged(question.above, above):
            self._write(above)
        self._write("".join(f"{line}\n" for line in question.lines))

    async def _paged(self, lines: tuple[str, ...], text: str) -> bool:
        if self.screen.height is None or rows_of(lines, self.screen) <= self.screen.height:
            return False
        command = pager_command(self._environ)
        if command is None:
            return False
        self._output.flush()
        return await show_paged(text, command, self._environ, self._source, self._output.fileno())

    async def _answer(self, prompt: str) -> str:
        """The typed text. Raises PromptClosed at the end of input."""
        if self._reader is None:
            self._reader = line_reader(self._source, self._output, self.screen, self._environ)
        try:
            return await self._reader.read(prompt)
        except EOFError:
            raise PromptClosed("the input ended before an answer was typed") from None

    def _write(self, text: str) -> None:
        self._output.write(text)
        self._output.flush()


async def ask_request(
    request: Request,
    prompt: TerminalPrompt,
    granting: Granting,
    *,
    drift: Sequence[Drift] = (),
    now: float | None = None,
) -> Any:
    """The response that a human types to a request, of the shape its kind wants and already validated. `granting`: what
    may be allowed from now on with an approval.

    Structured questions are put one after the other. Raises PromptClosed; cancel the task to withdraw the question.
    """
    texts = question_texts(request, prompt.screen, drift=drift, now=now)
    parse: Callable[[str], Any]
    match request.kind:
        case RequestKind.CONFIRM:
            return await _ask_confirmation(request, texts[0], prompt, granting)
        case RequestKind.INPUT:
            parse = parse_text
        case RequestKind.CHOICE:
            parse = partial(parse_choice, options=request.options or (), multi=bool(request.multi))
        case RequestKind.CUSTOM:
            parse = parse_json
        case RequestKind.QUESTIONS:
            return {"answers": await _ask_all(texts, request.questions or (), prompt)}
        case unknown:
            assert_never(unknown)

    def validated(line: str) -> Any:
        response = parse(line)
        validate_response(request, response)
        return response

    return await prompt.ask(texts[0], validated)


async def _ask_confirmation(
    request: Request, text: QuestionText, prompt: TerminalPrompt, granting: Granting
) -> dict[str, Any]:
    """Asks until there is a yes or a no; what is to be allowed from now on is settled in between."""

    def parse(line: str) -> dict[str, Any] | Terms:
        if request.source is RequestSource.GATE and wants_grant(line):
            return first_terms(request, granting)
        return parse_confirm(line)

    while True:
        answer = await prompt.ask(text, parse)
        if not isinstance(answer, Terms):
            return answer
        remember = await _ask_grant(answer, prompt, granting)
        if remember is not None:
            return {"approved": True, "remember": remember}
        text = QuestionText((), text.lines, text.prompt)


async def _ask_grant(terms: Terms, prompt: TerminalPrompt, granting: Granting) -> dict[str, str] | None:
    """What is to be remembered, as it was agreed to; None if nothing is."""
    while True:
        question = grant_question(terms, granting, prompt.screen.painter)
        step = await prompt.ask(question, partial(parse_step, terms=terms, granting=granting))
        if step.terms is None:
            return terms.remember() if step.agreed else None
        terms = step.terms


async def _ask_all(
    texts: Sequence[QuestionText], questions: Sequence[dict[str, Any]], prompt: TerminalPrompt
) -> dict[str, str | list[str]]:
    answers = {}
    for text, question in zip(texts, questions, strict=True):
        answers[question["question"]] = await _ask_structured(text, question, prompt)
    return answers


async def _ask_structured(text: QuestionText, question: dict[str, Any], prompt: TerminalPrompt) -> str | list[str]:
    labels = [option["label"] for option in question.get("options") or []]
    if not labels:
        return await prompt.ask(text, str)
    multi, other = bool(question.get("multiSelect")), own_text_entry(labels)
    chosen = await prompt.ask(text, partial(parse_selection, options=(*labels, other), multi=multi))
    answers = [labels[at] for at in chosen if at < len(labels)]
    if len(labels) in chosen:
        own = await prompt.ask(QuestionText((), (), f"{other}: "), _own_text)
        answers += [] if own in answers else [own]
    return answers if multi else answers[0]


def _own_text(line: str) -> str:
    if not line.strip():
        raise AnswerRefused("an own answer cannot be empty")
    return line


def line_reader(source: int, output: TextIO, screen: Screen, environ: Mapping[str, str]) -> LineReader:
    """What reads answers from this terminal. It keeps none of them."""
    if environ.get("TERM", "dumb") == "dumb":
        return LineMode(source, output)
    from agent_md.cli.terminal.line_editor import LineEditor  # only who is asked pays for its import

    return LineEditor(source, output, colour=screen.painter.colour)


def _clean(typed: str) -> str:
    """The typed text; bytes that are no UTF-8 are shown as escapes. Raises AnswerRefused for what cannot be meant."""
    text = typed.encode(errors="surrogateescape").decode(errors="backslashreplace")
    if _CONTROL.search(text):
        raise AnswerRefused(f"the answer holds control characters, perhaps of an arrow key: {one_line(text)}")
    return text
