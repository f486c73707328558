"""A store as the panel sees it: what several answers need, kept for as long as it is true."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Protocol

from midflight.analyse.curves import Curve
from midflight.analyse.trend import Trend, trends_of
from midflight.errors import ConfigError
from midflight.panel.diagnoses import Diagnoses
from midflight.panel.watcher import Change
from midflight.store import RunInfo, Store

KEPT = 512
"""Results of one kind that are kept."""


class NotFoundError(ConfigError):
    """There is no such run, task, item or text."""


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
        self._kept: dict[tuple[Any, ...], Any] = {}
        self._lock = Lock()

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
        found = next((run for run in self.store.runs() if run.id == id), None)
        if found is None:
            raise NotFoundError("run", got=id, hint=f"there is no such run in {self.store.url}")
        return found

    def chosen(self, ids: Sequence[int]) -> list[RunInfo]:
        """Runs, in the order in which they are named.

        Raises:
            NotFoundError: If one is not there.
        """
        known = {run.id: run for run in self.store.runs()}
        for id in ids:
            if id not in known:
                raise NotFoundError("run", got=id, hint=f"there is no such run in {self.store.url}")
        return [known[id] for id in ids]

    def kept(self, key: tuple[Any, ...], make: Callable[[], Any]) -> Any:
        """A result that holds for as long as its key does; made once."""
        with self._lock:
            if key in self._kept:
                self._kept[key] = self._kept.pop(key)  # the newest last
                return self._kept[key]
        found = make()
        with self._lock:
            self._kept[key] = found
            while len(self._kept) > KEPT:
                del self._kept[next(iter(self._kept))]
        return found

    def trend(self, run: RunInfo, curve: Curve, level: float) -> Trend | None:
        """What the checkpoints of a curve say together; None if none of them has a value."""
        if not curve.reports:
            return None
        key = ("trend", tuple(report.id for report in curve.reports), curve.metric, curve.slice, level)
        trends = self.kept(
            key, lambda: trends_of(self.store, [run], curve.task, curve.metric, curve.slice, level=level)
        )
        return next((trend for trend in trends if trend.label == curve.label), None)
