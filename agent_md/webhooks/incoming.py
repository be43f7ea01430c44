"""Verifies the signatures of deliveries to the webhook of an agent.

Two conventions: Standard Webhooks (`webhook-id`, `webhook-timestamp`, `webhook-signature`), and that of GitHub
(`X-Hub-Signature-256`, `X-GitHub-Delivery`).
"""

from __future__ import annotations

import base64
import hmac
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from standardwebhooks import Webhook, WebhookVerificationError

from agent_md.agents.spec import Trigger
from agent_md.errors import HookUnsigned
from agent_md.webhooks.signing import key_of
from agent_md.webhooks.targets import value_of

__all__ = ["Headers", "Signed", "check_signature", "hook_secret"]

Headers = Callable[[str], Sequence[str]]
"""All values of a header of a request, by its name."""

_SIGNATURE, _ID, _AT = "webhook-signature", "webhook-id", "webhook-timestamp"
_GITHUB_SIGNATURE, _GITHUB_ID = "X-Hub-Signature-256", "X-GitHub-Delivery"
_V1 = re.compile(r"v1,[A-Za-z0-9+/]{43}=")
_SECONDS = re.compile(r"[0-9]{1,12}")
_STANDARD_CONTENT = re.compile(rb"[\w.:~+/=-]{1,255}\.[0-9]{9,12}\.")
_VISIBLE = re.compile(r"[\x20-\x7e]+")
_LONGEST_ID = 255


@dataclass(frozen=True, slots=True)
class Signed:
    """A delivery whose signature holds: by which convention, what it is known by. `signature` is the HMAC in hexadecimal,
    however the header writes it; the sender's id is signed only by Standard Webhooks."""

    convention: str
    signature: str
    id: str | None


def hook_secret(trigger: Trigger, environment: Mapping[str, str]) -> str:
    """The secret of a webhook trigger. Raises ValueError, which does not show it, when there is none that can be used."""
    secret = value_of(trigger.secret or "", environment, "trigger.secret")
    try:
        key_of(secret)
    except ValueError as error:
        raise ValueError(f"`trigger.secret`: {error}") from None
    return secret


def check_signature(headers: Headers, body: bytes, secret: str) -> Signed:
    """What a request is known by, if it is signed with this secret. Raises HookUnsigned, whose text shows nothing of the
    secret or the right signature."""
    if headers(_SIGNATURE):
        return _standard(headers, body, secret)
    if headers(_GITHUB_SIGNATURE):
        return _github(headers, body, secret)
    raise HookUnsigned(
        f"the delivery is not signed: send {_ID}, {_AT} and {_SIGNATURE} (Standard Webhooks), "
        f"or {_GITHUB_SIGNATURE} (GitHub)"
    )


def _standard(headers: Headers, body: bytes, secret: str) -> Signed:
    delivery, at, signatures = (_one(headers, name) for name in (_ID, _AT, _SIGNATURE))
    if delivery is None or at is None or signatures is None:
        raise HookUnsigned(f"{_ID} or {_AT} is missing: both are signed")
    if not _SECONDS.fullmatch(at):
        raise HookUnsigned(f"{_AT} is not the seconds since 1970, in digits")
    known = [entry for entry in signatures.split(" ") if _V1.fullmatch(entry)]
    if not known:
        raise HookUnsigned(f"{_SIGNATURE} has no signature of version v1")
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise HookUnsigned("the body is not UTF-8: Standard Webhooks signs text") from None
    webhook = Webhook(key_of(secret))
    try:
        webhook.verify(text, {_ID: delivery, _AT: at, _SIGNATURE: " ".join(known)}, json_parse=False)
    except WebhookVerificationError as error:
        raise HookUnsigned(f"the signature does not hold: {error}") from None
    signed = webhook.sign(delivery, datetime.fromtimestamp(int(at), UTC), text)
    return Signed("Standard Webhooks", base64.b64decode(signed.removeprefix("v1,")).hex(), delivery)


def _github(headers: Headers, body: bytes, secret: str) -> Signed:
    if _STANDARD_CONTENT.match(body):  # the same key would sign it, and here its time counts for nothing
        raise HookUnsigned(f"the body is what Standard Webhooks signs, ID.SECONDS.BODY: send {_SIGNATURE}")
    delivery, given = _one(headers, _GITHUB_ID), _one(headers, _GITHUB_SIGNATURE)
    right = hmac.digest(secret.encode("utf-8", "surrogateescape"), body, "sha256").hex()
    if not hmac.compare_digest(f"sha256={right}", given or ""):
        raise HookUnsigned(f"the signature does not hold: {_GITHUB_SIGNATURE} is not that of this body and the secret")
    return Signed("GitHub", right, delivery)


def _one(headers: Headers, name: str) -> str | None:
    """The value of a header that may come once."""
    values = headers(name)
    if not values:
        return None
    if len(values) > 1:
        raise HookUnsigned(f"{name} comes {len(values)} times: which of them counts cannot be said")
    limit = _LONGEST_ID if name in (_ID, _GITHUB_ID) else None
    if not _VISIBLE.fullmatch(values[0]) or (limit is not None and len(values[0]) > limit):
        raise HookUnsigned(f"{name} is empty, longer than {_LONGEST_ID} characters, or not ASCII")
    return values[0]
