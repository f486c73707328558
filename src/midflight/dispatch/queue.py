"""What waits to be evaluated: the highest priority first, then the oldest weights; bounded, since weights take room."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from midflight.dispatch.seal import Seal

WhenBusy = Literal["queue", "latest", "skip"]
"""What becomes of new weights while evaluations still run: `queue` = they wait, if there is room; `latest` = they take
the place of older ones that wait; `skip` = they are left out."""

Ending = Literal["done", "failed", "superseded", "skipped", "cancelled"]


@dataclass(frozen=True)
class Job:
    """One task on one set of weights.

    Attributes:
        name: What is evaluated, for messages; jobs of one name replace each other under `latest`.
        step: Step of the weights.
        call: Evaluates: gets the engine and whether to run it at all, and gives JSON. Pickled, so importable or plain.
        priority: Higher ones come first.
        limit_s: Seconds after which its process is taken to hang, and killed.
    """

    name: str
    step: int
    call: Callable[[Any, bool], str]
    priority: int = 0
    limit_s: float | None = None


@dataclass(frozen=True)
class Outcome:
    """How a job ended.

    Attributes:
        job: The job.
        ending: How.
        result: What its call gave; empty if it did not come to its end.
        reason: Why it has no result.
        seconds: How long it ran.
    """

    job: Job
    ending: Ending
    result: str = ""
    reason: str = ""
    seconds: float = 0.0


@dataclass
class Weights:
    """A snapshot that jobs wait for; its room is free again when the last of them has ended.

    Attributes:
        skeleton: The engine that they belong to.
        buffer: Where the weights lie.
        open: Jobs that have not ended.
        running: Jobs that have begun.
        seal: By which another process sees what it is, if this one is killed.
    """

    skeleton: Any
    buffer: Any
    open: int = 0
    running: int = 0
    seal: Seal | None = None


@dataclass(order=True)
class _Entry:
    order: tuple[int, int, int]
    job: Job = field(compare=False)
    weights: Weights = field(compare=False)
    began: float = field(default=0.0, compare=False)


class JobQueue:
    """Jobs between the training loop, which never waits, and the threads that look after workers."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: list[_Entry] = []
        self._running: list[_Entry] = []
        self._numbers = itertools.count()
        self._closed = self._paused = False
        self.outcomes: list[Outcome] = []

    def put(self, job: Job, weights: Weights) -> None:
        """Adds a job."""
        with self._changed:
            weights.open += 1
            self._waiting.append(_Entry((-job.priority, job.step, next(self._numbers)), job, weights))
            self._waiting.sort()
            self._changed.notify_all()

    def take(self) -> tuple[Job, Weights] | None:
        """The next job, as soon as there is one; None once the queue is closed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or (self._waiting and not self._paused))
            if self._closed:
                return None
            entry = self._waiting.pop(0)
            entry.began = time.monotonic()
            self._running.append(entry)
            entry.weights.running += 1
            return entry.job, entry.weights

    def end(self, job: Job, ending: Ending, result: str = "", reason: str = "") -> None:
        """Notes how a job ended that was taken."""
        with self._changed:
            entry = next(entry for entry in self._running if entry.job is job)
            self._running.remove(entry)
            entry.weights.running -= 1
            self._ended(entry, Outcome(job, ending, result, reason, time.monotonic() - entry.began))

    def supersede(self, reason: str) -> None:
        """Ends all that waits for weights of which nothing has begun: newer ones take their place."""
        self._drop(lambda entry: entry.weights.running == 0, "superseded", reason)

    def cancel(self, reason: str) -> None:
        """Ends all that waits."""
        self._drop(lambda entry: True, "cancelled", reason)

    def _drop(self, which: Callable[[_Entry], bool], ending: Ending, reason: str) -> None:
        with self._changed:
            dropped = [entry for entry in self._waiting if which(entry)]
            self._waiting = [entry for entry in self._waiting if not which(entry)]
            for entry in dropped:
                self._ended(entry, Outcome(entry.job, ending, reason=reason))

    def _ended(self, entry: _Entry, outcome: Outcome) -> None:
        entry.weights.open -= 1
        self.outcomes.append(outcome)
        self._changed.notify_all()

    def poll(self) -> list[Outcome]:
        """What has ended since the last call."""
        if not self.outcomes:  # asked at every step: no lock is taken
            return []
        with self._changed:
            ended, self.outcomes = self.outcomes, []
            return ended

    def wait(self, until: Callable[[], bool], timeout_s: float | None) -> bool:
        """Waits until something holds that changes when jobs do; whether it does."""
        with self._changed:
            return self._changed.wait_for(until, timeout_s)

    @property
    def unfinished(self) -> int:
        """Jobs that wait or run."""
        return len(self._waiting) + len(self._running)

    def pause(self) -> None:
        """Has no further job begin."""
        with self._changed:
            self._paused = True

    def resume(self) -> None:
        """Lets jobs begin again."""
        with self._changed:
            self._paused = False
            self._changed.notify_all()

    def close(self) -> None:
        """Ends `take`."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
