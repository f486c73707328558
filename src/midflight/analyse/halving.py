"""Successive halving over the curves of running runs: who would be stopped at each rung, and who cannot be told apart.

Rungs stand at geometric steps, as in ASHA (Li et al. 2020, arXiv:1810.05934). At each the best 1/eta are kept. Of the
others one is only stopped if its interval lies wholly on the worse side of those of all that are kept; else it goes on.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from midflight.analyse.learning_curve import CurvePoint, LearningCurve
from midflight.errors import ConfigError

Verdict: TypeAlias = Literal["kept", "stop", "undecided"]
VERDICTS: tuple[Verdict, ...] = ("kept", "stop", "undecided")


@dataclass(frozen=True, slots=True)
class Standing:
    """A run at a rung.

    Attributes:
        run: Its name.
        point: The newest value at or before the rung.
        verdict: `kept` = among the best 1/eta; `stop` = proved worse than all of those; else `undecided`.
    """

    run: str
    point: CurvePoint
    verdict: Verdict


@dataclass(frozen=True, slots=True)
class Rung:
    """A step at which runs are weighed.

    Attributes:
        step: The step.
        standings: Runs that have come so far and were not stopped before, best first.
    """

    step: int
    standings: Sequence[Standing]


def rung_steps(curves: Mapping[str, LearningCurve], eta: float, first: int | None = None) -> list[int]:
    """The steps of the rungs: ``first · eta^k``, up to the last step that was measured.

    Args:
        curves: One metric over the steps of each run.
        eta: Factor from rung to rung.
        first: The first rung; None = the first step, above 0, by which every run has been measured.

    Raises:
        ConfigError: If eta is no number from 1.5 to 100, or the first rung no step above 0.
    """
    if not 1.5 <= eta <= 100:
        raise ConfigError("eta", got=eta, allowed="a number from 1.5 to 100")
    if first is not None and first < 1:
        raise ConfigError("first rung", got=first, allowed="a step from 1")
    trained = [curve.steps[curve.steps > 0].tolist() for curve in curves.values() if (curve.steps > 0).any()]
    if not trained:
        return []
    at = float(first or max(steps[0] for steps in trained))
    rungs = []
    while (step := math.floor(at + 1e-9)) <= max(steps[-1] for steps in trained):
        rungs.append(step)
        at *= eta
    return list(dict.fromkeys(rungs))


def successive_halving(curves: Mapping[str, LearningCurve], rungs: Sequence[int], eta: float) -> list[Rung]:
    """Who would have been stopped at each rung, had it been the rule; those are not weighed again.

    Args:
        curves: One metric over the steps of each run.
        rungs: Steps of the rungs, increasing.
        eta: At each rung the best 1/eta are kept, one at least.
    """
    stopped: set[str] = set()
    found = []
    for step in rungs:
        standings = _weigh({run: curve for run, curve in curves.items() if run not in stopped}, step, eta)
        stopped |= {one.run for one in standings if one.verdict == "stop"}
        found.append(Rung(step, standings))
    return found


def stop_first(
    curves: Mapping[str, LearningCurve], running: Sequence[str], rungs: Sequence[int], eta: float
) -> list[str]:
    """The running runs that are to be stopped now, those of the latest rung first, the worst of a rung first.

    Each is weighed at the last rung that it has reached, against all that have come so far: a run that began slowly and
    has caught up is not stopped for how it began.
    """
    found = []
    for step, following in zip(reversed(rungs), [math.inf, *reversed(rungs)], strict=False):
        here = {run for run in running if run in curves and step <= curves[run].steps[-1] < following}
        standings = _weigh(curves, step, eta)
        found += [one.run for one in reversed(standings) if one.verdict == "stop" and one.run in here]
    return found


def _weigh(curves: Mapping[str, LearningCurve], step: int, eta: float) -> list[Standing]:
    """How those that have come to a step stand there, best first."""
    reached = {run: curve for run, curve in curves.items() if len(curve) and curve.steps[-1] >= step}
    points = {run: point for run, curve in reached.items() if (point := curve.last(step)) is not None}
    sign = 1.0 if all(curve.higher_is_better for curve in curves.values()) else -1.0
    order = sorted(points, key=lambda run: (-sign * points[run].value, run))
    kept = order[: max(1, math.ceil(len(order) / eta - 1e-9))]
    floor = min((_worst(points[run], sign) for run in kept), default=-math.inf)
    return [
        Standing(
            run,
            points[run],
            "kept" if run in kept else "stop" if _best(points[run], sign) < floor else "undecided",
        )
        for run in order
    ]


def _worst(point: CurvePoint, sign: float) -> float:
    """The end of an interval on the worse side, up = better; without an interval it may be anywhere."""
    end = point.low if sign > 0 else point.high
    return -math.inf if end is None else sign * end


def _best(point: CurvePoint, sign: float) -> float:
    end = point.high if sign > 0 else point.low
    return math.inf if end is None else sign * end
