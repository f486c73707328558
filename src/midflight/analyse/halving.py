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


def rung_steps(first: int, last: int, eta: float) -> list[int]:
    """Steps ``first · eta^k`` up to the last one.

    >>> rung_steps(100, 1000, 3)
    [100, 300, 900]
    """
    steps, at = [], float(first)
    while math.floor(at + 1e-9) <= last:
        steps.append(math.floor(at + 1e-9))
        at *= eta
    return list(dict.fromkeys(steps))


def successive_halving(curves: Mapping[str, LearningCurve], eta: float = 3.0) -> list[Rung]:
    """Who would be stopped at each rung.

    The first rung is the first step, above 0, by which every run has been measured.

    Args:
        curves: One metric over the steps of each run.
        eta: At each rung the best 1/eta are kept, one at least.

    Raises:
        ConfigError: If eta is no number from 1.5 to 100.
    """
    if not 1.5 <= eta <= 100:
        raise ConfigError("--eta", got=eta, allowed="a number from 1.5 to 100")
    trained = {run: curve.steps[curve.steps > 0] for run, curve in curves.items()}
    firsts = [int(steps[0]) for steps in trained.values() if len(steps)]
    if not firsts:
        return []
    last = max(int(steps[-1]) for steps in trained.values() if len(steps))
    stopped: set[str] = set()
    rungs = []
    for step in rung_steps(max(firsts), last, eta):
        reached = {
            run: point
            for run, curve in curves.items()
            if run not in stopped and len(curve) and curve.steps[-1] >= step and (point := curve.last(step)) is not None
        }
        higher_is_better = next(iter(curves.values())).higher_is_better
        standings = _weigh(reached, higher_is_better, eta)
        stopped |= {one.run for one in standings if one.verdict == "stop"}
        rungs.append(Rung(step, standings))
    return rungs


def stop_first(rungs: Sequence[Rung], running: Sequence[str]) -> list[str]:
    """The running runs that are to be stopped: those of the earliest rung first, the worst of a rung first."""
    return [
        one.run for rung in rungs for one in reversed(rung.standings) if one.verdict == "stop" and one.run in running
    ]


def _weigh(points: Mapping[str, CurvePoint], higher_is_better: bool, eta: float) -> list[Standing]:
    sign = 1.0 if higher_is_better else -1.0
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
