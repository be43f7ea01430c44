"""Sessions of browsers: who logged in with which key. They outlive the server, and end with their key."""

from __future__ import annotations

import getpass
import hashlib
import hmac
import json
import logging
import os
import secrets
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from agent_md.stores.private_files import read_private, write_private

__all__ = ["LIFE_S", "LOCAL", "Login", "Logins", "local_name"]

log = logging.getLogger(__name__)

LIFE_S = 7 * 86_400.0
"""How long a session lasts, however much it is used."""
LOCAL = ""
"""The holder of the server's own key, which has no name."""
_MOST = 500
"""Sessions that are kept; the oldest end first."""


@dataclass(frozen=True, slots=True)
class Login:
    """One session. `id` is a digest of its token, `holder` the name of the key, `by` who answers with it, `proof` binds it
    to the key that was used."""

    id: str
    holder: str
    by: str
    until: float
    proof: str


class Logins:
    """The sessions of one workspace, in a file that only its user reads. Tokens are not in it."""

    def __init__(
        self, path: Path, keys: Callable[[], Mapping[str, str]], clock: Callable[[], float] = time.time
    ) -> None:
        """`keys`: the keys in effect now, by the name of their holder; the server's own under `LOCAL`."""
        self._path = path
        self._keys = keys
        self._clock = clock
        self._secret, self._logins = self._read()
        with suppress(OSError):  # forms that are open now are of no use after a restart
            self._keep(self._logins)

    def holder(self, key: str) -> str | None:
        """Whose key it is; None if it is nobody's. All keys are compared, each in constant time."""
        found = None
        for name, known in self._keys().items():
            if known and hmac.compare_digest(key.encode("utf-8", "replace"), known.encode("utf-8", "replace")):
                found = name
        return found

    def begin(self, holder: str, by: str) -> str:
        """Begins a session, and gives its token. Raises OSError if it cannot be kept."""
        token = secrets.token_urlsafe(32)
        login_id = _digest(token)
        now = self._clock()
        login = Login(login_id, holder, by, now + LIFE_S, self._proof(login_id, holder))
        kept = [old for old in self._logins.values() if old.until > now][-_MOST + 1 :]
        self._keep({old.id: old for old in (*kept, login)})
        return token

    def find(self, token: str) -> Login | None:
        """The session of a token; None if it has ended, or its key is not what it was."""
        login = self._logins.get(_digest(token))
        if login is None or login.until <= self._clock():
            return None
        return login if hmac.compare_digest(login.proof, self._proof(login.id, login.holder)) else None

    def end(self, login_id: str) -> None:
        """Ends a session. Raises OSError if that cannot be kept."""
        self._keep({name: login for name, login in self._logins.items() if name != login_id})

    def form_token(self, login_id: str) -> str:
        """The token of the forms that a session is shown; for requests of the Unix socket that of no session, ""."""
        return hmac.new(self._secret.encode(), f"form:{login_id}".encode(), hashlib.sha256).hexdigest()

    def _proof(self, login_id: str, holder: str) -> str:
        key = self._keys().get(holder, "")
        if not key:
            return secrets.token_hex()  # equal to nothing
        return hmac.new(key.encode("utf-8", "replace"), f"session:{login_id}".encode(), hashlib.sha256).hexdigest()

    def _read(self) -> tuple[str, dict[str, Login]]:
        try:
            data = json.loads(read_private(self._path))
            logins = [Login(**entry) for entry in data["logins"]]
            return str(data["secret"]), {login.id: login for login in logins}
        except FileNotFoundError:
            pass
        except (OSError, ValueError, TypeError, KeyError):
            log.warning("%s cannot be read: everybody has to log in again", self._path)
        return secrets.token_hex(32), {}

    def _keep(self, logins: dict[str, Login]) -> None:
        entries = [asdict(login) for login in logins.values()]
        write_private(self._path, json.dumps({"secret": self._secret, "logins": entries}))
        self._logins = logins


def local_name() -> str:
    """Who answers by the Unix socket, or with a login link that was made there: the user of the server."""
    try:
        return f"web:{getpass.getuser()}"
    except (KeyError, OSError):
        return f"web:{os.getuid()}"


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()
