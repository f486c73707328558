"""Which curves a person means by the name of a metric or of a training series."""

from __future__ import annotations

from collections.abc import Sequence

from midflight.catalog import unknown
from midflight.records import EvalReport
from midflight.show.plot import EvaluationCurve, Panel, SeriesCurve
from midflight.show.series import read_series
from midflight.store import RunInfo, Store


def panels_of(store: Store, runs: Sequence[RunInfo], key: str, slice: str = "") -> list[Panel]:
    """A panel for each task that has the metric, or one for the training series of that name.

    Args:
        store: Where the runs are.
        runs: The runs to draw, one curve each.
        key: ``metric``, ``task/metric``, or the name of a series.
        slice: ``name=value``, or empty for all items.

    Raises:
        UnknownKeyError: If none of the runs has it; says what they have.
    """
    labels = _labels(runs)
    reports = {run.id: store.reports(run.id) for run in runs}
    found: dict[tuple[str, str], list[EvaluationCurve]] = {}
    for run in runs:
        for task, metric in _matches(reports[run.id], key, slice):
            own = [r for r in reports[run.id] if r.task == task and _has(r, metric, slice)]
            found.setdefault((task, metric), []).append(EvaluationCurve(labels[run.id], own, metric, slice))
    if found:
        return [
            Panel(f"{task}: {metric}" + (f" [{slice}]" if slice else ""), curves, _unit(curves[0]))
            for (task, metric), curves in found.items()
        ]
    series = [SeriesCurve(labels[run.id], read_series(store, run.id, key)) for run in runs if key in store.keys(run.id)]
    if series:
        return [Panel(key, series)]
    estimates = {
        f"{r.task}/{e.metric}" for run in runs for r in reports[run.id] for e in r.estimates if e.slice == slice
    }
    raise unknown(
        "metrics and series of these runs", key, sorted(estimates | {k for r in runs for k in store.keys(r.id)})
    )


def _labels(runs: Sequence[RunInfo]) -> dict[int, str]:
    """Names of runs; with their numbers where two have the same."""
    names = [run.name for run in runs]
    return {run.id: run.name if names.count(run.name) == 1 else f"{run.name} ({run.id})" for run in runs}


def _matches(reports: Sequence[EvalReport], key: str, slice: str) -> list[tuple[str, str]]:
    pairs = dict.fromkeys((r.task, e.metric) for r in reports for e in r.estimates if e.slice == slice)
    return [(task, metric) for task, metric in pairs if key in (metric, f"{task}/{metric}")]


def _has(report: EvalReport, metric: str, slice: str) -> bool:
    return any((e.metric, e.slice) == (metric, slice) for e in report.estimates)


def _unit(curve: EvaluationCurve) -> str:
    return curve.reports[0].estimate(curve.metric, curve.slice).unit
