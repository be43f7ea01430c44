"""Reads the file of a script model, strictly, as frozen data. Imports no framework."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeVar

from agent_md.agents.files import file_stamp, touched_lately
from agent_md.agents.yaml_positions import Node
from agent_md.errors import UsageError
from agent_md.executions.requests import Request
from agent_md.executions.states import RequestKind
from agent_md.models.text_pattern import TextPattern
from agent_md.models.yaml_values import MAX_BYTES, NodeReader

__all__ = [
    "Conversation",
    "ErrorKind",
    "Expectation",
    "Script",
    "ScriptAnswer",
    "ScriptCall",
    "ScriptInvalid",
    "ScriptUsage",
    "SimulatedError",
    "Turn",
    "load_script",
]

T = TypeVar("T")
K = TypeVar("K", bound=StrEnum)

FINISHES = ("stop", "length", "blocked", "unknown")
"""How a turn may end: whole, cut by the token limit, blocked by a filter, for a reason that nobody knows."""
_DELAY = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m)")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0}


class ScriptInvalid(UsageError):
    """A script is missing or cannot be used; the message names the file and, where it can, the line."""


class ErrorKind(StrEnum):
    """How a simulated failure looks to the retry."""

    RATE_LIMIT = "rate_limit"
    TRANSPORT = "transport"
    BAD_REQUEST = "bad_request"


@dataclass(frozen=True, slots=True)
class ScriptCall:
    """One tool call of a turn."""

    name: str
    args: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ScriptUsage:
    """Tokens and dollars of a turn; what the file leaves out is 0."""

    input: int = 0
    output: int = 0
    cost: float = 0.0


@dataclass(frozen=True, slots=True)
class Expectation:
    """`result` is to be found in the last message of `tool` since the last human message."""

    tool: str
    result: TextPattern


@dataclass(frozen=True, slots=True)
class SimulatedError:
    """A turn fails `times` times before it works; None = always."""

    kind: ErrorKind
    message: str
    times: int | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One AI message. `line` is where it starts in the file, from 1; `delay` is in seconds."""

    line: int
    text: str = ""
    calls: tuple[ScriptCall, ...] = ()
    usage: ScriptUsage = field(default_factory=ScriptUsage)
    expect: Expectation | None = None
    error: SimulatedError | None = None
    delay: float = 0.0
    finish: str = "stop"
    """How the turn ends: one of `FINISHES`."""
    additional_kwargs: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Conversation:
    """Turns for human messages in which `user` is found; None = any."""

    user: TextPattern | None
    turns: tuple[Turn, ...]


@dataclass(frozen=True, slots=True)
class ScriptAnswer:
    """A response to the requests of `tool`, of `kind` and with `message` found in theirs; None = any."""

    line: int
    response: Any
    tool: str | None = None
    kind: RequestKind | None = None
    message: TextPattern | None = None

    def fits(self, request: Request, tool: str) -> bool:
        """Whether it answers a request that was raised by a call of `tool`. Raises PatternTooSlow."""
        return (
            self.tool in (None, tool)
            and self.kind in (None, request.kind)
            and (self.message is None or self.message.found_in(request.message))
        )


@dataclass(frozen=True, slots=True)
class Script:
    """A whole file; the first conversation that fits is the one that is played, and so with the answers."""

    name: str
    path: str
    conversations: tuple[Conversation, ...]
    answers: tuple[ScriptAnswer, ...] = ()


def load_script(scripts_dir: Path, name: str) -> Script:
    """The script `{scripts_dir}/{name}.yaml`, read again only when the file has changed: a large one takes a second.
    Raises ScriptInvalid."""
    if not name or name.startswith(".") or any(sign in name for sign in "/\\\0"):
        raise ScriptInvalid(f"{name!r} is not the name of a script: it names a file of {scripts_dir}, without folders")
    path = scripts_dir / f"{name}.yaml"
    stamp = None if touched_lately([path], time.time()) else file_stamp(path)
    with _lock:
        known = _known.get(path)
    if known is not None and stamp is not None and known[0] == stamp:
        return known[1]
    conversations, answers = _Grammar(str(path)).script(_text_of(path))
    script = Script(name, str(path), conversations, answers)
    with _lock:
        if stamp is None:
            return script
        while len(_known) >= _MOST_KNOWN:
            _known.pop(next(iter(_known)))
        _known[path] = (stamp, script)
    return script


_MOST_KNOWN = 64
_known: dict[Path, tuple[object, Script]] = {}
_lock = threading.Lock()


def _text_of(path: Path) -> str:
    try:
        if path.exists() and not path.is_file():  # a pipe would be waited for
            raise ScriptInvalid(f"the script {path} cannot be read: it is not a file")
        data = path.read_bytes()
    except FileNotFoundError:
        raise ScriptInvalid(f"there is no script {path}; create it, or name another one as the model") from None
    except OSError as error:
        raise ScriptInvalid(f"the script {path} cannot be read: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise ScriptInvalid(f"the script {path} has {len(data)} bytes; at most {MAX_BYTES} are read")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ScriptInvalid(f"the script {path} is not UTF-8 (byte {error.start}); save it as UTF-8") from None


class _Grammar:
    """The keys and values of a script."""

    def __init__(self, path: str) -> None:
        self._read = NodeReader(path, ScriptInvalid)

    def script(self, text: str) -> tuple[tuple[Conversation, ...], tuple[ScriptAnswer, ...]]:
        root = self._read.root(text, "conversations")
        parts = self._read.mapping(root, "the script", {"conversations", "answers"}, required={"conversations"})
        node = parts["conversations"]
        conversations = self._filled(node, "conversations", self._read.items(node, "conversations", self._conversation))
        return conversations, self._read.items(parts["answers"], "answers", self._answer) if "answers" in parts else ()

    def _answer(self, node: Node) -> ScriptAnswer:
        parts = self._read.mapping(node, "an answer", {"match", "response"}, required={"response"})
        response = self._read.value(parts["response"], "response")
        line = node.mark.line
        if "match" not in parts:
            return ScriptAnswer(line, response)
        match = self._read.mapping(parts["match"], "match", {"tool", "kind", "message"})
        return ScriptAnswer(
            line,
            response,
            tool=self._read.text(match["tool"], "match.tool") if "tool" in match else None,
            kind=self._kind(match["kind"], "match.kind", RequestKind) if "kind" in match else None,
            message=self._read.pattern(match["message"], "match.message") if "message" in match else None,
        )

    def _kind(self, node: Node, what: str, kinds: type[K]) -> K:
        word = self._read.text(node, what)
        if word not in set(kinds):
            self._read.refuse(node, f"{what} is {word!r}, expected one of {', '.join(kinds)}")
        return kinds(word)

    def _conversation(self, node: Node) -> Conversation:
        parts = self._read.mapping(node, "a conversation", {"match", "turns"}, required={"turns"})
        user = None
        if "match" in parts:
            match = self._read.mapping(parts["match"], "match", {"user"}, required={"user"})
            user = self._read.pattern(match["user"], "match.user")
        turns = self._read.items(parts["turns"], "turns", self._turn)
        return Conversation(user, self._filled(parts["turns"], "turns", turns))

    def _turn(self, node: Node) -> Turn:
        readers: dict[str, Callable[[Node], Any]] = {
            "text": lambda value: self._read.text(value, "text"),
            "calls": lambda value: self._read.items(value, "calls", self._call),
            "usage": self._usage,
            "expect": self._expectation,
            "error": self._error,
            "delay": self._delay,
            "finish": self._finish,
            "additional_kwargs": lambda value: self._read.json_object(value, "additional_kwargs"),
        }
        parts = self._read.mapping(node, "a turn", readers)
        fields = {name: readers[name](value) for name, value in parts.items()}
        if not parts.keys() & {"text", "calls", "error"} and fields.get("finish", "stop") == "stop":
            self._read.refuse(node, "a turn needs a text, calls or an error, or another finish than stop")
        return Turn(line=node.mark.line, **fields)

    def _call(self, node: Node) -> ScriptCall:
        parts = self._read.mapping(node, "a call", {"name", "args"}, required={"name"})
        args = self._read.json_object(parts["args"], "args") if "args" in parts else {}
        return ScriptCall(self._read.text(parts["name"], "name"), args)

    def _usage(self, node: Node) -> ScriptUsage:
        parts = self._read.mapping(node, "usage", {"input", "output", "cost"})
        tokens = {name: self._read.count(parts[name], name) for name in ("input", "output") if name in parts}
        return ScriptUsage(**tokens, cost=self._read.number(parts["cost"], "cost") if "cost" in parts else 0.0)

    def _expectation(self, node: Node) -> Expectation:
        keys = {"tool", "result"}
        parts = self._read.mapping(node, "expect", keys, required=keys)
        return Expectation(self._read.text(parts["tool"], "tool"), self._read.pattern(parts["result"], "result"))

    def _error(self, node: Node) -> SimulatedError:
        parts = self._read.mapping(node, "error", {"kind", "message", "times"}, required={"kind"})
        kind = self._kind(parts["kind"], "kind", ErrorKind)
        message = self._read.text(parts["message"], "message") if "message" in parts else "simulated by the script"
        return SimulatedError(kind, message, self._read.count(parts["times"], "times") if "times" in parts else None)

    def _delay(self, node: Node) -> float:
        word = self._read.text(node, "delay")
        found = _DELAY.fullmatch(word)
        if found is None:
            self._read.refuse(node, f"delay is {word!r}, expected a number with ms, s or m, such as 2s")
        return float(found[1]) * _UNITS[found[2]]

    def _finish(self, node: Node) -> str:
        word = self._read.text(node, "finish")
        if word not in FINISHES:
            self._read.refuse(node, f"finish is {word!r}, expected one of {', '.join(FINISHES)}")
        return word

    def _filled(self, node: Node, what: str, items: tuple[T, ...]) -> tuple[T, ...]:
        if not items:
            self._read.refuse(node, f"{what} is empty")
        return items
