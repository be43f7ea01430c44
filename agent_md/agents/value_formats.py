"""Parses texts of a fixed format, such as durations. Each function returns the value, or raises ValueError naming the
format."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit
from zoneinfo import ZoneInfo, available_timezones

from agent_md.agents.names import nearest

__all__ = [
    "duration",
    "folder_alias",
    "hook_url",
    "host",
    "icon",
    "model_url",
    "path",
    "placeholder",
    "simple_name",
    "time_limit",
    "timezone",
    "variable",
    "web_url",
]

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST_DAYS = 36_500
_DURATION = re.compile(r"([0-9]{1,12})([smhd])")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_PLACEHOLDER = re.compile(r"\$\{[A-Za-z_][A-Za-z0-9_]*\}")
_HOST = re.compile(r"(?:\*\.)?(?:(?!-)[\w-]{1,63}(?<!-)\.)*(?!-)[\w-]{1,63}(?<!-)")
_SIMPLE_NAME = re.compile(r"(?!\.)[\w.-]+")


def duration(text: str) -> float:
    """Seconds."""
    found = _DURATION.fullmatch(text)
    if not found:
        unit = " (the unit is missing)" if text.isdigit() else ""
        raise ValueError(f'expected a time such as 30s, 5m, 2h or 1d, read "{text}"{unit}')
    seconds = int(found[1]) * _SECONDS[found[2]]
    if seconds > _LONGEST_DAYS * _SECONDS["d"]:
        raise ValueError(f"{text} is longer than {_LONGEST_DAYS}d")
    return float(seconds)


def time_limit(text: str) -> float | None:
    """Seconds, more than 0; None for the word `none`."""
    if text == "none":
        return None
    seconds = duration(text)
    if not seconds:
        raise ValueError(f"{text} leaves no time at all; write a time such as 30m, or none for no limit")
    return seconds


def timezone(text: str) -> str:
    """The name of a time zone of the IANA database."""
    try:
        ZoneInfo(text)
    except (KeyError, ValueError, OSError):
        known = available_timezones()
        if not known:
            raise ValueError(
                "this system has no time zones; install its tzdata package, or pip install tzdata"
            ) from None
        hint = nearest(text, known)
        raise ValueError(
            f'there is no time zone "{text}"; {_did_you_mean(hint, "write one such as Europe/Berlin")}'
        ) from None
    return text


def host(text: str) -> str:
    """A host name in lower case, one with `*.` for all below it, or an IP address."""
    try:
        return str(ipaddress.ip_address(text.removeprefix("[").removesuffix("]")))
    except ValueError:
        pass
    if "://" in text or "/" in text:
        raise ValueError(f'"{text}" is not a host; write only the host, such as api.example.com')
    if not _HOST.fullmatch(text) or len(text) > 255:
        raise ValueError(f'"{text}" is not a host such as api.example.com or *.example.com (without a port)')
    return text.lower()


def web_url(text: str) -> str:
    """An http or https address."""
    try:
        parts = urlsplit(text)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or re.search(r"[\s\x00-\x1f\x7f]", text):
        raise ValueError(f'"{text}" is not an address such as https://example.com/hook')
    return text


def hook_url(text: str) -> str:
    """An http or https address without a name or a password in it."""
    if "@" in urlsplit(web_url(text)).netloc:
        raise ValueError("a name or a password is never written in an address; give a `token`")
    return text


def model_url(text: str) -> str:
    """An http or https address, or a text with `${NAME}` that becomes one at run time."""
    return text if _PLACEHOLDER.search(text) else web_url(text)


def placeholder(text: str) -> str:
    """`${NAME}`, so that the value itself is never in the file."""
    if not _PLACEHOLDER.fullmatch(text):
        raise ValueError("a secret is never written in the file; write ${NAME}, and put its value in .env")
    return text


def variable(text: str) -> str:
    """The name of an environment variable."""
    if not _VARIABLE.fullmatch(text):
        raise ValueError(f'"{text}" is not a variable name such as API_TOKEN')
    return text


def folder_alias(text: str) -> str:
    """A name that a path can start with."""
    if not _SIMPLE_NAME.fullmatch(text):
        raise ValueError(f'"{text}" is not an alias; letters, digits, -, _ and . are allowed, not at the start a dot')
    return text


def simple_name(text: str) -> str:
    """The name of a module, server or folder, never a path."""
    if not _SIMPLE_NAME.fullmatch(text):
        raise ValueError(f'"{text}" is not a name; letters, digits, -, _ and . are allowed, and no path')
    return text


def path(text: str) -> str:
    """A path or glob as written."""
    if not text.strip():
        raise ValueError("a path cannot be empty")
    return text


def icon(text: str) -> str:
    """A sign or two to show before a name."""
    if not text.strip() or len(text) > 16 or any(char < " " or char == "\x7f" for char in text):
        raise ValueError("expected an emoji or a few signs, at most 16 characters on one line")
    return text


def _did_you_mean(hint: str | None, otherwise: str) -> str:
    return f"did you mean {hint}?" if hint else otherwise
