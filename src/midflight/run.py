"""A training run: what it logs, and where its evaluations belong.

`log` costs the training loop about a microsecond: it only appends to a queue. A thread of its own writes to the store
every quarter of a second. Nothing is lost when the process exits, is terminated or raises; at most the last half
second when it is killed outright. A store that cannot be written to never stops training: points wait in memory.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import itertools
import logging
import math
import os
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from multiprocessing import util as mp_util
from types import TracebackType
from typing import Any, Literal, Self

from midflight import environ
from midflight.config import is_text
from midflight.errors import ConfigError, StoreError
from midflight.signals import before_termination, uninterrupted
from midflight.store import RunInfo, Store, open_store
from midflight.store.base import Block, RunStatus

FLUSH_S = 0.25
BEAT_S = 10.0
MAX_KEY = 500
"""Characters in the name of a series at most."""
MAX_STEP = 1 << 62
MAX_WAITING = 20_000_000
"""Values that wait in memory while the store cannot be written to (about 3 GB as they are queued)."""

_Row = tuple[int, float, dict[str, float]]


class Run:
    """One training run in a store.

    Under several ranks only rank 0 records; on the others every method does nothing.

    Args:
        project: Groups runs that are compared with each other.
        name: Name of the run; None = made from date and time.
        config: Hyperparameters: a dict, a dataclass, a pydantic model or an argparse namespace.
        store: URL of the store, or a store; None = ``$MIDFLIGHT_STORE`` or `midflight.db` here.
        tags: Labels.
        resume: ``auto`` = go on with the newest run of that name if it has not finished and its process is gone, else
            a new run; ``never`` = always a new run; ``must`` = refuse if there is none to go on with, finished or not;
            ``attach`` = add evaluations to the newest run of that name beside whoever writes it, or to a new one.

    Raises:
        ConfigError: If an argument is wrong, or there is nothing to resume.
        StoreError: If the store cannot be opened.
    """

    def __init__(
        self,
        project: str = "default",
        name: str | None = None,
        config: Any = None,
        *,
        store: str | Store | None = None,
        tags: Sequence[str] = (),
        resume: Literal["auto", "never", "must", "attach"] = "auto",
    ) -> None:
        if resume not in ("auto", "never", "must", "attach"):
            raise ConfigError("resume", got=resume, allowed="'auto', 'never', 'must' or 'attach'")
        self.project = _checked("project", project)
        self.name = _checked("name", name or time.strftime("run-%Y%m%d-%H%M%S"))
        self.enabled = environ.place().is_main
        self.started = time.time()
        self._queue: deque[_Row] = deque()
        self._keys: set[str] = set()
        self._waiting: list[Block] = []
        self._lost = 0
        self._told = 0.0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._finished = not self.enabled
        self.trains = resume != "attach"
        """True if this process trains, so that evaluations have a share of its time."""
        self.attached = False
        """True if another process is the run's own: nothing is superseded or ended from here."""
        if self.enabled:
            self.store: Store = open_store(store) if store is None or isinstance(store, str) else store
            self.info, self.attempt = self._open(resume, _plain(config), list(tags))
            _open_runs.add(self)
            _watch_exit()
            if not self.attached:  # its own run says that it is alive, even while it logs nothing
                self._start()

    def __repr__(self) -> str:
        return f"<Run {self.project}/{self.name}>"

    @property
    def id(self) -> int:
        """Number of the run in its store."""
        return self.info.id

    @property
    def seconds(self) -> float:
        """Wall seconds of training so far, over all attempts; the time between two of them does not count."""
        return self.info.earlier_seconds + time.time() - self.started

    @classmethod
    def elsewhere(cls, url: str, info: RunInfo, attempt: int, started: float) -> Run:
        """The run of another process, to add evaluations to from this one: it is neither logged to nor ended here.

        Args:
            url: Its store.
            info: What the store knows of it.
            attempt: The attempt that the evaluations belong to.
            started: When that attempt began, in seconds since the epoch.
        """
        run = cls.__new__(cls)
        run.store, run.info, run.attempt, run.started = open_store(url), info, attempt, started
        run.project, run.name, run.enabled, run.trains, run.attached = info.project, info.name, True, True, False
        return run

    def begin_at(self, step: int) -> None:
        """Says that this process goes on from the weights after `step`: what an earlier one has beyond is superseded.

        Raises:
            StoreError: If the store cannot be written to.
        """
        if self.enabled and not self.attached and self.attempt > 1:
            self.store.begin_attempt(self.id, self.attempt, step)

    # -- logging -----------------------------------------------------------------------------------------------------

    def log(self, step: int, /, **values: float) -> None:
        """Records values at a training step.

        Args:
            step: Optimiser steps completed. Later values of an earlier step are welcome.
            values: Name to number; tensors and NumPy scalars of one element are read at once. NaN and ±inf are kept.

        Raises:
            ConfigError: If the step or a value is no number, or a name cannot be stored.
        """
        for value in values.values():
            if value.__class__ is not float:
                values = {key: _number(key, item) for key, item in values.items()}
                break
        if step.__class__ is not int or not 0 <= step <= MAX_STEP:
            step = _step(step)
        if not values.keys() <= self._keys:
            self._keys.update(map(_key, values))
        self._queue.append((step, time.time(), values))
        if self._thread is None:
            self._start()

    def flush(self) -> None:
        """Writes what was logged so far; returns when it is durable.

        Raises:
            StoreError: If the store cannot be written to; the points are kept and tried again.
        """
        if not self.enabled:
            return
        with self._lock:
            error = self._write()
        if error is not None:
            raise error

    def _start(self) -> None:
        if not self.enabled or self._finished:
            self._queue.clear()
            if self.enabled:
                raise StoreError(f"run {self.name!r} is finished", hint="log before finish(), or make another Run")
            return
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name="midflight-writer", daemon=True)
                self._thread.start()

    def _loop(self) -> None:
        beaten = time.monotonic()
        while not self._stop.wait(FLUSH_S):
            with self._lock:
                wrote = bool(self._queue or self._waiting)
                self._tell(self._write())
                if not wrote and time.monotonic() - beaten > BEAT_S and not self.attached:
                    with contextlib.suppress(StoreError):
                        self.store.beat(self.id)
                    wrote = True
                beaten = time.monotonic() if wrote else beaten

    def _write(self) -> StoreError | None:
        """Queue to store; what cannot be written waits. The caller holds the lock."""
        with uninterrupted():
            taken = [self._queue.popleft() for _ in range(len(self._queue))]
            blocks = self._waiting = self._waiting + _blocks(taken)
            if not blocks:
                return None
            try:
                self.store.append_points(self.id, self.attempt, blocks)
            except StoreError as error:
                self._bound()
                return error
            except Exception as error:  # a store of the user's may raise anything; its thread must outlive that
                self._bound()
                return StoreError(f"{type(self.store).__name__} failed: {type(error).__name__}: {error}")
            self._waiting = []
            return None

    def _bound(self) -> None:
        """Drops the newest points once too many wait, and counts them: training must not run out of memory."""
        size = sum(block.values.size for block in self._waiting)
        while size > MAX_WAITING and self._waiting:
            dropped = self._waiting.pop()
            size -= dropped.values.size
            self._lost += dropped.values.size

    def _tell(self, error: StoreError | None) -> None:
        """Says once a minute that the store is out of reach, and once that it is back."""
        if error is not None and time.monotonic() - self._told > 60:
            self._told = time.monotonic()
            waiting = sum(block.values.size for block in self._waiting)
            _say(f"{error}; {waiting:,} points wait in memory, {self._lost:,} are lost; training goes on")
        elif error is None and self._told:
            self._told = 0.0
            _say(f"the store can be written to again; {self._lost:,} points were lost")

    # -- the end -----------------------------------------------------------------------------------------------------

    def finish(self, status: RunStatus = "finished") -> None:
        """Writes what is left and ends the run; a second call does nothing.

        Raises:
            StoreError: If points could not be written; says how many.
        """
        if self._finished:
            return
        self._finished = True
        self._stop.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        with self._lock:
            error = self._write()
        self._thread = None
        _open_runs.discard(self)
        if error is not None:
            waiting = sum(block.values.size for block in self._waiting)
            raise StoreError(f"{waiting + self._lost:,} points of run {self.name!r} could not be written: {error}")
        if not self.attached:
            self.store.finish_run(self.id, status, self._lost)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.finish(_status_after(kind))

    # -- which run ---------------------------------------------------------------------------------------------------

    def _open(self, resume: str, config: dict[str, Any], tags: list[str]) -> tuple[RunInfo, int]:
        known = self.store.runs(self.project, self.name)
        newest = known[0] if known else None
        if resume == "must" and newest is None:
            raise ConfigError(
                f"no run {self.name!r} in project {self.project!r} to resume", hint="`midflight runs` lists them"
            )
        if resume == "attach" and newest is not None:
            self.attached = True
            return newest, newest.attempts
        wanted = resume == "must" or (resume == "auto" and newest is not None and newest.status != "finished")
        if newest is not None and wanted:
            before = self.store.owner(newest.id)
            alive = newest.status == "running" and environ.is_alive(before, newest.heartbeat)
            attempt = None if alive else self.store.resume_run(newest.id, owner=environ.owner(), before=before)
            if attempt is not None:
                return self.store.runs(self.project, self.name)[0], attempt
            if resume == "must":
                raise ConfigError(
                    f"run {self.name!r} is being written by another process", got=self.store.owner(newest.id)
                )
        if newest is not None and resume != "never":
            _say(f"run {self.name!r} ({newest.id}) is {newest.status}: run {newest.id} stays, a new one begins")
        info = self.store.create_run(
            self.project,
            self.name,
            owner=environ.owner(),
            config=config,
            tags=tags,
            environment=environ.describe(),
            git=environ.git_state(),
        )
        if resume == "auto" and newest is not None:
            _say(f"new run {info.id} beside {newest.status} run {newest.id} of that name, {self.name!r}")
        return info, 1


def _blocks(rows: Sequence[_Row]) -> list[Block]:
    """Rows by the set of keys that they hold, as columns."""
    import numpy as np

    groups: dict[tuple[str, ...], list[_Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[2]), []).append(row)
    pieces = list(groups.items())
    if sum(map(len, groups)) > len(set().union(*groups)):  # a key in several sets: its values keep their order
        pieces = [(keys, list(members)) for keys, members in itertools.groupby(rows, lambda row: tuple(row[2]))]
    found = []
    for keys, members in pieces:
        if keys:
            n, k = len(members), len(keys)
            values = np.fromiter((v for row in members for v in row[2].values()), np.float64, n * k)
            steps = np.fromiter((row[0] for row in members), np.int64, n)
            walls = np.fromiter((row[1] for row in members), np.float64, n)
            found.append(Block(keys, steps, walls, values.reshape(n, k).T))
    return found


def _number(key: str, value: Any) -> float:
    """A plain float from whatever stands for one number."""
    if isinstance(value, bool | int | float):
        return float(value)
    try:
        if hasattr(value, "item"):  # NumPy scalars, and arrays and tensors of one element
            return float(value.item())
    except (TypeError, ValueError, RuntimeError):
        pass
    raise ConfigError(f"log: {key}", got=value, allowed="a number, or a tensor of one element")


def _step(step: Any) -> int:
    number = step if isinstance(step, int) else _number("step", step)
    if not math.isfinite(number) or number != int(number) or not 0 <= number <= MAX_STEP:
        raise ConfigError("log: step", got=step, allowed=f"a whole number from 0 to {MAX_STEP}")
    return int(number)


def _key(key: Any) -> str:
    if not isinstance(key, str) or not key or len(key) > MAX_KEY or not is_text(key):
        raise ConfigError("log: name of a series", got=key, allowed=f"1 to {MAX_KEY} characters of valid Unicode")
    return key


def _checked(what: str, text: Any) -> str:
    if not isinstance(text, str) or not text.strip() or len(text) > 200 or not text.isprintable():
        raise ConfigError(f"{what} of a run", got=text, allowed="up to 200 printable characters")
    return text


def _plain(config: Any) -> dict[str, Any]:
    if config is None:
        return {}
    if hasattr(config, "model_dump"):
        return dict(config.model_dump(mode="json"))
    if dataclasses.is_dataclass(config) and not isinstance(config, type):
        return dataclasses.asdict(config)
    if isinstance(config, Mapping):
        return dict(config)
    if hasattr(config, "__dict__"):
        return dict(vars(config))
    raise ConfigError("config of a run", got=config, allowed="a dict, dataclass, pydantic model or namespace")


# -- leaving without losing ------------------------------------------------------------------------------------------

_open_runs: weakref.WeakSet[Run] = weakref.WeakSet()
"""Runs of this process: ended when it exits."""
_visited: weakref.WeakSet[Run] = weakref.WeakSet()
"""Runs of the process that forked this one, to which it logs: flushed when it exits, and left open."""
_watching = False


def _watch_exit() -> None:
    """Has runs flushed when the process exits or is terminated."""
    global _watching
    before_termination(_flush_all)
    if not _watching:
        _watching = True
        atexit.register(_finish_all)
        os.register_at_fork(after_in_child=_forget_parent)
        _watch_exit_of_child()
        mp_util.register_after_fork(_watch_exit_of_child, lambda watch: watch())


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
    status = _status_after(getattr(sys, "last_type", None))
    for run in list(_open_runs):
        try:
            run.finish(status)
        except StoreError as error:
            _say(str(error))
    for run in list(_visited):
        try:
            run.flush()
        except StoreError as error:
            _say(f"{error}; the points of this process are lost")


def _status_after(error: type[BaseException] | None) -> RunStatus:
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


def _say(text: str) -> None:
    logging.getLogger("midflight").warning("midflight: %s", text)
