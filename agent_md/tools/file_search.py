"""`file_search`: finds lines of text files by a regular expression, in linear time and within limits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Protocol

from agent_md.agents.effects import NO_EFFECTS, Effects
from agent_md.errors import ToolError
from agent_md.executions.requests import Preview
from agent_md.tools.arguments import action_digest, object_schema, refuse_arguments
from agent_md.tools.base import Plan, ToolOptions
from agent_md.tools.file_work import Commit
from agent_md.tools.files import FileTool
from agent_md.tools.globbing import FileWalk, Hidden, nothing_hidden, path_pattern
from agent_md.tools.ignored_files import IgnoredFiles
from agent_md.tools.path_sandbox import Resolved, Sandbox, shown_path
from agent_md.tools.pinned_path import open_pinned
from agent_md.tools.threads import ToolThreads

__all__ = ["FileSearch"]

_MOST = 200
_MOST_CONTEXT = 10
_LONGEST_LINE = 500
_LONGEST_PATTERN = 1000
_LARGEST_FILE = 16 * 1024 * 1024
_MOST_BYTES = 512 * 1024 * 1024
_SEARCH_S = 20.0
_PATTERN_MEMORY = 8 * 1024 * 1024


class FileSearch(FileTool):
    """Gives at most 200 lines, each as `path:number: text`, in the order of the files' names.

    Leaves out files that are no UTF-8 text, that `.gitignore` names, that are larger than 16 MiB, and those that this
    agent may not read without a question: `hidden` says which.
    """

    name = "file_search"
    description = (
        "Finds the lines of text files that match a regular expression (RE2 syntax: no look-around, no back-references). "
        f"Gives path:number: line. At most {_MOST} lines."
    )
    parameters = object_schema(
        {
            "pattern": {
                "type": "string",
                "minLength": 1,
                "description": "Regular expression, searched for in each line.",
            }
        },
        {
            "files": {
                "type": "string",
                "minLength": 1,
                "description": "Pattern of the paths to search, such as src/**/*.py; all files if not given.",
            },
            "ignore_case": {"type": "boolean", "description": "Whether A is the same as a; no if not given."},
            "context": {
                "type": "integer",
                "minimum": 0,
                "maximum": _MOST_CONTEXT,
                "description": "Lines to show before and after each one that matches; none if not given.",
            },
        },
    )
    options = ToolOptions(read_only=True, idempotent=True, reads=(), writes=())

    def __init__(
        self,
        sandbox: Sandbox,
        hidden: Hidden = nothing_hidden,
        threads: ToolThreads | None = None,
        redact: Callable[[], Callable[[str], str]] = lambda: str,
    ) -> None:
        """`redact` gives what takes secrets out of a line before it is cut."""
        super().__init__(sandbox, threads)
        self._hidden = hidden
        self._redact = redact

    def validate(self, args: dict[str, Any]) -> dict[str, Any]:
        args = super().validate(args)
        try:
            _compiled(args)
        except ValueError as error:
            raise refuse_arguments(self.name, [f"pattern: {error}"]) from None
        return args

    def subjects(self, args: dict[str, Any]) -> tuple[str, ...]:
        return (str(path_pattern(self._sandbox, _files(args))),)

    def effects(self, args: dict[str, Any]) -> Effects:
        return NO_EFFECTS  # it leaves out whatever a rule over reads would ask about or refuse

    def plan(self, args: dict[str, Any]) -> Plan:
        roots = [str(root.path) for root in self._sandbox.roots()]
        self.subjects(args)
        return Plan(digest=action_digest(self.name, args, *roots), preview=Preview(resolved=", ".join(roots)))

    def perform(self, args: dict[str, Any], plan: Plan, commit: Commit) -> str:
        ignored = IgnoredFiles(self._sandbox)
        walk = FileWalk(self._sandbox, path_pattern(self._sandbox, _files(args)), passed_by=ignored)
        search = _Search(self._sandbox, _compiled(args), args.get("context", 0), self._redact())
        asking = 0
        for file in walk:
            if self._hidden(file.subject):
                asking += 1
                continue
            search.look_into(file)
            if search.ended:
                break
        lines = search.lines or [f"No line matches {shown_path(args['pattern'])}"]
        return "\n".join([*lines, *search.notes(walk, asking)])


class _Pattern(Protocol):
    def search(self, text: bytes) -> object | None: ...


class _Search:
    """Collects matching lines file by file. `ended`: there are enough, or it took too long."""

    def __init__(self, sandbox: Sandbox, pattern: _Pattern, context: int, redacted: Callable[[str], str]) -> None:
        self.lines: list[str] = []
        self.ended = False
        self._sandbox = sandbox
        self._pattern = pattern
        self._context = context
        self._redacted = redacted
        self._found = 0
        self._left = _MOST_BYTES
        self._large: list[str] = []
        self._deadline = time.monotonic() + _SEARCH_S

    def look_into(self, file: Resolved) -> None:
        data = self._text(file)
        if data is None:
            return
        lines = [line.removesuffix(b"\r") for line in data.removesuffix(b"\n").split(b"\n")]
        matching = [number for number, line in enumerate(lines) if self._pattern.search(line) is not None]
        shown = matching[: _MOST - self._found]
        self._found += len(shown)
        self.lines += _shown(file.subject, lines, shown, self._context, self._redacted)
        self.ended = len(shown) < len(matching) or self._left <= 0 or time.monotonic() > self._deadline

    def notes(self, walk: FileWalk, asking: int) -> Iterator[str]:
        """What was not searched, and why."""
        if self._found == _MOST and self.ended:
            yield f"[More than {_MOST} lines match; narrow the pattern or the files to see the others.]"
        elif self.ended or walk.stopped:
            yield "[Not all files were searched: there are too many; narrow files to be sure.]"
        if self._large:
            names = ", ".join(self._large[:5]) + (", …" if len(self._large) > 5 else "")
            yield f"[Not searched, larger than {_LARGEST_FILE // 1024**2} MiB: {names}]"
        if asking:
            files, them = ("1 file was", "it") if asking == 1 else (f"{asking} files were", "them")
            yield f"[{files} left out: this agent may not read {them}, or not without a question.]"

    def _text(self, file: Resolved) -> bytes | None:
        """The content; None for what is no text, is too large, or cannot be read."""
        with (
            suppress(ToolError, OSError, UnicodeDecodeError),
            open_pinned(self._sandbox, file) as place,
            place.open() as opened,
        ):
            data = opened.read(_LARGEST_FILE + 1)
            self._left -= len(data)
            if len(data) > _LARGEST_FILE:
                self._large.append(file.subject)
                return None
            if b"\0" not in data[:8192]:
                data.decode()
                return data
        return None


def _files(args: dict[str, Any]) -> str:
    return str(args.get("files", "**"))


def _compiled(args: dict[str, Any]) -> _Pattern:
    """Raises ValueError saying what is wrong with the pattern."""
    import re2  # type: ignore[import-untyped] # only this tool needs it

    if len(args["pattern"]) > _LONGEST_PATTERN:
        raise ValueError(f"it has more than {_LONGEST_PATTERN} characters")
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PATTERN_MEMORY
    options.case_sensitive = not args.get("ignore_case", False)
    try:
        pattern: _Pattern = re2.compile(args["pattern"].encode(), options)
    except (re2.error, UnicodeEncodeError) as error:
        reason = error.args[0] if isinstance(error, re2.error) and error.args else "it is no text"
        text = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise ValueError(f"it is no regular expression of RE2: {text}") from None
    return pattern


def _shown(
    path: str, lines: list[bytes], matching: list[int], context: int, redacted: Callable[[str], str]
) -> Iterator[str]:
    """The matching lines with those around them; lines of context have `-` for the second `:`, and `--` stands in gaps."""
    wanted = sorted(
        {near for at in matching for near in range(max(at - context, 0), min(at + context + 1, len(lines)))}
    )
    matches = set(matching)
    for before, at in zip([None, *wanted], wanted, strict=False):
        if context and before is not None and at > before + 1:
            yield "--"
        text = redacted(lines[at].decode("utf-8", "replace"))
        cut = text if len(text) <= _LONGEST_LINE else f"{text[:_LONGEST_LINE]}… [line of {len(text)} characters]"
        yield f"{path}:{at + 1}{':' if at in matches else '-'} {cut}"
