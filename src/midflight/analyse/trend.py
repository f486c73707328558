"""What the checkpoints of a run say together: newest value, slope, noise, signal, and the best one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from midflight.analyse.best import Best, best_of
from midflight.analyse.curves import Curve, curves_of
from midflight.analyse.paired import ItemScores, item_scores
from midflight.analyse.slope import Slope, slope_of
from midflight.analyse.stability import Noise, SignalToNoise, noise_of, pooled, signal_to_noise
from midflight.errors import ConfigError
from midflight.records import Estimate
from midflight.store import RunInfo, Store

LAST = 10
"""Checkpoints that slope and noise are taken from."""


@dataclass(frozen=True, slots=True)
class Trend:
    """One metric of one run over its checkpoints.

    Attributes:
        run: Name of the run.
        task: The task.
        metric: The metric's key.
        slice: ``name=value``, or empty for all items.
        label: What tells it from other evaluations of this task in this run.
        step: Step of the newest checkpoint that has a value.
        newest: Its estimate.
        n: Checkpoints that have a value.
        slope: Change over the last checkpoints; None with fewer than three.
        noise: Their scatter; None with fewer than three.
        snr: Signal ÷ noise; None where it is not defined.
        best: The best checkpoint; None if the metric has no better direction.
        notes: What a reader has to know.
    """

    run: str
    task: str
    metric: str
    slice: str
    label: str
    step: int
    newest: Estimate
    n: int
    slope: Slope | None
    noise: Noise | None
    snr: SignalToNoise | None
    best: Best | None
    notes: tuple[str, ...] = ()


def trends_of(
    store: Store,
    runs: Sequence[RunInfo],
    task: str | None = None,
    metric: str | None = None,
    slice: str = "",
    *,
    last: int = LAST,
    min_gain: float = 0.0,
    level: float = 0.95,
    seed: int = 0,
) -> list[Trend]:
    """The trend of each task in each run.

    Args:
        store: Where the runs are.
        runs: The runs; two or more that were evaluated alike also give the signal of their tasks.
        task: Only this task.
        metric: The metric; None = the first that each task names.
        slice: ``name=value``, or empty for all items.
        last: Checkpoints that slope and noise are taken from, from 3.
        min_gain: Improvement in 1,000 steps that counts, in the unit of the metric, not negative.
        level: Confidence level of slopes.
        seed: Seed of the resampling, from 0.

    Raises:
        ConfigError: If an argument is out of range, or no run has the task, metric or slice.
    """
    if last < 3:
        raise ConfigError("last", got=last, allowed="3 checkpoints or more")
    if not 0 <= min_gain < math.inf:
        raise ConfigError("min_gain", got=min_gain, allowed="a number from 0")
    curves = [curve for curve in curves_of(store, runs, task, metric, slice) if curve.reports]
    trends = [_trend(store, curve, last, min_gain, level, seed) for curve in curves]
    return [replace(trend, snr=_snr(trend, curve, curves, last)) for trend, curve in zip(trends, curves, strict=True)]


def _trend(store: Store, curve: Curve, last: int, min_gain: float, level: float, seed: int) -> Trend:
    window = replace(curve, reports=curve.reports[-last:])
    all_scores, scores = (item_scores(store, cut) if len(cut.reports) > 1 else None for cut in (curve, window))
    return Trend(
        run=curve.run,
        task=curve.task,
        metric=curve.metric,
        slice=curve.slice,
        label=curve.label,
        step=curve.steps[-1],
        newest=curve.estimates[-1],
        n=len(curve.reports),
        slope=slope_of(window, scores, level=level, min_gain=min_gain),
        noise=noise_of(window.steps, window.values),
        snr=None,
        best=best_of(curve, all_scores, seed=seed),
        notes=_notes(curve, all_scores),
    )


def _snr(trend: Trend, curve: Curve, curves: Sequence[Curve], last: int) -> SignalToNoise | None:
    """Over the runs that were evaluated as this one was, if there are others; else over its checkpoints."""
    if trend.noise is None:
        return None
    alike = [c for c in curves if (c.task, c.metric, c.kind) == (curve.task, curve.metric, curve.kind)]
    windows = [(other.steps[-last:], other.values[-last:]) for other in alike]
    if len({other.run for other in alike}) < 2:
        return signal_to_noise(curve.values, trend.noise.value, "checkpoints")
    noises = [noise for noise in (noise_of(*window) for window in windows) if noise is not None]
    means = [math.fsum(values) / len(values) for _, values in windows]
    return signal_to_noise(means, pooled(noises), "runs")


def _notes(curve: Curve, scores: ItemScores | None) -> tuple[str, ...]:
    partial = sum(estimate.partial for estimate in curve.estimates)
    notes = {
        f"{curve.num_without_value} checkpoints without a finite value are left out": curve.num_without_value,
        f"{curve.num_replaced} evaluations of older weights at the same step are left out": curve.num_replaced,
        f"{partial} of {len(curve.reports)} checkpoints with items missing": partial,
        f"{scores.num_left_out if scores else 0} items lack a score at a checkpoint and are not paired": bool(
            scores and scores.num_left_out
        ),
    }
    return tuple(note for note, holds in notes.items() if holds)
