"""Who may ask: hosts, tokens, sessions, and how often a token may be guessed.

A page of another site may make a browser ask us. It cannot read what we answer (there is no CORS), unless its own name
is made to resolve to our address (DNS rebinding): so the name that was asked for has to be one of ours.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import socket
import threading
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

COOKIE = "midflight-session"
ATTEMPTS = 5
WINDOW_S = 60.0
MOST_SESSIONS = 1000
MOST_ADDRESSES = 10_000

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""What every answer carries."""


def is_loopback(host: str) -> bool:
    """Whether an address is reached from this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@dataclass
class Guard:
    """Lets in who may come in.

    Args:
        host: The address that is listened at.
        token: What has to be known; empty = nothing.
        names: Further names of this machine.
        clock: Seconds, monotonic.
    """

    host: str
    token: str
    clock: Callable[[], float]
    names: Collection[str] = ()
    _sessions: deque[str] = field(default_factory=lambda: deque(maxlen=MOST_SESSIONS))
    _failures: dict[str, deque[float]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def knows(self, host_header: str) -> bool:
        """Whether the name that was asked for is one of ours."""
        name = _name_of(host_header)
        if name in ("localhost", self.host.lower()) or is_loopback(name):
            return True
        if is_loopback(self.host):
            return name in self.names
        return _is_address(name) or name in {socket.gethostname().lower(), socket.getfqdn().lower(), *self.names}

    def lets_in(self, address: str, session: str, authorization: str) -> bool:
        """Whether a request may be answered.

        Args:
            address: Where it comes from.
            session: Its cookie.
            authorization: Its header, ``Bearer TOKEN`` for programs.
        """
        if not self.token or any(hmac.compare_digest(session.encode(), one.encode()) for one in self._sessions):
            return True
        kind, _, given = authorization.partition(" ")
        return kind.lower() == "bearer" and self.check(address, given)

    def check(self, address: str, given: str) -> bool:
        """Whether a token is the right one; a wrong one counts."""
        if self.must_wait(address):
            return False
        if hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode()):
            return True
        with self._lock:
            if len(self._failures) > MOST_ADDRESSES:
                self._failures.clear()
            self._failures.setdefault(address, deque(maxlen=ATTEMPTS)).append(self.clock())
        return False

    def must_wait(self, address: str) -> int:
        """Seconds until an address may try again; 0 = now."""
        failures = self._failures.get(address)
        if failures is None or len(failures) < ATTEMPTS:
            return 0
        return max(0, round(failures[0] + WINDOW_S - self.clock()))

    def open_session(self) -> str:
        """A new session, as its cookie's value."""
        session = secrets.token_urlsafe(32)
        self._sessions.append(session)
        return session

    def end_session(self, session: str) -> None:
        """Forgets a session."""
        if session in self._sessions:
            self._sessions.remove(session)


def _name_of(host_header: str) -> str:
    """The name without its port.

    >>> [_name_of(h) for h in ("localhost:8765", "[::1]:8765", "Example.COM", "[::1]", "")]
    ['localhost', '::1', 'example.com', '::1', '']
    """
    text = host_header.strip().lower()
    if text.startswith("["):
        return text[1:].partition("]")[0]
    return text.rpartition(":")[0] if text.count(":") == 1 else text


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
