"""From a model's reference to a chat model. Providers are imported when they are made, and not before."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import urlsplit

from agent_md.agents.spec import ModelRef, RunSettings
from agent_md.agents.text import expand
from agent_md.errors import MissingKey, UsageError
from agent_md.models.script_file import load_script

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

__all__ = ["PROVIDERS", "check_model", "close_model", "key_values", "make_chat_model", "with_address"]

PROVIDERS = ("google", "openai", "anthropic", "ollama", "local", "script")
"""The names that an agent file may use; not all are available in this version."""

_KEY_VARIABLES = {"google": ("GOOGLE_API_KEY", "GEMINI_API_KEY")}
"""Variables that hold a provider's key, first one wins."""


def check_model(ref: ModelRef, environ: Mapping[str, str], scripts_dir: Path) -> None:
    """Raises what `make_chat_model` would, without importing a provider: UsageError for an unknown or unavailable
    provider or a bad `base_url`, MissingKey, ScriptInvalid."""
    if ref.provider == "google":
        _check_base_url(ref)
        _key(ref, environ)
    elif ref.provider == "script":
        if ref.base_url is not None:
            raise UsageError(f"{ref} is a script and has no base_url; remove it")
        load_script(scripts_dir, ref.name)
    else:
        _refuse_provider(ref)


def with_address(ref: ModelRef, environ: Mapping[str, str]) -> ModelRef:
    """The reference with `${NAME}` in its base_url filled from the environment. Raises ConfigInvalid naming what is
    missing."""
    if ref.base_url is None:
        return ref
    return replace(ref, base_url=expand(ref.base_url, environ, f"base_url of {ref}"))


def make_chat_model(
    ref: ModelRef, settings: RunSettings, *, environ: Mapping[str, str], scripts_dir: Path
) -> BaseChatModel:
    """The model that `ref` names, with the temperature and token limit of `settings` where they are set.

    Opens no connection. The model asks once a call: retries are `call_with_retry`'s. Close it with `close_model` on
    the event loop that used it. Raises what `check_model` raises.
    """
    check_model(ref, environ, scripts_dir)
    if ref.provider == "script":
        from agent_md.models.script import ScriptModel

        return ScriptModel.load(scripts_dir, ref.name)
    from agent_md.models.google import google_model

    return google_model(ref, settings, _key(ref, environ))


async def close_model(model: BaseChatModel) -> None:
    """Closes the connections of a model from `make_chat_model`, if it keeps any."""
    close = getattr(model, "aclose", None)
    if close is not None:
        await close()


def key_values(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values of all providers' keys, to be masked in whatever a provider says."""
    values = (environ.get(name, "").strip() for names in _KEY_VARIABLES.values() for name in names)
    return tuple(value for value in values if value)


def _key(ref: ModelRef, environ: Mapping[str, str]) -> str:
    names = _KEY_VARIABLES[ref.provider]
    for name in names:
        if value := environ.get(name, "").strip():
            return value
    raise MissingKey(
        f"{ref} needs a key: set {' (or '.join(names)}{')' * (len(names) - 1)} in the environment or in the "
        "workspace's .env file"
    )


def _check_base_url(ref: ModelRef) -> None:
    if ref.base_url is None:
        return
    try:
        parts = urlsplit(ref.base_url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and not (parts.query or parts.fragment)
    except ValueError:
        usable = False
    if not usable:
        raise UsageError(f"base_url {ref.base_url!r} of {ref} is not an address; write http://… or https://…")


def _refuse_provider(ref: ModelRef) -> NoReturn:
    if ref.provider in PROVIDERS:
        raise UsageError(f"provider {ref.provider} is not available in this version; use google or script")
    near = difflib.get_close_matches(ref.provider, PROVIDERS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(PROVIDERS)}"
    raise UsageError(f"there is no provider {ref.provider!r}; {hint}")
