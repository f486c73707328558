"""A training run: what it logs, and where its evaluations belong.

`log` costs the training loop about a microsecond: it only appends to a queue. A thread of its own writes to the store
every quarter of a second. Nothing is lost when the process exits, is terminated or raises; at most the last half
second when it is killed outright. A store that cannot be written to never stops training: points wait in memory.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from midflight import environ
from midflight.errors import ConfigError, StoreError
from midflight.records import MAX_STEP, EvalReport, Finding
from midflight.run import _leaving
from midflight.run._leaving import status_after
from midflight.run._rows import Row, blocks, number, series_name, step_number
from midflight.signals import uninterrupted
from midflight.store import RunInfo, Store, open_store
from midflight.store.base import Block, RunStatus

if TYPE_CHECKING:
    from midflight.analyse.live import LiveWatch

FLUSH_S = 0.25
BEAT_S = 10.0
MAX_WAITING = 20_000_000
"""Values that wait in memory while the store cannot be written to (about 3 GB as they are queued)."""


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
        watch: Whether the detectors look at what is logged; what they notice is printed, stored, and in `findings`.
        notify: URLs that are told of each finding: JSON, with `text` as Slack takes it; ``${env:NAME}`` is replaced.
        on_finding: Called with each finding, in the writer's thread.

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
        watch: bool = True,
        notify: Sequence[str] = (),
        on_finding: Callable[[Finding], None] | None = None,
    ) -> None:
        if resume not in ("auto", "never", "must", "attach"):
            raise ConfigError("resume", got=resume, allowed="'auto', 'never', 'must' or 'attach'")
        self.project = checked_name("project", project)
        self.name = checked_name("name", name or time.strftime("run-%Y%m%d-%H%M%S"))
        self.enabled = environ.place().is_main
        self.started = time.time()
        self._queue: deque[Row] = deque()
        self._keys: set[str] = set()
        self._waiting: list[Block] = []
        self._lost = 0
        self._told = 0.0
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._finished = not self.enabled
        self._detectors: LiveWatch | None = None
        self.trains = resume != "attach"
        """True if this process trains, so that evaluations have a share of its time."""
        self.attached = False
        """True if another process is the run's own: nothing is superseded or ended from here."""
        if self.enabled:
            if watch:
                from midflight.analyse.live import check_notify

                check_notify(notify, on_finding)  # before there is a run in the store
            self.store: Store = open_store(store) if store is None or isinstance(store, str) else store
            self.info, self.attempt = self._open(resume, _plain(config), list(tags))
            _leaving.watch(self)
            if watch and not self.attached:
                from midflight.analyse.live import LiveWatch

                self._detectors = LiveWatch(self.store, self.info, self.attempt, notify, on_finding)
            if not self.attached:  # its own run says that it is alive, even while it logs nothing
                self._start()

    def __repr__(self) -> str:
        return f"<Run {self.project}/{self.name}>"

    def _repr_html_(self) -> str | None:
        """The run as a notebook shows it; None where it is not recorded."""
        if not self.enabled:
            return None
        from midflight.run._html import run_html

        with contextlib.suppress(StoreError):  # what waits is shown the next time
            self.flush()
        return run_html(self.store, next(run for run in self.store.runs(self.project) if run.id == self.id))

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
        run._detectors = None
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
                values = {key: number(key, item) for key, item in values.items()}
                break
        if step.__class__ is not int or not 0 <= step <= MAX_STEP:
            step = step_number(step)
        if not values.keys() <= self._keys:
            self._keys.update(map(series_name, values))
        self._queue.append((step, time.time(), values))
        if self._thread is None:
            self._start()

    @property
    def findings(self) -> list[Finding]:
        """What the detectors have noticed so far in what was written."""
        return self._detectors.findings if self._detectors is not None else []

    def evaluated(self, report: EvalReport) -> None:
        """Shows the detectors what an evaluation measured."""
        self._show(lambda detectors: detectors.evaluated(report))

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
            self._show(lambda detectors: detectors.look(taken))
            waiting = self._waiting = self._waiting + blocks(taken)
            if not waiting:
                return None
            try:
                self.store.append_points(self.id, self.attempt, waiting)
            except StoreError as error:
                self._bound()
                return error
            except Exception as error:  # a store of the user's may raise anything; its thread must outlive that
                self._bound()
                return StoreError(f"{type(self.store).__name__} failed: {type(error).__name__}: {error}")
            self._waiting = []
            return None

    def _show(self, show: Callable[[LiveWatch], None]) -> None:
        """Shows the detectors something; that they fail ends their work, and nothing else."""
        if self._detectors is None:
            return
        try:
            show(self._detectors)
        except Exception as error:  # what is logged must be written, and training go on, all the same
            self._detectors = None
            _leaving.say(f"the detectors failed and look at nothing more: {type(error).__name__}: {error}")

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
            _leaving.say(f"{error}; {waiting:,} points wait in memory, {self._lost:,} are lost; training goes on")
        elif error is None and self._told:
            self._told = 0.0
            _leaving.say(f"the store can be written to again; {self._lost:,} points were lost")

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
        if self._detectors is not None:
            self._detectors.close()
        _leaving.forget(self)
        if error is not None:
            waiting = sum(block.values.size for block in self._waiting)
            raise StoreError(f"{waiting + self._lost:,} points of run {self.name!r} could not be written: {error}")
        if not self.attached:
            self.store.finish_run(self.id, status, self._lost)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.finish(status_after(kind))

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
        info = self.store.create_run(
            self.project,
            self.name,
            owner=environ.owner(),
            config=config,
            tags=tags,
            environment=environ.describe(),
            git=environ.git_state(),
            unless_named=resume == "attach",
        )
        if resume == "attach" and self.store.owner(info.id) != environ.owner():
            self.attached = True  # another process made it since we looked
            return info, info.attempts
        if resume == "auto" and newest is not None:
            _leaving.say(f"new run {info.id} beside {newest.status} run {newest.id} of that name, {self.name!r}")
        return info, 1


def checked_name(what: str, text: Any) -> str:
    """The name of a run or a project, if it can be stored."""
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
