"""What a terminal is told: the runs of a store, read anew where something has changed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any

from midflight.errors import MidflightError, StoreError
from midflight.panel.answers import run as run_answer
from midflight.panel.panel import Panel
from midflight.panel.state import state_of
from midflight.panel.top.curves import Drawn, drawn_of
from midflight.panel.top.row import LEVEL, Found, Row, found_of
from midflight.store import Pulse, RunInfo, Store

BUDGET_S = 0.5
"""Seconds that a look reads runs, at most one run longer: what is left comes at the next look."""
ALIVE_S = 5.0
"""Seconds between two looks at whether processes are alive, where nothing is written."""


@dataclass(frozen=True, slots=True)
class Detail:
    """A run that is opened.

    Attributes:
        answer: What the panel's page of a run is told.
        curves: Its training series, those that are drawn first at the front.
    """

    answer: run_answer.Answer
    curves: tuple[Drawn, ...]


@dataclass(frozen=True, slots=True)
class Look:
    """How a store was when it was looked at.

    Attributes:
        at: When it was read, in seconds since the epoch; 0 = never.
        rows: Its runs: those that run first, then the newest.
        waiting: Runs that are still to be read.
        detail: The run that is opened; None if none is, or it was not read yet.
        error: Why it could not be read this time; the rest is what was there before. Empty if it could.
    """

    at: float = 0.0
    rows: tuple[Row, ...] = ()
    waiting: int = 0
    detail: Detail | None = None
    error: str = ""


class Feed:
    """Looks at a store; to be used by one thread.

    Args:
        open: Opens the store; again after it could not be read.
        project: Only runs of this project; None = all.
        background: Whether diagnoses are made in the background, and a look is over after `BUDGET_S`; else all is
            waited for.
        most_runs: Runs that are read; None = all.
        clock: Seconds since the epoch.
    """

    def __init__(
        self,
        open: Callable[[], Store],
        project: str | None = None,
        *,
        background: bool = True,
        most_runs: int | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._open, self._project, self._background = open, project, background
        self._most_runs, self._clock = most_runs, clock
        self._panel: Panel | None = None
        self._last = Look()
        self._forget()
        self.opened: int | None = None
        """The run that is opened."""

    def _forget(self) -> None:
        """Knows nothing of what a store holds; what was shown stays until it can be read again."""
        self._seen = -1
        self._infos: dict[int, RunInfo] = {}
        self._signs: dict[int, Hashable] = {}
        self._found: dict[int, tuple[Hashable, Found | None, str]] = {}
        self._diagnosed: set[int] = set()
        self._detail: tuple[Hashable, Detail] | None = None

    def look(self) -> Look:
        """How the store is now; with an error and what was there before if it cannot be read."""
        try:
            self._last = self._read()
        except StoreError as error:
            self._panel = None
            self._last = replace(self._last, error=error.message)
        except MidflightError as error:  # a run that was taken away while it was read
            self._last = replace(self._last, error=error.message)
        return self._last

    def _read(self) -> Look:
        panel = self._opened()
        version, now = panel.store.data_version(), self._clock()
        is_same = version == self._seen and not self._last.error and not self._last.waiting and not self._diagnosed
        is_shown = self.opened is None or (
            self._detail is not None and self._detail[1].answer["run"]["id"] == self.opened
        )
        if is_same and is_shown and 0 <= now - self._last.at < ALIVE_S:
            return self._last
        pulses = panel.store.pulses()
        states = {pulse.run: state_of(panel.store, pulse) for pulse in pulses}
        self._read_infos(panel, pulses)
        rows = [Row(self._infos[pulse.run], pulse, states[pulse.run]) for pulse in pulses if pulse.run in self._infos]
        rows.sort(key=lambda row: (row.state != "running", -row.info.created, -row.info.id))
        detail = self._read_detail(panel, rows)
        filled, waiting = self._fill(panel, rows)
        self._seen = version
        return Look(now, tuple(filled), waiting, detail)

    def _opened(self) -> Panel:
        if self._panel is None:
            self._forget()
            self._panel = Panel(self._open(), background=self._background, clock=self._clock)
            self._panel.diagnoses.on_made = self._diagnosed.add
        return self._panel

    def _read_infos(self, panel: Panel, pulses: list[Pulse]) -> None:
        """Reads configurations and names, if what a pulse tells of them is another."""
        signs: dict[int, Hashable] = {pulse.run: (pulse.status, pulse.tags) for pulse in pulses}
        if signs != self._signs:
            self._infos = {run.id: run for run in panel.store.runs(self._project)}
            self._signs = signs

    def _fill(self, panel: Panel, rows: list[Row]) -> tuple[list[Row], int]:
        """The rows with what was read of them, and how many are still to be read."""
        filled, waiting = [], 0
        given_up = time.monotonic() + BUDGET_S if self._background else math.inf
        for row in rows[: self._most_runs]:
            key, (known, found, damage) = _key(row), self._found.get(row.info.id, (None, None, ""))
            if known != key or row.info.id in self._diagnosed:
                if time.monotonic() < given_up:
                    self._diagnosed.discard(row.info.id)
                    found, damage = _readable(panel, row)
                    self._found[row.info.id] = key, found, damage
                else:
                    waiting += 1
            filled.append(replace(row, found=found, damage=damage))
        return filled + rows[len(filled) :], waiting

    def _read_detail(self, panel: Panel, rows: list[Row]) -> Detail | None:
        row = next((row for row in rows if row.info.id == self.opened), None)
        if row is None:
            return None
        key = (row.info.id, _key(row))
        if self._detail is None or self._detail[0] != key or row.info.id in self._diagnosed:
            answer = run_answer.answer(panel, id=row.info.id, reference="start", metric="", level=LEVEL)
            self._detail = key, Detail(answer, drawn_of(panel.store, answer))
        return self._detail[1]


def _readable(panel: Panel, row: Row) -> tuple[Found | None, str]:
    """What is read of a run, or what of it is damaged: it hides no other run."""
    try:
        return found_of(panel, row.info, row.pulse), ""
    except StoreError as error:
        panel.store.data_version()  # one that cannot be read at all is another matter: that is raised
        return None, error.message


def _key(row: Row) -> tuple[Any, ...]:
    """What tells that a run has to be read again."""
    return replace(row.pulse, heartbeat=0.0), row.state, row.info.attempts
