"""The tools that change files: `file_write`, `file_edit`, `file_move`, `file_delete`.

Each says beforehand how the files are now and how they will be, so that afterwards a look at them tells whether a call
that was cut off has done its work.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from agent_md.errors import ToolError
from agent_md.executions.requests import CallEffect, Preview
from agent_md.tools.arguments import action_digest, object_schema, refuse_arguments
from agent_md.tools.base import Plan, Settled, SettledState, TargetChanged, ToolOptions
from agent_md.tools.diffs import as_text, content_diff, kind_of, new_file_diff
from agent_md.tools.file_work import Commit
from agent_md.tools.files import PATH, FileTool
from agent_md.tools.pinned_path import ABSENT, PinnedPath, digest_of_bytes, open_pinned
from agent_md.tools.replace_passage import PassageNotFound, PassageNotUnique, TooLarge, replaced

__all__ = ["FileDelete", "FileEdit", "FileMove", "FileWrite"]

_TEXT_LIMIT = 16 * 1024 * 1024
"""Largest text, in bytes, that is written, and largest file that is edited."""
_DIFF_LIMIT = 1024 * 1024
"""Largest present content, in bytes, that a diff shows."""
_HEAD = 8192


@dataclass(frozen=True, slots=True)
class _Draft:
    """What a call would do: the state of each place before and after, what a human sees, and the new content."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    preview: Preview
    data: bytes = b""


class _ChangingTool(FileTool, ABC):
    """Plans, does and settles a change of the places that its arguments name."""

    options = ToolOptions(reads=(), writes=("path",))

    def subjects(self, args: dict[str, Any]) -> tuple[str, ...]:
        return tuple(self._sandbox.resolve(args[name], write=True).subject for name in self.path_arguments)

    def plan(self, args: dict[str, Any]) -> Plan:
        with self._places(args) as places:
            return self._planned(args, places, self._draft(args, places))

    def perform(self, args: dict[str, Any], plan: Plan, commit: Commit) -> str:
        with self._places(args) as places:
            draft = self._draft(args, places)
            if self._planned(args, places, draft).digest != plan.digest:
                shown = " or ".join(place.shown for place in places)
                raise TargetChanged(f"{shown} was changed meanwhile; nothing was done")
            self._apply(draft, places, commit)
        return self._result(args)

    def settle(self, args: dict[str, Any], effect: CallEffect) -> Settled:
        try:
            with self._places(args) as places:
                now = _states_text(places, self._states(places))
        except ToolError:
            return Settled(SettledState.CHANGED)
        if now == effect.after:
            return Settled(SettledState.DONE, self._result(args))
        return Settled(SettledState.NOT_DONE if now == effect.before else SettledState.CHANGED)

    @abstractmethod
    def _draft(self, args: dict[str, Any], places: Sequence[PinnedPath]) -> _Draft:
        """Raises ToolError if the change cannot be made."""

    @abstractmethod
    def _apply(self, draft: _Draft, places: Sequence[PinnedPath], commit: Commit) -> None: ...

    @abstractmethod
    def _result(self, args: dict[str, Any]) -> str: ...

    def _states(self, places: Sequence[PinnedPath]) -> tuple[str, ...]:
        return tuple(place.state() for place in places)

    def _planned(self, args: dict[str, Any], places: Sequence[PinnedPath], draft: _Draft) -> Plan:
        before = _states_text(places, draft.before)
        return Plan(
            digest=action_digest(self.name, args, before, *(place.stamp() for place in places)),
            preview=draft.preview,
            effect=CallEffect(before=before, after=_states_text(places, draft.after)),
            makes_file=draft.before == (ABSENT,),
        )

    @contextmanager
    def _places(self, args: dict[str, Any]) -> Iterator[list[PinnedPath]]:
        with ExitStack() as stack:
            resolved = [self._sandbox.resolve(args[name], write=True) for name in self.path_arguments]
            yield [stack.enter_context(open_pinned(self._sandbox, target)) for target in resolved]

    @contextmanager
    def _with_folder(self, place: PinnedPath) -> Iterator[PinnedPath]:
        """The place, its folders made if they are missing."""
        if place.has_folder:
            yield place
        else:
            with open_pinned(self._sandbox, place.resolved, create=True) as made:
                yield made


class _WritingTool(_ChangingTool):
    def _apply(self, draft: _Draft, places: Sequence[PinnedPath], commit: Commit) -> None:
        with self._with_folder(places[0]) as place:
            place.replace(draft.data, draft.before[0], commit)


class FileWrite(_WritingTool):
    """Puts a text in place of a whole file, or makes the file with its folders."""

    name = "file_write"
    description = "Writes a text file: makes it, with its folders, or replaces all of it."
    parameters = object_schema({"path": PATH, "content": {"type": "string", "description": "The whole new content."}})

    def validate(self, args: dict[str, Any]) -> dict[str, Any]:
        args = super().validate(args)
        _check_texts(self.name, args, "content")
        return args

    def _draft(self, args: dict[str, Any], places: Sequence[PinnedPath]) -> _Draft:
        (place,) = places
        content: str = args["content"]
        data = content.encode()
        before = place.state()
        return _Draft(
            before=(before,),
            after=(digest_of_bytes(data),),
            preview=Preview(str(place.resolved.path), self._diff(place, before, content), len(data), "text"),
            data=data,
        )

    def _diff(self, place: PinnedPath, before: str, content: str) -> str:
        subject = place.resolved.subject
        if before == ABSENT:
            return new_file_diff(subject, content)
        size = place.existing().st_size
        if size > _DIFF_LIMIT:
            return content_diff(subject, None, content, size)
        with place.open() as file:
            return content_diff(subject, file.read(), content, size)

    def _result(self, args: dict[str, Any]) -> str:
        return f"File written: {args['path']}"


class FileEdit(_WritingTool):
    """Replaces one passage of a text file, or all equal ones."""

    name = "file_edit"
    options = ToolOptions(reads=("path",), writes=("path",))
    description = (
        "Replaces old_text by new_text in a text file. old_text must be there exactly once, or set replace_all."
    )
    parameters = object_schema(
        {
            "path": PATH,
            "old_text": {"type": "string", "minLength": 1, "description": "The text to replace, exactly as it stands."},
            "new_text": {"type": "string", "description": "What takes its place."},
        },
        {"replace_all": {"type": "boolean", "description": "Replaces every place where old_text stands."}},
    )

    def validate(self, args: dict[str, Any]) -> dict[str, Any]:
        args = super().validate(args)
        _check_texts(self.name, args, "old_text", "new_text")
        if args["old_text"] == args["new_text"]:
            raise refuse_arguments(self.name, ["new_text: is the same as old_text"])
        return args

    def _draft(self, args: dict[str, Any], places: Sequence[PinnedPath]) -> _Draft:
        (place,) = places
        size = place.existing().st_size
        if size > _TEXT_LIMIT:
            raise ToolError(f"{place.shown} has {size} bytes; files of at most {_TEXT_LIMIT} can be edited")
        with place.open() as file:
            old = file.read()
        new = _replaced(place.shown, as_text(old), args)
        data = new.encode()
        return _Draft(
            before=(digest_of_bytes(old),),
            after=(digest_of_bytes(data),),
            preview=Preview(
                str(place.resolved.path), content_diff(place.resolved.subject, old, new, size), len(data), "text"
            ),
            data=data,
        )

    def _result(self, args: dict[str, Any]) -> str:
        return f"File edited: {args['path']}"


class FileMove(_ChangingTool):
    """Gives a file another path, and never overwrites."""

    name = "file_move"
    description = "Moves or renames a file; folders are made. Refuses if the destination exists."
    parameters = object_schema(
        {"source": PATH, "destination": {**PATH, "description": "The whole new path of the file."}}
    )
    path_arguments = ("source", "destination")
    options = ToolOptions(reads=("source",), writes=path_arguments)

    def _draft(self, args: dict[str, Any], places: Sequence[PinnedPath]) -> _Draft:
        source, destination = places
        size = source.existing().st_size
        if source.resolved.path == destination.resolved.path:
            raise ToolError(f"{source.shown} and {destination.shown} are the same file")
        if destination.stat() is not None and not source.is_half_moved_to(destination):
            raise ToolError(f"{destination.shown} exists, and file_move never overwrites")
        state = source.state()
        return _Draft(
            before=(state, ABSENT),
            after=(ABSENT, state),
            preview=Preview(
                resolved=f"{source.resolved.path} → {destination.resolved.path}", size=size, type=_kind(source)
            ),
        )

    def _states(self, places: Sequence[PinnedPath]) -> tuple[str, ...]:
        source, destination = places
        if source.is_half_moved_to(destination):
            return source.state(), ABSENT
        return super()._states(places)

    def _apply(self, draft: _Draft, places: Sequence[PinnedPath], commit: Commit) -> None:
        source, destination = places
        with self._with_folder(destination) as target:
            source.move_to(target, draft.before[0], commit)

    def _result(self, args: dict[str, Any]) -> str:
        return f"File moved: {args['source']} → {args['destination']}"


class FileDelete(_ChangingTool):
    """Deletes one file."""

    name = "file_delete"
    description = "Deletes a file; folders cannot be deleted."
    parameters = object_schema({"path": PATH})

    def _draft(self, args: dict[str, Any], places: Sequence[PinnedPath]) -> _Draft:
        (place,) = places
        size = place.existing().st_size
        return _Draft(
            before=(place.state(),),
            after=(ABSENT,),
            preview=Preview(resolved=str(place.resolved.path), size=size, type=_kind(place)),
        )

    def _apply(self, draft: _Draft, places: Sequence[PinnedPath], commit: Commit) -> None:
        places[0].remove(draft.before[0], commit)

    def _result(self, args: dict[str, Any]) -> str:
        return f"File deleted: {args['path']}"


def _states_text(places: Sequence[PinnedPath], states: Sequence[str]) -> str:
    pairs = zip((str(place.resolved.path) for place in places), states, strict=True)
    return json.dumps(list(pairs), separators=(",", ":"))


def _check_texts(tool: str, args: dict[str, Any], *names: str) -> None:
    problems = [f"{name}: {problem}" for name in names if (problem := _text_problem(args[name]))]
    if problems:
        raise refuse_arguments(tool, problems)


def _text_problem(text: str) -> str | None:
    if "\0" in text:
        return "has a NUL character, which no text file holds"
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        return "has half a surrogate pair, which is no text"
    return f"has {size} bytes, at most {_TEXT_LIMIT} are allowed" if size > _TEXT_LIMIT else None


def _replaced(path: str, text: str | None, args: dict[str, Any]) -> str:
    old: str = args["old_text"]
    new: str = args["new_text"]
    if text is None:
        raise ToolError(f"{path} is no text in UTF-8; only text files can be edited")
    try:
        return replaced(text, old, new, everywhere=args.get("replace_all", False), limit=_TEXT_LIMIT)
    except PassageNotFound:
        raise ToolError(f"old_text is not in {path}; read the file and give the text exactly as it stands") from None
    except PassageNotUnique:
        raise ToolError(
            f"old_text is in {path} more than once; give more of the text around it, or set replace_all"
        ) from None
    except TooLarge as error:
        raise ToolError(
            f"{path} would have {error.size} bytes, at most {_TEXT_LIMIT} are allowed; nothing was done"
        ) from None


def _kind(place: PinnedPath) -> str:
    with place.open() as file:
        return kind_of(file.read(_HEAD))
