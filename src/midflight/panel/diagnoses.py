"""What the detectors say of runs, made in the background: a long run takes a second, and no page waits for it."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict

from midflight.analyse.diagnose import Diagnosis, diagnose_run
from midflight.errors import MidflightError
from midflight.panel.shapes import Counts, DiagnosisShape, FindingShape
from midflight.records import SEVERITIES, Finding
from midflight.store import Pulse, RunInfo, Store

MOST_POINTS = 400_000
"""Points of a run that are looked at here: more would take memory that a server is not to have."""
PATIENCE_S = 5.0
"""Seconds that a diagnosis waits for a moment in which nothing is asked."""
AGAIN_S = 10.0
"""Seconds after which the diagnosis of a run that goes on is made anew."""


class Diagnoses:
    """Diagnoses of runs, as they were when they were made last.

    Args:
        store: Where the runs are.
        background: Whether a thread of its own makes them; else who asks waits.
        clock: Seconds.
    """

    def __init__(self, store: Store, background: bool, clock: Callable[[], float]) -> None:
        self._store, self._background, self._clock = store, background, clock
        self._made: dict[int, tuple[int, float, DiagnosisShape]] = {}
        self._waiting: deque[RunInfo] = deque()
        self._ready = threading.Condition()
        self._thread: threading.Thread | None = None
        self._busy = 0
        self.on_made: Callable[[int], None] = lambda run: None
        """Told of each run whose diagnosis is new."""

    def of(self, run: RunInfo, pulse: Pulse) -> DiagnosisShape:
        """The diagnosis of a run; `pending` if there is none yet."""
        if not pulse.num_points:
            return _off("nothing was logged")
        known = self._made.get(run.id)
        if known is None and not self._background:
            return self._make(run, pulse.num_points)
        is_old = known is None or (known[0] != pulse.num_points and self._clock() - known[1] > AGAIN_S)
        if is_old and self._background:
            self._ask(run)
        return known[2] if known is not None else {**_off(""), "status": "pending"}

    def counts(self, run: RunInfo, pulse: Pulse) -> Counts | None:
        """Findings by severity: what the run's own process has noticed, until there is a diagnosis."""
        found = self.of(run, pulse)
        stored = self._store.findings(run.id) if found["counts"] is None else []
        return _count(stored) if stored else found["counts"]

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """No diagnosis is begun while something else is answered: it would take half of the time."""
        with self._ready:
            self._busy += 1
        try:
            yield
        finally:
            with self._ready:
                self._busy -= 1
                self._ready.notify()

    def _ask(self, run: RunInfo) -> None:
        with self._ready:
            if all(waiting.id != run.id for waiting in self._waiting):
                self._waiting.append(run)
                self._ready.notify()
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name="midflight-diagnoses", daemon=True)
                self._thread.start()

    def _loop(self) -> None:
        while True:
            with self._ready:
                self._ready.wait_for(lambda: bool(self._waiting))
                self._ready.wait_for(lambda: not self._busy, PATIENCE_S)
                run = self._waiting[0]  # it stays in the queue until it is done: nobody asks twice
            pulse = next((pulse for pulse in self._store.pulses() if pulse.run == run.id), None)
            if pulse is not None:
                self._make(run, pulse.num_points)
            with self._ready:
                self._waiting.popleft()
            self.on_made(run.id)

    def _stored(self, run: RunInfo) -> DiagnosisShape:
        """What the run's own process has noticed."""
        found = self._store.findings(run.id)
        note = f"too long to be looked at here: what was noticed while it ran; for all: midflight diagnose {run.id}"
        return {**_off(note), "status": "ready", "findings": _ordered(found), "counts": _count(found)}

    def _make(self, run: RunInfo, num_points: int) -> DiagnosisShape:
        try:
            shape = self._stored(run) if num_points > MOST_POINTS else _shape(diagnose_run(self._store, run))
        except MidflightError as error:
            shape = _off(error.message)
        self._made[run.id] = (num_points, self._clock(), shape)
        return shape


def _plain(finding: Finding) -> FindingShape:
    found: FindingShape = {**asdict(finding), "metrics": list(finding.metrics)}  # type: ignore[typeddict-item]
    return found


def _ordered(findings: Sequence[Finding]) -> list[FindingShape]:
    """The gravest first; of those, the earliest."""
    return [_plain(one) for one in sorted(findings, key=lambda one: (-SEVERITIES.index(one.severity), one.onset))]


def _shape(found: Diagnosis) -> DiagnosisShape:
    return {
        "status": "ready",
        "note": "",
        "algorithm": None if found.algorithm == "unknown" else found.algorithm,
        "findings": _ordered(found.findings),
        "judged": list(found.judged),
        "lacking": list(found.lacking),
        "num_records": found.num_records,
        "first_step": found.first_step,
        "last_step": found.last_step,
        "counts": _count(found.findings),
    }


def _off(note: str) -> DiagnosisShape:
    return {
        "status": "off",
        "note": note,
        "algorithm": None,
        "findings": [],
        "judged": [],
        "lacking": [],
        "num_records": None,
        "first_step": None,
        "last_step": None,
        "counts": None,
    }


def _count(findings: Sequence[Finding]) -> Counts:
    found = Counter(finding.severity for finding in findings)
    return {"stop": found["stop"], "warn": found["warn"], "note": found["note"]}
