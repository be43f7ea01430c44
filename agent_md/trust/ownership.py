"""Whose files a workspace is made of."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from agent_md.agents.registry import Registry
from agent_md.settings import Settings

__all__ = ["of_others"]


def of_others(settings: Settings, registry: Registry, me: int | None = None) -> Path | None:
    """The first of the files and folders that say what runs here which belongs to another user than `me`, which is the one of
    this process if none is given; None if none does."""
    user = os.geteuid() if me is None else me
    for path in _deciding(settings, registry):
        try:
            owner = path.lstat().st_uid, path.stat().st_uid
        except OSError:  # it is not there
            continue
        if owner != (user, user):
            return path
    return None


def _deciding(settings: Settings, registry: Registry) -> Iterable[Path]:
    yield settings.workspace
    yield from (settings.workspace / name for name in ("config.yaml", ".env"))
    yield from (settings.agents_dir, settings.agents_dir / "_config", settings.tools_dir, settings.state_dir)
    yield from (entry.path for entry in registry.agents)
    yield from (
        settings.tools_dir / f"{name}.py" for name in sorted({n for e in registry.agents for n in e.spec.tools})
    )
