"""The signature headers of a webhook: Standard Webhooks, and a bearer token."""

from __future__ import annotations

import base64
import binascii
import re
from datetime import UTC, datetime

from standardwebhooks import Webhook

__all__ = ["check_token", "headers_for", "key_of"]

_PREFIX = "whsec_"
_TOKEN = re.compile(r"[\x21-\x7e]+")


def headers_for(event_id: str, body: bytes, at: int, *, token: str | None, secret: str | None) -> dict[str, str]:
    """The headers of one attempt at the time `at`; `body` is UTF-8. Raises ValueError for a token or a secret that cannot be
    used; its text does not show them."""
    headers = {"webhook-id": event_id, "webhook-timestamp": str(at)}
    if secret is not None:
        signed_at = datetime.fromtimestamp(at, UTC)
        headers["webhook-signature"] = Webhook(key_of(secret)).sign(event_id, signed_at, body.decode())
    if token is not None:
        headers["Authorization"] = f"Bearer {check_token(token)}"
    return headers


def key_of(secret: str) -> bytes:
    """The bytes to sign with: what is Base64 behind `whsec_`, else the text itself as UTF-8. Raises ValueError."""
    if not secret.startswith(_PREFIX):
        key = secret.encode("utf-8", "surrogateescape")
    else:
        try:
            key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
        except (binascii.Error, ValueError):
            raise ValueError("the secret has no Base64 behind whsec_") from None
    if not key:
        raise ValueError("the secret is empty")
    return key


def check_token(token: str) -> str:
    """The token, if a header can carry it: visible ASCII without blanks. Raises ValueError."""
    if not _TOKEN.fullmatch(token):
        raise ValueError("the token is empty, or has characters that a header cannot carry")
    return token
