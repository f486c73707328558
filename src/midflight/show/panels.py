"""Which curves a person means by the name of a metric or of a training series."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from midflight.analyse.curves import run_names
from midflight.analyse.groups import Group, group_curves
from midflight.analyse.variants import labels_of, newest_by_step, variants_of
from midflight.catalog import unknown
from midflight.errors import ConfigError, shorten
from midflight.records import Estimate, EvalReport, Finding
from midflight.show.plot import NUM_LOOKS, BandCurve, EvaluationCurve, Panel, SeriesCurve
from midflight.show.series import read_series
from midflight.store import RunInfo, Store

Reports = Mapping[str, Sequence[EvalReport]]
"""Evaluations by the name of their run."""


def panels_of(store: Store, runs: Sequence[RunInfo], key: str, slice: str = "", by: str = "") -> list[Panel]:
    """A panel for each task that has the metric, or one for the training series of that name.

    Args:
        store: Where the runs are.
        runs: The runs to draw: a curve for each of their variants, see `midflight.analyse.variants`.
        key: ``metric``, ``task/metric``, or the name of a series.
        slice: ``name=value``, or empty for all items.
        by: Name of a slice: a curve for each of its values.

    Raises:
        UnknownKeyError: If none of the runs has it; says what they have.
        ConfigError: If there is no such slice, there are more curves than can be told apart, or a slice of a training
            series is asked for.
    """
    names = run_names(runs)
    reports = {names[run.id]: store.reports(run.id) for run in runs}
    pairs = dict.fromkeys(
        (r.task, e.metric) for found in reports.values() for r in found for e in r.estimates if _is(key, r, e)
    )
    if pairs:
        panels = [_panel(reports, task, metric, slice, by) for task, metric in pairs]
        found = [panel for panel in panels if panel.curves]  # some tasks that have the metric may not have the slice
        if not found:
            raise _no_slice(reports, key, slice or by)
        return [replace(panel, findings=findings_of(store, runs)) for panel in found]
    series = [
        SeriesCurve(names[run.id], read_series(store, run.id, key))
        for run in {run.id: run for run in runs}.values()
        if key in store.keys(run.id)
    ]
    if series and (slice or by):
        raise ConfigError("--slice and --by", got=slice or by, allowed=f"with metrics of tasks; {key} is a series")
    if series:
        return [Panel(key, series, findings=findings_of(store, runs, key))]
    estimates = {f"{r.task}/{e.metric}" for found in reports.values() for r in found for e in r.estimates}
    known = sorted(estimates | {k for run in runs for k in store.keys(run.id)})
    raise unknown("metrics and series of these runs", key, known)


def findings_of(store: Store, runs: Sequence[RunInfo], series: str | None = None) -> dict[str, list[Finding]]:
    """What was noticed in runs, by their names; of one training series, if it is given. Notes are left out."""
    names = run_names(runs)
    found = {names[run.id]: store.findings(run.id) for run in runs}
    kept = {
        name: [f for f in findings if f.severity != "note" and (series is None or series in f.metrics)]
        for name, findings in found.items()
    }
    return {name: findings for name, findings in kept.items() if findings}


def group_panels_of(store: Store, groups: Sequence[Group], key: str, slice: str = "") -> list[Panel]:
    """A panel for each task that has the metric: the mean of each group of runs, with its interval over runs.

    Args:
        store: Where the runs are.
        groups: The groups.
        key: ``metric`` or ``task/metric``.
        slice: ``name=value``, or empty for all items.

    Raises:
        UnknownKeyError: If none of the runs has it; says what they have.
        ConfigError: If there is no such slice.
    """
    runs = {member.run.id for group in groups for member in group.members}
    pairs = {(r.task, e.metric) for run in runs for r in store.reports(run) for e in r.estimates}
    wanted = sorted((task, metric) for task, metric in pairs if key in (metric, f"{task}/{metric}"))
    if not wanted:
        raise unknown("metrics of these runs", key, sorted(f"{task}/{metric}" for task, metric in pairs))
    panels = []
    for task, metric in wanted:
        curves = group_curves(store, groups, task, metric, slice)
        labels = [" · ".join(filter(None, (curve.group, curve.label))) for curve in curves]
        bands = [BandCurve(label, curve) for label, curve in zip(labels, curves, strict=True)]
        title = f"{task}: {metric}" + (f" [{slice}]" if slice else "")
        panels.append(Panel(title, bands, curves[0].unit if curves else ""))
    return panels


def _panel(reports: Reports, task: str, metric: str, slice: str, by: str) -> Panel:
    own = {run: [r for r in found if r.task == task] for run, found in reports.items()}
    slices = slices_of([report for found in own.values() for report in found], by) if by else [slice]
    curves = [curve for one in slices for curve in _curves(own, metric, one, bool(by))]
    if len(curves) > NUM_LOOKS:
        raise ConfigError(
            f"{task}/{metric}: {len(curves)} curves in one picture",
            allowed=f"up to {NUM_LOOKS}, which is what can be told apart",
            hint="draw fewer runs, or one slice with --slice",
        )
    title = f"{task}: {metric}" + (f" [{slice}]" if slice else f" by {by}" if by else "")
    return Panel(title, curves, curves[0].estimates()[0].unit if curves else "")


def slices_of(reports: Sequence[EvalReport], name: str = "") -> list[str]:
    """Slices that evaluations have, as ``name=value``, sorted; of one name, if it is given."""
    found = {estimate.slice for report in reports for estimate in report.estimates if estimate.slice}
    return sorted(one for one in found if not name or one.startswith(f"{name}="))


def _no_slice(reports: Reports, key: str, wanted: str) -> ConfigError:
    known = slices_of([r for found in reports.values() for r in found if any(_is(key, r, e) for e in r.estimates)])
    names = ", ".join(shorten(one, 60) for one in known[:50]) + (", …" if len(known) > 50 else "")
    return ConfigError(f"{key}: no such slice", got=wanted, allowed=names or "none: it has no slices")


def _is(key: str, report: EvalReport, estimate: Estimate) -> bool:
    return key in (estimate.metric, f"{report.task}/{estimate.metric}")


def _curves(reports: Reports, metric: str, slice: str, name_slice: bool) -> list[EvaluationCurve]:
    """A curve for each variant of each run; its label says no more than what tells it from the others."""
    having = {run: [r for r in found if _has(r, metric, slice)] for run, found in reports.items()}
    variants = [(run, variant) for run, found in having.items() for variant in variants_of(found)]
    labels = labels_of([variant for _, variant in variants])
    curves = []
    for (run, variant), label in zip(variants, labels, strict=True):
        told = [run] * (len(reports) > 1) + [label] * bool(label) + [slice] * name_slice
        newest = newest_by_step(variant.reports)
        replaced = len(variant.reports) - len(newest)
        curves.append(EvaluationCurve(" · ".join(told) or run, newest, metric, slice, num_replaced=replaced))
    return curves


def _has(report: EvalReport, metric: str, slice: str) -> bool:
    return any((e.metric, e.slice) == (metric, slice) for e in report.estimates)
