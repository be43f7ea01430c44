"""Deliveries to the webhooks of agents, signed as their senders do; written without the library that the product uses."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time

__all__ = ["SECRET", "github", "standard"]

SECRET = "correct horse battery staple"


def github(
    body: bytes, delivery: str | None = None, *, secret: str = SECRET, event: str | None = None
) -> dict[str, str]:
    """The headers of a delivery of GitHub."""
    headers = {"X-Hub-Signature-256": f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}"}
    headers |= {} if delivery is None else {"X-GitHub-Delivery": delivery}
    return headers | ({} if event is None else {"X-GitHub-Event": event})


def standard(body: bytes, delivery: str, *, key: bytes = SECRET.encode(), age: float = 0) -> dict[str, str]:
    """The headers of a delivery of Standard Webhooks, signed `age` seconds ago."""
    at = str(int(time.time() - age))
    digest = hmac.new(key, f"{delivery}.{at}.".encode() + body, hashlib.sha256).digest()
    signature = f"v1,{base64.b64encode(digest).decode()}"
    return {"webhook-id": delivery, "webhook-timestamp": at, "webhook-signature": signature}
