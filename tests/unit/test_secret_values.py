"""Where the values of agents' secrets come from, and what is said of one without."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agent_md.errors import UsageError
from agent_md.secret_values import KeyringUnusable, SecretValues, read_keyring
from agent_md.settings import Settings, load_settings


class Keyring:
    """A keyring that can be locked, and counts what it was asked."""

    def __init__(self, **entries: str) -> None:
        self.entries = entries
        self.asked: list[str] = []
        self.locked = False

    def __call__(self, name: str) -> str | None:
        self.asked.append(name)
        if self.locked:
            raise KeyringUnusable("since the system's keyring cannot be read (KeyringLocked)")
        return self.entries.get(name)


def settings(folder: Path, environ: Mapping[str, str] | None = None) -> Settings:
    (folder / "agents").mkdir(exist_ok=True)
    return load_settings(folder, environ=environ or {}, cwd=folder, home=folder / "home")


def test_the_environment_comes_first_then_dotenv_then_the_keyring(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("A=from-dotenv-a\nB=from-dotenv-b\nD=\n")
    keyring, found = Keyring(A="keyring-a", B="keyring-b", C="keyring-c", D="keyring-d"), dict[str, str]()
    here = settings(tmp_path, {"A": "environment-a"})
    values = SecretValues(lambda: here, found, keyring)
    assert [values.value(name) for name in "ABCD"] == ["environment-a", "from-dotenv-b", "keyring-c", "keyring-d"]
    assert keyring.asked == ["C", "D"]
    assert found == {"A": "environment-a", "B": "from-dotenv-b", "C": "keyring-c", "D": "keyring-d"}


def test_a_value_that_is_changed_counts_at_once(tmp_path: Path) -> None:
    keyring, here = Keyring(C="first-value"), settings(tmp_path)
    values = SecretValues(lambda: here, {}, keyring)
    assert values.value("C") == "first-value"
    keyring.entries["C"] = "second-value"
    assert values.value("C") == "second-value"
    assert values.known(["C"]) == {"C": "second-value"}


def test_what_is_known_asks_the_keyring_once_and_raises_nothing(tmp_path: Path) -> None:
    keyring, here = Keyring(C="keyring-c"), settings(tmp_path, {"A": "environment-a"})
    values = SecretValues(lambda: here, {}, keyring)
    for _ in range(3):
        assert values.known(["A", "B", "C"]) == {"A": "environment-a", "C": "keyring-c"}
    assert keyring.asked == ["B", "C"]
    keyring.locked = True
    assert values.known(["E"]) == {}


def test_what_is_said_of_one_without_a_value(tmp_path: Path) -> None:
    keyring, here = Keyring(SHORT="1234567"), settings(tmp_path)
    values = SecretValues(lambda: here, {}, keyring)
    with pytest.raises(UsageError, match=r"the secret A has no value; .* keyring set agentmd A$"):
        values.value("A")
    with pytest.raises(UsageError, match="SHORT has fewer than 8") as short:
        values.value("SHORT")
    assert "1234567" not in str(short.value)
    keyring.locked = True
    with pytest.raises(UsageError, match=r"since the system's keyring cannot be read \(KeyringLocked\)"):
        values.value("A")


class TestTheSystems:
    """The package `keyring`, with backends of our own."""

    @pytest.fixture
    def backend(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        import keyring
        from keyring.backend import KeyringBackend

        class Backend(KeyringBackend):
            priority = 1  # type: ignore[assignment]
            entries: dict[tuple[str, str], str] = {("agentmd", "A"): "its-value"}  # noqa: RUF012

            def get_password(self, service: str, username: str) -> str | None:
                if username == "BROKEN":
                    raise RuntimeError("secret-service: dbus")
                return self.entries.get((service, username))

            def set_password(self, service: str, username: str, password: str) -> None:
                raise NotImplementedError

            def delete_password(self, service: str, username: str) -> None:
                raise NotImplementedError

        before = keyring.get_keyring()
        keyring.set_keyring(Backend())
        yield
        keyring.set_keyring(before)

    def test_entries_of_our_service(self, backend: object) -> None:
        assert read_keyring("A") == "its-value"
        assert read_keyring("B") is None

    def test_one_that_cannot_be_read(self, backend: object) -> None:
        with pytest.raises(KeyringUnusable, match=r"cannot be read \(RuntimeError\)"):
            read_keyring("BROKEN")

    def test_without_the_package(self, monkeypatch: pytest.MonkeyPatch) -> None:
        import sys

        monkeypatch.setitem(sys.modules, "keyring", None)  # type: ignore[arg-type]
        with pytest.raises(KeyringUnusable, match=r"pip install 'agentmd\[keyring\]'"):
            read_keyring("A")
