"""Hot reload of the configuration: reads changed files again, and uses them if they are valid."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent_md.agents.files import file_stamp
from agent_md.errors import ConfigInvalid
from agent_md.models.pricing import Prices, load_prices
from agent_md.ports.clock import Clock
from agent_md.reloading.loop import Announcement, ChangeReport
from agent_md.settings import KEYS, Settings, load_settings

__all__ = ["NEEDS_RESTART", "SETTLE_S", "ConfigFiles"]

log = logging.getLogger(__name__)

NEEDS_RESTART = (
    "agents_dir",
    "state_dir",
    "database",
    "tools_dir",
    "skills_dir",
    "mcp_config",
    "server.host",
    "server.port",
    "server.api_key",
    "allow_state_on",
)
"""Keys that count when the server starts. All others count for whatever begins after they have changed."""
SETTLE_S = 0.5
"""How long files must have been left alone before they count: half of a YAML file may be valid, and say something else."""

UseSettings = Callable[[Settings, Prices], object]


class ConfigFiles:
    """config.yaml of the workspace and of the user, `.env`, and the file that `prices` names."""

    def __init__(self, settings: Settings, use: UseSettings, *, home: Path, ticks: Clock = time.monotonic) -> None:
        """`settings` are in effect; `use` replaces them. `ticks` is a clock that is never set back."""
        self._running = settings
        self._use = use
        self._home = home
        self._ticks = ticks
        self._dotenv = dict(settings.dotenv)
        self._prices: Prices | None = None
        self.error: str | None = None
        """Why the files cannot be used as they are now."""
        self.restart: tuple[str, ...] = ()
        """The keys whose values count only after a restart."""
        self._seen = self._stamps()
        self._changed_at: float | None = None
        self._changed: set[Path] = set()
        try:
            self._prices = load_prices(settings.prices)
        except ConfigInvalid as error:
            self.error = str(error)
            log.warning("the prices cannot be read: %s", error)

    def folders(self) -> Iterable[Path]:
        return {path.parent for path in self._files()}

    def look(self, *, at_once: bool) -> ChangeReport:
        stamps = self._stamps()
        changed = {path for path in stamps.keys() | self._seen.keys() if stamps.get(path) != self._seen.get(path)}
        self._seen = stamps
        if changed:
            self._changed |= changed
            self._changed_at = self._ticks()
        if self._changed_at is None:
            return ChangeReport()
        try:
            settings = load_settings(
                self._running.workspace, environ=self._running.environ, cwd=self._running.workspace, home=self._home
            )
            prices = load_prices(settings.prices)
        except ConfigInvalid as error:
            self._changed_at = None  # the next change is looked at
            return ChangeReport(self._refuse(str(error)))
        if not at_once and self._ticks() - self._changed_at < SETTLE_S:
            return ChangeReport(unsettled=True)
        return ChangeReport(self._adopt(settings, prices))

    def _refuse(self, error: str) -> list[Announcement]:
        if error == self.error:
            return []
        self.error = error
        log.warning("the configuration is invalid, so the server goes on with that of before: %s", error)
        return [self._event("invalid", error=error)]

    def _adopt(self, settings: Settings, prices: Prices) -> list[Announcement]:
        before, files = self._running, self._changed
        differs = [key for key in KEYS if settings.value(key) != before.value(key)]
        restart = tuple(key for key in differs if key in NEEDS_RESTART)
        live = [key for key in differs if key not in NEEDS_RESTART]
        if prices != self._prices and "prices" not in live:
            live.append("prices")
        dotenv = dict(settings.dotenv)
        is_news = bool(live) or restart != self.restart or dotenv != self._dotenv or self.error is not None
        event = self._event("updated", changed=live, restart=list(restart))
        self._running = _merged(settings, before)
        self._dotenv, self._prices, self.restart, self.error = dotenv, prices, restart, None
        self._changed, self._changed_at = set(), None
        self._use(self._running, prices)
        if not is_news:
            return []
        log.info("the configuration was read again (%s)%s", ", ".join(self._names(files)), _said(live, restart))
        return [event]

    def _event(self, event: str, **more: Any) -> Announcement:
        return "config_changed", {"event": event, "files": self._names(self._changed), **more}

    def _names(self, files: Iterable[Path]) -> list[str]:
        folder = self._running.workspace
        return sorted(str(path.relative_to(folder) if path.is_relative_to(folder) else path) for path in files)

    def _files(self) -> list[Path]:
        settings = self._running
        own = [settings.workspace / "config.yaml", settings.workspace / ".env", settings.user_config]
        return own if settings.prices is None else [*own, settings.prices]

    def _stamps(self) -> Mapping[Path, object]:
        return {path: file_stamp(path) for path in self._files()}


def _merged(new: Settings, running: Settings) -> Settings:
    """The new settings, but what needs a restart as it is."""
    kept = {key: running.value(key) for key in NEEDS_RESTART if "." not in key}
    of_server = {key.partition(".")[2]: running.value(key) for key in NEEDS_RESTART if "." in key}
    origins = {key: running.origins[key] for key in ("workspace", *NEEDS_RESTART)}
    return replace(
        new,
        **kept,
        checkpoint_database=running.checkpoint_database,
        server=replace(new.server, **of_server),
        origins={**new.origins, **origins},
    )


def _said(live: Sequence[str], restart: Sequence[str]) -> str:
    said = [f"; {', '.join(keys)} {what}" for keys, what in ((live, "changed"), (restart, "after a restart")) if keys]
    return "".join(said)
