"""Curves: one metric over the checkpoints of a run, in evaluations that can be compared."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from midflight.analyse.variants import PLACES, labels_of, newest_by_step, variants_of
from midflight.catalog import unknown
from midflight.errors import ConfigError, shorten
from midflight.records import Estimate, EvalReport
from midflight.store import RunInfo, Store

Kind: TypeAlias = tuple[tuple[str, str], ...]
"""How something was evaluated, as names and values: curves of one kind can be compared."""


@dataclass(frozen=True, slots=True)
class Curve:
    """One metric over the checkpoints of a run: evaluations that can be compared, one a step.

    Attributes:
        run: Name of the run; with its number where two of them share it.
        task: The task.
        metric: The metric's key.
        slice: ``name=value``, or empty for all items.
        label: What tells it from other curves of this metric in this run; empty if there are none.
        traits: What its evaluations have in common: seed, settings of the engine, parts of the task's fingerprint.
        reports: Evaluations in which the metric has a finite value, by step.
        num_without_value: Evaluations in which it has none.
        num_replaced: Evaluations of older weights at a step that was evaluated again.
    """

    run: str
    task: str
    metric: str
    slice: str
    label: str
    traits: Mapping[str, str]
    reports: tuple[EvalReport, ...]
    num_without_value: int = 0
    num_replaced: int = 0

    @property
    def kind(self) -> Kind:
        """What is equal in curves of other runs that it can be compared with: all but seed and place of the model."""
        own = {name: value for name, value in self.traits.items() if name not in ("seed", *PLACES)}
        return tuple(sorted(own.items()))

    @property
    def steps(self) -> list[int]:
        """Steps at which it was measured, increasing."""
        return [report.progress.step for report in self.reports]

    @property
    def estimates(self) -> list[Estimate]:
        """The estimate at each step."""
        return [report.estimate(self.metric, self.slice) for report in self.reports]

    @property
    def values(self) -> list[float]:
        """The value at each step, finite."""
        return [estimate.value for estimate in self.estimates if estimate.value is not None]


def run_names(runs: Sequence[RunInfo]) -> dict[int, str]:
    """Names of runs by number; with their numbers where two have the same."""
    names = [name for name, _ in {(run.name, run.id) for run in runs}]  # a run that is asked for twice is one
    return {run.id: run.name if names.count(run.name) == 1 else f"{run.name} ({run.id})" for run in runs}


def curves_of(
    store: Store, runs: Sequence[RunInfo], task: str | None = None, metric: str | None = None, slice: str = ""
) -> list[Curve]:
    """The curves of runs, a curve for each task and each variant of it.

    Args:
        store: Where they are.
        runs: The runs.
        task: Only this task.
        metric: The metric; None = the first that each task names.
        slice: ``name=value``, or empty for all items.

    Raises:
        UnknownKeyError: If no run has the task or the metric; says what they have.
        ConfigError: If there is no such slice.
    """
    names = run_names(runs)
    reports = {names[run.id]: store.reports(run.id) for run in runs}
    every = [report for found in reports.values() for report in found]
    tasks = sorted({report.task for report in every})
    if task is not None and task not in tasks:
        raise unknown("evaluated tasks of these runs", task, tasks)
    own = {run: [r for r in found if task in (None, r.task)] for run, found in reports.items()}
    estimates = [e for found in own.values() for report in found for e in report.estimates]
    metrics = sorted({e.metric for e in estimates})
    if metric is not None and metric not in metrics:
        raise unknown("metrics of these runs", metric, metrics)
    slices = sorted({e.slice for e in estimates if e.slice})
    if slice and slice not in slices:
        raise ConfigError(
            "no such slice", got=slice, allowed=shorten(", ".join(slices), 1000) or "none: there are none"
        )
    return [curve for run, found in own.items() for curve in _of_run(run, found, metric, slice)]


def _of_run(run: str, reports: Sequence[EvalReport], metric: str | None, slice: str) -> list[Curve]:
    curves = []
    for task in dict.fromkeys(report.task for report in reports):
        variants = variants_of([report for report in reports if report.task == task])
        for variant, label in zip(variants, labels_of(variants), strict=True):
            key = metric or variant.reports[0].estimates[0].metric
            having = [report for report in variant.reports if _find(report, key, slice)]
            newest = newest_by_step(having)
            measured = tuple(report for report in newest if _is_measured(_find(report, key, slice)))
            if having:
                left = len(newest) - len(measured)
                curves.append(
                    Curve(run, task, key, slice, label, variant.traits, measured, left, len(having) - len(newest))
                )
    return curves


def _find(report: EvalReport, metric: str, slice: str) -> Estimate | None:
    return next((e for e in report.estimates if (e.metric, e.slice) == (metric, slice)), None)


def _is_measured(estimate: Estimate | None) -> bool:
    return estimate is not None and estimate.value is not None and math.isfinite(estimate.value)
