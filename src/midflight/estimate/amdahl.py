"""Time against the number of workers: Amdahl's law, fitted by least squares."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

from midflight.estimate.line import Line, fit_line
from midflight.estimate.quantiles import t_interval


@dataclass(frozen=True, slots=True)
class Prediction:
    """The time of a new run.

    Attributes:
        count: Workers.
        seconds: What the law says.
        ci_low: Lower end of the prediction interval, scatter of single runs included; None where there is none.
        ci_high: Upper end.
        speedup: Time of one worker ÷ this time.
        is_extrapolated: Whether the count is outside of those that were measured.
    """

    count: float
    seconds: float
    ci_low: float | None
    ci_high: float | None
    speedup: float
    is_extrapolated: bool


@dataclass(frozen=True, slots=True)
class Amdahl:
    """t(n) = t₁·(s + (1 − s)/n).

    Attributes:
        serial: The serial fraction s, from 0 to 1.
        ci_low: Lower end of its interval; None where there is none: two runs, or an interval outside of 0 to 1.
        ci_high: Upper end.
        level: Confidence level.
        seconds_alone: t₁, the time of one worker.
        scatter: Standard deviation of single runs around the law, as a share of their time; None if none is left over.
        n: Runs.
        counts: Smallest and largest number of workers.
        note: What a reader has to know: why there is no interval, or why s was clipped.
        line: The line in 1/n that was fitted: the serial part + the parallel part ÷ n.
    """

    serial: float
    ci_low: float | None
    ci_high: float | None
    level: float
    seconds_alone: float
    scatter: float | None
    n: int
    counts: tuple[int, int]
    note: str
    line: Line

    def at(self, count: float) -> Prediction:
        """The time of a new run with so many workers."""
        seconds = max(self.line.at(1 / count), self.seconds_alone / count)  # no less, if floats take all the rest
        ends: tuple[float | None, float | None] = (None, None)
        stderr = self.line.stderr_at(1 / count)
        if stderr is not None and self.line.scatter:
            spread = math.hypot(stderr, self.line.scatter * seconds)
            low, high = t_interval(seconds, spread, self.line.df, self.level)
            ends = (max(0.0, low), high)
        outside = not self.counts[0] <= count <= self.counts[1]
        return Prediction(count, seconds, *ends, self.seconds_alone / seconds, outside)


def fit_amdahl(counts: Sequence[int], seconds: Sequence[float], level: float = 0.95) -> Amdahl | None:
    """Fits Amdahl's law (Amdahl 1967) to measured times; None with fewer than two different counts.

    The law is a straight line in 1/n, so that least squares have one closed solution. Times vary by a share of
    themselves, so each is weighted by 1 ÷ time². The interval of s is by the delta method with t and n − 2 degrees of
    freedom, the same as SciPy's `curve_fit` gives.

    Args:
        counts: Workers of each run, from 1.
        seconds: Its time, above 0.
        level: Confidence level.

    >>> fit = fit_amdahl([1, 2, 4], [100.0, 55.0, 32.5])
    >>> round(fit.serial, 6), round(fit.at(8).seconds, 6)
    (0.1, 21.25)
    """
    weights = [time**-2 for time in seconds]
    free = fit_line([1 / count for count in counts], seconds, weights)
    if free is None:
        return None
    serial, parallel = free.at(0), free.slope
    low, high = _interval(free, level)
    note = "" if free.df else "two runs give no interval"
    line = free
    if serial < 0:
        note, line = "speed-up is superlinear: the serial fraction is clipped at 0", _through_origin(counts, seconds)
    elif parallel < 0:
        note, line = "more workers are slower: the serial fraction is clipped at 1", _level(seconds)
    if line is not free and not free.df:  # the runs cannot tell a law that is wrong from scatter
        note, line = f"{note}; two runs give no interval", dataclasses.replace(line, scatter=None)
    if low is not None and high is not None and (high <= 0 or low >= 1):
        note, low, high = f"{note}; its interval lies wholly outside of 0 to 1", None, None
    return Amdahl(
        serial=min(1.0, max(0.0, line.at(0) / line.at(1))),
        ci_low=None if low is None else max(0.0, low),
        ci_high=None if high is None else min(1.0, high),
        level=level,
        seconds_alone=line.at(1),
        scatter=line.scatter,
        n=len(counts),
        counts=(min(counts), max(counts)),
        note=note,
        line=line,
    )


def _interval(line: Line, level: float) -> tuple[float, float] | tuple[None, None]:
    """Interval of a ÷ (a + b) by the delta method, a = the height at 0 and b = the slope."""
    if not line.scatter:
        return None, None
    a, b = line.at(0), line.slope
    of_b = line.scatter**2 / line.spread
    of_a = line.scatter**2 / line.weight + line.centre**2 * of_b
    both = -line.centre * of_b
    variance = (b * b * of_a + a * a * of_b - 2 * a * b * both) / (a + b) ** 4
    return t_interval(a / (a + b), math.sqrt(max(0.0, variance)), line.df, level)


def _through_origin(counts: Sequence[int], seconds: Sequence[float]) -> Line:
    """T = t₁/n: no serial part."""
    x, w = [1 / count for count in counts], [time**-2 for time in seconds]
    spread = math.fsum(a * b * b for a, b in zip(w, x, strict=True))
    slope = math.fsum(a * b * time for a, b, time in zip(w, x, seconds, strict=True)) / spread
    rest = math.fsum(a * (time - slope * b) ** 2 for a, b, time in zip(w, x, seconds, strict=True))
    df = len(x) - 1
    return Line(slope, 0.0, 0.0, spread, math.inf, df, math.sqrt(rest / df))


def _level(seconds: Sequence[float]) -> Line:
    """T = t₁: no parallel part."""
    w = [time**-2 for time in seconds]
    height = math.fsum(a * time for a, time in zip(w, seconds, strict=True)) / math.fsum(w)
    rest = math.fsum(a * (time - height) ** 2 for a, time in zip(w, seconds, strict=True))
    df = len(seconds) - 1
    return Line(0.0, height, 0.0, math.inf, math.fsum(w), df, math.sqrt(rest / df))
