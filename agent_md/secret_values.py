"""The values of the secrets that agents name: of the environment, of `.env`, or of the system's keyring."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from agent_md.errors import UsageError
from agent_md.redaction import SHORTEST_SECRET
from agent_md.settings import Settings

__all__ = ["KEYRING_SERVICE", "KeyringUnusable", "ReadKeyring", "SecretValues", "read_keyring"]

KEYRING_SERVICE = "agentmd"
_ANSWER_S = 10.0
"""How long a keyring may take: it may ask a person to unlock it."""

ReadKeyring = Callable[[str], str | None]
"""The value that the keyring has for a name; None if it has none. Raises KeyringUnusable."""


class KeyringUnusable(Exception):
    """The keyring cannot be read; the text says why and what to do."""


class SecretValues:
    """Looks values up for one process, and keeps those that it found for who takes secrets out of texts."""

    def __init__(
        self, settings: Callable[[], Settings], found: dict[str, str], read: ReadKeyring | None = None
    ) -> None:
        """`found` gets each value by its name."""
        self._settings = settings
        self._found = found
        self._read = read or read_keyring
        self._asked: set[str] = set()

    def value(self, name: str) -> str:
        """What the environment, `.env` or the keyring has for it now. Raises UsageError naming it, with what to do."""
        why = f"or put it into the keyring: keyring set {KEYRING_SERVICE} {name}"
        value = self._settings().environment().get(name)
        if not value:
            try:
                value = self._from_keyring(name)
            except KeyringUnusable as error:
                why = str(error)
        if not value:
            raise UsageError(f"the secret {name} has no value; set it in the environment or in .env, {why}")
        if len(value) < SHORTEST_SECRET:
            raise UsageError(
                f"the value of the secret {name} has fewer than {SHORTEST_SECRET} characters, too few to keep it out of "
                "texts; use a longer one"
            )
        self._found[name] = value
        return value

    def known(self, names: list[str], others: Mapping[str, str] | None = None) -> Mapping[str, str]:
        """Those of the names that have a value, as far as they can be found without an error; the keyring is asked once.
        `others` are values of other secrets, kept like those that were found."""
        self._found.update(others or {})
        environ = self._settings().secrets(names, lenient=True)
        found = {name: environ[name] for name in names if environ.get(name)}
        for name in names:
            if name not in found and name not in self._found and name not in self._asked:
                try:
                    self._from_keyring(name)
                except KeyringUnusable:
                    continue
        self._found.update(found)
        return {name: self._found[name] for name in names if name in self._found}

    def _from_keyring(self, name: str) -> str | None:
        self._asked.add(name)
        value = self._read(name)
        if value:
            self._found[name] = value
        return value


def read_keyring(name: str) -> str | None:
    """What the keyring of this system has for the service `agentmd` under the name."""
    try:
        import keyring
    except ImportError:
        raise KeyringUnusable(
            "or use the system's keyring, which needs a package: pip install 'agentmd[keyring]'"
        ) from None
    answers: list[str | None] = []
    errors: list[Exception] = []

    def ask() -> None:
        try:
            answers.append(keyring.get_password(KEYRING_SERVICE, name))
        except Exception as error:  # of whatever backend
            errors.append(error)

    asking = threading.Thread(target=ask, name="keyring", daemon=True)
    asking.start()
    asking.join(_ANSWER_S)
    if errors:
        raise KeyringUnusable(f"since the system's keyring cannot be read ({type(errors[0]).__name__})")
    if not answers:
        raise KeyringUnusable(f"since the system's keyring did not answer within {_ANSWER_S:g} s")
    return answers[0]
