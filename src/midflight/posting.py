"""JSON to a URL of the user's: it goes to that host alone, secrets included, and is waited for only so long."""

from __future__ import annotations

import math
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Mapping
from email.message import Message
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

from midflight.errors import ConfigError, StepError

ANSWER_BYTES = 1 << 16
"""Bytes of an answer that are read."""

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


def post_json(url: str, body: str, headers: Mapping[str, str], limit_s: float, shown: str) -> tuple[int, Message, str]:
    """Sends JSON (POST); gives status, headers and the beginning of the answer. No redirect is followed.

    Args:
        url: Where to; https, or this machine.
        body: JSON text.
        headers: Headers beside the usual ones.
        limit_s: Seconds from the look-up of the name to the last byte.
        shown: The URL as errors may show it, without secrets.

    Raises:
        ConfigError: If a secret may not go over this URL.
        StepError: If there is no answer within the limit.
    """
    request = urllib.request.Request(
        checked_url(url, shown),
        data=body.encode(),
        headers={"Content-Type": "application/json", "User-Agent": "midflight", **headers},
        method="POST",
    )
    return _within(limit_s, request, shown)


def checked_url(url: str, shown: str) -> str:
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


def escaped(text: str) -> str:
    """Text as data in Slack's markup: no link and no mention can be made of it."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def retry_after(text: str, now: float) -> float | None:
    """Seconds that the server asks to wait, in either form of the header (RFC 9110, section 10.2.3)."""
    try:
        seconds = float(text)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(text).timestamp() - now
        except (TypeError, ValueError):
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


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
