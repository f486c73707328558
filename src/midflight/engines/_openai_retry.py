"""Tries again what may pass: a time limit for each whole try, jittered back-off, waiting as long as the server asks."""

from __future__ import annotations

import asyncio
import math
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from itertools import count
from typing import Any, TypeVar

import openai

FIRST_WAIT_S, LONGEST_WAIT_S = 0.5, 60.0
"""Seconds before the second try, doubled from try to try; and at most, also where the server asks for more."""

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and how patiently.

    Attributes:
        retries: Tries after the first.
        timeout_s: Seconds that one try may take, from the connection to the last byte: the SDK's own limit begins
            anew with every byte, so that a server which sends one now and then is never given up.
        sleep: Waits for seconds.
        clock: Seconds since the epoch.
        draw: A number from [0, 1); not of Python's global stream, which belongs to training.
    """

    retries: int
    timeout_s: float
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.time
    draw: Callable[[], float] = random.SystemRandom().random

    async def __call__(self, call: Callable[[], Awaitable[Result]]) -> Result:
        """What the call gives in the end; its last error if none of the tries succeeds."""
        for tried in count():
            try:
                async with asyncio.timeout(self.timeout_s):
                    return await call()
            except (openai.APIStatusError, openai.APIConnectionError, TimeoutError) as error:
                if tried >= self.retries or not _may_pass(error):
                    raise
                wait_s = self._wait_s(error, tried)
            await self.sleep(wait_s)
        raise AssertionError("unreachable")

    def _wait_s(self, error: Exception, tried: int) -> float:
        asked = _retry_after(error.response, self.clock()) if isinstance(error, openai.APIStatusError) else None
        if asked is not None:
            return min(asked, LONGEST_WAIT_S)
        longest: float = min(FIRST_WAIT_S * 2 ** min(tried, 16), LONGEST_WAIT_S)
        return longest * (1 + self.draw()) / 2  # so that clients which failed together do not come back together


def _may_pass(error: Exception) -> bool:
    """Time-outs, conflicts, too many requests, errors of the server, and connections that broke."""
    if isinstance(error, openai.APIStatusError):
        return error.status_code in (408, 409, 429) or error.status_code >= 500
    return True


def _retry_after(response: Any, now: float) -> float | None:
    """Seconds that the server asks to wait, in either form of the header (RFC 9110, section 10.2.3)."""
    text = response.headers.get("retry-after", "")
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - now
        except (TypeError, ValueError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
