"""What of the environment a prompt may hold."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from agent_md.agents.spec import AgentSpec, ModelRef, NotifyTarget, Secret, Trigger
from agent_md.assembly import Assembly
from agent_md.errors import ConfigInvalid
from agent_md.settings import load_settings

SPEC_PARTS = {
    "secrets": (Secret("SHOP_KEY"),),
    "notify": (NotifyTarget("https://a.example", "${HOOK_TOKEN}", "${HOOK_SECRET}"),),
    "trigger": Trigger("webhook", secret="${TRIGGER_SECRET}"),
}


def system_prompt(folder: Path, body: str, environ: Mapping[str, str]) -> str:
    folder.mkdir(exist_ok=True)
    (folder / ".env").write_text("OF_DOTENV=in-the-file\nFLAG=true\n")
    settings = load_settings(folder, environ=environ, cwd=folder, home=folder)
    spec = AgentSpec("a", body, ModelRef("script", "a"), **SPEC_PARTS)  # type: ignore[arg-type]
    return Assembly(settings).prompt(spec, (), None).system


@pytest.mark.parametrize(
    "name",
    [
        "GOOGLE_API_KEY",
        "OPENAI_API_KEY",
        "AGENTMD_API_KEY",
        "HOOK_TOKEN",
        "HOOK_SECRET",
        "TRIGGER_SECRET",
        "OF_DOTENV",
        "FLAG",
    ],
)
def test_what_is_a_secret_by_its_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigInvalid, match=f"{name}}}, which is never put into a prompt"):
        system_prompt(tmp_path / "w", f"Say ${{{name}}}.", {name: "s3cret-value"})


@pytest.mark.parametrize("of", ["GOOGLE_API_KEY", "HOOK_TOKEN", "SHOP_KEY"])
def test_what_is_a_secret_under_another_name(tmp_path: Path, of: str) -> None:
    with pytest.raises(ConfigInvalid, match="COPY}, which is never put into a prompt"):
        system_prompt(tmp_path / "w", "Say ${COPY}.", {of: "s3cret-value", "COPY": "s3cret-value"})


def test_what_is_none(tmp_path: Path) -> None:
    environ = {"PLACE": "Rome", "DEBUG": "true", "GOOGLE_API_KEY": "s3cret-value"}
    assert system_prompt(tmp_path / "w", "In ${PLACE}, ${DEBUG}.", environ) == "In Rome, true."


@pytest.mark.parametrize(
    ("secret", "value", "copy"),
    [
        ("DB_PASSWORD", "hunter2", "hunter2"),
        ("DB_PASSWORD", "hunter2", "postgres://me:hunter2@db/x"),
        ("OF_DOTENV", "letmein", "letmein"),
        ("DB_PASSWORD", "p@ss/word9", "postgres://me:p%40ss%2Fword9@db/x"),
        ("SHOP_KEY", "s3cret-value", "czNjcmV0LXZhbHVl"),
    ],
)
def test_what_has_a_secret_within(tmp_path: Path, secret: str, value: str, copy: str) -> None:
    with pytest.raises(ConfigInvalid, match="COPY}, which is never put into a prompt"):
        system_prompt(tmp_path / "w", "Say ${COPY}.", {secret: value, "COPY": copy})


@pytest.mark.parametrize("value", ["true", "8080", "no", "x"])
def test_plain_values_of_dotenv_may_be_those_of_others(tmp_path: Path, value: str) -> None:
    assert system_prompt(tmp_path / "w", "Say ${COPY}.", {"OF_DOTENV": value, "COPY": value}) == f"Say {value}."
