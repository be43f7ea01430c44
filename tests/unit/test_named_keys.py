"""`server.keys` and `server.allowed_hosts` of config.yaml; guesses of keys are limited."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent_md.config_file import NamedKey
from agent_md.errors import ConfigInvalid
from agent_md.settings import Settings, load_settings
from agent_md.web.login_limit import LoginLimit
from tests.support.clock import ManualClock

SECRET = "the key of Ann itself"


def settings_of(folder: Path, text: str) -> Settings:
    (folder / "config.yaml").write_text(text)
    return load_settings(folder, environ={"ANN_KEY": SECRET}, cwd=folder, home=folder / "home")


def test_keys_are_named_by_people_and_kept_in_variables(tmp_path: Path) -> None:
    settings = settings_of(
        tmp_path, 'server:\n  keys: {ann: "${ANN_KEY}", bob@site: "${BOB}"}\n  allowed_hosts: [A.example]\n'
    )
    assert settings.server.keys == (NamedKey("ann", "ANN_KEY"), NamedKey("bob@site", "BOB"))
    assert [str(key) for key in settings.server.keys] == ["ann: ${ANN_KEY}", "bob@site: ${BOB}"]
    assert settings.server.allowed_hosts == ("a.example",)
    assert settings.secrets()["ANN_KEY"] == SECRET


@pytest.mark.parametrize(
    ("keys", "told"),
    [
        (f"{{ann: {SECRET}}}", 'the value of "ann" must be the variable that holds the key'),
        ("{ann: [x]}", 'the value of "ann" must be the variable that holds the key'),
        ('{"": "${A}"}', '"" is not a name'),
        ('{"web:ann": "${A}"}', '"web:ann" is not a name'),
        ("ann", "expected a mapping"),
    ],
)
def test_mistakes_are_told_without_the_key(tmp_path: Path, keys: str, told: str) -> None:
    with pytest.raises(ConfigInvalid) as refused:
        settings_of(tmp_path, f"server:\n  keys: {keys}\n")
    assert told in str(refused.value)
    assert "config.yaml" in str(refused.value)
    assert SECRET not in str(refused.value)


def test_guesses_are_limited_by_address_and_in_all() -> None:
    clock = ManualClock()
    limit = LoginLimit(clock, of_one=2, of_all=4, seconds=60)
    for address in ("a", "a", "b"):
        assert limit.wait_for(address) == 0
        limit.note_failure(address)
    assert (limit.wait_for("a"), limit.wait_for("b")) == (60, 0)
    clock.advance(10)
    limit.note_failure("c")
    assert limit.wait_for("d") == 50  # all together
    clock.advance(51)
    assert [limit.wait_for(address) for address in "abcd"] == [0, 0, 0, 0]
