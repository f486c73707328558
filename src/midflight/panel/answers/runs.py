"""The table of runs: filtered, sorted, a page at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from typing_extensions import TypedDict

from midflight.panel.charts import SAMPLE, Axes, axes_of, in_order, still_series
from midflight.panel.panel import Panel
from midflight.panel.parameters import MAX_RUNS as MOST_RUNS
from midflight.panel.parameters import Choice, Ids, Number, Text
from midflight.panel.plain import flat
from midflight.panel.rows import is_meant, rows_of
from midflight.panel.shapes import Json, RunShape
from midflight.panel.state import state_of
from midflight.store import Pulse, RunInfo, SeriesCount

PATH = "/api/runs"
STATES = ("running", "finished", "failed", "interrupted", "lost")
PARAMETERS = (
    Text("project", "Only this project."),
    Text("search", "Only runs with this in their name, a tag, or `key=value` of their configuration; any case."),
    Choice("state", "Only runs in this state.", values=STATES),
    Text("tag", "Only runs with this tag."),
    Ids("runs", "Only these runs."),
    Text("sort", "created, name, state, last_step, seconds, train_share, config.KEY or task.TASK.", default="created"),
    Choice("order", "Largest or smallest first.", default="desc", values=("asc", "desc")),
    Number("limit", "Runs of a page.", default=200, low=1, high=1000),
    Number("offset", "Runs before it.", default=0, high=1_000_000_000),
)
MOST_COLUMNS = 200


class TaskColumn(TypedDict):
    """A task as a column."""

    task: str
    label: str
    metric: str
    unit: str
    higher_is_better: bool | None
    lowest: float | None
    highest: float | None


class SeriesColumn(TypedDict):
    """A training series, as a chart."""

    key: str
    num_runs: int
    num_points: int


class _ConfigColumns(TypedDict):
    config: list[str]
    same: dict[str, Json]


class Columns(_ConfigColumns):
    """What the table may show; `config` are keys whose values differ, `same` what all runs have."""

    tasks: list[TaskColumn]
    tags: list[str]
    series: list[SeriesColumn]
    axes: Axes


class Answer(TypedDict):
    """A page of the table."""

    total: int
    offset: int
    ids: list[int]
    runs: list[RunShape]
    columns: Columns
    since: str


def answer(panel: Panel, *, sort: str, order: str, limit: int, offset: int, **wanted: Any) -> Answer:
    """The runs that match; columns of all of them, tasks of those of this page."""
    since = panel.token
    pulses = {pulse.run: pulse for pulse in panel.store.pulses()}
    runs = [run for run in panel.store.runs(wanted["project"] or None) if run.id in pulses]
    runs = [run for run in runs if _matches(panel, run, pulses[run.id], **wanted)]
    series = {one.key: one for one in panel.store.series_counts([run.id for run in runs])}
    charts = in_order(list(series), _still(panel, runs, pulses))
    leading = charts[0] if charts else None
    if sort.startswith("task.") or sort == "train_share":  # all rows are needed to know which come first
        rows = _sorted(rows_of(panel, runs, pulses, leading), _by_row(sort), order)
        ids, shown = [row["id"] for row in rows], rows[offset : offset + limit]
    else:
        ordered = _sorted(runs, _by_run(panel, sort, pulses), order)
        ids, shown = [run.id for run in ordered], rows_of(panel, ordered[offset : offset + limit], pulses, leading)
    return {
        "total": len(runs),
        "offset": offset,
        "ids": ids[:MOST_RUNS],
        "runs": shown,
        "columns": {
            **_config_columns(panel, runs),
            "tasks": _task_columns(shown),
            "tags": [tag for tag, _ in Counter(tag for run in runs for tag in run.tags).most_common(MOST_COLUMNS)],
            "series": [_series_column(series[key]) for key in charts[:MOST_COLUMNS]],
            "axes": axes_of(charts),
        },
        "since": since,
    }


def _matches(
    panel: Panel, run: RunInfo, pulse: Pulse, *, project: str, search: str, state: str, tag: str, runs: Sequence[int]
) -> bool:
    del project  # the store has asked for it
    if (runs and run.id not in runs) or (tag and tag not in run.tags):
        return False
    if state and state_of(panel.store, pulse) != state:
        return False
    return is_meant(run, search)


def _sorted(rows: Sequence[Any], key: Callable[[Any], Any], order: str) -> list[Any]:
    """Rows by a key; those that have none at the end, whatever the order."""
    known = [row for row in rows if key(row) is not None]
    numbers = all(isinstance(key(row), int | float) for row in known)
    known.sort(key=key if numbers else lambda row: str(key(row)), reverse=order == "desc")
    return known + [row for row in rows if key(row) is None]


def _by_run(panel: Panel, sort: str, pulses: dict[int, Pulse]) -> Callable[[RunInfo], Any]:
    if sort.startswith("config."):
        name = sort.removeprefix("config.")
        return lambda run: flat(run.config).get(name)
    keys: dict[str, Callable[[RunInfo], Any]] = {
        "name": lambda run: run.name,
        "state": lambda run: state_of(panel.store, pulses[run.id]),
        "last_step": lambda run: pulses[run.id].last_step,
        "seconds": lambda run: (run.finished or pulses[run.id].heartbeat) - run.created,
        "created": lambda run: run.created,
    }
    if sort not in keys:
        Choice("sort", values=(*keys, "train_share", "config.KEY", "task.TASK")).parse([sort])
    return keys[sort]


def _by_row(sort: str) -> Callable[[RunShape], Any]:
    if sort == "train_share":
        return lambda row: row["train_share"]
    task = sort.removeprefix("task.")
    return lambda row: next((one["estimate"]["value"] for one in row["latest"] if one["task"] == task), None)


def _still(panel: Panel, runs: Sequence[RunInfo], pulses: dict[int, Pulse]) -> set[str]:
    newest = [run.id for run in runs if pulses[run.id].num_points][:SAMPLE]
    key = ("still", tuple((id, pulses[id].num_points) for id in newest))
    found: set[str] = panel.kept.get(key, lambda: still_series(panel.store, newest))
    return found


def _config_columns(panel: Panel, runs: Sequence[RunInfo]) -> _ConfigColumns:
    """Found once for the same runs: a thousand configurations take a tenth of a second."""
    key = ("config columns", tuple((run.id, run.attempts) for run in runs))
    found: _ConfigColumns = panel.kept.get(key, lambda: _same_and_not(runs))
    return found


def _same_and_not(runs: Sequence[RunInfo]) -> _ConfigColumns:
    """Keys whose values differ, and the values that all runs have; of a single run every key is a column."""
    values: dict[str, set[str]] = {}
    counts: Counter[str] = Counter()
    for run in runs:
        for key, value in flat(run.config).items():
            values.setdefault(key, set()).add(repr(value))
            counts[key] += 1
    differs = [key for key, found in values.items() if len(runs) < 2 or len(found) > 1 or counts[key] < len(runs)]
    shared = flat(runs[0].config) if len(runs) > 1 else {}
    same = {key: value for key, value in shared.items() if key not in set(differs)}
    return {"config": differs[:MOST_COLUMNS], "same": dict(list(same.items())[:MOST_COLUMNS])}


def _task_columns(rows: Sequence[RunShape]) -> list[TaskColumn]:
    found: dict[tuple[str, str], TaskColumn] = {}
    for row in rows:
        for one in row["latest"]:
            estimate = one["estimate"]
            found.setdefault(
                (one["task"], one["label"]),
                {
                    "task": one["task"],
                    "label": one["label"],
                    "metric": one["metric"],
                    "unit": estimate["unit"],
                    "higher_is_better": estimate["higher_is_better"],
                    "lowest": estimate["lowest"],
                    "highest": estimate["highest"],
                },
            )
    return list(found.values())[:MOST_COLUMNS]


def _series_column(one: SeriesCount) -> SeriesColumn:
    return {"key": one.key, "num_runs": one.num_runs, "num_points": one.num_points}
