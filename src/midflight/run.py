"""A training run: what it logs, and where its evaluations belong.

`log` costs the training loop about a microsecond: it only appends to a queue. A thread of its own writes to the store
every quarter of a second. Nothing is lost when the process exits, is terminated or raises; at most the last half
second when it is killed outright. A store that cannot be written to never stops training: points wait in memory.
"""

from __future__ import annotations

import atexit
import contextlib
import dataclasses
import logging
import math
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from multiprocessing import util as mp_util
from types import FrameType, TracebackType
from typing import Any, Literal, Self

from midflight import environ
from midflight.errors import ConfigError, StoreError
from midflight.store import RunInfo, Store, open_store
from midflight.store.base import Block, RunStatus

FLUSH_S = 0.25
BEAT_S = 10.0
ALIVE_S = 60.0
"""A process on another machine that has not written for so long is taken for dead."""
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
            _watch_exit(self)

    def __repr__(self) -> str:
        return f"<Run {self.project}/{self.name}>"

    @property
    def id(self) -> int:
        """Number of the run in its store."""
        return self.info.id

    # -- logging -----------------------------------------------------------------------------------------------------

    def log(self, step: int, /, **values: float) -> None:
        """Records values at a training step.

        Args:
            step: Optimiser steps completed. Later values of an earlier step are welcome.
            values: Name to number; tensors and NumPy scalars of one element are read at once. NaN and ±inf are kept.

        Raises:
            ConfigError: If the step or a value is no number.
        """
        for value in values.values():
            if value.__class__ is not float:
                values = {key: _number(key, item) for key, item in values.items()}
                break
        if step.__class__ is not int or step < 0:
            step = _step(step)
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
                if multiprocessing.parent_process() is not None:  # such a process leaves without running atexit
                    mp_util.Finalize(self, _flush_quietly, (weakref.ref(self),), exitpriority=10)

    def _loop(self) -> None:
        beaten = time.monotonic()
        while not self._stop.wait(FLUSH_S):
            with self._lock:
                wrote = bool(self._queue or self._waiting)
                self._tell(self._write())
                if wrote or time.monotonic() - beaten > BEAT_S:
                    beaten = time.monotonic()
                    if not wrote:
                        with contextlib.suppress(StoreError):
                            self.store.beat(self.id)

    def _write(self) -> StoreError | None:
        """Queue to store; what cannot be written waits. The caller holds the lock."""
        taken = [self._queue.popleft() for _ in range(len(self._queue))]
        blocks = self._waiting + _blocks(taken)
        if not blocks:
            return None
        try:
            self.store.append_points(self.id, self.attempt, blocks)
        except StoreError as error:
            self._waiting = blocks
            self._bound()
            return error
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
        self.finish("finished" if kind is None else "failed")

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
            alive = newest.status == "running" and _is_alive(self.store.owner(newest.id), newest.heartbeat)
            if not alive:
                return newest, self.store.resume_run(newest.id, owner=owner())
            if resume == "must":
                raise ConfigError(
                    f"run {self.name!r} is being written by another process", got=self.store.owner(newest.id)
                )
        info = self.store.create_run(
            self.project,
            self.name,
            owner=owner(),
            config=config,
            tags=tags,
            environment=environ.describe(),
            git=environ.git_state(),
        )
        return info, 1


def _blocks(rows: Sequence[_Row]) -> list[Block]:
    """Rows by the set of keys that they hold, as columns."""
    import numpy as np

    groups: dict[tuple[str, ...], list[_Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[2]), []).append(row)
    found = []
    for keys, members in groups.items():
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
    number = _number("step", step)
    if not math.isfinite(number) or number != int(number) or number < 0:
        raise ConfigError("log: step", got=step, allowed="a whole number from 0")
    return int(number)


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


# -- whose run it is -------------------------------------------------------------------------------------------------


def owner() -> str:
    """This process, told apart from one that later gets the same number: ``host:pid:start``."""
    return f"{socket.gethostname()}:{os.getpid()}:{_start_ticks(os.getpid())}"


def _start_ticks(pid: int) -> str:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[19]
    except OSError:
        return "?"


def _is_alive(who: str, heartbeat: float) -> bool:
    host, _, rest = who.partition(":")
    pid, _, ticks = rest.partition(":")
    if host != socket.gethostname():
        return time.time() - heartbeat < ALIVE_S
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        pass
    return _start_ticks(int(pid)) == ticks


# -- leaving without losing ------------------------------------------------------------------------------------------

_open_runs: weakref.WeakSet[Run] = weakref.WeakSet()


def _watch_exit(run: Run) -> None:
    """Has a run flushed when the process exits or is terminated."""
    _open_runs.add(run)
    _install_handlers()


_installed = False


def _install_handlers() -> None:
    global _installed
    if _installed:
        return
    _installed = True
    atexit.register(_finish_all)
    os.register_at_fork(after_in_child=_forget_parent)
    if threading.current_thread() is threading.main_thread():
        before = signal.getsignal(signal.SIGTERM)
        if before in (signal.SIG_DFL, None) or callable(before):
            signal.signal(signal.SIGTERM, lambda number, frame: _on_sigterm(number, frame, before))


def _on_sigterm(number: int, frame: FrameType | None, before: Any) -> None:
    """Flushes, then does what would have happened without us."""
    for run in list(_open_runs):
        if run._lock.acquire(timeout=5):
            try:
                run._tell(run._write())
                if not run.attached:
                    with contextlib.suppress(StoreError):
                        run.store.finish_run(run.id, "failed", run._lost)
            finally:
                run._lock.release()
    if callable(before):
        before(number, frame)
    else:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTERM)


def _finish_all() -> None:
    status: RunStatus = "failed" if getattr(sys, "last_type", None) is not None else "finished"
    for run in list(_open_runs):
        try:
            run.finish(status)
        except StoreError as error:
            _say(str(error))


def _forget_parent() -> None:
    """In a forked child: the parent's queue is the parent's to write, and its thread does not exist here."""
    for run in list(_open_runs):
        run._queue, run._waiting, run._thread = deque(), [], None
        run._lock, run._stop = threading.Lock(), threading.Event()
    _open_runs.clear()


def _flush_quietly(reference: weakref.ref[Run]) -> None:
    run = reference()
    if run is not None:
        with contextlib.suppress(StoreError):
            run.flush()


def _say(text: str) -> None:
    logging.getLogger("midflight").warning("midflight: %s", text)
