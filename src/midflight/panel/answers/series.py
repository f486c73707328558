"""Curves of many runs in common buckets, for many charts at once."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from typing_extensions import TypedDict

from midflight.panel.charts import in_order
from midflight.panel.panel import Panel
from midflight.panel.parameters import Choice, Flag, Ids, Names, Number
from midflight.panel.plain import packed
from midflight.store import Overviews, RunInfo

PATH = "/api/series"
PARAMETERS = (
    Ids("runs", "The runs."),
    Names("keys", "Names of the series; `*` = all."),
    Number("low", "First step."),
    Number("high", "Last step."),
    Number("buckets", "Buckets at most.", default=400, low=10, high=4000),
    Choice(
        "bands",
        "Whether minimum and maximum are sent: up to 20 runs, always, never.",
        "auto",
        values=("auto", "0", "1"),
    ),
    Flag("walls", "Whether wall times are sent."),
)
BANDS = 20
"""Runs up to which minimum and maximum are sent unless it is said otherwise."""
MOST_SERIES = 20_000
MOST_NUMBERS = 2_000_000
MOST_KEYS = 200
MOST_MARKS = 400
MOST_CLOCKS = 100


class Series(TypedDict):
    """One curve: where its numbers begin in `data`."""

    run: int
    key: str
    at: int
    bands: bool
    num_points: int
    non_finite: list[tuple[int, int, str]]


class Envelope(TypedDict):
    """Minimum, then maximum over all runs."""

    key: str
    at: int


class Walls(TypedDict):
    """Seconds since a run was created."""

    run: int
    at: int


class Answer(TypedDict):
    """Curves; `docs/panel.md` says how `data` is read."""

    low: int | None
    high: int | None
    width: int
    exact: bool
    num_buckets: int
    steps: str
    series: list[Series]
    envelopes: list[Envelope]
    walls: list[Walls]
    data: str
    left_out: list[str]
    since: str


def answer(
    panel: Panel,
    *,
    runs: Sequence[int],
    keys: Sequence[str],
    low: int | None,
    high: int | None,
    buckets: int,
    bands: str,
    walls: bool,
) -> Answer:
    """The curves."""
    since = panel.token
    left_out = list[str]()
    panel.require(runs)
    if "*" in keys:
        every = in_order([one.key for one in panel.store.series_counts(runs)])
        keys = every[:MOST_KEYS]
        if len(every) > len(keys):
            left_out.append(f"{len(keys)} of {len(every)} series")
    if len(runs) * len(keys) > MOST_SERIES:
        kept = MOST_SERIES // len(runs)
        left_out.append(f"{kept} of {len(keys)} series")
        keys = keys[:kept]
    banded = bands == "1" or (bands == "auto" and len(runs) <= BANDS)
    room = MOST_NUMBERS // max(1, len(runs) * len(keys) * (3 if banded else 1))
    if room < buckets:
        left_out.append(f"{max(10, room)} of {buckets} buckets")
        buckets = max(10, room)
    found = panel.store.read_overviews(runs, keys, low, high, buckets)
    parts = _Parts(found, banded)
    clocks = _clocks(panel, panel.chosen(runs), found, left_out) if walls else {}
    return {
        "low": int(found.steps[0]) if len(found.steps) else None,
        "high": int(found.steps[-1]) + max(1, found.width) - 1 if len(found.steps) else None,
        "width": found.width,
        "exact": not found.width,
        "num_buckets": len(found.steps),
        "steps": packed(found.steps, "f8"),
        "series": parts.series(),
        "envelopes": parts.envelopes(keys),
        "walls": [{"run": run, "at": parts.add(clock)} for run, clock in clocks.items()],
        "data": packed(np.concatenate(parts.arrays) if parts.arrays else np.empty(0), "f4"),
        "left_out": left_out,
        "since": since,
    }


class _Parts:
    """The numbers of an answer, one row of buckets after the other."""

    def __init__(self, found: Overviews, banded: bool) -> None:
        self._found, self._banded = found, banded and bool(found.width)
        self.arrays: list[npt.NDArray[np.float32]] = []
        self._size = 0

    def add(self, *rows: npt.NDArray[np.float32]) -> int:
        """Adds rows; where they begin."""
        at = self._size
        self.arrays += rows
        self._size += sum(map(len, rows))
        return at

    def series(self) -> list[Series]:
        """Each curve with its mean, and its bands where points share a bucket."""
        found, rows = self._found, list[Series]()
        marks: dict[int, list[tuple[int, int, str]]] = {}
        for one in found.non_finite:
            marks.setdefault(one.row, []).append((one.bucket, one.count, one.kind))
        for row, (run, key) in enumerate(found.series):
            bands = (found.low[row], found.high[row]) if self._banded else ()
            rows.append(
                {
                    "run": run,
                    "key": key,
                    "at": self.add(found.mean[row], *bands),
                    "bands": self._banded,
                    "num_points": int(found.num_points[row]),
                    "non_finite": marks.get(row, [])[:MOST_MARKS],
                }
            )
        return rows

    def envelopes(self, keys: Sequence[str]) -> list[Envelope]:
        """The band of all runs by key, where the curves have none of their own."""
        found = self._found
        if self._banded or not found.width:
            return []
        rows = {key: [row for row, (_, own) in enumerate(found.series) if own == key] for key in keys}
        return [
            {"key": key, "at": self.add(np.fmin.reduce(found.low[own]), np.fmax.reduce(found.high[own]))}
            for key, own in rows.items()
            if own
        ]


def _clocks(
    panel: Panel, runs: Sequence[RunInfo], found: Overviews, left_out: list[str]
) -> dict[int, npt.NDArray[np.float32]]:
    """Seconds from a run's creation to each bucket, by its series with the most points; between them it is drawn on."""
    if len(runs) > MOST_CLOCKS:
        left_out.append(f"wall times of {MOST_CLOCKS} of {len(runs)} runs")
    clocks = {}
    for run in runs[:MOST_CLOCKS]:
        heads = panel.store.heads(run.id)
        if not heads or not len(found.steps):
            continue
        longest = max(heads, key=lambda head: (head.num_points, head.key)).key
        points = panel.store.read_points(run.id, longest, int(found.steps[0]), int(found.steps[-1]) + found.width)
        if len(points.steps):
            walls = np.interp(found.steps, points.steps, points.walls - run.created, left=np.nan, right=np.nan)
            clocks[run.id] = walls.astype(np.float32)
    return clocks
