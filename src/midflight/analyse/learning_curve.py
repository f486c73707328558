"""What a run is judged by, over training: a metric on held-out data, or else a smoothed training series."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from midflight.analyse.curves import Curve
from midflight.analyse.names import is_evaluation
from midflight.estimate.quantiles import t_quantile
from midflight.store.base import Floats, Ints

WINDOW = 10
"""Values of a training series whose mean is a point of its curve."""
LEVEL = 0.95

JUDGES: Mapping[str, bool] = {
    "eval_reward": True,  # before the loss, which means nothing in RL
    "eval_loss": False,
    "eval_bits_per_byte": False,
    "eval_perplexity": False,
    "eval_error": False,
    "eval_accuracy": True,
    "eval_score": True,
    "reward": True,
    "loss": False,
}
"""Series that a run is judged by where no task was evaluated, by canonical name, and whether higher is better."""


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """A metric at one step.

    Attributes:
        step: The step.
        value: Its value.
        low: Lower end of its interval; None where it has none.
        high: Upper end.
    """

    step: int
    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class LearningCurve:
    """A metric over the steps of a run.

    Attributes:
        metric: ``task/metric``, or the name of a training series.
        higher_is_better: Its direction.
        held_out: Whether it was measured on held-out data; else it is a smoothed training series.
        steps: Steps (N), increasing.
        values: Values (N), all finite.
        lows: Lower ends of the intervals (N); NaN where there is none.
        highs: Upper ends (N).
    """

    metric: str
    higher_is_better: bool
    held_out: bool
    steps: Ints
    values: Floats
    lows: Floats
    highs: Floats

    def __len__(self) -> int:
        return len(self.steps)

    def last(self, until: int | None = None) -> CurvePoint | None:
        """The newest point, at or before a step; None if there is none."""
        count = self._count(until)
        return self._point(count - 1) if count else None

    def best(self, until: int | None = None) -> CurvePoint | None:
        """The best point, the first of equals, at or before a step; None if there is none."""
        count = self._count(until)
        if not count:
            return None
        values = self.values[:count]
        return self._point(int(np.argmax(values) if self.higher_is_better else np.argmin(values)))

    def _count(self, until: int | None) -> int:
        return len(self.steps) if until is None else int(np.searchsorted(self.steps, until, side="right"))

    def _point(self, index: int) -> CurvePoint:
        low, high = float(self.lows[index]), float(self.highs[index])
        known = math.isfinite(low) and math.isfinite(high)
        return CurvePoint(
            int(self.steps[index]), float(self.values[index]), low if known else None, high if known else None
        )


def measured(
    metric: str,
    higher_is_better: bool,
    steps: Sequence[int] | Ints,
    values: Sequence[float] | Floats,
    lows: Sequence[float] | None = None,
    highs: Sequence[float] | None = None,
) -> LearningCurve:
    """A curve on held-out data; values that are not finite are left out.

    Args:
        metric: Its name.
        higher_is_better: Its direction.
        steps: Steps, increasing.
        values: One a step.
        lows: Lower ends of the intervals, NaN where there is none; None = there are none.
        highs: Upper ends.
    """
    value = np.asarray(values, np.float64)
    known = np.isfinite(value)
    ends = [np.full(len(value), np.nan) if end is None else np.asarray(end, np.float64) for end in (lows, highs)]
    return LearningCurve(
        metric, higher_is_better, True, np.asarray(steps, np.int64)[known], value[known], ends[0][known], ends[1][known]
    )


def evaluated(curve: Curve) -> LearningCurve | None:
    """A metric over the evaluations of a run; None if it has no direction, or no value."""
    estimates = curve.estimates
    if not estimates or estimates[-1].higher_is_better is None:
        return None
    lows = [math.nan if e.ci_low is None else e.ci_low for e in estimates]
    highs = [math.nan if e.ci_high is None else e.ci_high for e in estimates]
    name = f"{curve.task}/{curve.metric}"
    return measured(name, estimates[-1].higher_is_better, curve.steps, curve.values, lows, highs)


def smoothed(metric: str, higher_is_better: bool, steps: Ints, values: Floats) -> LearningCurve:
    """A training series as a curve: each point is the mean of the last ten finite values, with Student's interval.

    No point looks ahead. Neighbouring values of a training series are not independent: its intervals are too narrow
    rather than too wide, and tell nothing of other seeds. Ten values that are all alike have none.

    Args:
        metric: Name of the series.
        higher_is_better: Its direction.
        steps: Steps, increasing.
        values: One a step.
    """
    known = np.isfinite(values)
    steps, values = steps[known], values[known]
    if len(values) < WINDOW:
        nothing = values[:0]
        return LearningCurve(metric, higher_is_better, False, steps[:0], nothing, nothing, nothing)
    windows = np.lib.stride_tricks.sliding_window_view(values, WINDOW)
    alike = windows.max(axis=1) == windows.min(axis=1)
    with np.errstate(over="ignore", invalid="ignore"):  # sums of values near the largest float
        means, spread = np.where(alike, windows[:, 0], windows.mean(axis=1)), windows.std(axis=1, ddof=1)
        half = np.where(alike, np.nan, t_quantile((1 + LEVEL) / 2, WINDOW - 1) * spread / math.sqrt(WINDOW))
        kept = np.isfinite(means)
        lows, highs = (means - half)[kept], (means + half)[kept]
    return LearningCurve(metric, higher_is_better, False, steps[WINDOW - 1 :][kept], means[kept], lows, highs)


def logged(metric: str, higher_is_better: bool, steps: Ints, values: Floats) -> LearningCurve:
    """A logged series as a curve: as it is if its name says that it was measured on held-out data, else smoothed.

    Args:
        metric: Name of the series.
        higher_is_better: Its direction.
        steps: Steps, increasing.
        values: One a step.
    """
    return (measured if is_evaluation(metric) else smoothed)(metric, higher_is_better, steps, values)
