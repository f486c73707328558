"""Sends the verdict to a URL as JSON (POST), in Slack's form with `text`; tries again where that may help."""

from __future__ import annotations

import json
import math
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from midflight.errors import ConfigError, StepError
from midflight.gate.workflow.environment import resolve, variables_in
from midflight.gate.workflow.steps.base import Note, Step, StepContext
from midflight.schema import to_json

ANSWER_BYTES = 1 << 16
"""Bytes of an answer that are read."""

_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_PLACEHOLDER = re.compile(r"\$\{(\w+)\}")
_NAMES = ("workflow", "project", "run", "checkpoint", "weights", "outcome", "policy", "reasons", "execution")


class WebhookStep(Step):
    """A POST request.

    Attributes:
        url: Where to; https, or this machine. ``${env:NAME}`` is replaced.
        headers: Headers; secrets by name: ``Authorization = "Bearer ${env:TOKEN}"``.
        text: Sends ``{"text": …}`` as Slack and Mattermost take it, instead of everything. ``${outcome}``,
            ``${policy}``, ``${reasons}``, ``${checkpoint}``, ``${weights}``, ``${run}``, ``${project}``,
            ``${workflow}`` and ``${execution}`` are replaced.
        timeout_s: Seconds that one try may take, from the look-up of the name to the last byte.
        retries: Tries after the first; only connections that break, 408, 429 and 5xx are tried again.
    """

    kind: Literal["webhook"] = "webhook"
    url: str
    headers: dict[str, str] = {}
    text: str = ""
    timeout_s: float = Field(default=30.0, gt=0, le=3_600)
    retries: int = Field(default=4, ge=0, le=100)

    @field_validator("url")
    @classmethod
    def _safe(cls, url: str) -> str:
        if not variables_in(url):
            _checked(url, url)
        return url

    @field_validator("text")
    @classmethod
    def _known(cls, text: str) -> str:
        for name in _PLACEHOLDER.findall(text):
            if name not in _NAMES:
                raise ValueError(f"${{{name}}} is none of {', '.join(_NAMES)}")
        return text

    def carry_out(self, context: StepContext, note: Note) -> Mapping[str, Any]:
        """Sends it; an answer that is not 2xx is a failure."""
        request = urllib.request.Request(
            _checked(resolve(self.url), self.url),
            data=self._body(context).encode(),
            headers={
                "Content-Type": "application/json",
                "User-Agent": "midflight",
                "Idempotency-Key": context.key,
                **{name: resolve(value) for name, value in self.headers.items()},
            },
            method="POST",
        )
        status, headers, answer = _within(self.timeout_s, request, self.url)
        if 200 <= status < 300:
            return {"status": status, "output": answer}
        error = StepError(f"{self.url}: HTTP {status}" + (": " + _REDIRECT if 300 <= status < 400 else ""))
        error.permanent = not (status in (408, 429) or status >= 500)
        error.wait_s = _retry_after(headers.get("Retry-After", ""), time.time())
        error.output = answer
        raise error

    def _body(self, context: StepContext) -> str:
        verdict = context.verdict
        told = {
            "workflow": context.workflow,
            "project": context.project,
            "run": context.run,
            "checkpoint": str(context.checkpoint or ""),
            "weights": context.weights,
            "outcome": verdict.outcome if verdict else "",
            "policy": verdict.policy if verdict else "",
            "reasons": "; ".join(verdict.reasons) if verdict else "",
            "execution": context.execution,
        }
        if self.text:
            return to_json({"text": _PLACEHOLDER.sub(lambda found: _escaped(told[found[1]]), self.text)})
        return to_json({**told, "step": context.step, "verdict": verdict and _plain(verdict)})


_REDIRECT = "a redirect, which is not followed: name the URL that it leads to"


def _plain(verdict: Any) -> Any:
    from midflight.schema import verdict_to_json

    return json.loads(verdict_to_json(verdict))


def _escaped(text: str) -> str:
    """Text as data in Slack's markup: no link and no mention can be made of it."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _checked(url: str, shown: str) -> str:
    """A URL over which a secret may go.

    Raises:
        ConfigError: If it is none; shows it as the workflow's file spells it.
    """
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError as error:
        raise ConfigError(f"url {shown}: {error}") from None
    safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
    if not safe or not parts.hostname or re.search(r"[\s\x00-\x1f]", url):
        raise ConfigError(f"url {shown}", allowed="https://…, or http:// to this machine")
    if parts.username is not None:
        raise ConfigError(f"url {shown}: a name and password in it", allowed="a header: Authorization")
    return url


def _within(limit_s: float, request: urllib.request.Request, shown: str) -> tuple[int, Message, str]:
    """Status, headers and the beginning of the answer."""
    found: list[tuple[int, Message, str] | Exception] = []

    def ask() -> None:
        try:
            found.append(_ask(request, limit_s))
        except Exception as error:  # http.client raises what a hostile server makes it raise
            found.append(error)

    # in a thread, since no time limit of a socket holds for a name's look-up or for a server that sends byte by byte
    thread = threading.Thread(target=ask, name="midflight-webhook", daemon=True)
    thread.start()
    thread.join(limit_s)
    if not found:
        raise StepError(f"{shown}: no answer within {limit_s:g} s")
    if isinstance(found[0], Exception):
        raise StepError(f"{shown}: {type(found[0]).__name__}: {getattr(found[0], 'reason', None) or found[0]}")
    return found[0]


def _ask(request: urllib.request.Request, limit_s: float) -> tuple[int, Message, str]:
    proxies = urllib.request.ProxyHandler({} if request.type == "http" else None)  # this machine needs no proxy
    opener = urllib.request.build_opener(proxies, _NoRedirect)
    try:
        with opener.open(request, timeout=limit_s) as answer:
            return answer.status, answer.headers, _start(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, _start(error)


def _start(answer: Any) -> str:
    return bytes(answer.read(ANSWER_BYTES)).decode("utf-8", "replace")


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows none: what we send, secrets included, goes to the host that the file names."""

    def redirect_request(self, *_: Any) -> None:
        return None


def _retry_after(text: str, now: float) -> float | None:
    """Seconds that the server asks to wait, in either form of the header (RFC 9110, section 10.2.3)."""
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - now
        except (TypeError, ValueError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None
