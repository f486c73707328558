"""The error of a metric of which nothing is known but how to compute it: resample the items, compute again."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from midflight.errors import MetricError
from midflight.estimate.intervals import Interval

REPLICATES = 1000


def bootstrap_interval(
    compute: Callable[[list[Any], list[Any]], float],
    groups: Sequence[tuple[Sequence[Any], Sequence[Any]]],
    *,
    level: float = 0.95,
    seed: int = 0,
    replicates: int = REPLICATES,
) -> Interval:
    """The value over all groups, with the percentile bootstrap's interval (Efron & Tibshirani 1993, chapter 13).

    Groups are resampled whole, so that what is not independent stays together. A resample for which the metric is not
    defined (one class only, say) is left out; if that happens to more than one in ten, there is no interval. Resamples
    that all give the same value do not prove it: there is no error and no interval then.

    Args:
        compute: The metric: predictions and labels to a number.
        groups: Predictions and labels of each independent group, in a fixed order.
        level: Confidence level.
        seed: Seed of the resampling; any whole number.
        replicates: Resamples.

    Raises:
        MetricError: If the metric raises or gives no number on all groups.
    """

    def value_of(indices: Sequence[int]) -> float:
        predictions = [p for index in indices for p in groups[index][0]]
        labels = [label for index in indices for label in groups[index][1]]
        return _number(compute(predictions, labels))

    n = len(groups)
    try:
        value = value_of(range(n))
    except Exception as error:  # user code: whatever it raises is the user's to read
        raise MetricError(f"compute raised {type(error).__name__}: {error}") from error
    if not math.isfinite(value):
        raise MetricError("compute gave no finite number", got=value)
    if n < 2:
        return Interval(value, None, None, None, n, "bootstrap")
    # NumPy takes no negative seed, but a list of numbers
    random = np.random.Generator(np.random.PCG64(seed if seed >= 0 else [-seed, 1]))
    found = []
    for _ in range(replicates):
        try:
            again = value_of(random.integers(0, n, n).tolist())
        except Exception:  # not defined on this resample; counted below
            again = math.nan
        if math.isfinite(again):
            found.append(again)
    if len(found) < 0.9 * replicates:
        return Interval(
            value, None, None, None, n, f"bootstrap, undefined on {replicates - len(found)} of {replicates}"
        )
    if min(found) == max(found):
        return Interval(value, None, None, None, n, f"bootstrap, {replicates}, seed {seed}, no variation")
    low, high = np.quantile(found, [(1 - level) / 2, (1 + level) / 2])
    return Interval(
        value, float(np.std(found, ddof=1)), float(low), float(high), n, f"bootstrap, {replicates}, seed {seed}"
    )


def _number(value: Any) -> float:
    number = value.item() if hasattr(value, "item") else value
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise TypeError(f"compute must return a number, not {type(value).__name__}")
    return float(number)
