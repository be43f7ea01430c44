"""Login links: each opens the page once, within a minute. A file that only this user reads hands them to the browser."""

from __future__ import annotations

import html
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from agent_md.stores.private_files import write_private

__all__ = ["LINK_S", "LoginLinks"]

LINK_S = 60.0
_PATTERN = "login-*.html"
_PAGE = """<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={url}">
<title>agentmd</title>
<p><a href="{url}">Open the inbox</a></p>
</html>
"""


class LoginLinks:
    """The codes of links that were not used yet, in memory, and their files in the state folder."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.monotonic) -> None:
        """`clock` in seconds, never set back. Files that a dead server left are removed."""
        self._folder = folder
        self._clock = clock
        self._codes: dict[str, tuple[float, Path]] = {}
        for left in folder.glob(_PATTERN):
            left.unlink(missing_ok=True)

    def make(self, page: str) -> tuple[str, Path]:
        """A link to the page at this address, and the file that leads there. Raises OSError."""
        self.sweep()
        code = secrets.token_urlsafe(32)
        url = f"{page}/login?code={code}"
        path = self._folder / f"login-{secrets.token_hex(8)}.html"
        write_private(path, _PAGE.format(url=html.escape(url)))
        self._codes[code] = (self._clock() + LINK_S, path)
        return url, path

    def use(self, code: str) -> bool:
        """Whether the code is one that was not used yet and is not too old. It is used now."""
        self.sweep()
        found = self._codes.pop(code, None)
        if found is None:
            return False
        _remove(found[1])
        return True

    def sweep(self) -> None:
        """Forgets links that are too old, and removes their files."""
        now = self._clock()
        for code, (until, path) in list(self._codes.items()):
            if until <= now:
                del self._codes[code]
                _remove(path)


def _remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink(missing_ok=True)
