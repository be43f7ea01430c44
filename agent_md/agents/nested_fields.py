"""Parses the fields of an agent file that have fields of their own: model, trigger, paths, secrets, notify."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, TypeVar, cast

from agent_md.agents import value_formats
from agent_md.agents.cron_syntax import parse_cron
from agent_md.agents.defaults import PROVIDERS, SETTINGS, Defaults, non_empty
from agent_md.agents.model_names import MEANT, parse_model
from agent_md.agents.spec import ModelRef, NotifyTarget, PathMount, SandboxSettings, Secret, Trigger
from agent_md.agents.typed_values import Section, read_text
from agent_md.agents.yaml_positions import Entry, Mapping, Node, Scalar
from agent_md.executions.deliveries import HookEvent

__all__ = ["read_model", "read_notify", "read_paths", "read_sandbox", "read_secrets", "schedule_line", "trigger_of"]

T = TypeVar("T")

_TRIGGER_KEYS = {
    "manual": ("type",),
    "schedule": ("type", "every", "cron", "timezone", "catch_up"),
    "watch": ("type", "paths", "debounce", "ignore", "catch_up"),
    "webhook": ("type", "secret"),
}
_TRIGGER_EXAMPLES = {
    "manual": "{type: manual}",
    "schedule": '{type: schedule, cron: "0 7 * * *"}, or {type: schedule, every: 1h}',
    "watch": "{type: watch, paths: [inbox/*.txt]}",
    "webhook": '{type: webhook, secret: "${HOOK_SECRET}"}',
}
_EVENTS = tuple(str(event) for event in HookEvent)


def read_model(top: Section, defaults: Defaults) -> ModelRef:
    """The model of a file, `PROVIDER/NAME` or a mapping, with what is missing from the defaults. The default model's name
    only goes with its provider."""
    if isinstance(top.node("model"), Scalar):
        named = top.text("model", partial(parse_model, key="model: "), None)
        return named or ModelRef(defaults.provider, defaults.model or "")
    section = top.section("model")
    section.check_keys(("provider", "name", "base_url", "url"), advice=_belongs_to_settings)
    provider = section.word("provider", PROVIDERS, defaults.provider, MEANT)
    default = defaults.model if provider == defaults.provider else None
    name = section.text("name", non_empty, default)
    if name is None:
        section.note("name", f"there is no default model of {provider}; add one such as name: MODEL")
    base_url = section.text(section.alias("base_url", "url"), value_formats.model_url, None)
    return ModelRef(provider, name or "", base_url)


def _belongs_to_settings(entry: Entry) -> str | None:
    if entry.key not in SETTINGS:
        return None
    value = entry.value.text if isinstance(entry.value, Scalar) else "…"
    return f"it is one of settings, beside model; write settings: {{{entry.key}: {value}}}"


def read_sandbox(top: Section) -> SandboxSettings | None:
    """What `sandbox` says: true, false, or a mapping of what the sandbox has."""
    if not isinstance(top.node("sandbox"), Mapping):
        return SandboxSettings() if top.flag("sandbox", False) else None
    section = top.section("sandbox")
    section.check_keys(("environment", "memory_mb"))
    usual = SandboxSettings()
    return SandboxSettings(
        section.texts("environment", value_formats.variable, usual.environment),
        section.integer("memory_mb", usual.memory_mb, 256),
    )


def schedule_line(entry: Entry) -> str:
    """How to write the trigger that somebody gave as a field of its own."""
    text = entry.value.text if isinstance(entry.value, Scalar) else ""
    key = "every" if entry.key == "every" or (text and " " not in text) else "cron"
    value = (text or "1h") if key == "every" else f'"{text or "0 7 * * *"}"'
    return f"it is one of trigger; write trigger: {{type: schedule, {key}: {value}}}"


def trigger_of(top: Section) -> Trigger:
    """What starts the agent, as its file has it under `trigger`."""
    node = top.node("trigger")
    if isinstance(node, Scalar) and node.text in _TRIGGER_EXAMPLES:
        top.note("trigger", f"expected a mapping; write trigger: {_TRIGGER_EXAMPLES[node.text]}")
        return Trigger()
    return read_trigger(top.section("trigger"))


def read_trigger(section: Section) -> Trigger:
    """The trigger of the agent; `manual` without one."""
    kind = section.word("type", tuple(_TRIGGER_KEYS), None)
    keys: dict[str, str] = {}
    for name, known in _TRIGGER_KEYS.items():
        keys |= {key: f"{keys[key]} or {name}" if key in keys else f"type: {name}" for key in known if key != "type"}
    if kind is None:
        if section.mapping.entries and section.node("type") is None:
            section.note("type", f"missing; add one of {', '.join(_TRIGGER_KEYS)}")
        return Trigger()
    for key, owner in keys.items():
        if key in section.mapping.entries and key not in _TRIGGER_KEYS[kind]:
            section.note(key, f"belongs to a trigger with {owner}, not to {kind}")
    section.check_keys(("type", *keys))
    read = {"schedule": _schedule, "watch": _watch, "webhook": _webhook}.get(kind)
    return Trigger() if read is None else read(section)


def read_paths(section: Section) -> tuple[PathMount, ...]:
    """The folders and files of `paths`, in the order of the file."""
    mounts = []
    for entry in section.mapping.entries.values():
        label = section.name(entry.key)
        try:
            value_formats.folder_alias(entry.key)
        except ValueError as error:
            section.source.note(entry.mark, f"{label}: {error}")
        if not isinstance(entry.value, Mapping):
            plain = read_text(section.source, entry.value, label, value_formats.path)
            mounts += [PathMount(entry.key, path) for path in plain or ()]
            continue
        inner = Section(section.source, entry.value, label)
        inner.check_keys(("path", "description", "mode"))
        path = _required(inner, "path", value_formats.path)
        mode = cast(Literal["ro", "rw"], inner.word("mode", ("ro", "rw"), "rw"))
        mounts.append(PathMount(entry.key, path or "", inner.prose("description", ""), mode))
    return tuple(mounts)


def read_secrets(section: Section, key: str) -> tuple[Secret, ...]:
    """The placeholders of `secrets`; the same name twice is a mistake."""
    secrets: dict[str, Secret] = {}
    for node in section.items(key) or ():
        secret = _secret(section, key, node)
        if secret and secret.name in secrets:
            section.source.note(node.mark, f"{section.name(key)}: {secret.name} is given twice; keep one")
        elif secret:
            secrets[secret.name] = secret
    return tuple(secrets.values())


def read_notify(section: Section, key: str) -> tuple[NotifyTarget, ...]:
    """The webhooks of `notify`."""
    targets = []
    for node in section.items(key) or ():
        if not isinstance(node, Mapping):
            plain = read_text(section.source, node, section.name(key), value_formats.hook_url)
            targets += [NotifyTarget(url) for url in plain or ()]
            continue
        inner = Section(section.source, node, section.name(key))
        inner.check_keys(("url", "token", "secret", "events"))
        url = _required(inner, "url", value_formats.hook_url)
        token = inner.secret("token", value_formats.placeholder)
        secret = inner.secret("secret", value_formats.placeholder)
        targets.append(NotifyTarget(url or "", token, secret, inner.texts("events", _event, ())))
    return tuple(targets)


def _schedule(section: Section) -> Trigger:
    every = section.text("every", _interval, None)
    cron = section.text("cron", _cron, None)
    given = [key for key in ("every", "cron") if section.node(key) is not None]
    if len(given) != 1:
        what = "give one of every and cron, not both" if given else "missing; give it, or cron"
        section.note("every", what)
    return Trigger(
        "schedule",
        every=every,
        cron=cron,
        timezone=section.text("timezone", value_formats.timezone, None),
        catch_up=_catch_up(section),
    )


def _watch(section: Section) -> Trigger:
    paths = section.texts("paths", value_formats.path, ())
    if not section.items("paths"):
        section.note("paths", "missing; give at least one glob such as inbox/*.txt")
    return Trigger(
        "watch",
        paths=paths,
        debounce=section.text("debounce", value_formats.duration, 1.0),
        ignore=section.texts("ignore", value_formats.path, ()),
        catch_up=_catch_up(section),
    )


def _webhook(section: Section) -> Trigger:
    if section.node("secret") is None:
        section.note("secret", "missing; give the variable that holds it, such as ${HOOK_SECRET}")
    return Trigger("webhook", secret=section.secret("secret", value_formats.placeholder))


def _catch_up(section: Section) -> Literal["skip", "once", "all"]:
    return cast(Literal["skip", "once", "all"], section.word("catch_up", ("skip", "once", "all"), "once"))


def _secret(section: Section, key: str, node: Node) -> Secret | None:
    if not isinstance(node, Mapping):
        plain = read_text(section.source, node, section.name(key), value_formats.variable)
        return Secret(plain[0]) if plain else None
    inner = Section(section.source, node, section.name(key))
    inner.check_keys(("name", "hosts"))
    name = _required(inner, "name", value_formats.variable)
    hosts = inner.texts("hosts", value_formats.host, ())
    return Secret(name, hosts) if name else None


def _required(section: Section, key: str, parse: Callable[[str], T]) -> T | None:
    if section.node(key) is None:
        section.note(key, "missing; add it")
        return None
    return section.text(key, parse, None)


def _interval(value: str) -> float:
    seconds = value_formats.duration(value)
    if not seconds:
        raise ValueError("an interval cannot be 0")
    return seconds


def _cron(value: str) -> str:
    parse_cron(value)
    return value


def _event(value: str) -> str:
    if value not in _EVENTS:
        raise ValueError(f'there is no event "{value}"; the events are {", ".join(_EVENTS)}')
    return value
