"""The items of a task over the checkpoints of a run: which were learned, which were forgotten, which flip."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import TypedDict

from midflight.analyse.curves import Curve
from midflight.analyse.flips import FlipPoint, flip_curve, threshold
from midflight.errors import ConfigError, MidflightError
from midflight.panel.panel import Panel
from midflight.panel.parameters import Choice, Number, Text
from midflight.panel.plain import bounded, estimate, evenly, metrics_of, packed
from midflight.panel.references import ALLOWED, curve_named, reference_of
from midflight.panel.shapes import EstimateShape
from midflight.records import STATES, Item
from midflight.schema import to_json
from midflight.store.base import Floats

PATH = "/api/items"
FILTERS = ("all", "learned", "forgotten", "flipped", "solved", "unsolved", "failed")
PARAMETERS = (
    Number("run", "The run.", default=None, high=(1 << 59)),
    Text("task", "The task."),
    Text("label", "What tells this way of evaluating the task from others; else the first."),
    Text("metric", "The metric; else the first of the task."),
    Text("reference", f"What the newest checkpoint is held against: {ALLOWED}; of this run.", default="start"),
    Choice("filter", "Which items.", default="all", values=FILTERS),
    Text("search", "Only items with this in their row or target; any case."),
    Text("slice", "A slice, as `name=value`."),
    Choice(
        "sort", "By id, most flips first, or most often solved first.", default="id", values=("id", "flips", "solved")
    ),
    Number("limit", "Items of a page.", default=500, low=1, high=5000),
    Number("offset", "Items before it.", default=0, high=1_000_000_000),
)
MOST_CHECKPOINTS = 200
TITLE = 120
UNKNOWN = 255
_TITLES = ("question", "prompt", "problem", "query", "text", "input", "instruction")


class Checkpoint(TypedDict):
    """A column."""

    step: int
    evaluation: str
    weights: str
    estimate: EstimateShape


class ItemShape(TypedDict):
    """A row; None = not scored, or the metric knows no right and wrong."""

    id: str
    title: str
    slices: dict[str, str]
    first: bool | None
    now: bool | None
    flips: int


class Answer(TypedDict):
    """The matrix: `values` and `states` are items × checkpoints, row by row."""

    run: int
    task: str
    label: str
    metric: str
    metrics: list[str]
    lowest: float | None
    highest: float | None
    higher_is_better: bool | None
    binary: bool
    num_checkpoints: int
    checkpoints: list[Checkpoint]
    reference: int | None
    total: int
    offset: int
    items: list[ItemShape]
    values: str
    states: str
    counts: dict[str, int]
    flip_curve: list[FlipPoint]
    note: str


@dataclasses.dataclass(frozen=True)
class _Matrix:
    """Scores of items (N) at checkpoints (C): NaN = none; `right` is 1, 0, or -1 where it is not known."""

    ids: list[str]
    values: Floats
    states: npt.NDArray[np.uint8]
    right: npt.NDArray[np.int8]

    @property
    def flips(self) -> npt.NDArray[np.int64]:
        """How often each item changed between right and wrong."""
        found = np.zeros(len(self.ids), np.int64)
        for row, known in enumerate(self.right):
            seen = known[known >= 0]
            found[row] = int((seen[1:] != seen[:-1]).sum())
        return found


def answer(
    panel: Panel,
    *,
    run: int | None,
    task: str,
    label: str,
    metric: str,
    reference: str,
    limit: int,
    offset: int,
    **wanted: Any,
) -> Answer:
    """The items that match."""
    if run is None or not task:
        raise ConfigError("parameters run and task", allowed="both")
    info = panel.run(run)
    curve = curve_named(panel, info, task, label, metric)
    trend = panel.trend(info, curve, 0.95) if reference == "best" else None
    report = reference_of(panel, reference, info, curve, trend).report
    shown = _thinned(curve)
    steps = [one.progress.step for one in shown.reports]
    at = steps.index(report.progress.step) if report in shown.reports and report is not None else None
    known = panel.store.items(shown.reports[-1].task_fingerprint)
    matrix, note = _matrix(panel, shown, sorted(known))
    flips = matrix.flips
    masks = _masks(matrix, at, flips)
    rows = _chosen(matrix, masks, flips, known, **wanted)
    page = rows[offset : offset + limit]
    last = shown.estimates[-1]
    return {
        "run": run,
        "task": task,
        "label": curve.label,
        "metric": curve.metric,
        "metrics": metrics_of(curve.reports[-1]),
        "lowest": last.lowest,
        "highest": last.highest,
        "higher_is_better": last.higher_is_better,
        "binary": {float(value) for value in matrix.values.ravel() if value == value} <= {last.lowest, last.highest},
        "num_checkpoints": len(curve.reports),
        "checkpoints": [
            {
                "step": one.progress.step,
                "evaluation": one.id,
                "weights": bounded(one.weights, 100)["text"],
                "estimate": estimate(one.estimate(curve.metric)),
            }
            for one in shown.reports
        ],
        "reference": at,
        "total": len(rows),
        "offset": offset,
        "items": [_item(matrix, row, at, int(flips[row]), known.get(matrix.ids[row])) for row in page],
        "values": packed(matrix.values[page], "f4"),
        "states": packed(matrix.states[page], "u1"),
        "counts": {name: int(mask.sum()) for name, mask in masks.items() if name != "all"},
        "flip_curve": _flip_curve(panel, shown),
        "note": note,
    }


def _thinned(curve: Curve) -> Curve:
    """At most so many checkpoints, evenly spread, the first and the last among them."""
    kept = evenly(len(curve.reports), MOST_CHECKPOINTS)
    return dataclasses.replace(curve, reports=tuple(curve.reports[at] for at in kept))


def _matrix(panel: Panel, curve: Curve, ids: list[str]) -> tuple[_Matrix, str]:
    place = {id: row for row, id in enumerate(ids)}
    values = np.full((len(ids), len(curve.reports)), np.nan)
    states = np.full(values.shape, UNKNOWN, np.uint8)
    codes = {state: code for code, state in enumerate(STATES)}
    for at, report in enumerate(curve.reports):  # one at a time: all of them together would take memory
        one = panel.store.score_columns(report.id, curve.metric)
        kept = [(place[id], value, state) for id, value, state in zip(one.items, one.values, one.states, strict=True)]
        rows = [row for row, *_ in kept]
        values[rows, at] = [np.nan if value is None else value for _, value, _ in kept]
        states[rows, at] = [codes.get(state, UNKNOWN) for *_, state in kept]
    right = np.full(values.shape, -1, np.int8)
    note = "" if (states != UNKNOWN).any() else f"item scores of {curve.metric} are not kept"
    try:
        middle, up = threshold(curve.estimates[-1])
        there = ~np.isnan(values)
        right[there] = (values > middle if up else values < middle)[there]
    except ConfigError as error:
        note = note or error.message
    return _Matrix(ids, values, states, right), note


def _masks(matrix: _Matrix, at: int | None, flips: npt.NDArray[np.int64]) -> Mapping[str, npt.NDArray[np.bool_]]:
    """Which items each filter lets through."""
    size = len(matrix.ids)
    now = matrix.right[:, -1]
    first = matrix.right[:, at] if at is not None else np.full(size, -1, np.int8)
    return {
        "all": np.ones(size, bool),
        "learned": (first == 0) & (now == 1),
        "forgotten": (first == 1) & (now == 0),
        "flipped": flips > 0,
        "solved": now == 1,
        "unsolved": now == 0,
        "failed": matrix.states[:, -1] >= STATES.index("error"),
    }


def _chosen(
    matrix: _Matrix,
    masks: Mapping[str, npt.NDArray[np.bool_]],
    flips: npt.NDArray[np.int64],
    known: Mapping[str, Item],
    *,
    filter: str,
    search: str,
    slice: str,
    sort: str,
) -> list[int]:
    """Rows of the items that match, in order."""
    rows = np.flatnonzero(masks[filter]).tolist()
    if slice:
        name, _, value = slice.partition("=")
        rows = [row for row in rows if (item := known.get(matrix.ids[row])) and item.slices.get(name) == value]
    if search:
        rows = [row for row in rows if search.casefold() in _text(known.get(matrix.ids[row]), matrix.ids[row])]
    keys: dict[str, Callable[[int], Any]] = {
        "id": lambda row: row,
        "flips": lambda row: -int(flips[row]),
        "solved": lambda row: -int((matrix.right[row] == 1).sum()),
    }
    return sorted(rows, key=keys[sort])


def _text(item: Item | None, id: str) -> str:
    return id.casefold() if item is None else to_json([item.id, item.row, item.target]).casefold()


def _item(matrix: _Matrix, row: int, at: int | None, flips: int, item: Item | None) -> ItemShape:
    def known(column: int | None) -> bool | None:
        value = -1 if column is None else int(matrix.right[row, column])
        return None if value < 0 else bool(value)

    return {
        "id": matrix.ids[row],
        "title": title(item),
        "slices": {} if item is None else {name: str(value)[:200] for name, value in item.slices.items()},
        "first": known(at),
        "now": known(-1),
        "flips": flips,
    }


def title(item: Item | None) -> str:
    """A few words of an item, to be known by."""
    if item is None:
        return ""
    named = next((item.row[name] for name in _TITLES if isinstance(item.row.get(name), str)), None)
    first = next((value for value in item.row.values() if isinstance(value, str)), None)
    return bounded(named or first or item.row, TITLE)["text"]


def _flip_curve(panel: Panel, curve: Curve) -> list[FlipPoint]:
    key = ("flip curve", tuple(one.id for one in curve.reports), curve.metric)
    try:
        points: list[FlipPoint] = panel.kept.get(key, lambda: flip_curve(curve.reports, panel.store, curve.metric))
    except MidflightError:  # the note says why
        return []
    return points
