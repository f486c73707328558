"""How much a curve wavers around its trend, and whether a task can tell models or checkpoints apart at all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from midflight.estimate.line import fit_line

_ROUNDING = 1e-14
"""Scatter relative to the values that is no noise but the rounding of floats."""


@dataclass(frozen=True, slots=True)
class Noise:
    """Scatter of the last checkpoints around a straight line: what training steps alone change.

    Attributes:
        value: Standard deviation √(Σr² ÷ (n − 2)), in the unit of the metric; the line takes the trend out.
        n: Checkpoints.
        method: How it was computed.
    """

    value: float
    n: int
    method: str = "around a line, n − 2"


@dataclass(frozen=True, slots=True)
class SignalToNoise:
    """What a task tells apart, in units of its noise (Heineman et al. 2025, arXiv:2508.13144).

    Attributes:
        value: Signal ÷ noise.
        signal: Largest − smallest score.
        noise: Standard deviation of checkpoints around their trend, pooled over the runs.
        over: What the scores are of: `runs` (means over their last checkpoints), or all `checkpoints` of one run.
        n: Scores.
    """

    value: float
    signal: float
    noise: float
    over: Literal["runs", "checkpoints"]
    n: int


def noise_of(steps: Sequence[int], values: Sequence[float]) -> Noise | None:
    """The noise of checkpoints; None with fewer than three.

    Args:
        steps: Their steps, all different.
        values: Their values.

    >>> round(noise_of([0, 100, 200, 300], [0.1, 0.3, 0.3, 0.5]).value, 4)
    0.0632
    """
    line = fit_line(steps, values)
    if line is None or line.scatter is None:
        return None
    return Noise(line.scatter if line.scatter > _ROUNDING * max(map(abs, values)) else 0.0, len(values))


def pooled(noises: Sequence[Noise]) -> float:
    """The noise of several runs: √(Σ df·σ² ÷ Σ df), at least one of them."""
    return math.hypot(*(math.sqrt(n.n - 2) * n.value for n in noises)) / math.sqrt(sum(n.n - 2 for n in noises))


def signal_to_noise(
    scores: Sequence[float], noise: float, over: Literal["runs", "checkpoints"]
) -> SignalToNoise | None:
    """Signal ÷ noise; None with fewer than two scores or without noise.

    The paper divides both by the mean score; of the same runs it is the same, and cancels.

    Args:
        scores: Scores of the models, or of the checkpoints.
        noise: Standard deviation of checkpoints around their trend.
        over: What the scores are of.

    >>> round(signal_to_noise([0.50, 0.62, 0.56], 0.01, "runs").value, 6)
    12.0
    """
    if len(scores) < 2 or noise == 0:
        return None
    signal = max(scores) - min(scores)
    return SignalToNoise(signal / noise, signal, noise, over, len(scores))
