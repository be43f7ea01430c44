"""What a call does to files, and which rules `read(GLOB)` and `write(GLOB)` fit it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from agent_md.agents.globs import glob_fits, globs_meet, is_glob
from agent_md.executions.states import EffectKind

__all__ = ["NO_EFFECTS", "UNKNOWN_EFFECTS", "Effects", "Match", "Place", "match_effects"]


class Match(StrEnum):
    """Whether a rule fits a call. `UNCLEAR` = it cannot be told of this call."""

    YES = "yes"
    NO = "no"
    UNCLEAR = "unclear"


@dataclass(frozen=True, slots=True)
class Place:
    """One file, by the path that rules name it with; or, if it is `any_of` them, every file whose path fits the glob."""

    path: str
    any_of: bool = False
    leaves_out: bool = False
    """Whether the call itself leaves out what a `deny` rule fits."""

    def surely_fits(self, pattern: str) -> bool:
        """Whether the pattern fits all of it."""
        if pattern == "*" or not (self.any_of and is_glob(self.path)):
            return glob_fits(pattern, self.path)
        prefix = pattern.removesuffix("*")
        return pattern.endswith("*") and not is_glob(prefix) and _literal_beginning(self.path).startswith(prefix)

    def may_fit(self, pattern: str) -> bool:
        """Whether the pattern fits some of it."""
        return globs_meet(pattern, self.path) if self.any_of else glob_fits(pattern, self.path)


@dataclass(frozen=True, slots=True)
class Effects:
    """What a call reads and writes; None = not known. A move writes both ends, and reads the one that is left."""

    reads: tuple[Place, ...] | None
    writes: tuple[Place, ...] | None

    def of(self, kind: EffectKind) -> tuple[Place, ...] | None:
        return self.reads if kind is EffectKind.READ else self.writes

    def with_places(self, kind: EffectKind, places: tuple[Place, ...] | None) -> Effects:
        """The same, but for those of one kind."""
        return replace(self, reads=places) if kind is EffectKind.READ else replace(self, writes=places)

    def at(self, path: str) -> Effects:
        """The same, all on one file."""
        return self._each(lambda places: tuple(replace(place, path=path, any_of=False) for place in places))

    def to_be_denied(self) -> Effects:
        """The same, without what the call itself leaves out."""
        return self._each(lambda places: tuple(place for place in places if not place.leaves_out))

    def _each(self, change: Callable[[tuple[Place, ...]], tuple[Place, ...]]) -> Effects:
        return Effects(*(None if places is None else change(places) for places in (self.reads, self.writes)))


NO_EFFECTS = Effects((), ())
"""Of a call that touches no file that rules could name."""

UNKNOWN_EFFECTS = Effects(None, None)
"""Of a call of a tool that does not say what it reads and writes."""


def match_effects(kind: EffectKind, pattern: str | None, effects: Effects, *, every: bool) -> Match:
    """Whether a rule fits what a call reads or writes: with `every` all of it and at least something, else some of it.

    UNCLEAR where it is not known, and where files are meant of which some may fit.
    """
    places = effects.of(kind)
    if places is None:
        return Match.UNCLEAR
    sure = [pattern is None or place.surely_fits(pattern) for place in places]
    if every:
        return Match.YES if sure and all(sure) else Match.NO
    if any(sure):
        return Match.YES
    return Match.UNCLEAR if pattern and any(place.may_fit(pattern) for place in places) else Match.NO


def _literal_beginning(glob: str) -> str:
    return glob[: min((at for at in (glob.find("*"), glob.find("?")) if at >= 0), default=len(glob))]
