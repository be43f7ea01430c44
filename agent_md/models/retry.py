"""Retries model calls after temporary failures."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from typing import TypeVar

from agent_md.errors import AgentmdError, ModelFailed, OutOfResources
from agent_md.models.failures import Failure, Permanent, ProviderFailure, Transient, Trouble, classify
from agent_md.resource_shortages import shortage

__all__ = ["OnRetry", "Remedy", "RetryPolicy", "call_with_retry"]

T = TypeVar("T")

OnRetry = Callable[[int, Failure, float], None]
"""Told before each wait: how many attempts have failed, why the last one did, and the seconds until the next."""

Remedy = Callable[[Trouble], str]
"""What to say of the address that was asked, in brackets behind the failure."""


def _no_remedy(trouble: Trouble) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how patiently a model is asked. Times in seconds.

    The wait after failure n is `first_delay * factor ** (n - 1)`, at most `max_delay`, moved by up to `jitter` (a
    share of it) either way; or what the provider asked for, if that is longer. A provider that asks for more than
    `patience` is not waited for.
    """

    attempts: int = 4
    first_delay: float = 1.0
    factor: float = 2.0
    max_delay: float = 30.0
    jitter: float = 0.2
    patience: float = 120.0

    def delay(self, failures: int, retry_after: float | None, chance: float) -> float:
        """Seconds to wait after so many failures; `chance` is between 0 and 1."""
        planned = min(self.max_delay, self.first_delay * self.factor ** (failures - 1))
        return max(planned * (1 + self.jitter * (2 * chance - 1)), retry_after or 0.0)


async def call_with_retry(
    func: Callable[[], Awaitable[T]],
    policy: RetryPolicy,
    *,
    model: str,
    secrets: Collection[str] = (),
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    on_retry: OnRetry | None = None,
    chance: Callable[[], float] = random.random,
    remedy: Remedy = _no_remedy,
) -> T:
    """The result of `func`, which is called again after each temporary failure.

    `func` is the whole call: after a broken stream it starts from the beginning, and `on_retry` must discard the text
    so far. Raises ModelFailed, one line that starts with `model` and contains none of `secrets`, if the failure is
    permanent or the last attempt failed; OutOfResources if this process, not the provider, failed. Other errors of
    agentmd, and cancellation, propagate."""
    failures = 0
    short: str | None = None
    while True:
        try:
            return await func()
        except ProviderFailure as error:
            failure = classify(error, secrets)
        except AgentmdError:
            raise
        except Exception as error:
            short = shortage(error)
            failure = classify(error, secrets)
        if short is not None:
            raise OutOfResources(short)
        failures += 1
        if (end := _end(failure, failures, policy)) is not None:
            # Raised outside the handler of the provider's error, whose text may hold a key.
            advice = "" if failure.trouble is None else remedy(failure.trouble)
            raise ModelFailed(f"{model} could not answer{end}{f' ({advice})' if advice else ''}")
        retry_after = failure.retry_after if isinstance(failure, Transient) else None
        delay = policy.delay(failures, retry_after, chance())
        if on_retry is not None:
            on_retry(failures, failure, delay)
        await sleep(delay)


def _end(failure: Failure, failures: int, policy: RetryPolicy) -> str | None:
    """What to say behind "could not answer" when no attempt comes any more; None if one does."""
    if isinstance(failure, Permanent):
        return f": {failure.text}"
    tried = f" after {failures} {'attempt' if failures == 1 else 'attempts'}: {failure.text}"
    if failures >= policy.attempts:
        return tried
    if failure.retry_after is not None and failure.retry_after > policy.patience:
        return f"{tried} (it asks to wait {failure.retry_after:.0f} s)"
    return None
