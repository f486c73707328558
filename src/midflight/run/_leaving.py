"""Leaving without losing: runs are written when their process exits, is terminated, or was forked and ends."""

from __future__ import annotations

import atexit
import contextlib
import logging
import os
import sys
import threading
import weakref
from collections import deque
from multiprocessing import util as mp_util
from typing import TYPE_CHECKING

from midflight.errors import StoreError
from midflight.signals import before_termination
from midflight.store.base import RunStatus

if TYPE_CHECKING:
    from midflight.run._run import Run

_open_runs: weakref.WeakSet[Run] = weakref.WeakSet()
"""Runs of this process: ended when it exits."""
_visited: weakref.WeakSet[Run] = weakref.WeakSet()
"""Runs of the process that forked this one, to which it logs: flushed when it exits, and left open."""
_watching = False


def watch(run: Run) -> None:
    """Has a run flushed when the process exits or is terminated."""
    global _watching
    _open_runs.add(run)
    before_termination(_flush_all)
    if not _watching:
        _watching = True
        atexit.register(_finish_all)
        os.register_at_fork(after_in_child=_forget_parent)
        _watch_exit_of_child()
        mp_util.register_after_fork(_watch_exit_of_child, lambda watch: watch())


def forget(run: Run) -> None:
    """The run has ended."""
    _open_runs.discard(run)


def _watch_exit_of_child() -> None:
    """A forked child of multiprocessing leaves without atexit."""
    mp_util.Finalize(None, _finish_all, exitpriority=10)


def _flush_all() -> None:
    """On SIGTERM: everything is written, and the runs have failed."""
    for run in [*_open_runs, *_visited]:
        if run._lock.acquire(timeout=5):  # the writer's thread may hold it
            try:
                run._tell(run._write())
                if run in _open_runs and not run.attached:
                    with contextlib.suppress(StoreError):
                        run.store.finish_run(run.id, "failed", run._lost)
            finally:
                run._lock.release()


def _finish_all() -> None:
    status = status_after(getattr(sys, "last_type", None))
    for run in list(_open_runs):
        try:
            run.finish(status)
        except StoreError as error:
            say(str(error))
    for run in list(_visited):
        try:
            run.flush()
        except StoreError as error:
            say(f"{error}; the points of this process are lost")


def status_after(error: type[BaseException] | None) -> RunStatus:
    """What became of a run that ended so."""
    if error is None:
        return "finished"
    return "interrupted" if issubclass(error, KeyboardInterrupt) else "failed"


def _forget_parent() -> None:
    """In a forked child: the parent's queue is the parent's to write, and its thread does not exist here."""
    for run in [*_open_runs, *_visited]:
        run._queue, run._waiting, run._thread = deque(), [], None
        run._lock, run._stop = threading.Lock(), threading.Event()
        _visited.add(run)
    _open_runs.clear()


def say(text: str) -> None:
    """Warns the user."""
    logging.getLogger("midflight").warning("midflight: %s", text)
