"""What is tried again, how often, and how long is waited, on a clock of the test's own."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from email.utils import format_datetime
from types import SimpleNamespace

import openai
import pytest

from midflight.engines._openai_retry import Retry

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
REQUEST = SimpleNamespace(method="POST", url="http://x")


def status(code: int, **headers: str) -> openai.APIStatusError:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    response = SimpleNamespace(status_code=code, headers=named, request=REQUEST)
    return openai.APIStatusError("scripted", response=response, body=None)


def tried(*errors: Exception, retries: int = 5, draw: float = 1.0):
    """What a call that fails with these errors, then succeeds, comes to; and the waits."""
    waits: list[float] = []
    script = list(errors)

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    async def call() -> str:
        if script:
            raise script.pop(0)
        return "done"

    retry = Retry(retries, 10.0, sleep, NOW.timestamp, lambda: draw)
    try:
        return asyncio.run(retry(call)), waits
    except (openai.OpenAIError, TimeoutError, ValueError) as error:
        return error, waits


@pytest.mark.parametrize(
    "error",
    [
        *(status(code) for code in (408, 409, 429, 500, 502, 503, 504, 529)),
        openai.APIConnectionError(request=REQUEST),
        openai.APITimeoutError(request=REQUEST),
        TimeoutError(),
    ],
    ids=lambda e: str(getattr(e, "status_code", type(e).__name__)),
)
def test_what_may_pass_is_tried_again(error):
    assert tried(error, error) == ("done", [0.5, 1.0])
    assert tried(*[error] * 3, retries=2) == (error, [0.5, 1.0])
    assert tried(error, retries=0) == (error, [])


@pytest.mark.parametrize("error", [*(status(code) for code in (400, 401, 403, 404, 413, 422)), ValueError("garbage")])
def test_what_does_not_pass_is_not(error):
    assert tried(error) == (error, [])


def test_waits_double_up_to_a_minute_and_are_spread():
    assert tried(*[status(500)] * 10, retries=10)[1] == [0.5, 1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert tried(*[status(500)] * 3, draw=0.0)[1] == [0.25, 0.5, 1.0]
    assert tried(*[status(500)] * 3, draw=0.5)[1] == [0.375, 0.75, 1.5]


@pytest.mark.parametrize(
    ("header", "wait"),
    [
        ("7", 7.0),
        ("0", 0.0),
        ("1.5", 1.5),
        ("3600", 60.0),
        ("-5", 0.0),
        (format_datetime(datetime(2026, 3, 1, 12, 0, 9, tzinfo=UTC), usegmt=True), 9.0),
        ("Sun, 01 Mar 2026 13:00:00 GMT", 60.0),
        ("Sun, 01 Mar 2026 11:00:00 GMT", 0.0),
        ("soon", 0.5),
        ("nan", 0.5),
        ("inf", 0.5),
        ("", 0.5),
    ],
)
@pytest.mark.parametrize("code", [429, 503])
def test_the_server_says_how_long(code, header, wait):
    assert tried(status(code, retry_after=header)) == ("done", [wait])


def test_a_try_that_takes_too_long_is_cut_and_tried_again():
    calls: list[int] = []

    async def call() -> str:
        calls.append(1)
        if len(calls) == 1:
            await asyncio.Event().wait()
        return "done"

    async def sleep(seconds: float) -> None:
        pass

    assert asyncio.run(Retry(1, 0.01, sleep)(call)) == "done"
    assert len(calls) == 2


def test_pythons_random_stream_is_not_read():
    import random

    before = random.getstate()
    asyncio.run(Retry(1, 1.0)(lambda: asyncio.sleep(0)))
    assert Retry(1, 1.0).draw() != Retry(1, 1.0).draw()
    assert random.getstate() == before
