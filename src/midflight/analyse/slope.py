"""Is it still improving? The slope of a curve's last checkpoints, with an error that holds items and checkpoints."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, TypeAlias

import numpy as np

from midflight.analyse.curves import Curve
from midflight.analyse.paired import ItemScores
from midflight.estimate.intervals import mean_interval
from midflight.estimate.line import Line, fit_line
from midflight.estimate.quantiles import t_interval
from midflight.store.base import Floats

Answer: TypeAlias = Literal["yes", "no", "cannot tell"]

PER = 1000
"""Steps that a slope is given for."""

_ROUNDING = 1e-12
"""Error of a rise over the checkpoints, relative to the values, that is no variation but the rounding of floats."""


@dataclass(frozen=True, slots=True)
class Slope:
    """How fast a metric changes over the last checkpoints.

    Attributes:
        value: Change of the metric in 1,000 steps.
        stderr: Its standard error; None if the points leave no variation.
        ci_low: Lower end of the interval; None where there is none.
        ci_high: Upper end.
        level: Confidence level.
        improving: Whether the whole interval is above `min_gain` in the better direction (yes) or below it (no); None
            if the metric has no better direction.
        min_gain: Improvement in 1,000 steps that counts.
        first_step: First checkpoint.
        last_step: Last checkpoint.
        n: Checkpoints.
        num_items: Items that are paired over all of them; None without item scores.
        method: How the error was computed.
    """

    value: float
    stderr: float | None
    ci_low: float | None
    ci_high: float | None
    level: float
    improving: Answer | None
    min_gain: float
    first_step: int
    last_step: int
    n: int
    num_items: int | None
    method: str


def slope_of(curve: Curve, scores: ItemScores | None, *, level: float = 0.95, min_gain: float = 0.0) -> Slope | None:
    """The slope of all points of a curve; None with fewer than three.

    With item scores: the slope is the mean of the items' own slopes. Its variance is that of the items (clustered)
    plus what checkpoints scatter around the line beyond what items explain, as in two-way clustering (Cameron, Gelbach
    & Miller 2011): V = V_items + max(0, V_checkpoints − V_items×checkpoints), with Satterthwaite's degrees of freedom.
    Without: least squares weighted by 1 ÷ stderr², the error from the scatter around the line, t with n − 2.

    Args:
        curve: The curve, cut to the checkpoints that count.
        scores: Its item scores.
        level: Confidence level.
        min_gain: Improvement in 1,000 steps that counts, not negative.
    """
    steps = curve.steps
    if len(steps) < 3:
        return None
    if scores is not None:
        value, stderr, df, method = _paired(steps, scores)
    else:
        line, method = _weighted(curve)
        value, stderr, df = line.slope, line.slope_stderr or 0.0, float(line.df)
    ends: tuple[float | None, float | None] = (None, None)
    if stderr * (steps[-1] - steps[0]) > _ROUNDING * max(map(abs, curve.values)):
        ends = t_interval(PER * value, PER * stderr, df, level)
    return Slope(
        value=PER * value,
        stderr=None if ends[0] is None else PER * stderr,
        ci_low=ends[0],
        ci_high=ends[1],
        level=level,
        improving=_answer(ends, curve.estimates[-1].higher_is_better, min_gain),
        min_gain=min_gain,
        first_step=steps[0],
        last_step=steps[-1],
        n=len(steps),
        num_items=None if scores is None else scores.num_items,
        method=method if ends[0] is not None else f"{method}, no variation",
    )


def _answer(ends: tuple[float | None, float | None], higher_is_better: bool | None, min_gain: float) -> Answer | None:
    if higher_is_better is None:
        return None
    low, high = ends
    if low is None or high is None:
        return "cannot tell"
    low, high = (low, high) if higher_is_better else (-high, -low)
    return "yes" if low > min_gain else "no" if high < min_gain else "cannot tell"


def _weighted(curve: Curve) -> tuple[Line, str]:
    """The line through the values, weighted by their errors where each has one."""
    errors = [estimate.stderr or 0.0 for estimate in curve.estimates]
    if all(errors):
        line = fit_line(curve.steps, curve.values, [(min(errors) / error) ** 2 for error in errors])
        if line is not None:
            return line, "least squares, weighted by stderr"
    line = fit_line(curve.steps, curve.values)
    assert line is not None  # steps differ, and there are three
    return line, "least squares"


def _paired(steps: list[int], scores: ItemScores) -> tuple[float, float, float, str]:
    """Slope, its standard error, degrees of freedom and method, from item scores."""
    n = len(steps)
    x = np.array(steps, dtype=np.float64) - math.fsum(steps) / n
    pull = x / math.fsum(x * x)  # what a unit at each checkpoint adds to the slope
    scale = float(np.abs(scores.values).max()) or 1.0  # squares of huge values do not fit into a float
    values = scores.values / scale
    of_items = mean_interval((pull @ values).tolist(), scores.clusters)
    line = fit_line(steps, [mean / scale for mean in scores.means])
    assert line is not None  # steps differ, and there are three
    items = (of_items.stderr or 0.0) ** 2
    beyond = max(0.0, (line.slope_stderr or 0.0) ** 2 - _of_both(x, pull, values, scores))
    variance = items + beyond
    df = 1.0
    if variance > 0:
        share = items / variance
        df = 1 / (share**2 / max(1, of_items.clusters - 1) + (1 - share) ** 2 / line.df)
    method = "item slopes and scatter of checkpoints, Satterthwaite's t"
    return scale * of_items.value, scale * math.sqrt(variance), df, method


def _of_both(x: Floats, pull: Floats, values: Floats, scores: ItemScores) -> float:
    """The part of the checkpoints' scatter that items explain: what is left of each item at each checkpoint."""
    n = len(x)
    centred = values - values.mean(axis=0)
    left = centred - np.outer(x, pull @ centred)  # each item's own level and slope taken away
    left -= left.mean(axis=1, keepdims=True)  # and what all items have in common at a checkpoint
    sums, _ = scores.cluster_sums(left)
    clusters = int(sums.shape[1])
    if clusters < 2:
        return 0.0
    squares = math.fsum(((pull[:, None] * sums) ** 2).ravel())
    return n / (n - 2) * clusters / (clusters - 1) * squares / scores.num_items**2
