"""SIGTERM, by which a cluster ends a job: what is done before the process goes, and what must not be cut in two."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

_callbacks: list[Callable[[], None]] = []
_installed = False
_depth = 0  # sections of the main thread that are open; signals are handled in that thread
_waiting: tuple[int, FrameType | None] | None = None
_before: Any = None


def before_termination(callback: Callable[[], None]) -> None:
    """Has `callback` called on SIGTERM, before what would have happened without us.

    Only the main thread can set this up; from another thread, and where the program ignores SIGTERM, nothing happens.
    """
    global _installed, _before
    if callback not in _callbacks:
        _callbacks.append(callback)
    if _installed or threading.current_thread() is not threading.main_thread():
        return
    _before = signal.getsignal(signal.SIGTERM)
    if _before in (signal.SIG_DFL, None) or callable(_before):
        _installed = True
        signal.signal(signal.SIGTERM, _on_sigterm)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """A section that SIGTERM waits for, so that what is half written is not written again inside."""
    global _depth, _waiting
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
        if _depth == 0 and _waiting is not None:
            (number, frame), _waiting = _waiting, None
            _on_sigterm(number, frame)


def _on_sigterm(number: int, frame: FrameType | None) -> None:
    global _waiting
    if _depth:
        _waiting = (number, frame)
        return
    for callback in _callbacks:
        callback()
    if callable(_before):
        _before(number, frame)
    else:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)
