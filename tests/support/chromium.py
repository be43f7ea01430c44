"""The system's Chromium, driven by playwright."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, ConsoleMessage, Page, sync_playwright

__all__ = ["chromium", "watched"]

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_ARGUMENTS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
)
"""A browser of tests asks no other host for anything."""


@contextmanager
def chromium() -> Iterator[Browser]:
    path = next(filter(None, map(shutil.which, _NAMES)), None)
    if path is None:
        pytest.skip("NOT RUN: there is no Chromium here; on Debian `apt-get install chromium` installs it")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=list(_ARGUMENTS))
        try:
            yield browser
        finally:
            browser.close()


def watched(page: Page) -> list[str]:
    """What goes wrong on a page from now on: errors of scripts, violations of its policy, requests that fail."""
    wrong: list[str] = []
    page.on("console", lambda message: wrong.append(_told(message)) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    return wrong


def _told(message: ConsoleMessage) -> str:
    return f"{message.text} ({message.location['url']})"
