"""A store as the panel sees it: what several answers need, kept for as long as it is true."""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Sequence
from typing import Protocol

from midflight.analyse.curves import Curve, curves_of
from midflight.analyse.trend import Trend, trends_of
from midflight.errors import NotFoundError
from midflight.panel.diagnoses import Diagnoses
from midflight.panel.kept import Kept
from midflight.panel.watcher import Change
from midflight.store import Pulse, RunInfo, Store

MOST_KEPT = 512
MOST_CURVES = 8


class Changes(Protocol):
    """What tells where a store stands."""

    @property
    def token(self) -> str:
        """Where it stands now."""

    def since(self, token: str) -> Change:
        """What has changed since a token."""


class Panel:
    """Answers about one store.

    Args:
        store: The store.
        allow_write: Whether labels of runs may be changed.
        login: Whether a token is asked for.
        changes: What tells where the store stands; None = nobody waits for changes.
        background: Whether diagnoses are made in the background; else they are waited for.
        clock: Seconds since the epoch.
    """

    def __init__(
        self,
        store: Store,
        *,
        allow_write: bool = False,
        login: bool = False,
        changes: Changes | None = None,
        background: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.store, self.allow_write, self.login, self.clock = store, allow_write, login, clock
        self.diagnoses = Diagnoses(store, background, clock)
        self._changes = changes
        self.kept = Kept(MOST_KEPT)
        self._curves = Kept(MOST_CURVES)  # these hold whole reports

    @property
    def token(self) -> str:
        """Where the store stands: what is answered from now on holds it."""
        return self._changes.token if self._changes is not None else ""

    def since(self, token: str) -> Change:
        """What has changed since a token."""
        if self._changes is None:
            return {"since": "", "reset": False, "runs": []}
        return self._changes.since(token)

    def run(self, id: int) -> RunInfo:
        """A run.

        Raises:
            NotFoundError: If there is none.
        """
        return self.chosen([id])[0]

    def chosen(self, ids: Sequence[int]) -> list[RunInfo]:
        """Runs, in the order in which they are named.

        Raises:
            NotFoundError: If one is not there.
        """
        known = {run.id: run for run in self.store.runs(ids=ids)}
        self._require(ids, known)
        return [known[id] for id in ids]

    def require(self, ids: Sequence[int]) -> None:
        """Makes sure that there are these runs, without reading what is in them.

        Raises:
            NotFoundError: If one is not there.
        """
        self._require(ids, self.store.run_ids())

    def _require(self, ids: Sequence[int], known: Container[int]) -> None:
        for id in ids:
            if id not in known:
                raise NotFoundError("run", got=id, hint=f"there is no such run in {self.store.url}")

    def pulse(self, run: int) -> Pulse:
        """The signs of life of a run that is there."""
        return next(pulse for pulse in self.store.pulses() if pulse.run == run)

    def curves(self, run: RunInfo, task: str | None = None, metric: str | None = None) -> list[Curve]:
        """The curves of a run that have a value.

        Raises:
            UnknownKeyError: If it has no such task or metric.
        """
        pulse = self.pulse(run.id)
        evaluated = (pulse.num_evaluations, pulse.num_unfinished, pulse.evaluation_seconds, run.attempts)
        key = (run.id, task, metric, evaluated)
        found = self._curves.get(key, lambda: curves_of(self.store, [run], task, metric))
        return [curve for curve in found if curve.reports]

    def trend(self, run: RunInfo, curve: Curve, level: float) -> Trend | None:
        """What the checkpoints of a curve say together; None if none of them has a value."""
        if not curve.reports:
            return None
        key = ("trend", tuple(report.id for report in curve.reports), curve.metric, curve.slice, level)
        trends = self.kept.get(
            key, lambda: trends_of(self.store, [run], curve.task, curve.metric, curve.slice, level=level)
        )
        return next((trend for trend in trends if trend.label == curve.label), None)
