"""Creates a chat model from its reference. Imports a provider only when its model is created."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

from agent_md.agents.placeholders import expand
from agent_md.agents.spec import ModelRef, RunSettings
from agent_md.errors import MissingKey, UsageError
from agent_md.models.failures import Trouble
from agent_md.models.script_file import load_script

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

__all__ = [
    "KEY_VARIABLES",
    "PROVIDERS",
    "check_model",
    "close_model",
    "key_values",
    "keys_of",
    "make_chat_model",
    "own_address",
    "remedy",
    "with_address",
]


@dataclass(frozen=True, slots=True)
class _Service:
    """A provider that is asked over HTTP: the function that makes its client, the package that it needs, and what has
    to be given."""

    module: str
    maker: str
    package: str
    keys: tuple[str, ...]
    """Variables that hold its key, first one wins."""
    address: str | None = None
    """Where it is asked if no `base_url` is given; None = one must be given."""
    needs_key: bool = True


_SERVICES = {
    "google": _Service(
        *("google", "google_model", "langchain_google_genai", ("GOOGLE_API_KEY", "GEMINI_API_KEY")),
        address="https://generativelanguage.googleapis.com",
    ),
    "openai": _Service(
        *("openai", "openai_model", "langchain_openai", ("OPENAI_API_KEY",)), address="https://api.openai.com/v1"
    ),
    "anthropic": _Service(
        *("anthropic", "anthropic_model", "langchain_anthropic", ("ANTHROPIC_API_KEY",)),
        address="https://api.anthropic.com",
    ),
    "ollama": _Service(
        *("ollama", "ollama_model", "langchain_ollama", ("OLLAMA_API_KEY",)),
        address="http://127.0.0.1:11434",
        needs_key=False,
    ),
    "local": _Service("openai", "local_model", "langchain_openai", ("LOCAL_API_KEY",), needs_key=False),
}

PROVIDERS = (*_SERVICES, "script")
"""The names that an agent file may use. Some need a package that is not always installed."""

KEY_VARIABLES = tuple(name for service in _SERVICES.values() for name in service.keys)
"""All variables that hold a provider's key."""


def keys_of(provider: str) -> tuple[str, ...]:
    """The variables that hold a provider's key; none for one without, or one that is unknown."""
    return _SERVICES[provider].keys if provider in _SERVICES else ()


def own_address(provider: str) -> str | None:
    """Where a provider is asked if an agent names no address; None if it must."""
    return _SERVICES[provider].address if provider in _SERVICES else None


def check_model(ref: ModelRef, environ: Mapping[str, str], scripts_dir: Path) -> None:
    """Raises what `make_chat_model` would, without importing a provider: UsageError for a provider that is unknown or
    not installed or a `base_url` that is bad or missing, MissingKey, ScriptInvalid."""
    if ref.provider == "script":
        if ref.base_url is not None:
            raise UsageError(f"{ref} is a script and has no base_url; remove it")
        load_script(scripts_dir, ref.name)
        return
    service = _SERVICES.get(ref.provider) or _refuse_provider(ref)
    if importlib.util.find_spec(service.package) is None:
        raise UsageError(
            f"{ref} cannot be used: the package {service.package.replace('_', '-')} is not installed; "
            f"run: pip install 'agentmd[{ref.provider}]'{_and_no_address(ref, service)}"
        )
    _check_base_url(ref, service)
    _key(ref, service, environ)


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
    service = _SERVICES[ref.provider]
    make: Any = getattr(importlib.import_module(f"agent_md.models.{service.module}"), service.maker)
    model: BaseChatModel = make(_addressed(ref), settings, _key(ref, service, environ))
    return model


def _addressed(ref: ModelRef) -> ModelRef:
    """The reference with the provider's own address where it has none."""
    return ref if ref.base_url is not None else replace(ref, base_url=_SERVICES[ref.provider].address)


def remedy(ref: ModelRef, trouble: Trouble) -> str:
    """A hint about the address of a model, if that may be wrong; "" otherwise."""
    if ref.provider not in _SERVICES:
        return ""
    address = _shown(_addressed(ref).base_url or "")
    if trouble is Trouble.NO_CONNECTION:
        if ref.base_url is None and ref.provider != "ollama":
            return f"there was no connection to {address}; see that this machine reaches it"
        return (
            f"there was no connection to {address}; see that a server listens there, or correct `base_url` of the "
            "agent's model"
        )
    if ref.base_url is None:
        return ""
    if _SERVICES[ref.provider].module == "openai" and not re.search(r"/v\d+$", address):
        return f"it was asked at {address}; servers like OpenAI's mostly answer at {address}/v1: set `base_url` so"
    return f"it was asked at {address}; see that `base_url` is the address of this interface"


def _shown(address: str) -> str:
    """Without a name and password that may be in it."""
    scheme, slashes, rest = address.partition("://")
    place, slash, path = rest.partition("/")
    return f"{scheme}{slashes}{place.rpartition('@')[2]}{slash}{path}".rstrip("/")


async def close_model(model: BaseChatModel) -> None:
    """Closes the connections of a model from `make_chat_model`, if it keeps any."""
    close = getattr(model, "aclose", None)
    if close is not None:
        await close()


def key_values(environ: Mapping[str, str]) -> tuple[str, ...]:
    """The values of all providers' keys, to be masked in whatever a provider says."""
    values = (environ.get(name, "").strip() for name in KEY_VARIABLES)
    return tuple(value for value in values if value)


def _key(ref: ModelRef, service: _Service, environ: Mapping[str, str]) -> str | None:
    for name in service.keys:
        if value := environ.get(name, "").strip():
            return value
    if not service.needs_key:
        return None
    names = service.keys
    raise MissingKey(
        f"{ref} needs a key: set {' (or '.join(names)}{')' * (len(names) - 1)} in the environment or in the "
        "workspace's .env file"
    )


def _and_no_address(ref: ModelRef, service: _Service) -> str:
    """What is wrong with its base_url too, to be mended in one go."""
    try:
        _check_base_url(ref, service)
    except UsageError as error:
        return f". And {error}"
    return ""


def _check_base_url(ref: ModelRef, service: _Service) -> None:
    if ref.base_url is None:
        if service.address is None:
            raise UsageError(
                f"{ref} has no base_url; give the address of the server in the agent's `model`, such as "
                "base_url: http://127.0.0.1:8000/v1"
            )
        return
    try:
        parts = urlsplit(ref.base_url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and not (parts.query or parts.fragment)
    except ValueError:
        usable = False
    if not usable:
        raise UsageError(f"base_url {ref.base_url!r} of {ref} is not an address; write http://… or https://…")


def _refuse_provider(ref: ModelRef) -> NoReturn:
    near = difflib.get_close_matches(ref.provider, PROVIDERS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known: {', '.join(PROVIDERS)}"
    raise UsageError(f"there is no provider {ref.provider!r}; {hint}")
